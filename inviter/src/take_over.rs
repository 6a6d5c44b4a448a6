//! Takes over invites that were reserved and never finished, because a process died or could not
//! record (ruling 11; crash point P15).

use std::time::Duration;

use chrono::TimeDelta;
use domain::event::{Actor, EventContext};
use domain::invite::InviteCommand;
use eventstore::worker::{NextStep, WakeOn, Worker};
use mailer::{Mail, MailOutcome};
use projector::invites::{self, OpenInvite};
use vault::mails;

use crate::settings::{InviteError, Inviter};

/// The age of a reservation up to which its mail is sent again (ruling 11).
const RESEND_FOR: TimeDelta = TimeDelta::hours(1);

/// The worker that takes over. It runs in processes that reserve invites, because they have the
/// right mail server.
pub struct TakeOver(Inviter);

impl TakeOver {
    /// A worker that finishes the unfinished invites of this inviter.
    #[must_use]
    pub const fn new(inviter: Inviter) -> Self {
        Self(inviter)
    }
}

impl Worker for TakeOver {
    const NAME: &'static str = "invites";
    const WAKES: WakeOn = WakeOn::Timer;
    const FIRST_DUE: Option<&'static str> = Some("select min(due_at) from open_invites");
    type Error = InviteError;

    /// Takes one invite at a time, and is done with it long before the 120 seconds are over in
    /// which no other worker takes it.
    async fn step(&mut self) -> Result<NextStep, InviteError> {
        let Self(inviter) = self;
        let now = inviter.clock.now().get();
        let Some(invite) = invites::take_over(inviter.store.pool(), now).await? else {
            return Ok(NextStep::IDLE);
        };
        inviter.take_over(&invite).await?;
        Ok(NextStep::Busy)
    }
}

impl Inviter {
    /// Sends the same bytes once more, or gives the reservation back.
    async fn take_over(&self, invite: &OpenInvite) -> Result<(), InviteError> {
        let context = self.event_context(invite.firm_id, Actor::System);
        let too_late = context.recorded_at.get() >= invite.reserved_at + RESEND_FOR;
        let mail = if too_late { None } else { self.reserved_mail(invite).await? };
        if let Some(mail) = mail {
            return self.send_again(&context, invite, &mail).await;
        }
        let of = invite.invite_of();
        if self.end_reservation(&context, of, InviteCommand::GiveBack(of)).await? {
            tracing::warn!(invite_id = %invite.invite_id, "an invite was given back unsent");
        }
        Ok(())
    }

    /// Sends the mail again. A mail that could not be sent stays reserved, and is taken over once
    /// more. The worker does not wait for a turn at the mail server, so that invites of other firms
    /// go on.
    async fn send_again(
        &self,
        context: &EventContext,
        invite: &OpenInvite,
        mail: &Mail,
    ) -> Result<(), InviteError> {
        let sent = match self.mailer.take_turn(invite.firm_id, Duration::ZERO).await {
            Ok(turn) => turn.send_mail(mail).await,
            Err(why) => MailOutcome::Failed(why.to_string()),
        };
        match sent {
            sent @ (MailOutcome::Accepted | MailOutcome::Refused { .. }) => {
                self.record_result(context, invite.invite_of(), &sent).await
            }
            MailOutcome::Failed(why) => {
                let invite_id = invite.invite_id;
                tracing::warn!(%invite_id, why, "an invite could not be sent, and is tried again");
                Ok(())
            }
        }
    }

    /// The reserved mail; `None` if it may no longer be sent, or cannot be read.
    async fn reserved_mail(&self, invite: &OpenInvite) -> Result<Option<Mail>, InviteError> {
        let pool = self.store.pool();
        if !invites::may_go(pool, invite).await? {
            return Ok(None);
        }
        let mut connection = pool.acquire().await?;
        let bytes = mails::read(&mut connection, &self.keyring, invite.invite_id).await?;
        Ok(bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()))
    }
}
