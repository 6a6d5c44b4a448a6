//! Members, keys, tokens and operators of a firm at a moment.

use std::sync::Arc;
use std::time::Duration;

use api::commands::{keys, secrets};
use api::{OperatorAtTerminal, Service};
use domain::access::HolderRole;
use domain::event::Terminal;
use serde_json::{Value, json};
use tests::{activity, later};
use uuid::Uuid;

use super::{Desk, ids};

const DAY: Duration = Duration::from_hours(24);

/// The item of a list with this id.
fn one(list: &Value, id: Uuid) -> Value {
    let mut items = list.as_array().unwrap().iter();
    items.find(|item| item["id"] == id.to_string()).cloned().unwrap_or(Value::Null)
}

/// The answer about a past day follows from the log, with names and last uses.
#[tokio::test]
async fn past_access_shows_members_keys_and_uses() {
    let desk = Desk::new().await;
    let (firm, admin) = (&desk.firm, desk.world.id());
    desk.world.pass(DAY);
    let joins = json!({"member_id": admin, "role": "admin"});
    desk.world.report_one(later(activity(firm.id, "member.joined", joins), 1)).await;
    let key = keys::create(desk.world.service(), firm.id, admin, "Reports").await.unwrap();
    assert_eq!(desk.world.call(key.key.as_str(), "GET", "/me", Value::Null).await.status, 200);
    desk.world.pass(DAY);
    let event = later(activity(firm.id, "member.left", json!({"member_id": admin})), 2);
    desk.world.report_one(event).await;

    let first = desk.ask_firm("/access?as_of=2026-11-01").await;
    assert_eq!(
        (&first["firm"], &first["at"]),
        (&json!("Harrow Lane"), &json!("2026-11-01T23:59:59.999Z"))
    );
    assert_eq!(ids(&first["members"]), [firm.owner]);
    assert_eq!(ids(&first["keys"]), [firm.key_id]);
    assert_eq!(one(&first["members"], firm.owner)["manages"], true);

    let second = desk.ask_firm("/access?as_of=2026-11-02T13:00:00Z").await;
    let member = one(&second["members"], admin);
    assert_eq!((&member["role"], &member["manages"]), (&json!("admin"), &json!(true)));
    let then = one(&second["keys"], key.id);
    assert_eq!((&then["name"], &then["member_id"]), (&json!("Reports"), &json!(admin)));
    assert_eq!((&then["revoked_at"], &then["reason"]), (&Value::Null, &Value::Null));
    assert_eq!(then["last_used_at"], "2026-11-02T12:00:00.000Z");

    let now = desk.ask_firm("/access").await;
    let member = one(&now["members"], admin);
    assert_eq!((&member["role"], &member["active"]), (&Value::Null, &json!(false)));
    let revoked = one(&now["keys"], key.id);
    assert_eq!(
        (&revoked["reason"], &revoked["revoked_at"]),
        (&json!("member_not_manager"), &now["at"])
    );
    let (action, _, evidence) = desk.last_entry().await;
    assert_eq!((action.as_str(), &evidence["what"]), ("audit_read", &json!("access")));
}

#[tokio::test]
async fn access_lists_valid_tokens_and_seen_operators() {
    let desk = Desk::new().await;
    let other = desk.world.firm().await;
    desk.limited(vec![other.id]).await;
    let both = desk.limited(vec![desk.firm.id, other.id]).await;
    let names = |answer: &Value| -> Vec<String> {
        let tokens = answer["tokens"].as_array().unwrap().iter();
        let mut names: Vec<_> =
            tokens.map(|token| token["name"].as_str().unwrap().to_owned()).collect();
        names.sort();
        names
    };
    let now = desk.ask_firm("/access").await;
    assert_eq!(names(&now), ["auditor", "limited", "operator"]);
    assert_eq!(now["operators"], json!([]));
    let limited = desk.limited(vec![desk.firm.id]).await;
    let path = format!("/firms/{}/access", desk.firm.id);
    let seen = desk.get(&limited, &path).await;
    assert!(!seen.text().contains(&other.id.to_string()), "{}", seen.text());
    assert_eq!(names(&seen.body), ["auditor", "limited", "limited", "operator"]);
    let elsewhere = format!("/firms/{}/access", other.id);
    desk.get(&limited, &elsewhere).await.refused(404, "firm_not_found");
    assert_eq!(desk.get(&both, &elsewhere).await.status, 200);

    let terminal = Terminal { host: "h".into(), login: "l".into(), user: "u".into() };
    let operator =
        OperatorAtTerminal { name: "ann".parse().unwrap(), terminal: Arc::new(terminal.clone()) };
    let service = Service { operator: Some(operator), ..desk.world.service().clone() };
    secrets::reveal(&service, desk.firm.id, service.operator()).await.unwrap();
    desk.world.project().await;
    let ann = desk.ask_firm("/access").await["operators"][0].clone();
    assert_eq!((&ann["name"], &ann["entries"]), (&json!("ann"), &json!(1)));
    assert_eq!(ann["terminal"], json!(terminal));
    let before = desk.ask_firm("/access?as_of=2026-11-01T11:59:59Z").await;
    assert_eq!(before["operators"], json!([]));
}

/// A date is bad if it is in the future or no date at all.
#[tokio::test]
async fn access_refuses_bad_dates_roles_and_firms() {
    let desk = Desk::new().await;
    let path = format!("/firms/{}/access", desk.firm.id);
    for wrong in ["as_of=2026-11-04", "as_of=yesterday", "as_of=17", "day=2026-11-01"] {
        let refused = desk.get(&desk.auditor, &format!("{path}?{wrong}")).await;
        assert_eq!(refused.code(), (400, "invalid_request"), "{wrong}");
    }
    let today = desk.ask_firm("/access?as_of=2026-11-01").await;
    assert_eq!(ids(&today["members"]), [desk.firm.owner]);
    let product = desk.token(HolderRole::Product).await;
    desk.get(&product, &path).await.refused(403, "forbidden");
    let missing = format!("/firms/{}/access", desk.world.id());
    desk.get(&desk.auditor, &missing).await.refused(404, "firm_not_found");
}
