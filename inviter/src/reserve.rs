//! Reserving: the place of the day, the quota, and the written mail, in one transaction.

use domain::context::Context;
use domain::invite::{Invite, InviteCommand, InviteOf, InviteRejection};
use eventstore::{NewEvent, load, retry_conflicts};
use mailer::Mail;
use projector::invites;
use tokio::time::Instant;
use uuid::Uuid;
use vault::{DataKey, mails};

use crate::settings::{InviteError, Inviter};
use crate::subject;

/// Whose the place of the day is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reserved {
    /// This call's: it must send, and record.
    Now,
    /// It was used: the person got this form today.
    AlreadySent,
}

impl Inviter {
    /// Takes the place of the day.
    pub(crate) async fn reserve(
        &self,
        context: &Context,
        of: InviteOf,
        mail: &Mail,
    ) -> Result<Reserved, InviteError> {
        let key = self.key(context.firm_id, mail.email_id).await?;
        let attempt = || self.try_reserve(context, of, (mail, &key));
        match retry_conflicts(context.correlation_id, attempt).await {
            Ok(()) => Ok(Reserved::Now),
            Err(InviteError::Rejected(InviteRejection::AlreadySent)) => Ok(Reserved::AlreadySent),
            Err(error) => Err(error),
        }
    }

    async fn try_reserve(
        &self,
        context: &Context,
        of: InviteOf,
        (mail, key): (&Mail, &DataKey),
    ) -> Result<(), InviteError> {
        let stream = mail.email_id.to_string();
        let mut appending = self.store.begin().await?;
        let upcasters = self.store.upcasters();
        let (invite, last) = load::<Invite>(appending.connection(), &upcasters, &stream).await?;
        let events = invite.decide(&InviteCommand::Reserve(of)).map_err(InviteError::Rejected)?;
        appending.append(NewEvent::after(last, &stream, context, events)).await?;
        let subject = subject(context.firm_id, mail.email_id);
        let bytes =
            serde_json::to_vec(mail).map_err(|error| InviteError::Vault(error.to_string()))?;
        mails::put(appending.connection(), (subject, key), &bytes, &*self.entropy).await?;
        Ok(appending.commit().await?)
    }

    /// The keyring is a database of its own: a key without data does no harm.
    async fn key(&self, firm_id: Uuid, invite_id: Uuid) -> Result<DataKey, InviteError> {
        let subject = subject(firm_id, invite_id);
        let mut keys = self.keyring.make(&[subject], &*self.entropy).await?;
        keys.remove(&subject).ok_or_else(|| InviteError::Vault("a key is damaged".to_owned()))
    }

    /// Waits while another call is sending this invite.
    ///
    /// # Errors
    /// [`InviteError::NotSent`] if it is not finished in time.
    pub(crate) async fn until_finished(
        &self,
        invite_id: Uuid,
        until: Instant,
    ) -> Result<(), InviteError> {
        let mut nudge = self.store.nudge().subscribe();
        while invites::is_open(self.store.pool(), invite_id).await? {
            let look = (Instant::now() + self.patience.look_every).min(until);
            if Instant::now() >= until {
                return Err(InviteError::NotSent);
            }
            // A nudge may be for anything: its end only means that no more come.
            let _ = tokio::time::timeout_at(look, nudge.changed()).await;
        }
        Ok(())
    }
}
