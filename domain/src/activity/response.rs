//! The end of a response: its erasure (contract, privacy of the people in it; ruling 27), or its
//! expiry (ruling 59). The response's data is in the vault, and the log knows only its id.

use chrono::{DateTime, Days, NaiveDate, NaiveTime, Utc};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::aggregate::{NeverRefused, aggregate, domain_event, id_of_rule};
use crate::values::Timestamp;

/// Aggregate of one erased response. Each erased response has a stream of its own.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Response {
    erased: bool,
}

/// Stream of a firm's response. Two firms may use one response id.
#[must_use]
pub fn response_stream(firm_id: Uuid, response_id: Uuid) -> Uuid {
    id_of_rule(&format!("response|{firm_id}|{response_id}"))
}

/// Command on a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResponseCommand {
    /// Erases the response.
    Erase {
        /// The response.
        response_id: Uuid,
    },
}

/// The first day on which a report still keeps a response (ruling 59). A response that was last
/// reported before it expires. Days are UTC days.
#[must_use]
pub fn kept_since(now: DateTime<Utc>, keep_days: u32) -> NaiveDate {
    let today = now.date_naive();
    today.checked_sub_days(Days::new(keep_days.into())).unwrap_or(NaiveDate::MIN)
}

/// The begin of this day, by UTC.
#[must_use]
pub const fn midnight(day: NaiveDate) -> DateTime<Utc> {
    day.and_time(NaiveTime::MIN).and_utc()
}

/// Event of a response.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum ResponseEvent {
    /// The response was erased. Its keys and rows are deleted, and its queued deliveries are
    /// cancelled.
    ResponseErased {
        /// The response.
        response_id: Uuid,
    },
    /// The responses of a firm were not reported for a long time (ruling 59). Their keys and rows
    /// are deleted, as after an erasure. Each event has a stream of its own.
    ResponsesExpired {
        /// No activity about them was reported at this time or later.
        reported_before: Timestamp,
        /// The responses.
        response_ids: Vec<Uuid>,
    },
}

impl ResponseEvent {
    /// The event for responses that were last reported before this day.
    #[must_use]
    pub fn expired(kept_since: NaiveDate, response_ids: Vec<Uuid>) -> Self {
        let reported_before = Timestamp::from(midnight(kept_since));
        Self::ResponsesExpired { reported_before, response_ids }
    }
}

domain_event!(ResponseEvent { ResponseErased, ResponsesExpired });
aggregate!(Response, ResponseCommand, ResponseEvent, NeverRefused);

/// Why a report, a booking or a response is refused for its id.
///
/// A report or booking belongs to the first response that a report of the product named for it.
/// With another response it would go to the wrong people, and would stay when its own response is
/// erased. An id belongs to a response or to a part. A part may have the id of its own response
/// only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PartRejection {
    /// The report is on another response.
    #[error("the report is on another response")]
    ReportElsewhere,
    /// The booking is on another response.
    #[error("the booking is on another response")]
    BookingElsewhere,
    /// The response's id belongs to a report or booking on another response.
    #[error("the response is known as a report or booking of another")]
    ResponseIsPart,
    /// The id of the report or booking belongs to another response.
    #[error("the report or booking is known as another response")]
    PartIsResponse,
    /// The response has expired (ruling 59). Its contents are gone until it is reported again.
    #[error("the response has expired; report the response again first")]
    ResponseExpired,
}

impl Response {
    /// Decides on the events that follow from a command: one the first time, none later.
    pub fn decide(
        &self,
        ResponseCommand::Erase { response_id }: &ResponseCommand,
    ) -> Result<Vec<ResponseEvent>, NeverRefused> {
        if self.erased {
            return Ok(Vec::new());
        }
        Ok(vec![ResponseEvent::ResponseErased { response_id: *response_id }])
    }

    fn absorb(&mut self, event: &ResponseEvent) {
        match event {
            ResponseEvent::ResponseErased { .. } => self.erased = true,
            ResponseEvent::ResponsesExpired { .. } => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cqrs_es::test::TestFramework;

    #[test]
    fn a_response_is_erased_once() {
        let response_id = Uuid::from_u128(1);
        let erase = ResponseCommand::Erase { response_id };
        let erased = ResponseEvent::ResponseErased { response_id };
        let given = |events| TestFramework::<Response>::with(()).given(events);
        given(vec![]).when(erase).then_expect_events(vec![erased.clone()]);
        given(vec![erased]).when(erase).then_expect_events(vec![]);
        let (one, two) = (Uuid::from_u128(1), Uuid::from_u128(2));
        assert_ne!(response_stream(one, response_id), response_stream(two, response_id));
    }

    #[test]
    fn a_response_is_kept_for_whole_days() {
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        let day = |text: &str| text.parse::<NaiveDate>().unwrap();
        for now in ["2026-11-29T00:00:00.000Z", "2026-11-29T23:59:59.999Z"] {
            assert_eq!(kept_since(at(now).get(), 365), day("2025-11-29"));
        }
        let ResponseEvent::ResponsesExpired { reported_before, .. } =
            ResponseEvent::expired(day("2025-11-29"), Vec::new())
        else {
            panic!("another event");
        };
        assert_eq!(reported_before, at("2025-11-29T00:00:00.000Z"));
        assert_eq!(kept_since(at("2026-11-29T00:00:00.000Z").get(), u32::MAX), NaiveDate::MIN);
    }
}
