"""Made from the description of the API by tests/operations/typed_events.rs."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple, TypedDict

# Events of this version. New ones can appear.
EVENTS: Tuple[str, ...] = (
    "booking_cancelled",
    "booking_made",
    "booking_rescheduled",
    "form_submitted",
    "lead_hot",
    "partial_submission",
    "payment_received",
    "report_approved",
    "report_opened",
    "report_sent",
)


class Answer(TypedDict):
    """An answered question."""

    # The answer, as text.
    answer: str
    # The question.
    id: str
    # Its words.
    question: str
    # Its type.
    type: str


class Booking(TypedDict):
    """A booked call."""

    # Its length in minutes.
    duration_min: int
    # When the call ends.
    ends_at: str
    # The booking.
    id: str
    # The person a call was booked with.
    invitee: Invitee
    # The URL where to join it; empty when there is no such place.
    join_url: str
    # Where it takes place.
    location: str
    # When the call starts.
    starts_at: str
    # A cancelled booking stays.
    status: str
    # IANA name of the time zone.
    time_zone: str
    # Its title.
    title: str


class EventForm(TypedDict):
    """The form of the response."""

    # The form.
    id: str
    # Its title.
    title: str
    # Its public address.
    url: str


class _EventPayloadOptional(TypedDict, total=False):
    # Present only when a call is booked.
    booking: Booking
    # Present only for `partial_submission`.
    partial: Partial


class EventPayload(_EventPayloadOptional):
    """One shape serves every trigger. It is read when the delivery first goes out; later tries send the same bytes."""

    # One for each answered question.
    answers: List[Answer]
    # The trigger.
    event: str
    # The same answers by question id, for mapping.
    fields: Dict[str, str]
    # The form of the response.
    form: EventForm
    # Hidden fields and UTM tags that the form took.
    hidden: Dict[str, str]
    # Null when there is no report yet.
    report: Optional[Report]
    # The person who answered; what is not known is empty.
    respondent: Respondent
    # The response it happened to.
    response: EventResponse
    # The form's variables; may be empty.
    variables: Dict[str, Any]


class EventResponse(TypedDict):
    """The response it happened to."""

    # The kind of device.
    device: str
    # The ending that was reached; empty while unfinished.
    ending: str
    # The response.
    id: str
    # The language.
    lang: str
    # When it was submitted; of an unfinished one, when it was last answered.
    submitted_at: str


class Invitee(TypedDict):
    """The person a call was booked with."""

    # Address.
    email: str
    # Full name.
    name: str
    # Phone number.
    phone: str
    # IANA name of the time zone.
    time_zone: str


class Partial(TypedDict):
    """How far an unfinished response came."""

    # How many questions are answered.
    answered: int
    # When the last answer was given.
    last_answer_at: str


class Report(TypedDict):
    """The report on the response."""

    # Empty while the report is sold and not yet paid for.
    highlights: List[str]
    # The report.
    id: str
    # Where it can be reviewed.
    review_url: str
    # Its state.
    status: str
    # Null while the report is sold and not yet paid for.
    summary: Optional[str]
    # Its title.
    title: str


class Respondent(TypedDict):
    """The person who answered; what is not known is empty."""

    # Company.
    company: str
    # Address.
    email: str
    # First name.
    first_name: str
    # Last name.
    last_name: str
    # Full name.
    name: str
    # Phone number.
    phone: str
