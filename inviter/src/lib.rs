//! Form invites, from the reservation of the day to the recorded answer of the mail server
//! (contract, section POST /forms/{id}/send; ruling 11, invites).
//!
//! - [`Inviter::invite`] reserves the day for a form and a person, hands the mail to the mailer,
//!   and records the result. If the caller leaves, the invite goes on in its task. If the database
//!   is away, recording goes on in the background.
//! - [`TakeOver`] is a worker. It finishes invites whose process died in between, with the same
//!   bytes under the same Message-ID.
//!
//! So every reservation ends. No caller gets the answer "already sent" for a mail that will never
//! be sent. The `mailer` crate writes and sends the mail. This crate decides whether a mail is
//! sent, and records the result.

mod outcome;
mod record;
mod reserve;
mod settings;
mod take_over;

use std::panic::resume_unwind;

use domain::event::{Actor, EventContext};
use domain::invite::InviteOf;
use domain::values::{EmailAddress, Lang, Timestamp};
use eventstore::crash;
use mailer::{InviteContent as Letter, Mail, MailOutcome, compose_invite};
use projector::firms::{self, MailSenderRow};
use projector::invites::FINISH_WITHIN;
use projector::people;
use telemetry::metrics::INVITES;
use telemetry::request_id::{self, current_request_id};
use telemetry::trace;
use tokio::time::Instant;
use uuid::Uuid;
use vault::{MailRecipient, secrets};

pub use outcome::{InviteOutcome, InviteSkip};
pub use settings::{InviteError, InviteWait, Inviter};
pub use take_over::TakeOver;

use reserve::ReserveOutcome;

/// An invite as the caller asks for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewInvite {
    /// A published form of the firm.
    pub form_id: Uuid,
    /// The form's title.
    pub form_title: String,
    /// The link to the form.
    pub url: String,
    /// The person's address.
    pub to: EmailAddress,
    /// The name in the greeting.
    pub greeting: Option<String>,
    /// The language of the mail; English by default.
    pub lang: Lang,
    /// A note in the mail.
    pub message: Option<String>,
}

impl Inviter {
    /// Invites a person to a form, in a task of its own. If the call ends early, the task goes on:
    /// a mail that was handed over is recorded.
    ///
    /// # Errors
    /// [`InviteError`]; then the person got nothing, or gets this very mail later.
    pub async fn invite(
        &self,
        firm_id: Uuid,
        actor: Actor,
        new: &NewInvite,
    ) -> Result<InviteOutcome, InviteError> {
        let inviter = self.clone();
        let new = new.clone();
        let traceparent = trace::current_traceparent();
        let invited = async move { inviter.finish_invite(firm_id, actor, &new).await };
        let invited = request_id::with_request_id(
            current_request_id(),
            trace::with_traceparent(traceparent, invited),
        );
        match self.under_way.spawn(invited).await {
            Ok(done) => done,
            Err(error) => match error.try_into_panic() {
                Ok(panic) => resume_unwind(panic),
                Err(_) => Err(InviteError::NotSent),
            },
        }
    }

    /// Waits for the invites under way. A process that stops calls it after its doors are closed.
    pub async fn drain_invites(&self) {
        self.under_way.close();
        self.under_way.wait().await;
    }

    /// While another call sends the same invite, this call waits and then starts again. Meanwhile
    /// the person, the firm or the day may have changed.
    async fn finish_invite(
        &self,
        firm_id: Uuid,
        actor: Actor,
        new: &NewInvite,
    ) -> Result<InviteOutcome, InviteError> {
        let until = Instant::now() + self.wait.max;
        loop {
            let context = self.event_context(firm_id, actor);
            match self.try_invite(&context, new).await {
                Err(InviteError::BeingSent(invite_id)) => {
                    self.until_finished(invite_id, until).await?;
                }
                done => {
                    INVITES.count(&[("outcome", outcome_label(&done))]);
                    return done;
                }
            }
        }
    }

    async fn try_invite(
        &self,
        context: &EventContext,
        new: &NewInvite,
    ) -> Result<InviteOutcome, InviteError> {
        let pool = self.store.pool();
        let firm_id = context.firm_id;
        let sender = firms::mail_sender(pool, firm_id).await?.ok_or(InviteError::NoFirm)?;
        let person_id = self.identity.person_id(firm_id, &new.to);
        let person = people::find(pool, firm_id, person_id).await?;
        if let Some(skip) = InviteSkip::new(person, &sender) {
            return Ok(InviteOutcome::Skipped(skip));
        }
        let day = context.recorded_at.day();
        let of = InviteOf { form_id: new.form_id, person_id, day };
        let mail = self.write_mail(context, of, &sender, new).await?;
        if let Some(ReserveOutcome::Skipped(skip)) = self.reserved_by(of, mail.email_id).await? {
            return Ok(InviteOutcome::Skipped(skip));
        }
        // Nothing is reserved while the call waits for its turn at the mail server.
        let turn = self.mailer.take_turn(firm_id, self.wait.turn_max).await?;
        match self.reserve_day(context, of, &mail).await? {
            ReserveOutcome::Now => {}
            ReserveOutcome::Skipped(skip) => return Ok(InviteOutcome::Skipped(skip)),
        }
        let record_until = Instant::now() + FINISH_WITHIN;
        crash::point("reserved");
        let sent = turn.send_mail(&mail).await;
        crash::point("mailed");
        self.record_in_time(context, of, &sent, record_until).await;
        invite_outcome(&mail, &sent)
    }

    async fn write_mail(
        &self,
        context: &EventContext,
        of: InviteOf,
        sender: &MailSenderRow,
        new: &NewInvite,
    ) -> Result<Mail, InviteError> {
        let firm_id = context.firm_id;
        let mut connection = self.store.pool().acquire().await?;
        let wrapping = self.keyring.wrapping_key();
        let reply_to = secrets::reply_address(&mut connection, wrapping, firm_id).await?;
        let recipient = MailRecipient { firm_id, person_id: of.person_id };
        Ok(compose_invite(&Letter {
            email_id: of.id(firm_id),
            date: context.recorded_at,
            from: &self.sender,
            to: &new.to,
            lang: new.lang,
            firm_name: &sender.name,
            color: sender.brand.color.as_deref(),
            logo_url: sender.brand.logo_url.as_deref(),
            reply_to: reply_to.as_deref(),
            form_title: &new.form_title,
            form_url: &new.url,
            greeting: new.greeting.as_deref(),
            message: new.message.as_deref(),
            unsubscribe_url: &self.unsubscribe_url(recipient, new.lang),
        }))
    }

    /// The unsubscribe link, one per person and firm. The link works without a key.
    fn unsubscribe_url(&self, recipient: MailRecipient, lang: Lang) -> String {
        let link = self.identity.unsubscribe_link(recipient, self.cell);
        format!("{}/unsubscribe/{link}?lang={}", self.public_url, lang.code())
    }

    fn event_context(&self, firm_id: Uuid, actor: Actor) -> EventContext {
        EventContext {
            firm_id,
            recorded_at: self.clock.now(),
            actor,
            correlation_id: self.entropy.new_id(),
            causation_id: None,
            traceparent: trace::current_traceparent(),
            terminal: None,
        }
    }
}

/// The label of the metric for a call's result.
const fn outcome_label(done: &Result<InviteOutcome, InviteError>) -> &'static str {
    match done {
        Ok(InviteOutcome::Sent { .. }) => "sent",
        Ok(InviteOutcome::Skipped(skip)) => skip.reason(),
        Err(InviteError::LimitReached { .. }) => "limit_reached",
        Err(_) => "failed",
    }
}

fn invite_outcome(mail: &Mail, sent: &MailOutcome) -> Result<InviteOutcome, InviteError> {
    match sent {
        MailOutcome::Accepted => Ok(InviteOutcome::Sent { email_id: mail.email_id }),
        MailOutcome::Refused { .. } => Ok(InviteOutcome::Skipped(InviteSkip::Bounced)),
        MailOutcome::Failed(_) => Err(InviteError::NotSent),
    }
}

/// The context of the call, with the service as the actor and a later time.
fn as_system(context: &EventContext, recorded_at: Timestamp) -> EventContext {
    EventContext { actor: Actor::System, recorded_at, ..context.clone() }
}
