//! The console: sessions, pages, commands and attacks, by HTTP; then in a browser.

pub(crate) mod browser;
mod commands;
mod entrance;
mod hostile;
mod identity_provider;
mod pages;
mod provider;
mod reproof;

use std::collections::HashMap;
use std::time::Duration;

use api::commands::tokens::{self, HolderRole};
use axum::body::Body;
use domain::access::TokenScope;
use serde_json::json;
use tests::{Answer, Firm, Receiver, Reply, World, activity, make_request};
use uuid::Uuid;

/// A world with a firm, a subscription, a receiver, and a delivery that arrived.
pub(crate) struct Scene {
    pub(crate) world: World,
    pub(crate) firm: Firm,
    pub(crate) receiver: Receiver,
    pub(crate) hook: Uuid,
}

impl Scene {
    pub(crate) async fn new() -> Self {
        let world = World::new().await;
        let (firm, receiver) = (world.firm().await, Receiver::start().await);
        let hook = world.subscribe(&firm, &receiver.url("/hook?secret=abc")).await;
        let scene = Self { world, firm, receiver, hook };
        scene.deliver().await;
        scene
    }

    /// Submits a response and delivers it; returns the delivery.
    pub(crate) async fn deliver(&self) -> Uuid {
        self.world.submit(&self.firm).await;
        self.world.deliver().await;
        self.world.project().await;
        let delivery = self.deliveries().await[0];
        // The next delivery is newer.
        self.world.pass(Duration::from_secs(1));
        delivery
    }

    /// All deliveries of the firm, newest first.
    pub(crate) async fn deliveries(&self) -> Vec<Uuid> {
        sqlx::query_scalar(
            "select delivery_id from deliveries where firm_id = $1
              order by created_at desc, delivery_id desc",
        )
        .bind(self.firm.id)
        .fetch_all(self.world.pool())
        .await
        .unwrap()
    }

    /// Lets the receiver answer 410 until the subscription is removed.
    pub(crate) async fn go(&self) {
        for _ in 0..2 {
            self.receiver.reply([Reply::status(410)]);
            self.world.submit(&self.firm).await;
            self.world.deliver().await;
        }
        self.world.project().await;
    }

    /// A page of the firm.
    pub(crate) fn at(&self, path: &str) -> String {
        format!("/console/firms/{}{path}", self.firm.id)
    }

    /// The actions of the firm's chain with their reasons, newest first.
    pub(crate) async fn entries(&self) -> Vec<(String, Option<String>)> {
        self.world.project().await;
        let entries = self.world.audit_entries(self.firm.id).await.into_iter().rev();
        entries.map(|entry| (entry.action, entry.reason)).collect()
    }

    /// A visitor with a session of a token of this role.
    pub(crate) async fn visitor(&self, role: HolderRole) -> Visitor<'_> {
        Visitor::with(&self.world, &self.world.new_token(role).await).await
    }

    /// A visitor whose token reaches these firms only.
    pub(crate) async fn limited(&self, role: HolderRole, firms: &[Uuid]) -> Visitor<'_> {
        let scope = TokenScope {
            name: "limited".into(),
            role,
            expires_at: None,
            firm_ids: Some(firms.to_vec()),
        };
        let token = tokens::create_limited(self.world.service(), scope).await.unwrap();
        Visitor::with(&self.world, &token.token).await
    }
}

/// A firm with this name, without members and forms.
pub(crate) async fn firm_named(world: &World, name: &str) -> Uuid {
    let id = world.id();
    let event = activity(id, "firm.opened", json!({"name": name, "plan": {"leads_in_full": true}}));
    world.report_one(event).await;
    id
}

/// A browser without a script: a cookie, and forms of pages.
pub(crate) struct Visitor<'a> {
    world: &'a World,
    pub(crate) cookie: String,
}

impl<'a> Visitor<'a> {
    pub(crate) async fn with(world: &'a World, token: &str) -> Self {
        let answer = sign_in(world, token, &[]).await;
        assert_eq!(answer.status, 303, "{}", answer.text());
        let set = answer.headers["set-cookie"].to_str().unwrap();
        Self { world, cookie: set.split(';').next().unwrap().to_owned() }
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        get(self.world, path, &[("cookie", &self.cookie)]).await
    }

    /// The page, which must be there.
    pub(crate) async fn page(&self, path: &str) -> String {
        let answer = self.get(path).await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        assert_eq!(answer.headers["content-type"], "text/html; charset=utf-8", "{path}");
        answer.text().to_owned()
    }

    /// The text that forms of this session carry.
    pub(crate) async fn form_token(&self) -> String {
        let page = self.page("/console/firms").await;
        value_of(&page, "form_token")
    }

    /// Sends a form of this session.
    pub(crate) async fn send(&self, path: &str, fields: &[(&str, &str)]) -> Answer {
        let token = self.form_token().await;
        let mut fields = fields.to_vec();
        fields.push(("form_token", &token));
        post(self.world, path, &[("cookie", &self.cookie)], &fields).await
    }
}

/// The first cookie that an answer sets.
pub(crate) fn cookie_of(answer: &Answer) -> String {
    let set = answer.headers["set-cookie"].to_str().unwrap();
    set.split(';').next().unwrap().to_owned()
}

/// The value of a hidden field.
pub(crate) fn value_of(page: &str, name: &str) -> String {
    let field = format!("name=\"{name}\" value=\"");
    let (_, rest) = page.split_once(&field).unwrap_or_else(|| panic!("no {name} in {page}"));
    rest.split('"').next().unwrap().to_owned()
}

pub(crate) async fn get(world: &World, path: &str, headers: &[(&str, &str)]) -> Answer {
    world.internal(make_request("GET", path, headers, Body::empty())).await
}

pub(crate) async fn post(
    world: &World,
    path: &str,
    headers: &[(&str, &str)],
    fields: &[(&str, &str)],
) -> Answer {
    let headers = [&[("content-type", "application/x-www-form-urlencoded")][..], headers].concat();
    world.internal(make_request("POST", path, &headers, form_body(fields))).await
}

/// The parameters of an address.
pub(crate) fn query_of(address: &str) -> HashMap<String, String> {
    let (_, query) = address.split_once('?').unwrap_or_default();
    url::form_urlencoded::parse(query.as_bytes()).into_owned().collect()
}

/// The body of a form.
pub(crate) fn form_body(fields: &[(&str, &str)]) -> String {
    let pairs = fields.iter().map(|(name, value)| format!("{name}={}", encoded(value)));
    pairs.collect::<Vec<_>>().join("&")
}

fn encoded(text: &str) -> String {
    text.bytes()
        .map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => {
                char::from(byte).to_string()
            }
            _ => format!("%{byte:02X}"),
        })
        .collect()
}

pub(crate) async fn sign_in(world: &World, token: &str, headers: &[(&str, &str)]) -> Answer {
    post(world, "/console/sign-in", headers, &[("token", token)]).await
}
