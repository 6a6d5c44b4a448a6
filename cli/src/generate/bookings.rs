//! Calls booked on a response: made, perhaps paid for, moved and cancelled.

use uuid::Uuid;

use super::event::{DAY, HOUR, MINUTE, Teller, Time};
use super::json::Object;
use super::reports::{Bought, pay};
use super::responses::Response;

/// Tells of the calls booked on a response: for three in ten one, now and then a second.
pub(super) fn tell(teller: &mut Teller, response: &Response<'_>, submitted: Time) {
    if !teller.random.per_mille(300) {
        return;
    }
    let made = submitted.after(teller.random.between(MINUTE, HOUR));
    book(teller, response, made);
    if teller.random.per_mille(80) {
        let again = made.after(teller.random.between(6 * DAY, 8 * DAY));
        book(teller, response, again);
    }
}

fn book(teller: &mut Teller, response: &Response<'_>, made: Time) {
    let id = teller.random.id();
    let call = Call::after(teller, response, made);
    call.made(teller, (id, made));
    if teller.random.per_mille(200) {
        let paid = made.after(teller.random.between(MINUTE, HOUR));
        pay(teller, response, (Bought { report: None, booking: Some(id) }, paid));
    }
    let mut now = made;
    while teller.random.per_mille(250) {
        now = now.after(teller.random.between(HOUR, 2 * DAY));
        Call::after(teller, response, now).moved(teller, (id, now));
    }
    if teller.random.per_mille(150) {
        now = now.after(teller.random.between(HOUR, DAY));
        teller.tell("booking.cancelled", now, |data| {
            data.plain("booking_id", id);
        });
    }
}

/// When a call is to be, and with whom.
struct Call<'a> {
    response: &'a Response<'a>,
    starts_at: Time,
    minutes: i64,
}

impl<'a> Call<'a> {
    /// A call some days from now, at a quarter of an hour.
    fn after(teller: &mut Teller, response: &'a Response<'a>, now: Time) -> Self {
        let later = now.after(teller.random.between(DAY, 12 * DAY));
        let starts_at = Time(later.0 - later.0.rem_euclid(15 * MINUTE));
        let minutes = teller.random.pick(&[15, 30, 30, 45, 60]);
        Self { response, starts_at, minutes }
    }

    fn made(&self, teller: &mut Teller, (id, at): (Uuid, Time)) {
        let Self { response, .. } = self;
        let (form, person) = (response.form.template, &response.person);
        teller.tell("booking.made", at, |data| {
            data.plain("booking_id", id).plain("response_id", response.id);
            data.text("title", &format!("Call: {}", form.title)).text("status", "confirmed");
            self.times(data);
            data.text("location", "Video");
            data.text("join_url", &format!("https://meet.example.com/{id}"));
            data.object("invitee", |invitee| {
                invitee.text("name", &person.name).text("email", &person.email);
                invitee.text("phone", &person.phone);
                invitee.text("time_zone", person.origin.time_zone);
            });
        });
    }

    fn moved(&self, teller: &mut Teller, (id, at): (Uuid, Time)) {
        teller.tell("booking.rescheduled", at.after(100), |data| {
            data.plain("booking_id", id).plain("moved_at", at);
            self.times(data);
        });
    }

    fn times(&self, data: &mut Object<'_>) {
        let ends_at = self.starts_at.after(self.minutes * MINUTE);
        data.plain("starts_at", self.starts_at).plain("ends_at", ends_at);
        data.bare("duration_min", self.minutes);
        data.text("time_zone", self.response.firm.home.time_zone);
    }
}
