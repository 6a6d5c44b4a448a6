//! Bookings of a response: made, perhaps paid, moved and cancelled.

use uuid::Uuid;

use super::event::{DAY, EventTeller, EventTime, HOUR, MINUTE};
use super::json::ObjectWriter;
use super::reports::{PaidItem, tell_payment};
use super::responses::GeneratedResponse;

/// Tells the bookings of a response. Three in ten have one, and some of them a second.
pub(super) fn tell_bookings(
    teller: &mut EventTeller,
    response: &GeneratedResponse<'_>,
    submitted: EventTime,
) {
    if !teller.random.per_mille(300) {
        return;
    }
    let made = submitted.after(teller.random.draw_between(MINUTE, HOUR));
    tell_booking(teller, response, made);
    if teller.random.per_mille(80) {
        let again = made.after(teller.random.draw_between(6 * DAY, 8 * DAY));
        tell_booking(teller, response, again);
    }
}

fn tell_booking(teller: &mut EventTeller, response: &GeneratedResponse<'_>, made: EventTime) {
    let id = teller.random.draw_id();
    let call = BookedCall::days_after(teller, response, made);
    call.tell_made(teller, id, made);
    if teller.random.per_mille(200) {
        let paid = made.after(teller.random.draw_between(MINUTE, HOUR));
        tell_payment(teller, response, PaidItem { report: None, booking: Some(id) }, paid);
    }
    let mut now = made;
    while teller.random.per_mille(250) {
        now = now.after(teller.random.draw_between(HOUR, 2 * DAY));
        BookedCall::days_after(teller, response, now).tell_moved(teller, id, now);
    }
    if teller.random.per_mille(150) {
        now = now.after(teller.random.draw_between(HOUR, DAY));
        teller.tell("booking.cancelled", now, |data| {
            data.plain_text("booking_id", id);
        });
    }
}

/// A booking's time, and the response it belongs to.
struct BookedCall<'a> {
    response: &'a GeneratedResponse<'a>,
    starts_at: EventTime,
    minutes: i64,
}

impl<'a> BookedCall<'a> {
    /// A booking some days after `now`, at a quarter of an hour.
    fn days_after(
        teller: &mut EventTeller,
        response: &'a GeneratedResponse<'a>,
        now: EventTime,
    ) -> Self {
        let later = now.after(teller.random.draw_between(DAY, 12 * DAY));
        let starts_at = EventTime(later.0 - later.0.rem_euclid(15 * MINUTE));
        let minutes = teller.random.pick_one(&[15, 30, 30, 45, 60]);
        Self { response, starts_at, minutes }
    }

    fn tell_made(&self, teller: &mut EventTeller, id: Uuid, at: EventTime) {
        let Self { response, .. } = self;
        let form = response.form.template;
        let person = &response.person;
        teller.tell("booking.made", at, |data| {
            data.plain_text("booking_id", id).plain_text("response_id", response.id);
            data.text("title", &format!("Call: {}", form.title)).text("status", "confirmed");
            self.write_times(data);
            data.text("location", "Video");
            data.text("join_url", &format!("https://meet.example.com/{id}"));
            data.object("invitee", |invitee| {
                invitee.text("name", &person.name).text("email", &person.email);
                invitee.text("phone", &person.phone);
                invitee.text("time_zone", person.origin.time_zone);
            });
        });
    }

    fn tell_moved(&self, teller: &mut EventTeller, id: Uuid, at: EventTime) {
        teller.tell("booking.rescheduled", at.after(100), |data| {
            data.plain_text("booking_id", id).plain_text("moved_at", at);
            self.write_times(data);
        });
    }

    fn write_times(&self, data: &mut ObjectWriter<'_>) {
        let ends_at = self.starts_at.after(self.minutes * MINUTE);
        data.plain_text("starts_at", self.starts_at).plain_text("ends_at", ends_at);
        data.bare_value("duration_min", self.minutes);
        data.text("time_zone", self.response.firm.home.time_zone);
    }
}
