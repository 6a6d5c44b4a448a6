//! Notices, from the raised row to the mail and to the queued call of the operator's URL (ruling
//! 49).
//!
//! [`NoticeWorker`] first queues new notices in the outbox, where they are retried like deliveries,
//! so that they never wait for a mail server. Then it hands some mails to the mail server at once.
//! A row goes when its mail is finished. A process that dies in between leaves the row, and another
//! one takes it two minutes later: the mail has the same Message-ID.
//!
//! `domain` decides when a notice is due, `projector` raises it, `mailer` writes the mail, and
//! `deliverer` sends the call.

use std::time::Duration;

use chrono::{DateTime, Utc};
use deliverer::TimeScale;
use deliverer::outbox::notices as outbox;
use deliverer::outbox::notices::NoticeToQueue;
use domain::delivery::RetrySchedule;
use domain::event::{Actor, EventContext};
use domain::notice::{
    Notice, NoticeChannel, NoticeFacts, NoticeSendingEvent, QueuedNotice, SentNotice,
};
use domain::values::{EmailAddress, Timestamp};
use eventstore::worker::{NextStep, WakeOn, Worker};
use eventstore::{AppendError, Clock, NewEvent, Store, crash};
use futures::future::join_all;
use mailer::{MailOutcome, Mailer, NoTurn, NoticeContent, SenderAddress, compose_notice};
use projector::firms::{self, NoticeReader};
use projector::notices::{self, OpenNotice};
use sqlx::types::Json;
use telemetry::metrics::NOTICES;
use uuid::Uuid;
use vault::{IdentityKey, Keyring, secrets};

/// The placeholder of the firm's id in the link.
const FIRM_PLACEHOLDER: &str = "{firm}";

/// Mails that a worker hands over at once: half the turns of the mailer.
const MAILS_AT_ONCE: i64 = 8;

/// The longest wait for a turn of the mail server.
const TURN_WAIT: Duration = Duration::from_secs(10);

/// Notices that one step queues, so that mails follow soon.
const QUEUED_AT_ONCE: i64 = 100;

/// The parts that notifying uses. Clones share all parts.
#[derive(Clone)]
pub struct Notifier {
    /// The log, and the pool of the main database.
    pub store: Store,
    /// The keys, which open the firms' addresses.
    pub keyring: Keyring,
    /// The identity key, which hashes recipients.
    pub identity: IdentityKey,
    /// The clock.
    pub clock: Clock,
    /// The mailer.
    pub mailer: Mailer,
    /// The address that sends the mails.
    pub sender: SenderAddress,
    /// The factor by which waits are shortened, in the demo and in tests.
    pub scale: TimeScale,
    /// The addresses of the installation.
    pub places: NoticePlaces,
}

/// The addresses that an installation sets for notices.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NoticePlaces {
    /// The source of CloudEvents: the URL of the public API.
    pub source: String,
    /// The operator's URL, if there is one.
    pub operator: Option<String>,
    /// The integrations screen of the product. `{firm}` stands for the firm's id.
    pub screen: Option<String>,
}

/// The outcome of a notice's mail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MailEnd {
    Sent,
    Refused,
    GivenUp,
    SwitchedOff,
    NoAddress,
    NoServer,
}

impl MailEnd {
    const fn name(self) -> &'static str {
        match self {
            Self::Sent => "sent",
            Self::Refused => "refused",
            Self::GivenUp => "given_up",
            Self::SwitchedOff => "switched_off",
            Self::NoAddress => "no_address",
            Self::NoServer => "no_server",
        }
    }
}

/// The worker. It runs in processes with doors, because they have the mail server.
pub struct NoticeWorker(Notifier);

impl NoticeWorker {
    /// A worker of these notices.
    #[must_use]
    pub const fn new(notifier: Notifier) -> Self {
        Self(notifier)
    }
}

impl Worker for NoticeWorker {
    const NAME: &'static str = "notices";
    const WAKES: WakeOn = WakeOn::Timer;
    const FIRST_DUE: Option<&'static str> = Some("select min(due_at) from notices");
    type Error = AppendError;

    async fn step(&mut self) -> Result<NextStep, AppendError> {
        let Self(notifier) = self;
        if notifier.clock.fault().is_some() {
            return Ok(NextStep::HELD_UP);
        }
        let now = notifier.clock.now();
        let queued = notifier.queue_new(now).await?;
        let taken = notices::take_due(notifier.store.pool(), now.get(), MAILS_AT_ONCE).await?;
        if queued == 0 && taken.is_empty() {
            return Ok(NextStep::IDLE);
        }
        // All hand-overs run to their end: a mail that the server took must be recorded, whatever
        // happens to another one.
        let mailed = join_all(taken.iter().map(|open| notifier.mail_one(open, now))).await;
        mailed.into_iter().collect::<Result<(), _>>()?;
        Ok(NextStep::Busy)
    }
}

impl Notifier {
    /// Queues the notices that are not queued yet, if the operator has a URL. Returns their number.
    async fn queue_new(&self, now: Timestamp) -> Result<usize, AppendError> {
        let Some(url) = self.places.operator.as_deref() else {
            return Ok(0);
        };
        let new = notices::not_queued(self.store.pool(), QUEUED_AT_ONCE).await?;
        for open in &new {
            match self.load_notice(open).await? {
                Some(notice) => self.queue_notice(&notice, url, now).await?,
                None => self.finish_notice(open, None, now).await?,
            }
            crash::point("notice_queued");
        }
        Ok(new.len())
    }

    async fn mail_one(&self, open: &OpenNotice, now: Timestamp) -> Result<(), AppendError> {
        match self.load_notice(open).await? {
            Some(notice) => self.send_mail(open, &notice, now).await,
            None => self.finish_notice(open, None, now).await,
        }
    }

    /// Loads the names of a notice's subscriptions and key. `None` for the notice of a closing that
    /// removed no subscription, since such a notice has nothing to say.
    async fn load_notice(&self, open: &OpenNotice) -> Result<Option<Notice>, AppendError> {
        let OpenNotice { firm_id, facts: Json(facts), .. } = open;
        let mut connection = self.store.pool().acquire().await?;
        let hooks = notices::named_hooks(&mut connection, *firm_id, facts).await?;
        if hooks.is_empty() && facts.is_of_closed_firm() {
            return Ok(None);
        }
        let key = notices::notice_key(&mut connection, facts).await?;
        let screen = self.places.screen.as_ref();
        let link = screen.map(|url| url.replace(FIRM_PLACEHOLDER, &firm_id.to_string()));
        Ok(Some(Notice { firm_id: *firm_id, facts: facts.clone(), hooks, key, link }))
    }

    /// Puts the notice into the outbox, once.
    async fn queue_notice(
        &self,
        notice: &Notice,
        url: &str,
        now: Timestamp,
    ) -> Result<(), AppendError> {
        let firm_id = notice.firm_id;
        let to_record = self.sent_notice(firm_id, &notice.facts, NoticeChannel::Operator, url);
        let body = notice.cloud_event(&self.places.source);
        let queued = QueuedNotice { firm_id, sent: to_record, body };
        let mut appending = self.store.begin().await?;
        let connection = appending.connection();
        if notices::note_queued(connection, queued.sent.notice_id).await? {
            let of = NoticeToQueue { url, notice: &queued };
            outbox::queue_notice(connection, of, now.get()).await?;
            appending.deliveries_wait();
        }
        appending.commit().await
    }

    async fn send_mail(
        &self,
        open: &OpenNotice,
        notice: &Notice,
        now: Timestamp,
    ) -> Result<(), AppendError> {
        let (reader, to) = match self.find_recipient(notice.firm_id).await? {
            Ok(recipient) => recipient,
            Err(end) => return self.end_unsent(open, end, now).await,
        };
        let mail = compose_notice(&NoticeContent {
            notice,
            firm_name: &reader.name,
            from: &self.sender,
            to: &to,
            lang: reader.notices.lang,
        });
        let outcome = match self.mailer.take_turn(notice.firm_id, TURN_WAIT).await {
            Ok(turn) => turn.send_mail(&mail).await,
            Err(NoTurn::Off) => return self.end_unsent(open, MailEnd::NoServer, now).await,
            // No try was made. The notice is due again two minutes after it was taken.
            Err(NoTurn::Busy) => return Ok(()),
        };
        crash::point("notice_mailed");
        match outcome {
            MailOutcome::Accepted => {
                let address = to.to_string();
                let channel = NoticeChannel::Mail;
                let sent = self.sent_notice(notice.firm_id, &notice.facts, channel, &address);
                NOTICES.count(&[("channel", channel.name()), ("outcome", MailEnd::Sent.name())]);
                self.finish_notice(open, Some(sent), now).await
            }
            MailOutcome::Refused { .. } => self.end_unsent(open, MailEnd::Refused, now).await,
            MailOutcome::Failed(why) => self.put_off_mail(open, &why, now).await,
        }
    }

    /// The firm's settings and address, or the reason why no mail goes.
    async fn find_recipient(
        &self,
        firm_id: Uuid,
    ) -> Result<Result<(NoticeReader, EmailAddress), MailEnd>, AppendError> {
        let mut connection = self.store.pool().acquire().await?;
        let Some(reader) = firms::notice_reader(&mut connection, firm_id).await? else {
            return Ok(Err(MailEnd::NoAddress));
        };
        if !reader.notices.mail {
            return Ok(Err(MailEnd::SwitchedOff));
        }
        let wrapping = self.keyring.wrapping_key();
        let contact = secrets::reply_address(&mut connection, wrapping, firm_id).await?;
        let address = contact.and_then(|text| EmailAddress::read_leniently(&text).ok());
        Ok(address.map(|to| (reader, to)).ok_or(MailEnd::NoAddress))
    }

    /// Puts the mail off like a delivery, and gives it up after the last try.
    async fn put_off_mail(
        &self,
        open: &OpenNotice,
        why: &str,
        now: Timestamp,
    ) -> Result<(), AppendError> {
        let tries = u32::try_from(open.mail_tries).unwrap_or(u32::MAX).saturating_add(1);
        // A mail server sends no `Retry-After`, and only workflow steps have jitter.
        let Some(wait) = RetrySchedule::RestHook.wait_after(tries, None, 0.0) else {
            return self.end_unsent(open, MailEnd::GivenUp, now).await;
        };
        tracing::warn!(notice_id = %open.notice_id, why, "a notice could not be mailed yet");
        NOTICES.count(&[("channel", NoticeChannel::Mail.name()), ("outcome", "retry")]);
        let until: DateTime<Utc> = now.get() + self.scale.scaled_wait(wait);
        Ok(notices::put_off(self.store.pool(), open.notice_id, until).await?)
    }

    /// Ends a notice whose mail does not arrive.
    async fn end_unsent(
        &self,
        open: &OpenNotice,
        end: MailEnd,
        now: Timestamp,
    ) -> Result<(), AppendError> {
        if matches!(end, MailEnd::Refused | MailEnd::GivenUp) {
            let end = end.name();
            tracing::error!(notice_id = %open.notice_id, end, "a notice was not mailed");
        }
        NOTICES.count(&[("channel", NoticeChannel::Mail.name()), ("outcome", end.name())]);
        self.finish_notice(open, None, now).await
    }

    /// Deletes the row. Records that the mail was taken, if it was.
    async fn finish_notice(
        &self,
        open: &OpenNotice,
        sent: Option<SentNotice>,
        now: Timestamp,
    ) -> Result<(), AppendError> {
        let mut appending = self.store.begin().await?;
        let is_first = notices::finish(appending.connection(), open.notice_id).await?;
        if let Some(sent) = sent.filter(|_| is_first) {
            let sending_id = sent.channel.sending_id(sent.notice_id);
            appending
                .append_new(vec![NewEvent {
                    aggregate_id: sending_id.to_string(),
                    sequence: 1,
                    event: NoticeSendingEvent::NoticeSent(sent).into(),
                    context: notice_context(open.firm_id, open.notice_id, now),
                }])
                .await?;
        }
        appending.commit().await
    }

    fn sent_notice(
        &self,
        firm_id: Uuid,
        facts: &NoticeFacts,
        channel: NoticeChannel,
        to: &str,
    ) -> SentNotice {
        SentNotice {
            channel,
            kind: facts.kind,
            notice_id: facts.notice_id(),
            subject_id: facts.subject_id,
            subject_kind: facts.subject_kind().to_owned(),
            to: hex::encode(self.identity.notice_recipient(firm_id, to)),
        }
    }
}

const fn notice_context(firm_id: Uuid, notice_id: Uuid, now: Timestamp) -> EventContext {
    EventContext {
        firm_id,
        recorded_at: now,
        actor: Actor::System,
        correlation_id: notice_id,
        causation_id: None,
        traceparent: None,
        terminal: None,
    }
}
