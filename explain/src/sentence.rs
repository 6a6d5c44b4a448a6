//! Events as sentences, for operators and auditors. A sentence has what the audit log has: ids,
//! labels of keys, masked targets, reasons, and names of operators and auditors. It holds no
//! personal data of a respondent.

use domain::access::sign_in::{SignInEvent, SignInScope};
use domain::access::{AccessTokenEvent, HolderRole, KeyEvent, RevocationReason, TokenScope};
use domain::activity::{Happening, OccurrenceEvent, ResponseEvent};
use domain::delivery::replay::ReplayEvent;
use domain::delivery::{
    Attempt, CancelCause, DeliveryEvent, LateEffect, Outcome, PauseEvent, RepairEvent,
};
use domain::event::{Actor, Event, EventWords, KeyName, NameBook};
use domain::firm::{FirmEvent, MemberRole};
use domain::form::FormEvent;
use domain::invite::{InviteEvent, InviteOf, PersonEvent};
use domain::notice::{NoticeChannel, NoticeSendingEvent, SentNotice};
use domain::operations::{
    CheckpointSeriesEvent, LateEntryEvent, MaintenanceEvent, ReadingEvent, ReadingSubject,
};
use domain::subscription::{
    GoneAnswer, RemovalReason, SubscriptionEvent, TargetTestEvent, shown_target,
};
use uuid::Uuid;

use crate::commands::where_to_look;

/// The sentences and nouns of this crate.
#[derive(Debug, Clone, Copy)]
pub struct EventSentences;

impl EventWords for EventSentences {
    fn event_sentence(&self, names: &NameBook, id: &str, event: &Event) -> String {
        EventTeller(names).tell_event(id, event)
    }

    fn actor_noun(&self, names: &NameBook, actor: Actor) -> String {
        EventTeller(names).actor_noun(actor)
    }

    fn second_gone(&self, gone: &GoneAnswer) -> String {
        format!(
            "delivery {} ended with {} at {}, the second one in a row",
            gone.delivery_id, gone.status, gone.finished_at
        )
    }

    fn commands_about(&self, kind: &str, id: &str, firm_id: Option<Uuid>) -> Vec<String> {
        where_to_look(kind, id, firm_id)
    }
}

/// Tells events with the names of keys, tokens and users.
struct EventTeller<'a>(&'a NameBook);

impl EventTeller<'_> {
    /// A key, as a noun.
    fn key_noun(&self, key_id: Uuid) -> String {
        match self.0.keys.get(&key_id) {
            Some(KeyName { name, prefix }) => format!("the key \"{name}\" ({prefix}…)"),
            None => format!("the key {key_id}"),
        }
    }

    /// An actor, as a noun.
    fn actor_noun(&self, actor: Actor) -> String {
        match actor {
            Actor::Key(id) => self.key_noun(id),
            Actor::Member(id) => format!("member {id}"),
            Actor::NamedOperator(name) => format!("operator {name}"),
            Actor::Operator(id) if id.is_nil() => "an operator at a terminal".to_owned(),
            Actor::Operator(id) => self.holder_noun("operator", id),
            Actor::Auditor(id) => self.holder_noun("auditor", id),
            Actor::Product(id) if id.is_nil() => "the product, in a file".to_owned(),
            Actor::Product(id) => format!("the product with {}", self.token_noun(id)),
            Actor::Receiver(_) => "the receiver, by its answer".to_owned(),
            Actor::Person(_) => "the recipient of a mail".to_owned(),
            Actor::System => "the service".to_owned(),
        }
    }

    /// The user of the provider, or the holder of the token.
    fn holder_noun(&self, role: &str, id: Uuid) -> String {
        match self.0.users.get(&id) {
            Some(name) => format!("{role} \"{name}\" of the provider"),
            None => format!("an {role} with {}", self.token_noun(id)),
        }
    }

    fn token_noun(&self, id: Uuid) -> String {
        match self.0.tokens.get(&id) {
            Some(name) => format!("the token \"{name}\""),
            None => format!("the token {id}"),
        }
    }

    /// Tells an event of the stream `id`.
    fn tell_event(&self, id: &str, event: &Event) -> String {
        match event {
            Event::Firm(event) => of_firm(event),
            Event::Form(event) => of_form(id, event),
            Event::Key(event) => self.of_key(id, event),
            Event::Subscription(event) => self.of_hook(id, event),
            Event::Occurrence(OccurrenceEvent::OccurrenceRecorded(of)) => of_occurrence(of),
            Event::Delivery(event) => of_delivery(id, event),
            Event::Invite(event) => of_invite(id, event),
            Event::Person(event) => of_person(id, *event),
            Event::Response(ResponseEvent::ResponseErased { response_id }) => {
                format!("response {response_id} was erased")
            }
            Event::Response(ResponseEvent::ResponsesExpired { reported_before, response_ids }) => {
                let count = u64::try_from(response_ids.len()).unwrap_or(u64::MAX);
                let responses = counted_noun(count, "response", "responses");
                format!(
                    "{responses} expired, because nobody reported about them since \
                     {reported_before}"
                )
            }
            Event::Reading(ReadingEvent::AuditRead(look)) => {
                format!("somebody read {}", read_subject(look.what))
            }
            Event::Replay(event) => of_replay(id, event),
            Event::Pause(event) => of_pause(event),
            Event::Repair(RepairEvent::DeliveriesRepaired(repaired)) => {
                let deliveries =
                    counted_noun(repaired.deliveries, "missing delivery", "missing deliveries");
                format!("a repair queued {deliveries}, because: {}", repaired.reason)
            }
            Event::LateEntry(LateEntryEvent::LateEntryAdded(of)) => format!(
                "the missing audit entry of position {} was added, because: {}",
                of.position, of.reason
            ),
            Event::CheckpointSeries(CheckpointSeriesEvent::CheckpointSeriesBegun(begun)) => {
                format!("a new series of signed checkpoints began, because: {}", begun.reason)
            }
            Event::AccessToken(event) => of_token(id, event),
            Event::Maintenance(event) => of_maintenance(event),
            Event::SignIn(event) => of_sign_in(event),
            Event::TargetTest(TargetTestEvent::TargetTestOrdered(test)) => format!(
                "a sample was ordered to the target of subscription {}, because: {}",
                test.hook_id, test.reason
            ),
            Event::NoticeSending(NoticeSendingEvent::NoticeSent(sent)) => of_notice(sent),
        }
    }

    fn of_key(&self, id: &str, event: &KeyEvent) -> String {
        match event {
            KeyEvent::KeyCreated { member_id, name, prefix, .. } => {
                format!("the key \"{name}\" ({prefix}…) was made for member {member_id}")
            }
            KeyEvent::KeyRevoked { reason } => {
                let key = self.key_of_stream(id);
                match reason {
                    RevocationReason::Requested => format!("{key} was revoked on request"),
                    RevocationReason::MemberNotManager => {
                        format!("{key} was revoked, because its member may not make keys any more")
                    }
                }
            }
        }
    }

    fn key_of_stream(&self, id: &str) -> String {
        id.parse().map_or_else(|_| format!("the key {id}"), |id| self.key_noun(id))
    }

    fn of_hook(&self, id: &str, event: &SubscriptionEvent) -> String {
        match event {
            SubscriptionEvent::SubscriptionCreated { key_id, trigger, target_url, .. } => format!(
                "subscription {id} of {} to {} was made with {}",
                trigger.key(),
                shown_target(target_url),
                self.key_noun(*key_id)
            ),
            SubscriptionEvent::TargetGone(gone) => format!(
                "delivery {} ended with {} at {}; a second one in a row removes the subscription",
                gone.delivery_id, gone.status, gone.finished_at
            ),
            SubscriptionEvent::TargetAnswered { delivery_id } => {
                format!("delivery {delivery_id} arrived, so the count of 410s began again")
            }
            SubscriptionEvent::SubscriptionRemoved { reason, evidence } => {
                let why = match reason {
                    RemovalReason::DeletedByKey => "deleted by a call with its key".to_owned(),
                    RemovalReason::KeyRevoked => "removed, because its key was revoked".to_owned(),
                    RemovalReason::FirmClosed => "removed, because the firm was closed".to_owned(),
                    RemovalReason::TargetGone => {
                        let both: Vec<String> =
                            evidence.iter().map(|gone| gone.delivery_id.to_string()).collect();
                        let both = both.join(" and ");
                        format!("removed, because two deliveries in a row ended with 410: {both}")
                    }
                };
                format!("subscription {id} was {why}")
            }
        }
    }
}

fn of_notice(sent: &SentNotice) -> String {
    let to = match sent.channel {
        NoticeChannel::Mail => "mailed to the firm",
        NoticeChannel::Operator => "taken by the operator's URL",
    };
    let SentNotice { kind, subject_id, subject_kind, .. } = sent;
    format!("the notice {} of {subject_kind} {subject_id} was {to}", kind.name())
}

fn of_firm(event: &FirmEvent) -> String {
    match event {
        FirmEvent::FirmOpened { .. } => "the firm signed up".to_owned(),
        FirmEvent::FirmChanged { name, plan, brand, invites_enabled, .. } => {
            let parts = [
                name.as_ref().map(|_| "name"),
                plan.as_ref().map(|_| "plan"),
                brand.as_ref().map(|_| "brand"),
                invites_enabled.map(|_| "invites"),
            ];
            let parts: Vec<&str> = parts.into_iter().flatten().collect();
            format!("settings of the firm changed: {}", parts.join(", "))
        }
        FirmEvent::FirmNoticesChanged { .. } => "settings of the firm changed: notices".to_owned(),
        FirmEvent::FirmSuspended { .. } => "the firm was suspended".to_owned(),
        FirmEvent::FirmResumed { .. } => "the firm was resumed".to_owned(),
        FirmEvent::FirmClosed { .. } => "the firm was closed for good".to_owned(),
        FirmEvent::MemberJoined { member_id, role, .. } => {
            format!("member {member_id} joined as {}", role_word(*role))
        }
        FirmEvent::MemberRoleChanged { member_id, role, .. } => {
            format!("member {member_id} got the role {}", role_word(*role))
        }
        FirmEvent::MemberDisabled { member_id, .. } => format!("member {member_id} was disabled"),
        FirmEvent::MemberEnabled { member_id, .. } => format!("member {member_id} was enabled"),
        FirmEvent::MemberLeft { member_id, .. } => format!("member {member_id} left the firm"),
        FirmEvent::SecretRevealed {} => "the signing secret was shown".to_owned(),
        FirmEvent::SecretRotated { reason } => {
            format!("a new signing secret was made{}", reason_clause(reason.as_deref()))
        }
        FirmEvent::FirmDataDropped {} => "the data of the closed firm were dropped".to_owned(),
    }
}

/// The role's word in the API.
const fn role_word(role: MemberRole) -> &'static str {
    match role {
        MemberRole::Owner => "owner",
        MemberRole::Admin => "admin",
        MemberRole::Member => "member",
    }
}

fn of_form(id: &str, event: &FormEvent) -> String {
    let what = match event {
        FormEvent::FormCreated { .. } => "was made",
        FormEvent::FormChanged { .. } => "was changed",
        FormEvent::FormPublished { .. } => "was published",
        FormEvent::FormUnpublished { .. } => "was unpublished",
        FormEvent::FormDeleted { .. } => "was deleted for good",
    };
    format!("form {id} {what}")
}

fn of_occurrence(of: &Happening) -> String {
    let trigger = of.trigger.key();
    let response_id = of.response_id;
    if of.silent {
        return format!("{trigger} happened to response {response_id}, outside the firm's plan");
    }
    let hooks = counted_noun(of.hooks.len() as u64, "subscription", "subscriptions");
    format!("{trigger} happened to response {response_id}, for {hooks}")
}

fn of_delivery(id: &str, event: &DeliveryEvent) -> String {
    match event {
        DeliveryEvent::DeliveryQueued(_) => format!("a repair queued delivery {id}"),
        DeliveryEvent::StepQueued(order) => format!(
            "the product ordered step {} of run {} to {}, as delivery {id}",
            order.step.step_id,
            order.step.run_id,
            order.target.shown()
        ),
        DeliveryEvent::StepRetried(_) => format!("the product ordered delivery {id} again"),
        DeliveryEvent::DeliveryReissued(of) => {
            format!("delivery {id} was reissued from {}, because: {}", of.reissue_of, of.reason)
        }
        DeliveryEvent::DeliveryReplayed(of) => {
            format!("replay {} sent delivery {id} once more", of.replay_id)
        }
        DeliveryEvent::DeliveryAttempted(attempt) => of_attempt(id, attempt),
        DeliveryEvent::DeliveryCancelled { cause, .. } => {
            format!("delivery {id} was cancelled, because {}", cancelled_because(*cause))
        }
    }
}

fn of_attempt(id: &str, attempt: &Attempt) -> String {
    let number = attempt.number;
    let answer = match (attempt.status, &attempt.error) {
        (Some(status), _) => format!("answered {status}"),
        (None, Some(error)) => format!("got no answer ({error})"),
        (None, None) => "got no answer".to_owned(),
    };
    let next = match (attempt.outcome, attempt.cancelled, attempt.late) {
        (_, _, Some(LateEffect::Noted)) => "too late to count".to_owned(),
        (Outcome::Delivered, ..) => "delivered".to_owned(),
        (_, Some(cause), _) => format!("cancelled, because {}", cancelled_because(cause)),
        (_, None, _) => match attempt.next_try_at {
            Some(at) => format!("the next one was due at {at}"),
            None => "failed".to_owned(),
        },
    };
    format!("attempt {number} of delivery {id} {answer}: {next}")
}

/// The cause of a cancellation, as the rest of a sentence.
const fn cancelled_because(cause: CancelCause) -> &'static str {
    match cause {
        CancelCause::SubscriptionDeleted => "its subscription was deleted",
        CancelCause::KeyRevoked => "the key of its subscription was revoked",
        CancelCause::TargetGone => "its target was gone",
        CancelCause::FirmClosed => "the firm was closed",
        CancelCause::FirmSuspended => "the firm stayed suspended for 72 hours",
        CancelCause::SourceErased => "its response was erased",
        CancelCause::FinishedLater => "the response was submitted before the first attempt",
    }
}

fn of_invite(id: &str, event: &InviteEvent) -> String {
    let (InviteOf { form_id, day, .. }, what) = match event {
        InviteEvent::InviteReserved(of) => (of, "was begun"),
        InviteEvent::InviteSent(of) => (of, "was taken by the mail server"),
        InviteEvent::InviteRefused(of) => (of, "was refused by the mail server for good"),
        InviteEvent::InviteReleased(of) => (of, "could not be sent"),
    };
    format!("invite {id} to form {form_id} of {day} {what}")
}

fn of_person(id: &str, event: PersonEvent) -> String {
    match event {
        PersonEvent::AddressUnsubscribed { .. } => format!("person {id} wants no mail any more"),
        PersonEvent::AddressBounced { .. } => format!("mail to person {id} came back"),
        PersonEvent::AddressRestored { .. } => format!("person {id} gets mail again"),
        PersonEvent::PersonErased { .. } => format!("the data of person {id} were erased"),
    }
}

const fn read_subject(subject: ReadingSubject) -> &'static str {
    match subject {
        ReadingSubject::Audit => "the audit log",
        ReadingSubject::Hooks => "the list of subscriptions",
        ReadingSubject::Hook => "the history of a subscription",
        ReadingSubject::Deliveries => "the list of deliveries",
        ReadingSubject::Delivery => "a delivery",
        ReadingSubject::Target => "a whole target",
        ReadingSubject::Key => "the history of a key",
        ReadingSubject::Events => "a stretch of the log",
        ReadingSubject::Access => "the list of members, keys and tokens",
        ReadingSubject::Body => "the body of a delivery",
        ReadingSubject::Answer => "the answer to a delivery",
        ReadingSubject::Person => "the list of deliveries about a person",
        ReadingSubject::Portal => "the first page of the portal",
    }
}

fn of_replay(id: &str, event: &ReplayEvent) -> String {
    match event {
        ReplayEvent::ReplayRequested(order) => {
            let deliveries = counted_noun(order.selected, "delivery", "deliveries");
            format!("replay {id} of {deliveries} was ordered, because: {}", order.reason)
        }
        ReplayEvent::ReplayPaused {} => format!("replay {id} was paused"),
        ReplayEvent::ReplayResumed {} => format!("replay {id} was resumed"),
        ReplayEvent::ReplayStopped { reason } => {
            format!("replay {id} was stopped{}", reason_clause(reason.as_deref()))
        }
        ReplayEvent::ReplayFinished { queued, skipped } => {
            format!("replay {id} finished: {queued} queued, {skipped} skipped")
        }
    }
}

fn of_pause(event: &PauseEvent) -> String {
    match event {
        PauseEvent::DeliveriesPaused { scope, reason } => {
            format!("deliveries were paused ({scope}), because: {reason}")
        }
        PauseEvent::DeliveriesResumed { scope, reason } => {
            format!("deliveries were resumed ({scope}){}", reason_clause(reason.as_deref()))
        }
    }
}

fn of_token(id: &str, event: &AccessTokenEvent) -> String {
    match event {
        AccessTokenEvent::TokenCreated(TokenScope { name, role, expires_at, firm_ids }) => {
            let role = holder_word(*role);
            let reach = firm_ids.as_ref().map_or_else(
                || "all firms".to_owned(),
                |firms| counted_noun(firms.len() as u64, "firm", "firms"),
            );
            let until = expires_at.map_or_else(String::new, |at| format!(", until {at}"));
            format!("token {id} \"{name}\" ({role}) for {reach} was made{until}")
        }
        AccessTokenEvent::TokenRevoked {} => format!("token {id} was revoked"),
    }
}

fn of_sign_in(event: &SignInEvent) -> String {
    match event {
        SignInEvent::UserSignedIn(SignInScope { issuer, subject, name, role, ends_at, .. }) => {
            let role = holder_word(*role);
            format!("{name} ({subject} at {issuer}) signed in as {role}, until {ends_at}")
        }
        SignInEvent::UserSignedOut { reason: None } => {
            "the user of the provider signed out".to_owned()
        }
        SignInEvent::UserSignedOut { reason: Some(reason) } => {
            format!("an operator ended the session of the user: {reason}")
        }
    }
}

const fn holder_word(role: HolderRole) -> &'static str {
    role.name()
}

fn of_maintenance(event: &MaintenanceEvent) -> String {
    match event {
        MaintenanceEvent::KeyringRewrapOrdered {} => "another wrapping key was ordered".to_owned(),
        MaintenanceEvent::RolesMigrationOrdered { prefix } => {
            format!("database roles {prefix}_* were ordered")
        }
        MaintenanceEvent::RebuildOrdered { models } => {
            format!("a rebuild was ordered of {}", models.join(", "))
        }
        MaintenanceEvent::BackupOrdered { with_keys: true } => {
            "a backup with all keys was ordered".to_owned()
        }
        MaintenanceEvent::BackupOrdered { with_keys: false } => {
            "a backup without keys was ordered".to_owned()
        }
        MaintenanceEvent::BackupRestored { taken_at, position } => {
            format!("the databases were restored from a backup of {taken_at}, position {position}")
        }
        MaintenanceEvent::LogRangeDropOrdered { last_position, .. } => {
            format!("the log up to position {last_position} was to leave for the archive")
        }
    }
}

fn reason_clause(reason: Option<&str>) -> String {
    reason.map_or_else(String::new, |reason| format!(", because: {reason}"))
}

/// A number with its noun.
fn counted_noun(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use domain::subscription::Trigger;
    use domain::values::Timestamp;

    use super::*;

    const ID: &str = "00000000-0000-0000-0000-000000000007";
    const KEY: Uuid = Uuid::from_u128(7);
    const USER: Uuid = Uuid::from_u128(77);

    fn at() -> Timestamp {
        "2026-11-01T12:00:00.000Z".parse().unwrap()
    }

    fn names() -> NameBook {
        let key = KeyName { name: "zapier".into(), prefix: "ffk_abcdefgh".into() };
        NameBook {
            keys: HashMap::from([(KEY, key)]),
            tokens: HashMap::from([(KEY, "back end".into())]),
            users: HashMap::from([(USER, "Ann Lee".into())]),
        }
    }

    fn told(event: impl Into<Event>) -> String {
        EventTeller(&names()).tell_event(ID, &event.into())
    }

    /// The sentences name member, key, subscription and delivery.
    #[test]
    fn a_members_leaving_reads_as_sentences() {
        let member_id = Uuid::from_u128(2);
        let left = FirmEvent::MemberLeft { member_id, time: at() };
        assert_eq!(told(left), format!("member {member_id} left the firm"));
        let revoked = KeyEvent::KeyRevoked { reason: RevocationReason::MemberNotManager };
        assert_eq!(
            told(revoked),
            "the key \"zapier\" (ffk_abcdefgh…) was revoked, because its member may not make keys \
             any more"
        );
        let reason = RemovalReason::KeyRevoked;
        let removed = SubscriptionEvent::SubscriptionRemoved { reason, evidence: vec![] };
        assert_eq!(
            told(removed),
            format!("subscription {ID} was removed, because its key was revoked")
        );
        let cause = CancelCause::KeyRevoked;
        let cancelled = DeliveryEvent::DeliveryCancelled { cause, of: None };
        let expected =
            format!("delivery {ID} was cancelled, because the key of its subscription was revoked");
        assert_eq!(told(cancelled), expected);
    }

    /// A creation masks its target.
    #[test]
    fn a_removal_for_410s_names_both_deliveries() {
        let gone =
            |n| GoneAnswer { delivery_id: Uuid::from_u128(n), status: 410, finished_at: at() };
        let reason = RemovalReason::TargetGone;
        let evidence = vec![gone(5), gone(6)];
        let both = [5, 6].map(|n| Uuid::from_u128(n).to_string()).join(" and ");
        let removed = told(SubscriptionEvent::SubscriptionRemoved { reason, evidence });
        assert!(removed.ends_with(&format!("ended with 410: {both}")), "{removed}");
        let created = told(SubscriptionEvent::SubscriptionCreated {
            key_id: KEY,
            trigger: Trigger::FormSubmitted,
            target_url: "https://hooks.example.com/in?token=secret".into(),
            form_id: None,
            target_shown: domain::subscription::TargetShown::Origin,
        });
        assert!(created.contains("https://hooks.example.com/…"), "{created}");
        assert!(!created.contains("secret") && created.contains("\"zapier\""), "{created}");
    }

    #[test]
    fn an_attempt_tells_answer_and_consequence() {
        let attempt = |outcome| Attempt {
            outcome,
            status: Some(503),
            error: None,
            ..Attempt::interrupted(2, at(), at())
        };
        let told = |attempt| told(DeliveryEvent::DeliveryAttempted(attempt));
        let head = format!("attempt 2 of delivery {ID} answered 503: ");
        assert_eq!(told(attempt(Outcome::Failed)), format!("{head}failed"));
        let next_try_at = Some(at());
        let retried = Attempt { next_try_at, ..attempt(Outcome::Retry) };
        assert_eq!(told(retried), format!("{head}the next one was due at {}", at()));
        let cancelled =
            Attempt { cancelled: Some(CancelCause::TargetGone), ..attempt(Outcome::Failed) };
        assert_eq!(told(cancelled), format!("{head}cancelled, because its target was gone"));
        let interrupted = Attempt::interrupted(1, at(), at());
        let expected = format!("attempt 1 of delivery {ID} got no answer (interrupted): failed");
        assert_eq!(told(interrupted), expected);
        let late = Attempt { late: Some(LateEffect::Noted), ..attempt(Outcome::Delivered) };
        assert_eq!(told(late), format!("{head}too late to count"));
    }

    #[test]
    fn a_sentence_holds_no_firms_name() {
        let opened = FirmEvent::FirmOpened {
            name: "Harrow Lane".into(),
            plan: domain::subscription::FirmPlan { leads_in_full: true },
            brand: domain::firm::FirmBrand::default(),
            time: at(),
        };
        assert_eq!(told(opened), "the firm signed up");
    }

    #[test]
    fn actors_are_named_by_label_or_id() {
        let actor = |actor| EventTeller(&names()).actor_noun(actor);
        assert_eq!(actor(Actor::Key(KEY)), "the key \"zapier\" (ffk_abcdefgh…)");
        assert_eq!(actor(Actor::Product(KEY)), "the product with the token \"back end\"");
        let unknown = Uuid::from_u128(9);
        assert_eq!(actor(Actor::Auditor(unknown)), format!("an auditor with the token {unknown}"));
        assert_eq!(actor(Actor::Auditor(USER)), "auditor \"Ann Lee\" of the provider");
        assert_eq!(actor(Actor::Operator(USER)), "operator \"Ann Lee\" of the provider");
        assert_eq!(actor(Actor::NamedOperator("ann".parse().unwrap())), "operator ann");
        assert_eq!(actor(Actor::System), "the service");
    }

    #[test]
    fn numbers_agree_with_their_nouns() {
        assert_eq!(counted_noun(1, "delivery", "deliveries"), "1 delivery");
        assert_eq!(counted_noun(0, "delivery", "deliveries"), "0 deliveries");
    }
}
