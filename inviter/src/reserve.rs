//! Reserves an invite: the day, the quota and the written mail, in one transaction.

use domain::event::{EventContext, Quota};
use domain::form::FormStatus;
use domain::invite::{Invite, InviteCommand, InviteEvent, InviteOf, InviteRejection};
use eventstore::{AppendError, NewEvent, load_aggregate, retry_conflicts};
use mailer::Mail;
use projector::{firms, forms, invite_tries, invites, people};
use sqlx::PgConnection;
use tokio::time::{Instant, sleep_until};
use uuid::Uuid;
use vault::{DataKey, KeySubject, mails};

use crate::outcome::InviteSkip;
use crate::settings::{InviteError, Inviter};

/// The result of a reservation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReserveOutcome {
    /// This call has reserved the day, and must send and record.
    Now,
    /// No mail is to be sent.
    Skipped(InviteSkip),
}

impl Inviter {
    /// Reserves the day for a form and a person.
    ///
    /// # Errors
    /// [`InviteError::BeingSent`] while another call has the reservation.
    pub(crate) async fn reserve_day(
        &self,
        context: &EventContext,
        of: InviteOf,
        mail: &Mail,
    ) -> Result<ReserveOutcome, InviteError> {
        // Each reservation has a data key of its own, so deleting that key harms no other
        // reservation.
        let subject = KeySubject { firm_id: context.firm_id, subject_id: self.entropy.new_id() };
        let attempt = || self.try_reserve(context, of, mail, subject);
        let reserved = retry_conflicts(context.correlation_id, attempt).await;
        if !matches!(reserved, Ok(ReserveOutcome::Now)) {
            self.forget_key(subject).await;
        }
        match reserved {
            Ok(reserved) => Ok(reserved),
            Err(
                InviteError::Append(AppendError::QuotaFull(Quota::Invites))
                | InviteError::TriesUsedUp,
            ) => self.when_quota_full(context, of, mail.email_id).await,
            Err(InviteError::Rejected(why)) => rejection_outcome(why, mail.email_id),
            Err(error) => Err(error),
        }
    }

    /// The answer for a full quota. The append checks the quota before the stream. So a call that
    /// lost a race for this very invite meets the quota first, although the answer must be about
    /// the invite (ruling 11). Therefore the invite is looked up here.
    async fn when_quota_full(
        &self,
        context: &EventContext,
        of: InviteOf,
        invite_id: Uuid,
    ) -> Result<ReserveOutcome, InviteError> {
        let seconds = context.recorded_at.seconds_until_midnight();
        self.reserved_by(of, invite_id).await?.ok_or(InviteError::LimitReached { seconds })
    }

    /// The answer for a day that is already reserved; `None` for a free day.
    ///
    /// # Errors
    /// [`InviteError::BeingSent`] while another call has it.
    pub(crate) async fn reserved_by(
        &self,
        of: InviteOf,
        invite_id: Uuid,
    ) -> Result<Option<ReserveOutcome>, InviteError> {
        let mut connection = self.store.pool().acquire().await?;
        match self.decide_reservation(&mut connection, of, invite_id).await {
            Ok(_) => Ok(None),
            Err(InviteError::Rejected(why)) => rejection_outcome(why, invite_id).map(Some),
            Err(error) => Err(error),
        }
    }

    async fn decide_reservation(
        &self,
        connection: &mut PgConnection,
        of: InviteOf,
        invite_id: Uuid,
    ) -> Result<(i64, Vec<InviteEvent>), InviteError> {
        let upcasters = self.store.upcasters();
        let (invite, last) =
            load_aggregate::<Invite>(connection, &upcasters, &invite_id.to_string()).await?;
        let events = invite.decide(&InviteCommand::Reserve(of)).map_err(InviteError::Rejected)?;
        Ok((last, events))
    }

    /// Reserves in one transaction. The person is read after the stream: if a reservation was given
    /// back, its recorded bounce is then visible too. Form and firm are read again, since this call
    /// may have waited.
    ///
    /// The data key is made after the begin. If the server loses the key by a crash, the commit is
    /// of an earlier life and is refused.
    async fn try_reserve(
        &self,
        context: &EventContext,
        of: InviteOf,
        mail: &Mail,
        subject: KeySubject,
    ) -> Result<ReserveOutcome, InviteError> {
        let mut appending = self.store.begin().await?;
        let key = self.make_key(subject).await?;
        let (last, events) =
            self.decide_reservation(appending.connection(), of, mail.email_id).await?;
        let firm_id = context.firm_id;
        let connection = appending.connection();
        let form = forms::find(&mut *connection, firm_id, of.form_id).await?;
        if form.ok_or(InviteError::NoForm)?.status != FormStatus::Published.name() {
            return Err(InviteError::NotPublished);
        }
        let sender =
            firms::mail_sender(&mut *connection, firm_id).await?.ok_or(InviteError::NoFirm)?;
        let person = people::find(connection, firm_id, of.person_id).await?;
        if let Some(skip) = InviteSkip::new(person, &sender) {
            return Ok(ReserveOutcome::Skipped(skip));
        }
        let stream = mail.email_id.to_string();
        appending.append(NewEvent::number_after(last, &stream, context, events)).await?;
        if !invite_tries::count_try(appending.connection(), firm_id, of.day).await? {
            return Err(InviteError::TriesUsedUp);
        }
        let bytes =
            serde_json::to_vec(mail).map_err(|error| InviteError::Vault(error.to_string()))?;
        let kept = mails::InviteMailKey { invite_id: mail.email_id, subject, key: &key };
        mails::put(appending.connection(), &kept, &bytes, &*self.entropy).await?;
        appending.commit().await?;
        Ok(ReserveOutcome::Now)
    }

    /// Makes the data key. The keyring is another database, so no transaction spans both. A key
    /// without data does no harm.
    async fn make_key(&self, subject: KeySubject) -> Result<DataKey, InviteError> {
        let mut keys = self.keyring.make_keys(&[subject], &*self.entropy).await?;
        keys.remove(&subject).ok_or_else(|| InviteError::Vault("a data key is damaged".to_owned()))
    }

    /// Deletes the data key of a mail that is no longer needed. If this fails, the remaining key
    /// decrypts nothing.
    pub(crate) async fn forget_key(&self, subject: KeySubject) {
        if let Err(error) = self.keyring.forget_keys(&[subject]).await {
            tracing::warn!(%error, "the data key of a mail could not be deleted");
        }
    }

    /// Waits while another call sends this invite.
    ///
    /// # Errors
    /// [`InviteError::NotSent`] if it is not finished in time.
    pub(crate) async fn until_finished(
        &self,
        invite_id: Uuid,
        until: Instant,
    ) -> Result<(), InviteError> {
        loop {
            if Instant::now() >= until {
                return Err(InviteError::NotSent);
            }
            sleep_until(until.min(Instant::now() + self.wait.look_every)).await;
            if !invites::is_open(self.store.pool(), invite_id).await? {
                return Ok(());
            }
        }
    }
}

fn rejection_outcome(why: InviteRejection, invite_id: Uuid) -> Result<ReserveOutcome, InviteError> {
    match why {
        InviteRejection::AlreadySent => Ok(ReserveOutcome::Skipped(InviteSkip::AlreadySentToday)),
        InviteRejection::BeingSent => Err(InviteError::BeingSent(invite_id)),
        InviteRejection::NotReserved => Err(InviteError::Rejected(why)),
    }
}
