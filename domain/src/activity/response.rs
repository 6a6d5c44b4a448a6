//! The end of a response: its erasure (contract, privacy of the people in it; ruling 27). The
//! response's data is in the vault, and the log knows only its id.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::aggregate::{NeverRefused, aggregate, domain_event, id_of_rule};

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

/// Event of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum ResponseEvent {
    /// The response was erased. Its keys and rows are deleted, and its queued deliveries are
    /// cancelled.
    ResponseErased {
        /// The response.
        response_id: Uuid,
    },
}

domain_event!(ResponseEvent { ResponseErased });
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

    fn absorb(&mut self, ResponseEvent::ResponseErased { .. }: &ResponseEvent) {
        self.erased = true;
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
        given(vec![]).when(erase).then_expect_events(vec![erased]);
        given(vec![erased]).when(erase).then_expect_events(vec![]);
        let (one, two) = (Uuid::from_u128(1), Uuid::from_u128(2));
        assert_ne!(response_stream(one, response_id), response_stream(two, response_id));
    }
}
