//! The portal of a firm's own people (ruling 48): links, pages, commands and attacks, by HTTP; then
//! in a browser.

mod attacks;
mod browser;
mod entrance;
mod limits;
mod pages;
mod proved;
mod refusals;

use std::time::Duration;

use axum::body::Body;
use chrono::{DateTime, Utc};
use domain::values::Timestamp;
use serde_json::{Value, json};
use tests::{Answer, Firm, Receiver, Reply, World, activity, later, make_request};
use uuid::Uuid;

use crate::console::{form_body, value_of};

/// A world with a firm, a subscription, a delivery that arrived and one that failed, and a failed
/// workflow step.
struct PortalScene {
    world: World,
    firm: Firm,
    receiver: Receiver,
    hook: Uuid,
    failed: Uuid,
    run: Uuid,
    step: Uuid,
    /// The time of the secret's last rotation.
    since: String,
}

impl PortalScene {
    async fn new() -> Self {
        Self::from_world(World::new().await).await
    }

    async fn from_world(world: World) -> Self {
        let (firm, receiver) = (world.firm().await, Receiver::start().await);
        let hook = world.subscribe(&firm, &receiver.url("/hook?secret=abc")).await;
        let response = world.submit(&firm).await;
        world.deliver().await;
        world.pass(Duration::from_secs(1));
        let (run, step) = (world.id(), world.id());
        let mut order = world.step_order(&firm, &receiver.url("/step?secret=abc"), response);
        order["run_id"] = json!(run);
        order["step_id"] = json!(step);
        world.order_step(&order).await.ok();
        receiver.reply([Reply::status(404)]);
        world.deliver().await;
        world.pass(Duration::from_secs(1));
        receiver.reply([Reply::status(404)]);
        world.submit(&firm).await;
        world.deliver().await;
        let failed = "select delivery_id from deliveries where hook_id = $1 and state = 'failed'";
        let failed = sqlx::query_scalar(failed).bind(hook);
        let failed = failed.fetch_one(world.pool()).await.unwrap();
        let since = "select rotated_at from webhook_secrets where firm_id = $1";
        let since: DateTime<Utc> =
            sqlx::query_scalar(since).bind(firm.id).fetch_one(world.pool()).await.unwrap();
        let since = Timestamp::from(since).to_string();
        Self { world, firm, receiver, hook, failed, run, step, since }
    }

    /// Orders a link with these further properties.
    async fn order(&self, member: Uuid, more: Value) -> Answer {
        order_link(&self.world, self.firm.id, member, more).await
    }

    /// A link for the owner, as a path.
    async fn link(&self) -> String {
        path_of(&self.order(self.firm.owner, json!({})).await)
    }

    /// The owner with a session.
    async fn owner(&self) -> PortalVisitor<'_> {
        PortalVisitor::with(&self.world, &self.link().await).await
    }

    /// Reports a change of the owner at this second after noon.
    async fn report_owner(&self, kind: &str, mut data: Value, second: u32) {
        data["member_id"] = json!(self.firm.owner);
        self.world.report_one(later(activity(self.firm.id, kind, data), second)).await;
    }

    /// All pages of the session.
    fn pages(&self) -> Vec<String> {
        let of = |path: String| format!("/portal{path}");
        let paths = [
            String::new(),
            "/keys".into(),
            "/keys?revoked=true".into(),
            format!("/keys/{}", self.firm.key_id),
            "/secret".into(),
            "/hooks".into(),
            "/hooks?removed=true".into(),
            format!("/hooks/{}", self.hook),
            "/deliveries".into(),
            "/deliveries?state=failed&trigger=form_submitted&since=2026-01-01".into(),
            format!("/deliveries/{}", self.failed),
            "/steps".into(),
            format!("/runs/{}", self.run),
            "/audit".into(),
            "/audit?looks=true".into(),
        ];
        paths.map(of).into()
    }

    /// All commands with valid fields.
    fn commands(&self) -> Vec<(String, Vec<(&'static str, String)>)> {
        let of = |path: String, fields: &[(&'static str, &str)]| {
            let fields = fields.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
            (format!("/portal{path}"), fields)
        };
        let request_id = self.world.id().to_string();
        let again = [("request_id", &*request_id), ("reason", "they were down")];
        vec![
            of("/keys".into(), &[("name", "n8n"), again[0]]),
            of("/secret/reveal".into(), &[]),
            of(
                "/secret/rotate".into(),
                &[("sure", "yes"), ("reason", "it leaked"), ("since", &self.since)],
            ),
            of(format!("/hooks/{}/test", self.hook), &[]),
            of(format!("/hooks/{}/target", self.hook), &[]),
            of(format!("/deliveries/{}/replay", self.failed), &again),
            of(format!("/runs/{}/retry", self.run), &[("step_id", &self.step.to_string())]),
            of(format!("/keys/{}/revoke", self.firm.key_id), &[("prefix", &self.firm.key[..12])]),
        ]
    }

    /// The entries of the firm's log: actions with their actors, oldest first.
    async fn entries(&self) -> Vec<(String, String)> {
        self.world.project().await;
        let entries = self.world.audit_entries(self.firm.id).await.into_iter();
        entries.map(|entry| (entry.action.clone(), entry.actor())).collect()
    }

    /// Number of events in the log.
    async fn events(&self) -> i64 {
        self.world.count("events").await
    }
}

async fn order_link(world: &World, firm: Uuid, member: Uuid, more: Value) -> Answer {
    let mut order = json!({ "member_id": member });
    for (name, value) in more.as_object().unwrap() {
        order[name] = value.clone();
    }
    let path = format!("/firms/{firm}/portal-links");
    world.call_internally(world.token(), "POST", &path, order).await
}

/// A link for the owner of a firm, as a path.
pub(crate) async fn link_of_owner(world: &World, firm: &Firm) -> String {
    path_of(&order_link(world, firm.id, firm.owner, json!({})).await)
}

/// Opens the lists and pages of a firm's owner in a new session.
pub(crate) async fn open_pages(world: &World, firm: &Firm) {
    let link = link_of_owner(world, firm).await;
    let owner = PortalVisitor::with(world, &link).await;
    let hooks = world.get(firm, "/hooks").await.body;
    let hook = hooks[0]["id"].as_str().unwrap();
    let pages = [
        "",
        "/keys",
        "/keys?revoked=true",
        &format!("/keys/{}", firm.key_id),
        "/secret",
        "/hooks",
        "/hooks?removed=true",
        &format!("/hooks/{hook}"),
        "/deliveries",
        "/deliveries?state=failed&trigger=form_submitted&since=2026-01-01",
        "/steps",
        "/audit",
        "/audit?looks=true",
    ];
    for path in pages {
        owner.page(&format!("/portal{path}")).await;
    }
    let run = "select run_id from deliveries where firm_id = $1 and run_id is not null limit 1";
    let run: Option<Uuid> =
        sqlx::query_scalar(run).bind(firm.id).fetch_optional(world.pool()).await.unwrap();
    if let Some(run) = run {
        owner.page(&format!("/portal/runs/{run}")).await;
    }
    let failed = "select delivery_id from deliveries
                   where firm_id = $1 and hook_id is not null and state = 'failed' limit 1";
    let failed: Option<Uuid> =
        sqlx::query_scalar(failed).bind(firm.id).fetch_optional(world.pool()).await.unwrap();
    if let Some(failed) = failed {
        owner.page(&format!("/portal/deliveries/{failed}")).await;
    }
    assert_eq!(get(world, &link, &[("cookie", &owner.cookie)]).await.status, 200, "a used link");
    owner.send(&format!("/portal/hooks/{hook}/target"), &[]).await;
}

/// The path of the link in this answer.
fn path_of(ordered: &Answer) -> String {
    assert_eq!(ordered.status, 201, "{}", ordered.body);
    let url = ordered.body["url"].as_str().unwrap();
    url[url.find("/portal").unwrap()..].to_owned()
}

/// A browser without a script: a cookie, and forms of pages.
struct PortalVisitor<'a> {
    world: &'a World,
    cookie: String,
}

impl<'a> PortalVisitor<'a> {
    async fn with(world: &'a World, link: &str) -> Self {
        let answer = get(world, link, &[]).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        Self { world, cookie: cookie_of(&answer) }
    }

    async fn get(&self, path: &str) -> Answer {
        get(self.world, path, &[("cookie", &self.cookie)]).await
    }

    /// The page, which must be there.
    async fn page(&self, path: &str) -> String {
        let answer = self.get(path).await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        assert_eq!(answer.headers["content-type"], "text/html; charset=utf-8", "{path}");
        answer.text().to_owned()
    }

    async fn form_token(&self) -> String {
        value_of(&self.page("/portal/secret").await, "form_token")
    }

    /// Sends a form of this session.
    async fn send(&self, path: &str, fields: &[(&str, &str)]) -> Answer {
        let token = self.form_token().await;
        let mut fields = fields.to_vec();
        fields.push(("form_token", &token));
        post(self.world, path, &[("cookie", &self.cookie)], &fields).await
    }
}

fn cookie_of(answer: &Answer) -> String {
    let set = answer.headers["set-cookie"].to_str().unwrap();
    set.split(';').next().unwrap().to_owned()
}

async fn get(world: &World, path: &str, headers: &[(&str, &str)]) -> Answer {
    ask(world, "GET", path, headers).await
}

async fn ask(world: &World, method: &str, path: &str, headers: &[(&str, &str)]) -> Answer {
    world.public(make_request(method, path, headers, Body::empty())).await
}

async fn post(
    world: &World,
    path: &str,
    headers: &[(&str, &str)],
    fields: &[(&str, &str)],
) -> Answer {
    let headers = [&[("content-type", "application/x-www-form-urlencoded")][..], headers].concat();
    world.public(make_request("POST", path, &headers, form_body(fields))).await
}

fn refs<'a>(fields: &'a [(&'a str, String)]) -> Vec<(&'a str, &'a str)> {
    fields.iter().map(|(name, value)| (*name, value.as_str())).collect()
}
