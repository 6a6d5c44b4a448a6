//! Calls that make an operation give each of its answers.

use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use eventstore::Clock;
use mailer::{Mailer, SmtpSettings};
use serde_json::{Value, json};
use service::SystemSetup;
use tests::{Answer, Firm, TestDatabase, World, activity};
use uuid::Uuid;

use super::described::{Operation, Outcome};

/// The worlds in which every possible answer can be produced.
pub(super) struct Stage {
    world: World,
    firm: Firm,
    /// A form of the firm that is not published.
    draft: Uuid,
    /// Suspended.
    asleep: Firm,
    /// Has no subscription and no invite of the day left.
    full: Firm,
    /// No mail server takes its mails.
    mute: (World, Firm),
    /// A table is missing.
    broken: (World, Firm),
    /// Its database is out of reach.
    cut_off: (World, Firm),
}

/// A call with an operation's examples.
#[derive(Clone)]
struct Call<'a> {
    world: &'a World,
    key: Option<&'a str>,
    method: String,
    path: String,
    body: Value,
    header_lines: usize,
    if_none_match: Option<&'static str>,
    idempotency_key: Option<&'static str>,
}

impl Stage {
    pub(super) async fn new() -> Self {
        let world = World::new().await;
        let (firm, asleep, full) = (world.firm().await, world.firm().await, world.firm().await);
        world.suspend_firm(&asleep).await;
        world.set_quota(&full, "hooks", "-infinity", 100).await;
        world.set_quota(&full, "invites", "2026-11-01", 300).await;
        let draft = draft(&world, &firm).await;
        let broken = with_firm(World::new().await).await;
        broken.0.change_database("drop table key_auth cascade").await;
        let cut_off = with_firm(World::new().await).await;
        cut_off.0.service().store.connections().close().await;
        Self {
            world,
            firm,
            draft,
            asleep,
            full,
            mute: with_firm(mute().await).await,
            broken,
            cut_off,
        }
    }

    /// Makes an operation give this outcome. `None` if no way is known.
    pub(super) async fn drive(&self, operation: &Operation, outcome: &Outcome) -> Option<Answer> {
        // Each call begins with a full rate, or with a spent one.
        if outcome.is_rate_limited() {
            self.spend().await;
        } else {
            self.world.pass(Duration::from_secs(60));
        }
        let mut call = self.call(operation).await;
        match (outcome.status, outcome.code.as_str()) {
            (200..300, "") => {}
            (304, "") => call.if_none_match = Some("*"),
            (400, "invalid_request") => call.body = json!([]),
            (400, "unknown_trigger") => call.body["trigger"] = json!("no_such_trigger"),
            (400, "invalid_target") => call.body["target_url"] = json!("https://10.0.0.1/"),
            (401, "unauthorized") => call.key = None,
            (403, "firm_inactive") => call.key = Some(&self.asleep.key),
            (404, "not_found") => call.path = operation.at(|_| self.world.id().to_string()),
            (404, "form_not_found") => self.name_no_form(operation, &mut call),
            (404, "unknown_trigger") => call.path = operation.at(|_| "no_such_trigger".to_owned()),
            (405, "invalid_request") => call.method = "PATCH".to_owned(),
            (409, "idempotency_conflict") => {
                call.idempotency_key = Some("drive");
                let mut first = call.clone();
                first.body["trigger"] = json!("lead_hot");
                assert_eq!(first.make().await.status, 201);
            }
            (409, "too_many_hooks") => call.key = Some(&self.full.key),
            (409, "form_not_published") => call.path = operation.at(|_| self.draft.to_string()),
            (413, "invalid_request") => call.body["x"] = json!("x".repeat(64 << 10)),
            (429, "rate_limited") => call.key = Some(&self.asleep.key),
            (429, "invite_limit_reached") => {
                call.key = Some(&self.full.key);
                call.path = operation.at(|_| self.full.form.to_string());
            }
            (431, "invalid_request") => call.header_lines = 101,
            (500, "internal_error") => call.go_to(&self.broken),
            (502, "send_failed") => {
                call.go_to(&self.mute);
                call.path = operation.at(|_| self.mute.1.form.to_string());
            }
            (503, "unavailable") => call.go_to(&self.cut_off),
            _ => return None,
        }
        Some(call.make().await)
    }

    /// The operation's example, with ids of the firm.
    async fn call(&self, operation: &Operation) -> Call<'_> {
        let id = match operation.id() {
            "deleteHook" => self.hook().await,
            _ => self.firm.form,
        };
        let path = operation.at(|name| match name {
            "id" => id.to_string(),
            _ => "form_submitted".to_owned(),
        });
        Call {
            world: &self.world,
            key: Some(&self.firm.key),
            method: operation.method.clone(),
            path,
            body: operation.body(),
            header_lines: 0,
            if_none_match: None,
            idempotency_key: None,
        }
    }

    async fn hook(&self) -> Uuid {
        self.world.subscribe(&self.firm, "https://hooks.example.com/catch").await
    }

    /// Puts an unknown form id wherever the operation takes a form id.
    fn name_no_form(&self, operation: &Operation, call: &mut Call<'_>) {
        let id = self.world.id().to_string();
        match operation.id() {
            "createHook" => call.body["form_id"] = json!(id),
            "getSample" => call.path += &format!("?form_id={id}"),
            _ => call.path = operation.at(|_| id.clone()),
        }
    }

    /// Uses up the rate of a suspended firm's key. The rate is checked before the firm.
    async fn spend(&self) {
        for _ in 0..=120 {
            if self.world.get(&self.asleep, "/me").await.status == 429 {
                return;
            }
        }
        panic!("the rate of a key has no end");
    }
}

impl<'a> Call<'a> {
    fn go_to(&mut self, (world, firm): &'a (World, Firm)) {
        self.world = world;
        self.key = Some(&firm.key);
    }

    async fn make(self) -> Answer {
        let path = format!("/api/v1{}", self.path);
        let mut request = Request::builder().method(self.method.as_str()).uri(path);
        if let Some(key) = self.key {
            request = request.header("x-api-key", key);
        }
        if let Some(tag) = self.if_none_match {
            request = request.header("if-none-match", tag);
        }
        if let Some(key) = self.idempotency_key {
            request = request.header("idempotency-key", key);
        }
        for _ in 0..self.header_lines {
            request = request.header("x-test", "x");
        }
        let body =
            if self.body.is_null() { Body::empty() } else { Body::from(self.body.to_string()) };
        self.world.public(request.body(body).unwrap()).await
    }
}

async fn with_firm(world: World) -> (World, Firm) {
    let firm = world.firm().await;
    (world, firm)
}

/// A world whose mail server does not answer.
async fn mute() -> World {
    let nowhere = "smtp://127.0.0.1:1?tls=none".parse().unwrap();
    let mailer = Mailer::over_smtp(&nowhere, &SmtpSettings::default()).unwrap();
    let clock = Clock::standing_at("2026-11-01T12:00:00.000Z".parse().unwrap());
    World::with(TestDatabase::new().await, clock, |setup| SystemSetup { mailer, ..setup }).await
}

async fn draft(world: &World, firm: &Firm) -> Uuid {
    let form_id = world.id();
    let data = json!({
        "form_id": form_id, "title": "Draft", "slug": "draft", "status": "draft",
        "url": "https://forms.test/f/draft", "hidden_fields": [],
        "created_at": "2026-10-01T09:30:00.000Z",
    });
    world.report_one(activity(firm.id, "form.created", data)).await;
    form_id
}
