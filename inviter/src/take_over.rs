//! Taking over: invites that were reserved and that nobody finished, because a process died or could
//! not record (ruling 11; crash point P15).

use std::time::Duration;

use chrono::TimeDelta;
use domain::context::{Actor, Context};
use domain::invite::InviteCommand;
use eventstore::worker::{Step, Worker};
use mailer::{Mail, Sent};
use projector::firms;
use projector::invites::{self, OpenInvite};
use projector::people;
use vault::{mails, responses::VaultError};

use crate::settings::{InviteError, Inviter};
use crate::subject;

/// How long a reserved mail is tried for (ruling 11).
const TRIED_FOR: TimeDelta = TimeDelta::hours(1);

/// How many are taken over in a step.
const BATCH: i64 = 16;

/// The wait when there is nothing to take over.
const BETWEEN_LOOKS: Duration = Duration::from_secs(5);

/// The worker.
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
    type Error = InviteError;

    async fn step(&mut self) -> Result<Step, InviteError> {
        let Self(inviter) = self;
        let now = inviter.clock.now().get();
        let taken = invites::take_over(inviter.store.pool(), now, BATCH).await?;
        for invite in &taken {
            inviter.take_over(invite).await?;
        }
        Ok(if taken.is_empty() { Step::IdleFor(BETWEEN_LOOKS) } else { Step::Busy })
    }
}

impl Inviter {
    /// One more try with the same bytes, or the end of trying.
    async fn take_over(&self, invite: &OpenInvite) -> Result<(), InviteError> {
        let context = self.context(invite.firm_id, Actor::System);
        let too_late = context.recorded_at.get() >= invite.reserved_at + TRIED_FOR;
        let mail = if too_late { None } else { self.kept(invite).await? };
        let Some(mail) = mail else {
            tracing::warn!(invite_id = %invite.invite_id, "an invite was given back unsent");
            return self.finish(&context, invite.of(), InviteCommand::GiveBack(invite.of())).await;
        };
        self.send_again(&context, invite, &mail).await
    }

    /// A mail that could not be sent stays reserved: its next turn comes.
    async fn send_again(
        &self,
        context: &Context,
        invite: &OpenInvite,
        mail: &Mail,
    ) -> Result<(), InviteError> {
        match self.mailer.send(mail).await {
            sent @ (Sent::Accepted | Sent::Refused { .. }) => {
                self.record(context, invite.of(), &sent).await
            }
            Sent::Failed(why) => {
                tracing::warn!(invite_id = %invite.invite_id, why, "an invite waits for its turn");
                Ok(())
            }
        }
    }

    /// The mail as it was reserved; none if the firm is not active any more, if the person wants
    /// none by now, or if it cannot be read.
    async fn kept(&self, invite: &OpenInvite) -> Result<Option<Mail>, InviteError> {
        let pool = self.store.pool();
        if firms::is_active(pool, invite.firm_id).await? != Some(true) {
            return Ok(None);
        }
        let person = people::find(pool, invite.firm_id, invite.person_id).await?;
        if person.unsubscribed || person.bounced {
            return Ok(None);
        }
        let subject = subject(invite.firm_id, invite.invite_id);
        let keys = self.keyring.find(&[subject]).await?;
        let Some(key) = keys.get(&subject) else {
            return Ok(None);
        };
        let mut connection = pool.acquire().await?;
        match mails::read(&mut connection, (subject, key)).await {
            Ok(bytes) => Ok(bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok())),
            Err(VaultError::Broken(_) | VaultError::Unreadable(_)) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}
