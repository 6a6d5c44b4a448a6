//! Records the mail server's answer, and deletes the stored mail.

use std::time::Duration;

use domain::event::EventContext;
use domain::invite::{Invite, InviteCommand, InviteOf, InviteRejection, Person, PersonCommand};
use eventstore::{AppendTransaction, NewEvent, load_aggregate, retry_conflicts};
use mailer::MailOutcome;
use tokio::time::{Instant, sleep};
use uuid::Uuid;
use vault::{KeySubject, mails};

use crate::as_system;
use crate::settings::{InviteError, Inviter};

/// The wait between two attempts to record a result.
const RECORD_INTERVAL: Duration = Duration::from_secs(1);

impl Inviter {
    /// Records a result now. If that fails, goes on in the background as long as the reservation
    /// lasts, and the caller gets the result all the same. A mail that the server accepted must not
    /// be sent again.
    pub(crate) async fn record_in_time(
        &self,
        context: &EventContext,
        of: InviteOf,
        outcome: &MailOutcome,
        until: Instant,
    ) {
        log_outcome(outcome);
        let Err(error) = self.record_result(context, of, outcome).await else {
            return;
        };
        tracing::warn!(%error, "the result of an invite is not recorded yet");
        let inviter = self.clone();
        let context = context.clone();
        let outcome = outcome.clone();
        self.under_way
            .spawn(async move { inviter.keep_recording(&context, of, &outcome, until).await });
    }

    async fn keep_recording(
        &self,
        context: &EventContext,
        of: InviteOf,
        outcome: &MailOutcome,
        until: Instant,
    ) {
        while Instant::now() < until {
            sleep(RECORD_INTERVAL).await;
            if self.record_result(context, of, outcome).await.is_ok() {
                return;
            }
        }
        let invite_id = of.id(context.firm_id);
        tracing::error!(%invite_id, "the result of an invite was not recorded in time");
    }

    /// Records the result of a reserved invite. A recorded result never changes. The actor is the
    /// service itself, because the caller's key may be revoked meanwhile.
    pub(crate) async fn record_result(
        &self,
        context: &EventContext,
        of: InviteOf,
        outcome: &MailOutcome,
    ) -> Result<(), InviteError> {
        let context = as_system(context, self.clock.now());
        let command = match outcome {
            MailOutcome::Accepted => InviteCommand::RecordSent(of),
            MailOutcome::Refused { .. } => InviteCommand::RecordRefused(of),
            MailOutcome::Failed(_) => InviteCommand::GiveBack(of),
        };
        if !self.end_reservation(&context, of, command).await? {
            tracing::warn!(invite_id = %of.id(context.firm_id), "the invite had already ended");
        }
        Ok(())
    }

    /// Ends a reservation. Returns false if it had already ended.
    pub(crate) async fn end_reservation(
        &self,
        context: &EventContext,
        of: InviteOf,
        command: InviteCommand,
    ) -> Result<bool, InviteError> {
        let attempt = || self.try_finish(context, of, command);
        match retry_conflicts(context.correlation_id, attempt).await {
            Ok(kept) => {
                if let Some(subject) = kept {
                    self.forget_key(subject).await;
                }
                Ok(true)
            }
            Err(InviteError::Rejected(InviteRejection::NotReserved)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Ends the reservation in one transaction. Returns the owner of the mail's data key, which is
    /// no longer needed.
    async fn try_finish(
        &self,
        context: &EventContext,
        of: InviteOf,
        command: InviteCommand,
    ) -> Result<Option<KeySubject>, InviteError> {
        let invite_id = of.id(context.firm_id);
        let mut appending = self.store.begin().await?;
        let upcasters = self.store.upcasters();
        let stream = invite_id.to_string();
        let (invite, last) =
            load_aggregate::<Invite>(appending.connection(), &upcasters, &stream).await?;
        let decided = invite.decide(&command).map_err(InviteError::Rejected)?;
        let mut events = NewEvent::number_after(last, &stream, context, decided);
        if let (InviteCommand::RecordRefused(_), Some(cause)) = (command, events.first()) {
            let context = context.caused_by(cause.id());
            events.extend(self.record_bounce(&mut appending, &context, of.person_id).await?);
        }
        appending.append(events).await?;
        let kept = mails::drop_of(appending.connection(), invite_id).await?;
        appending.commit().await?;
        Ok(kept)
    }

    /// Records a permanent refusal on the person (ruling 11).
    async fn record_bounce(
        &self,
        appending: &mut AppendTransaction<'_>,
        context: &EventContext,
        person_id: Uuid,
    ) -> Result<Vec<NewEvent>, InviteError> {
        let stream = person_id.to_string();
        let upcasters = self.store.upcasters();
        let (person, last) =
            load_aggregate::<Person>(appending.connection(), &upcasters, &stream).await?;
        let bounce = PersonCommand::Bounce { time: context.recorded_at };
        let Ok(decided) = person.decide(&bounce);
        Ok(NewEvent::number_after(last, &stream, context, decided))
    }
}

pub(crate) fn log_outcome(outcome: &MailOutcome) {
    match outcome {
        MailOutcome::Accepted => {}
        MailOutcome::Refused { code } => tracing::info!(?code, "an invite's address was refused"),
        MailOutcome::Failed(why) => tracing::warn!(why, "an invite could not be sent"),
    }
}
