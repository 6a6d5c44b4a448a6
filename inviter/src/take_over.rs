//! Taking over: invites that were reserved and that nobody finished, because a process died or could
//! not record (ruling 11; crash point P15).

use chrono::TimeDelta;
use domain::context::{Actor, EventContext};
use domain::invite::InviteCommand;
use eventstore::worker::{NextStep, WakeOn, Worker};
use mailer::{Mail, MailOutcome};
use projector::invites::{self, OpenInvite};
use vault::mails;

use crate::settings::{InviteError, Inviter};

/// How long a reserved mail is tried for (ruling 11).
const RESEND_FOR: TimeDelta = TimeDelta::hours(1);

/// The worker. It belongs where invites are reserved: there the mail server is the right one.
pub struct TakeOver(Inviter);

impl TakeOver {
    /// Finishes what this inviter's kind left.
    #[must_use]
    pub const fn new(inviter: Inviter) -> Self {
        Self(inviter)
    }
}

impl Worker for TakeOver {
    const NAME: &'static str = "invites";
    const WAKES: WakeOn = WakeOn::Timer;
    type Error = InviteError;

    /// One at a time: it is finished long before its turn ends, so that nobody else takes it too.
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
    /// One more try with the same bytes, or the end of trying.
    async fn take_over(&self, invite: &OpenInvite) -> Result<(), InviteError> {
        let context = self.context(invite.firm_id, Actor::System);
        let too_late = context.recorded_at.get() >= invite.reserved_at + RESEND_FOR;
        let mail = if too_late { None } else { self.reserved_mail(invite).await? };
        if let Some(mail) = mail {
            return self.send_again(&context, invite, &mail).await;
        }
        if self.finish(&context, invite.of(), InviteCommand::GiveBack(invite.of())).await? {
            tracing::warn!(invite_id = %invite.invite_id, "an invite was given back unsent");
        }
        Ok(())
    }

    /// A mail that could not be sent stays reserved: its next turn comes.
    async fn send_again(
        &self,
        context: &EventContext,
        invite: &OpenInvite,
        mail: &Mail,
    ) -> Result<(), InviteError> {
        match self.mailer.send(mail).await {
            sent @ (MailOutcome::Accepted | MailOutcome::Refused { .. }) => {
                self.record(context, invite.of(), &sent).await
            }
            MailOutcome::Failed(why) => {
                tracing::warn!(invite_id = %invite.invite_id, why, "an invite waits for its turn");
                Ok(())
            }
        }
    }

    /// The mail as it was reserved; none if it may not go out any more, or if it cannot be read.
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
