//! Sends invites (contract, section POST /forms/{id}/send), and records people who want no more
//! mail.

use domain::event::Actor;
use domain::invite::{Person, PersonCommand};
use eventstore::{AppendError, CommandError};
use inviter::{InviteError, InviteOutcome, NewInvite};
use vault::MailRecipient;

use super::no_longer_active;
use crate::Service;
use crate::error::Error;
use crate::public::caller::Caller;

/// Sends an invite, or says why it was skipped.
pub(crate) async fn send(
    service: &Service,
    caller: &Caller,
    new: &NewInvite,
) -> Result<InviteOutcome, Error> {
    match service.inviter.invite(caller.firm_id, Actor::Key(caller.key_id), new).await {
        Ok(invited) => Ok(invited),
        Err(InviteError::Append(AppendError::ActorInactive)) => {
            Err(no_longer_active(service, caller.firm_id).await)
        }
        Err(error) => Err(error.into()),
    }
}

/// Records that a person wants no more mail of a firm. A repeated request is recorded once.
pub(crate) async fn unsubscribe(service: &Service, recipient: MailRecipient) -> Result<(), Error> {
    let MailRecipient { firm_id, person_id } = recipient;
    let context = service.context(firm_id, Actor::Person(person_id));
    let command = PersonCommand::Unsubscribe { time: context.recorded_at };
    match service.store.execute::<Person>(&person_id.to_string(), command, &context).await {
        Ok(()) => Ok(()),
        Err(CommandError::Append(error)) => Err(error.into()),
        Err(CommandError::Rejected(never)) => match never {},
    }
}
