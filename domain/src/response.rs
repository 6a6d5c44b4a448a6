//! A response's end: erased for good (contract, privacy of the people in it; ruling 27). What it held
//! is in the vault; the log knows its id.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::event::{aggregate, domain_event};
use crate::occurrence::{NeverRefused, id_of_rule};

/// One stream per response that was erased.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Response {
    erased: bool,
}

/// The stream of a firm's response. Two firms may use one id.
#[must_use]
pub fn response_stream(firm_id: Uuid, response_id: Uuid) -> Uuid {
    id_of_rule(&format!("response|{firm_id}|{response_id}"))
}

/// What can be asked of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResponseCommand {
    /// Erase it.
    Erase {
        /// Which.
        response_id: Uuid,
    },
}

/// What happened to a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum ResponseEvent {
    /// It was erased: its keys and rows go, and what is queued of it is cancelled.
    ResponseErased {
        /// Which.
        response_id: Uuid,
    },
}

domain_event!(ResponseEvent { ResponseErased });
aggregate!(Response, ResponseCommand, ResponseEvent, NeverRefused);

/// Why a report or call, or what is told of a response, was refused. A report or call has one
/// response, the first it was named for: kept with another it would be told to the wrong people, and
/// stay when its own is erased. And an id is a response's or a part's; only of its own response may a
/// part have the id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PartRejection {
    /// The report is known to be on another.
    #[error("the report is on another response")]
    ReportElsewhere,
    /// The call is known to be on another.
    #[error("the booking is on another response")]
    BookingElsewhere,
    /// The response's id is that of a report or call on another.
    #[error("the response is known as a report or booking of another")]
    ResponseIsPart,
    /// The report's or call's id is that of another response.
    #[error("the report or booking is known as another response")]
    PartIsResponse,
}

impl Response {
    /// Decides what a command leads to: an event the first time, nothing after that.
    ///
    /// # Errors
    /// None.
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
