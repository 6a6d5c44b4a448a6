//! Errors that name the culprit and never quote a value, and calls that were refused or repeated
//! for small reasons.

use api::commands::tokens::HolderRole;
use axum::body::Body;
use domain::audit::Action;
use serde_json::{Value, json};
use tests::{Answer, Firm, World, activity, make_request};

struct Office {
    world: World,
    firm: Firm,
    operator: String,
}

impl Office {
    async fn new() -> Self {
        let world = World::new().await;
        let firm = world.firm().await;
        let operator = world.new_token(HolderRole::Operator).await;
        Self { operator, world, firm }
    }

    /// Calls the internal door as an operator, below the firm.
    async fn call(&self, method: &str, rest: &str, body: Value) -> Answer {
        let path = format!("/firms/{}{rest}", self.firm.id);
        self.world.call_internally(&self.operator, method, &path, body).await
    }

    async fn refusal(&self, method: &str, rest: &str, body: Value) -> String {
        let refused = self.call(method, rest, body).await;
        assert_eq!(refused.code(), (400, "invalid_request"), "{rest}: {}", refused.text());
        refused.body["error"].as_str().unwrap().to_owned()
    }

    async fn readings(&self) -> i64 {
        self.world.count_events("AuditRead").await
    }
}

#[tokio::test]
async fn a_nul_in_a_filter_is_400() {
    let office = Office::new().await;
    for list in ["/audit", "/deliveries", "/hooks", "/audit/export"] {
        for parameter in
            ["actor", "subject", "action", "trigger", "state", "since", "after", "limit", "as_of"]
        {
            let rest = format!("{list}?{parameter}=%00");
            let why = office.refusal("GET", &rest, Value::Null).await;
            assert_eq!(why, format!("`{parameter}` has a control character"), "{rest}");
        }
    }
    assert_eq!(office.readings().await, 0, "nothing was read");
}

#[tokio::test]
async fn a_wrong_value_is_blamed_alone() {
    let office = Office::new().await;
    let time = "a day such as 2026-01-31 (midnight UTC), or an RFC 3339 timestamp such as \
                2026-01-31T09:30:00.000Z";
    for (rest, why) in [
        ("/audit?since=yesterday", format!("`since` must be {time}")),
        (
            "/audit?action=bogus",
            format!(
                "`action` must be actions of the audit log, with commas between: {}",
                Action::all_names()
            ),
        ),
        ("/audit?limit=501", "`limit` must be a whole number from 1 to 500".to_owned()),
        (
            "/audit/export?format=xml",
            "`format` must be one of ndjson, csv, bundle, cover".to_owned(),
        ),
        (
            "/deliveries?state=bogus",
            "`state` must be pending, delivered, failed or cancelled".to_owned(),
        ),
        ("/deliveries?trigger=bogus", "`trigger` must be the key of a trigger".to_owned()),
        ("/deliveries?hook_id=7", "`hook_id` must be a hyphenated UUID".to_owned()),
        ("/hooks?removed=yes", "`removed` must be true or false".to_owned()),
        (
            "/hooks?sinc=2026-03-01",
            "the query may not hold `sinc`; it may hold removed, warned, since, until, after, \
             limit, as_of"
                .to_owned(),
        ),
    ] {
        assert_eq!(office.refusal("GET", rest, Value::Null).await, why, "{rest}");
    }
}

#[tokio::test]
async fn an_unknown_property_is_refused() {
    let office = Office::new().await;
    let body = json!({"member_id": office.firm.owner, "name": "Zapier", "role": "owner"});
    let why = office.refusal("POST", "/keys", body).await;
    assert_eq!(why, "the body has a property that this endpoint does not take: `role`");
}

#[tokio::test]
async fn a_missing_member_has_its_own_error() {
    let office = Office::new().await;
    let member = office.world.id();
    let joined = json!({"member_id": member, "role": "member"});
    office.world.report(&[activity(office.firm.id, "member.joined", joined)]).await;
    for (id, why) in [
        (office.world.id(), "the firm has no member with this id"),
        (member, "only an active owner or admin of the firm may do this"),
    ] {
        let body = json!({"member_id": id, "name": "Zapier"});
        let refused = office.call("POST", "/keys", body).await;
        assert_eq!(refused.code(), (403, "not_a_manager"));
        assert_eq!(refused.body["error"], why);
    }
}

#[tokio::test]
async fn an_error_names_similar_properties_and_routes() {
    let Office { world, firm, .. } = Office::new().await;
    let error = |answer: &Answer| answer.body["error"].as_str().unwrap().to_owned();
    let hook = json!({"event": "form_submitted", "hookUrl": "https://hooks.example.com/"});
    let refused = world.create_hook(&firm, hook).await;
    assert_eq!(refused.code(), (400, "invalid_request"));
    assert_eq!(
        error(&refused),
        "`target_url` is missing; `hookUrl` is no property of this endpoint"
    );
    let extra = json!({"email": "ann@example.com", "subject": "x"});
    let refused = world.send_invite(&firm, extra).await;
    assert_eq!(
        error(&refused),
        "the body has a property that this endpoint does not take: `subject`"
    );
    let strange = json!({"email": "ann@example.com", "bob@example.com": "x"});
    let refused = world.send_invite(&firm, strange).await;
    assert_eq!(error(&refused), "the body has a property that this endpoint does not take");
    for path in ["/hooks", "/api/v1/hooks/", "/v1/hooks"] {
        let request = make_request("GET", path, &[("x-api-key", &firm.key)], Body::empty());
        let missing = world.public(request).await;
        assert_eq!(missing.code(), (404, "not_found"), "{path}");
        assert_eq!(error(&missing), "there is no such thing here; did you mean /api/v1/hooks?");
    }
}

#[tokio::test]
async fn allow_is_for_callers_with_a_key() {
    let Office { world, firm, .. } = Office::new().await;
    let put = |key: Option<&str>| {
        let headers: Vec<_> = key.map(|key| ("x-api-key", key)).into_iter().collect();
        world.public(make_request("PUT", "/api/v1/hooks", &headers, Body::empty()))
    };
    let (with, without) = (put(Some(&firm.key)).await, put(None).await);
    assert_eq!((with.status.as_u16(), with.headers.contains_key("allow")), (405, true));
    assert_eq!((without.status.as_u16(), without.headers.contains_key("allow")), (401, false));
}

#[tokio::test]
async fn a_body_may_name_its_charset() {
    let Office { world, firm, .. } = Office::new().await;
    let hook = json!({"target_url": "https://hooks.example.com/", "trigger": "form_submitted"});
    let content_type = ("content-type", "application/json; charset=utf8");
    let headers = [("x-api-key", &*firm.key), content_type];
    let request = make_request("POST", "/api/v1/hooks", &headers, hook.to_string());
    assert_eq!(world.public(request).await.status, 201);
    let content_type = ("content-type", "application/cloudevents-batch+json; charset=UTF8");
    let batch = make_request("POST", "/internal/v1/activity", &[content_type], "[]");
    assert_eq!(world.internal(batch).await.status, 202);
}
