// Made from the description of the API by tests/operations/typed_events.rs.

/** Events of this version. New ones can appear. */
export const EVENTS = [
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
] as const;

export type EventName = (typeof EVENTS)[number];

/** An answered question. */
export interface Answer {
  /** The answer, as text. */
  answer: string;
  /** The question. */
  id: string;
  /** Its words. */
  question: string;
  /** Its type. */
  type: string;
}

/** A booked call. */
export interface Booking {
  /** Its length in minutes. */
  duration_min: number;
  /** When the call ends. */
  ends_at: string;
  /** The booking. */
  id: string;
  /** The person a call was booked with. */
  invitee: Invitee;
  /** The URL where to join it; empty when there is no such place. */
  join_url: string;
  /** Where it takes place. */
  location: string;
  /** When the call starts. */
  starts_at: string;
  /** A cancelled booking stays. */
  status: string;
  /** IANA name of the time zone. */
  time_zone: string;
  /** Its title. */
  title: string;
}

/** The form of the response. */
export interface EventForm {
  /** The form. */
  id: string;
  /** Its title. */
  title: string;
  /** Its public address. */
  url: string;
}

/** One shape serves every trigger. It is read when the delivery first goes out; later tries send the same bytes. */
export interface EventPayload {
  /** One for each answered question. */
  answers: Answer[];
  /** Present only when a call is booked. */
  booking?: Booking;
  /** The trigger. */
  event: string;
  /** The same answers by question id, for mapping. */
  fields: Record<string, string>;
  /** The form of the response. */
  form: EventForm;
  /** Hidden fields and UTM tags that the form took. */
  hidden: Record<string, string>;
  /** Present only for `partial_submission`. */
  partial?: Partial;
  /** Null when there is no report yet. */
  report: Report | null;
  /** The person who answered; what is not known is empty. */
  respondent: Respondent;
  /** The response it happened to. */
  response: EventResponse;
  /** The form's variables; may be empty. */
  variables: Record<string, unknown>;
}

/** The response it happened to. */
export interface EventResponse {
  /** The kind of device. */
  device: string;
  /** The ending that was reached; empty while unfinished. */
  ending: string;
  /** The response. */
  id: string;
  /** The language. */
  lang: string;
  /** When it was submitted; of an unfinished one, when it was last answered. */
  submitted_at: string;
}

/** The person a call was booked with. */
export interface Invitee {
  /** Address. */
  email: string;
  /** Full name. */
  name: string;
  /** Phone number. */
  phone: string;
  /** IANA name of the time zone. */
  time_zone: string;
}

/** How far an unfinished response came. */
export interface Partial {
  /** How many questions are answered. */
  answered: number;
  /** When the last answer was given. */
  last_answer_at: string;
}

/** The report on the response. */
export interface Report {
  /** Empty while the report is sold and not yet paid for. */
  highlights: string[];
  /** The report. */
  id: string;
  /** Where it can be reviewed. */
  review_url: string;
  /** Its state. */
  status: string;
  /** Null while the report is sold and not yet paid for. */
  summary: string | null;
  /** Its title. */
  title: string;
}

/** The person who answered; what is not known is empty. */
export interface Respondent {
  /** Company. */
  company: string;
  /** Address. */
  email: string;
  /** First name. */
  first_name: string;
  /** Last name. */
  last_name: string;
  /** Full name. */
  name: string;
  /** Phone number. */
  phone: string;
}

/** The payload of one event. */
export type EventOf<Name extends EventName> = EventPayload & { event: Name };

/** The payload of any event of this version: narrow it by `event`. */
export type KnownEvent = { [Name in EventName]: EventOf<Name> }[EventName];
