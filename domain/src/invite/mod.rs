//! Form invites: one per form, person and UTC day (contract, section POST /forms/{id}/send; ruling
//! 11).
//!
//! The invite's quota of the day is reserved before the mail goes out. Afterwards the quota is used
//! up or given back.

mod person;

use chrono::NaiveDate;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::aggregate::{aggregate, domain_event, id_of_rule};

pub use person::{AddressChange, Person, PersonCommand, PersonEvent, PersonRejection};

/// Largest number of invites per firm and UTC day (contract, section Limits).
pub const INVITES_PER_DAY: i32 = 300;

/// Largest number of recipients that a firm may try on one UTC day. Refused and failed invites give
/// their place among the 300 back, and stay counted here. So no key asks the mail server about any
/// number of addresses.
pub const INVITE_TRIES_PER_DAY: i32 = 1_000;

/// Longest `name` of an invite, in characters (contract, section Limits).
pub const NAME_MAX: usize = 200;

/// Longest `first_name` of an invite, in characters (contract, section Limits).
pub const FIRST_NAME_MAX: usize = 100;

/// Longest `message` of an invite, in characters (contract, section Limits).
pub const MESSAGE_MAX: usize = 1_000;

/// Aggregate of one invite. A stream belongs to one firm, form, person and UTC day.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Invite {
    state: InviteState,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum InviteState {
    /// Nothing is reserved.
    #[default]
    Free,
    /// The mail may be on its way.
    Reserved,
    /// The mail server took it.
    Sent,
}

/// Identity of an invite within its firm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InviteOf {
    /// The form.
    pub form_id: Uuid,
    /// The person, by a keyed hash of the address.
    pub person_id: Uuid,
    /// The UTC day whose quota the invite uses.
    pub day: NaiveDate,
}

impl InviteOf {
    /// The invite's id. Its stream, its mail (`email_id`) and the mail's Message-ID carry this id,
    /// so one invite cannot go out under two ids.
    #[must_use]
    pub fn id(&self, firm_id: Uuid) -> Uuid {
        let Self { form_id, person_id, day } = self;
        id_of_rule(&format!("invite|{firm_id}|{form_id}|{person_id}|{day}"))
    }
}

/// Command on an invite.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InviteCommand {
    /// Reserves the day's quota before the mail is sent.
    Reserve(InviteOf),
    /// Records that the mail server took the mail.
    RecordSent(InviteOf),
    /// Records that the mail server refused the person's address for good.
    RecordRefused(InviteOf),
    /// Gives the quota back, because the mail could not be sent.
    GiveBack(InviteOf),
}

/// Event of an invite.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum InviteEvent {
    /// The quota was reserved. The mail is kept and will be sent.
    InviteReserved(InviteOf),
    /// The mail server took the mail.
    InviteSent(InviteOf),
    /// The mail server refused the address for good. The quota is given back.
    InviteRefused(InviteOf),
    /// The mail could not be sent. The quota is given back.
    InviteReleased(InviteOf),
}

domain_event!(InviteEvent { InviteReserved, InviteSent, InviteRefused, InviteReleased });
aggregate!(Invite, InviteCommand, InviteEvent, InviteRejection);

/// Why a command on an invite was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InviteRejection {
    /// Another call sends the invite now.
    #[error("the invite is being sent")]
    BeingSent,
    /// The person already got this form today.
    #[error("the person already got this form today")]
    AlreadySent,
    /// Nothing is reserved.
    #[error("no such invite is being sent")]
    NotReserved,
}

impl Invite {
    /// Decides on the events that follow from a command.
    ///
    /// # Errors
    /// [`InviteRejection`] says why the command is refused.
    pub fn decide(&self, command: &InviteCommand) -> Result<Vec<InviteEvent>, InviteRejection> {
        match (*command, self.state) {
            (InviteCommand::Reserve(of), InviteState::Free) => {
                Ok(vec![InviteEvent::InviteReserved(of)])
            }
            (InviteCommand::Reserve(_), InviteState::Reserved) => Err(InviteRejection::BeingSent),
            (InviteCommand::Reserve(_), InviteState::Sent) => Err(InviteRejection::AlreadySent),
            (InviteCommand::RecordSent(of), InviteState::Reserved) => {
                Ok(vec![InviteEvent::InviteSent(of)])
            }
            (InviteCommand::RecordRefused(of), InviteState::Reserved) => {
                Ok(vec![InviteEvent::InviteRefused(of)])
            }
            (InviteCommand::GiveBack(of), InviteState::Reserved) => {
                Ok(vec![InviteEvent::InviteReleased(of)])
            }
            (
                InviteCommand::RecordSent(_)
                | InviteCommand::RecordRefused(_)
                | InviteCommand::GiveBack(_),
                InviteState::Free | InviteState::Sent,
            ) => Err(InviteRejection::NotReserved),
        }
    }

    fn absorb(&mut self, event: &InviteEvent) {
        self.state = match event {
            InviteEvent::InviteReserved(_) => InviteState::Reserved,
            InviteEvent::InviteSent(_) => InviteState::Sent,
            InviteEvent::InviteRefused(_) | InviteEvent::InviteReleased(_) => InviteState::Free,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cqrs_es::test::{AggregateTestExecutor, TestFramework};

    fn invite_of() -> InviteOf {
        InviteOf {
            form_id: Uuid::from_u128(1),
            person_id: Uuid::from_u128(2),
            day: NaiveDate::from_ymd_opt(2026, 11, 1).unwrap(),
        }
    }

    fn given(events: Vec<InviteEvent>) -> AggregateTestExecutor<Invite> {
        TestFramework::with(()).given(events)
    }

    /// One process takes the place.
    #[test]
    fn an_invites_place_is_used_once() {
        let reserved = InviteEvent::InviteReserved(invite_of());
        let sent = InviteEvent::InviteSent(invite_of());
        let reserve = InviteCommand::Reserve(invite_of());
        given(vec![]).when(reserve).then_expect_events(vec![reserved]);
        given(vec![reserved]).when(reserve).then_expect_error(InviteRejection::BeingSent);
        given(vec![reserved])
            .when(InviteCommand::RecordSent(invite_of()))
            .then_expect_events(vec![sent]);
        given(vec![reserved, sent]).when(reserve).then_expect_error(InviteRejection::AlreadySent);
    }

    #[test]
    fn a_place_given_back_is_free_again() {
        let reserved = InviteEvent::InviteReserved(invite_of());
        for (command, event) in [
            (InviteCommand::GiveBack(invite_of()), InviteEvent::InviteReleased(invite_of())),
            (InviteCommand::RecordRefused(invite_of()), InviteEvent::InviteRefused(invite_of())),
        ] {
            given(vec![reserved]).when(command).then_expect_events(vec![event]);
            given(vec![reserved, event])
                .when(InviteCommand::Reserve(invite_of()))
                .then_expect_events(vec![reserved]);
        }
    }

    #[test]
    fn p15_a_late_result_changes_nothing() {
        let sent =
            vec![InviteEvent::InviteReserved(invite_of()), InviteEvent::InviteSent(invite_of())];
        for command in [
            InviteCommand::RecordSent(invite_of()),
            InviteCommand::RecordRefused(invite_of()),
            InviteCommand::GiveBack(invite_of()),
        ] {
            given(sent.clone()).when(command).then_expect_error(InviteRejection::NotReserved);
            given(vec![]).when(command).then_expect_error(InviteRejection::NotReserved);
        }
    }

    #[test]
    fn an_invites_id_depends_on_each_part() {
        let firm = Uuid::from_u128(9);
        let id = invite_of().id(firm);
        assert_eq!(id, invite_of().id(firm));
        let other = |change: fn(&mut InviteOf)| {
            let mut other = invite_of();
            change(&mut other);
            other.id(firm)
        };
        assert_ne!(id, invite_of().id(Uuid::from_u128(8)));
        assert_ne!(id, other(|of| of.form_id = Uuid::nil()));
        assert_ne!(id, other(|of| of.person_id = Uuid::nil()));
        assert_ne!(id, other(|of| of.day = of.day.succ_opt().unwrap()));
    }
}
