//! The content of an audit entry: action, subject, reason and evidence. One exhaustive match over
//! all events decides which events have an entry.

use std::str::FromStr;

use serde::Serialize;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::access::sign_in::{SignInEvent, SignInScope};
use crate::access::{AccessTokenEvent, KeyEvent, TokenScope};
use crate::activity::ResponseEvent;
use crate::delivery::replay::ReplayEvent;
use crate::delivery::{DeliveryEvent, PauseEvent, RepairEvent};
use crate::event::Event;
use crate::firm::FirmEvent;
use crate::invite::PersonEvent;
use crate::notice::{NoticeSendingEvent, SentNotice};
use crate::operations::{
    CheckpointSeriesEvent, LateEntryEvent, MaintenanceEvent, ReadingDetails, ReadingEvent,
    ReadingSubject,
};
use crate::subscription::{
    GoneAnswer, RemovalReason, SubscriptionEvent, TargetShown, TargetTestEvent, Trigger,
    shown_target, shown_with_path,
};

/// An actor or an object, by kind and id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct EntryParty {
    /// The kind of actor or object.
    pub kind: &'static str,
    /// The id. `None` for the service itself.
    pub id: Option<String>,
}

/// Defines the actions. An action's word is its variant in snake case.
macro_rules! actions {
    ($($variant:ident = $name:literal: $doc:literal),+ $(,)?) => {
        /// The action of an audit entry.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Action {
            $(#[doc = $doc] $variant,)+
        }

        impl Action {
            /// All actions.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The action's word in the log.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }
        }
    };
}

actions! {
    FirmOpened = "firm_opened": "A firm signed up.",
    FirmChanged = "firm_changed": "Some settings of a firm changed.",
    FirmSuspended = "firm_suspended": "A firm was suspended.",
    FirmResumed = "firm_resumed": "A firm was resumed.",
    FirmClosed = "firm_closed": "A firm was closed for good.",
    MemberJoined = "member_joined": "A member joined.",
    MemberRoleChanged = "member_role_changed": "A member has another role.",
    MemberDisabled = "member_disabled": "A member may not sign in.",
    MemberEnabled = "member_enabled": "A member may sign in again.",
    MemberLeft = "member_left": "A member left.",
    SecretRevealed = "secret_revealed": "The signing secret was shown.",
    SecretRotated = "secret_rotated": "A new signing secret signs.",
    FirmDataDropped = "firm_data_dropped": "The data of a closed firm were dropped.",
    AuditRead = "audit_read": "The audit log was read.",
    AuditExported = "audit_exported": "The audit log was exported.",
    TargetRevealed = "target_revealed": "A target was shown with its path and query.",
    BodyRead = "body_read": "The body of a delivery was shown.",
    AnswerRead = "answer_read": "The answers to a delivery were shown.",
    PersonRead = "person_read": "The deliveries about a person were listed.",
    KeyCreated = "key_created": "An API key was created.",
    KeyRevoked = "key_revoked": "An API key was revoked.",
    HookCreated = "hook_created": "A subscription was created.",
    HookWarned = "hook_warned": "A delivery of a subscription ended with 410.",
    HookRecovered = "hook_recovered": "A delivery succeeded after one that ended with 410.",
    HookRemoved = "hook_removed": "A subscription was removed.",
    HookTested = "hook_tested": "A sample was sent to the target of a subscription.",
    WorkflowStepRetried = "workflow_step_retried": "A failed workflow step began its schedule again.",
    DeliveryReissued = "delivery_reissued": "An ended delivery was reissued.",
    ReplayRequested = "replay_requested": "A replay of ended deliveries was ordered.",
    ReplayPaused = "replay_paused": "A replay was paused.",
    ReplayResumed = "replay_resumed": "A replay was resumed.",
    ReplayStopped = "replay_stopped": "A replay was stopped.",
    ReplayFinished = "replay_finished": "All deliveries of a replay were queued or skipped.",
    DeliveriesPaused = "deliveries_paused": "Deliveries were paused.",
    DeliveriesResumed = "deliveries_resumed": "Paused deliveries were resumed.",
    DeliveriesRepaired = "deliveries_repaired": "Missing deliveries were queued.",
    LateEntryAdded = "late_entry_added": "A missing entry was added at the end of its chain.",
    CheckpointSeriesBegun = "checkpoint_series_begun": "A new series of signed checkpoints began.",
    TokenCreated = "token_created": "A token of the internal API was created.",
    TokenRevoked = "token_revoked": "A token of the internal API was revoked.",
    UserSignedIn = "user_signed_in": "A user of the provider signed in at the console.",
    UserSignedOut = "user_signed_out": "The session of a user of the provider was ended.",
    KeyringRewrapOrdered = "keyring_rewrap_ordered": "Another wrapping key was ordered.",
    RolesMigrationOrdered = "roles_migration_ordered": "Database roles and grants were ordered.",
    RebuildOrdered = "rebuild_ordered": "A rebuild of read models was ordered.",
    BackupOrdered = "backup_ordered": "A backup of both databases was ordered.",
    BackupRestored = "backup_restored": "The databases were restored from a backup.",
    LogRangeDropOrdered = "log_range_drop_ordered": "An archived range of the log was to leave.",
    PersonUnsubscribed = "person_unsubscribed": "A person gets no more mail.",
    PersonBounced = "person_bounced": "Mail to a person came back.",
    PersonRestored = "person_restored": "A person gets mail again.",
    PersonErased = "person_erased": "A person's data was erased.",
    ResponseErased = "response_erased": "A response was erased.",
    ResponsesExpired = "responses_expired": "Responses of a firm expired, and were erased.",
    NoticeSent = "notice_sent": "A notice went to the firm or to the operator.",
}

/// The word names no action.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not an action of the audit log, which are {}", Action::all_names())]
pub struct UnknownAction;

impl Action {
    /// The actions of readings: shown, and taken home.
    pub const READS: [Self; 2] = [Self::AuditRead, Self::AuditExported];

    /// Returns the words of the actions that a list is about. `named` is empty for all. Returns
    /// `None` if the list leaves none out.
    #[must_use]
    pub fn action_words(named: &[Self], without_reads: bool) -> Option<Vec<&'static str>> {
        if named.is_empty() && !without_reads {
            return None;
        }
        let named = if named.is_empty() { Self::ALL } else { named };
        let kept = |action: &&Self| !(without_reads && Self::READS.contains(action));
        Some(named.iter().filter(kept).map(|action| action.name()).collect())
    }

    /// The words of all actions, for a person.
    #[must_use]
    pub fn all_names() -> String {
        Self::ALL.iter().map(|action| action.name()).collect::<Vec<_>>().join(", ")
    }
}

impl FromStr for Action {
    type Err = UnknownAction;

    fn from_str(text: &str) -> Result<Self, UnknownAction> {
        Self::ALL.iter().copied().find(|action| action.name() == text).ok_or(UnknownAction)
    }
}

/// Names of frequent events that never have an audit entry. Nearly all events of the log have one
/// of these names.
pub const UNAUDITED_EVENTS: [&str; 6] = [
    "OccurrenceRecorded",
    "DeliveryQueued",
    "StepQueued",
    "DeliveryReplayed",
    "DeliveryAttempted",
    "DeliveryCancelled",
];

/// The content of an audit entry.
#[derive(Debug, Clone, PartialEq)]
pub struct Deed {
    /// The action.
    pub action: Action,
    /// The object of the action.
    pub subject: EntryParty,
    /// The reason, if the actor could choose one.
    pub reason: Option<String>,
    /// Details that support the entry.
    pub evidence: Value,
}

/// How a subscription was created. Its later events do not repeat these details.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubscriptionOrigin {
    /// The key that created the subscription.
    pub key_id: Uuid,
    /// The trigger of the subscription.
    pub trigger: Trigger,
    /// The URL of the subscription's target.
    pub target_url: String,
    /// The form, or `None` for every form.
    pub form_id: Option<Uuid>,
    /// How entries show the target.
    pub target_shown: TargetShown,
}

impl SubscriptionOrigin {
    /// The origin in a subscription's first event.
    #[must_use]
    pub fn from_event(event: &Event) -> Option<Self> {
        let Event::Subscription(SubscriptionEvent::SubscriptionCreated {
            key_id,
            trigger,
            target_url,
            form_id,
            target_shown,
        }) = event
        else {
            return None;
        };
        Some(Self {
            key_id: *key_id,
            trigger: *trigger,
            target_url: target_url.clone(),
            form_id: *form_id,
            target_shown: *target_shown,
        })
    }

    fn to_evidence(&self) -> Value {
        let target = match self.target_shown {
            TargetShown::WithPath => shown_with_path(&self.target_url),
            TargetShown::Origin => shown_target(&self.target_url),
        };
        json!({
            "key_id": self.key_id, "trigger": self.trigger.key(), "form_id": self.form_id,
            "target": target,
        })
    }
}

/// The subscription whose origin the event's entry needs, if the event lacks that origin.
#[must_use]
pub fn subscription_in<'a>(aggregate_id: &'a str, event: &Event) -> Option<&'a str> {
    let created = matches!(event.event_type(), "SubscriptionCreated");
    (matches!(event, Event::Subscription(_)) && !created).then_some(aggregate_id)
}

impl Deed {
    /// The content of the event's entry, if the event has one.
    #[must_use]
    pub(super) fn from_id(
        id: &str,
        event: &Event,
        subscribed: Option<&SubscriptionOrigin>,
    ) -> Option<Self> {
        match event {
            Event::Firm(event) => Some(of_firm(id, event)),
            Event::Key(event) => Some(of_key(id, event)),
            Event::Subscription(told) => {
                let created = SubscriptionOrigin::from_event(event);
                Some(of_hook(id, told, created.as_ref().or(subscribed)))
            }
            Event::Delivery(event) => of_delivery(id, event),
            Event::Person(event) => Some(of_person(id, event)),
            Event::Response(ResponseEvent::ResponseErased { response_id }) => {
                Some(Self::new(Action::ResponseErased, "response", &response_id.to_string()))
            }
            Event::Response(ResponseEvent::ResponsesExpired { reported_before, response_ids }) => {
                let evidence =
                    json!({"responses": response_ids.len(), "reported_before": reported_before});
                Some(Self::new(Action::ResponsesExpired, "expiry", id).with_evidence(evidence))
            }
            Event::Reading(ReadingEvent::AuditRead(look)) => Some(of_reading(id, look)),
            Event::Replay(event) => Some(of_replay(id, event)),
            Event::Pause(event) => Some(of_pause(id, event)),
            Event::Repair(RepairEvent::DeliveriesRepaired(repaired)) => Some(
                Self::new(Action::DeliveriesRepaired, "repair", id)
                    .with_evidence(json!({"deliveries": repaired.deliveries}))
                    .with_reason(&repaired.reason),
            ),
            Event::LateEntry(LateEntryEvent::LateEntryAdded(of)) => Some(
                Self::new(Action::LateEntryAdded, "event", id)
                    .with_evidence(json!({"position": of.position}))
                    .with_reason(&of.reason),
            ),
            Event::CheckpointSeries(CheckpointSeriesEvent::CheckpointSeriesBegun(beginning)) => {
                Some(
                    Self::new(Action::CheckpointSeriesBegun, "checkpoint_series", id)
                        .with_evidence(json!({"ended": beginning.ended}))
                        .with_reason(&beginning.reason),
                )
            }
            Event::AccessToken(event) => Some(of_token(id, event)),
            Event::Maintenance(event) => Some(of_maintenance(id, event)),
            Event::TargetTest(TargetTestEvent::TargetTestOrdered(test)) => Some(
                Self::new(Action::HookTested, "hook", &test.hook_id.to_string())
                    .with_evidence(json!({"trigger": test.trigger.key(), "sample_id": id}))
                    .with_reason(&test.reason),
            ),
            Event::SignIn(event) => Some(of_sign_in(id, event)),
            Event::NoticeSending(NoticeSendingEvent::NoticeSent(sent)) => Some(of_notice(sent)),
            // Work of respondents and recipients is history and not a matter of rights.
            Event::Form(_) | Event::Occurrence(_) | Event::Invite(_) => None,
        }
    }

    fn new(action: Action, kind: &'static str, id: &str) -> Self {
        let subject = EntryParty { kind, id: Some(id.to_owned()) };
        Self { action, subject, reason: None, evidence: json!({}) }
    }

    fn with_reason(self, reason: impl Serialize) -> Self {
        let reason =
            serde_json::to_value(reason).ok().and_then(|word| word.as_str().map(Into::into));
        Self { reason, ..self }
    }

    fn with_evidence(self, evidence: Value) -> Self {
        Self { evidence, ..self }
    }
}

fn of_firm(id: &str, event: &FirmEvent) -> Deed {
    let firm = |action| Deed::new(action, "firm", id);
    let member = |action, member_id: &Uuid| Deed::new(action, "member", &member_id.to_string());
    match event {
        FirmEvent::FirmOpened { plan, .. } => {
            firm(Action::FirmOpened).with_evidence(json!({"leads_in_full": plan.leads_in_full}))
        }
        FirmEvent::FirmChanged { name, plan, brand, invites_enabled, .. } => {
            firm(Action::FirmChanged).with_evidence(json!({
                "name": name.is_some(), "brand": brand.is_some(),
                "leads_in_full": plan.map(|plan| plan.leads_in_full),
                "invites_enabled": invites_enabled,
            }))
        }
        FirmEvent::FirmNoticesChanged { notices, .. } => {
            firm(Action::FirmChanged).with_evidence(json!({"notices": notices}))
        }
        FirmEvent::FirmSuspended { .. } => firm(Action::FirmSuspended),
        FirmEvent::FirmResumed { .. } => firm(Action::FirmResumed),
        FirmEvent::FirmClosed { .. } => firm(Action::FirmClosed),
        FirmEvent::MemberJoined { member_id, role, .. } => {
            member(Action::MemberJoined, member_id).with_evidence(json!({"role": role}))
        }
        FirmEvent::MemberRoleChanged { member_id, role, .. } => {
            member(Action::MemberRoleChanged, member_id).with_evidence(json!({"role": role}))
        }
        FirmEvent::MemberDisabled { member_id, .. } => member(Action::MemberDisabled, member_id),
        FirmEvent::MemberEnabled { member_id, .. } => member(Action::MemberEnabled, member_id),
        FirmEvent::MemberLeft { member_id, .. } => member(Action::MemberLeft, member_id),
        FirmEvent::SecretRevealed {} => firm(Action::SecretRevealed),
        FirmEvent::SecretRotated { reason } => firm(Action::SecretRotated).with_reason(reason),
        FirmEvent::FirmDataDropped {} => firm(Action::FirmDataDropped),
    }
}

/// The entry belongs to the subscription, the key or the firm that the notice is about.
fn of_notice(sent: &SentNotice) -> Deed {
    let kind = match sent.subject_kind.as_str() {
        "key" => "key",
        "firm" => "firm",
        _ => "hook",
    };
    Deed::new(Action::NoticeSent, kind, &sent.subject_id.to_string()).with_evidence(json!({
        "channel": sent.channel, "kind": sent.kind, "notice_id": sent.notice_id, "to": sent.to,
    }))
}

fn of_token(id: &str, event: &AccessTokenEvent) -> Deed {
    let token = |action| Deed::new(action, "token", id);
    match event {
        AccessTokenEvent::TokenCreated(TokenScope { name, role, expires_at, firm_ids }) => {
            token(Action::TokenCreated).with_evidence(json!({
                "name": name, "role": role, "expires_at": expires_at, "firm_ids": firm_ids,
            }))
        }
        AccessTokenEvent::TokenRevoked {} => token(Action::TokenRevoked),
    }
}

fn of_sign_in(id: &str, event: &SignInEvent) -> Deed {
    let sign_in = |action| Deed::new(action, "sign_in", id);
    match event {
        SignInEvent::UserSignedIn(scope) => {
            let SignInScope { user_id, issuer, subject, name, role, firm_ids, ends_at } = scope;
            sign_in(Action::UserSignedIn).with_evidence(json!({
                "user_id": user_id, "issuer": issuer, "subject": subject, "name": name,
                "role": role, "firm_ids": firm_ids, "ends_at": ends_at,
            }))
        }
        SignInEvent::UserSignedOut { reason } => sign_in(Action::UserSignedOut).with_reason(reason),
    }
}

fn of_maintenance(id: &str, event: &MaintenanceEvent) -> Deed {
    let maintenance = |action| Deed::new(action, "maintenance", id);
    match event {
        MaintenanceEvent::KeyringRewrapOrdered {} => maintenance(Action::KeyringRewrapOrdered),
        MaintenanceEvent::RolesMigrationOrdered { prefix } => {
            maintenance(Action::RolesMigrationOrdered).with_evidence(json!({"prefix": prefix}))
        }
        MaintenanceEvent::RebuildOrdered { models } => {
            maintenance(Action::RebuildOrdered).with_evidence(json!({"models": models}))
        }
        MaintenanceEvent::BackupOrdered { with_keys } => {
            maintenance(Action::BackupOrdered).with_evidence(json!({"with_keys": with_keys}))
        }
        MaintenanceEvent::BackupRestored { taken_at, position } => {
            let of = json!({"taken_at": taken_at, "position": position});
            maintenance(Action::BackupRestored).with_evidence(of)
        }
        MaintenanceEvent::LogRangeDropOrdered { number, last_position, manifest } => {
            let of = json!({
                "number": number, "last_position": last_position, "manifest": manifest,
            });
            maintenance(Action::LogRangeDropOrdered).with_evidence(of)
        }
    }
}

fn of_reading(id: &str, look: &ReadingDetails) -> Deed {
    let action = match look.what {
        ReadingSubject::Target => Action::TargetRevealed,
        ReadingSubject::Body => Action::BodyRead,
        ReadingSubject::Answer => Action::AnswerRead,
        ReadingSubject::Person => Action::PersonRead,
        _ if look.how.leaves_service() => Action::AuditExported,
        _ => Action::AuditRead,
    };
    let evidence = json!(ReadingDetails { reason: None, ..look.clone() });
    Deed::new(action, "reading", id).with_evidence(evidence).with_reason(&look.reason)
}

fn of_key(id: &str, event: &KeyEvent) -> Deed {
    match event {
        KeyEvent::KeyCreated { member_id, name, prefix, .. } => {
            Deed::new(Action::KeyCreated, "key", id)
                .with_evidence(json!({"member_id": member_id, "name": name, "prefix": prefix}))
        }
        KeyEvent::KeyRevoked { reason } => {
            Deed::new(Action::KeyRevoked, "key", id).with_reason(reason)
        }
    }
}

fn of_hook(id: &str, event: &SubscriptionEvent, subscribed: Option<&SubscriptionOrigin>) -> Deed {
    let hook = |action, answers: Value| {
        let mut evidence = subscribed.map_or_else(|| json!({}), SubscriptionOrigin::to_evidence);
        if !answers.is_null() {
            evidence["deliveries"] = answers;
        }
        Deed::new(action, "hook", id).with_evidence(evidence)
    };
    match event {
        SubscriptionEvent::SubscriptionCreated { .. } => hook(Action::HookCreated, Value::Null),
        SubscriptionEvent::TargetGone(answer) => {
            hook(Action::HookWarned, json!([gone_evidence(answer)]))
        }
        SubscriptionEvent::TargetAnswered { delivery_id } => {
            hook(Action::HookRecovered, json!([{"delivery_id": delivery_id}]))
        }
        SubscriptionEvent::SubscriptionRemoved { reason, evidence } => {
            let answers: Vec<Value> = evidence.iter().map(gone_evidence).collect();
            let decided_by_answers = *reason == RemovalReason::TargetGone;
            let answers = if decided_by_answers { answers.into() } else { Value::Null };
            hook(Action::HookRemoved, answers).with_reason(reason)
        }
    }
}

fn gone_evidence(answer: &GoneAnswer) -> Value {
    json!({
        "delivery_id": answer.delivery_id, "status": answer.status,
        "finished_at": answer.finished_at,
    })
}

fn of_delivery(id: &str, event: &DeliveryEvent) -> Option<Deed> {
    match event {
        DeliveryEvent::StepRetried(retried) => {
            let step = retried.order.step;
            let evidence =
                json!({"run_id": step.run_id, "step_id": step.step_id, "tries": retried.tries});
            Some(Deed::new(Action::WorkflowStepRetried, "delivery", id).with_evidence(evidence))
        }
        DeliveryEvent::DeliveryReissued(reissued) => {
            let evidence = json!({
                "reissue_of": reissued.reissue_of, "request_id": reissued.request_id,
                "hook_id": reissued.consignment.hook_id,
                "occurrence_id": reissued.consignment.occurrence_id,
            });
            let deed = Deed::new(Action::DeliveryReissued, "delivery", id).with_evidence(evidence);
            Some(deed.with_reason(&reissued.reason))
        }
        // The service does these by rule, so history has them and the audit log does not.
        DeliveryEvent::DeliveryQueued(_)
        | DeliveryEvent::StepQueued(_)
        | DeliveryEvent::DeliveryReplayed(_)
        | DeliveryEvent::DeliveryAttempted(_)
        | DeliveryEvent::DeliveryCancelled { .. } => None,
    }
}

fn of_replay(id: &str, event: &ReplayEvent) -> Deed {
    let replay = |action| Deed::new(action, "replay", id);
    match event {
        ReplayEvent::ReplayRequested(order) => replay(Action::ReplayRequested)
            .with_evidence(json!({
                "selection": order.selection, "force": order.force,
                "rate_per_second": order.rate_per_second, "selected": order.selected,
            }))
            .with_reason(&order.reason),
        ReplayEvent::ReplayPaused {} => replay(Action::ReplayPaused),
        ReplayEvent::ReplayResumed {} => replay(Action::ReplayResumed),
        ReplayEvent::ReplayStopped { reason } => {
            replay(Action::ReplayStopped).with_reason(reason.as_ref())
        }
        ReplayEvent::ReplayFinished { queued, skipped } => replay(Action::ReplayFinished)
            .with_evidence(json!({"queued": queued, "skipped": skipped})),
    }
}

fn of_pause(id: &str, event: &PauseEvent) -> Deed {
    let (action, scope, reason) = match event {
        PauseEvent::DeliveriesPaused { scope, reason } => {
            (Action::DeliveriesPaused, scope, Some(reason))
        }
        PauseEvent::DeliveriesResumed { scope, reason } => {
            (Action::DeliveriesResumed, scope, reason.as_ref())
        }
    };
    Deed::new(action, "pause", id).with_evidence(json!({"scope": scope})).with_reason(reason)
}

fn of_person(id: &str, event: &PersonEvent) -> Deed {
    let action = match event {
        PersonEvent::AddressUnsubscribed { .. } => Action::PersonUnsubscribed,
        PersonEvent::AddressBounced { .. } => Action::PersonBounced,
        PersonEvent::AddressRestored { .. } => Action::PersonRestored,
        PersonEvent::PersonErased { .. } => Action::PersonErased,
    };
    Deed::new(action, "person", id)
}
