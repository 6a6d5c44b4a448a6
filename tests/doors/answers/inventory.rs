//! Firms, members, forms, replays and tokens are listed at the internal door.

use serde_json::{Value, json};
use tests::{activity, later};
use uuid::Uuid;

use super::{Desk, ids};

#[tokio::test]
async fn firms_are_listed_by_name_in_pages() {
    let desk = Desk::new().await;
    let mut named = vec![("Harrow Lane".to_owned(), desk.firm.id)];
    for name in ["Zinc", "Ash", "Harrow Lane"] {
        let firm = desk.world.firm().await;
        let event = later(activity(firm.id, "firm.changed", json!({"name": name})), 1);
        desk.world.report_one(event).await;
        named.push((name.to_owned(), firm.id));
    }
    named.sort();
    let expected: Vec<Uuid> = named.iter().map(|(_, id)| *id).collect();
    let all = desk.ask("/firms").await;
    assert_eq!((ids(&all), &all["next"]), (expected.clone(), &Value::Null));
    let of_ash = json!({"id": expected[0], "name": "Ash", "status": "active"});
    assert_eq!(all["items"][0], of_ash);
    let mut paged = Vec::new();
    let mut path = "/firms?limit=3".to_owned();
    loop {
        let page = desk.ask(&path).await;
        paged.extend(ids(&page));
        let Some(next) = page["next"].as_str() else { break };
        path = format!("/firms?limit=3&after={next}");
    }
    assert_eq!(paged, expected);
    for wrong in ["limit=0", "limit=501", "after=x", "name=Ash"] {
        let refused = desk.get(&desk.auditor, &format!("/firms?{wrong}")).await;
        assert_eq!(refused.code(), (400, "invalid_request"), "{wrong}");
    }
}

/// Replays and tokens of other firms are hidden, too.
#[tokio::test]
async fn a_limited_token_lists_only_its_firms() {
    let desk = Desk::new().await;
    let other = desk.world.firm().await;
    let limited = desk.limited(vec![desk.firm.id]).await;
    let both = desk.limited(vec![desk.firm.id, other.id]).await;
    let others = desk.limited(vec![other.id]).await;
    let firms = desk.get(&limited, "/firms").await.body;
    assert_eq!(ids(&firms), [desk.firm.id]);
    let none = desk.get(&limited, &format!("/firms?after={}", desk.firm.id)).await.body;
    assert!(ids(&none).is_empty());

    let tokens = desk.get(&limited, "/tokens").await.body;
    let items = tokens["items"].as_array().unwrap().iter();
    let operators = items.filter(|one| one["role"] == "operator");
    let mut reach: Vec<_> = operators.map(|one| one["firm_ids"].to_string()).collect();
    reach.sort();
    let own = json!([desk.firm.id]).to_string();
    assert_eq!(reach, [own.clone(), own, "null".to_owned()]);
    assert_eq!(desk.ask("/tokens").await["items"].as_array().unwrap().len(), 6);
    assert!(!tokens.to_string().contains(&other.id.to_string()));

    desk.get(&limited, "/replays").await.refused(400, "invalid_request");
    let of = |firm: Uuid| format!("/replays?firm_id={firm}");
    desk.get(&limited, &of(other.id)).await.refused(404, "firm_not_found");
    for token in [&limited, &both] {
        assert_eq!(desk.get(token, &of(desk.firm.id)).await.status, 200);
    }
    assert_eq!(desk.get(&others, &of(other.id)).await.status, 200);
}

#[tokio::test]
async fn members_show_roles_and_forms_show_titles() {
    let desk = Desk::new().await;
    let (admin, gone) = (desk.world.id(), desk.world.id());
    let joined = |member_id: Uuid, role: &str| {
        activity(desk.firm.id, "member.joined", json!({"member_id": member_id, "role": role}))
    };
    let left = later(activity(desk.firm.id, "member.left", json!({"member_id": gone})), 1);
    let reported = [joined(admin, "admin"), joined(gone, "member"), left];
    desk.world.report(&reported).await.ok();
    let members = desk.ask_firm("/members").await;
    assert_eq!(
        members["items"],
        json!([
            {"id": desk.firm.owner, "role": "owner", "active": true, "active_keys": 1},
            {"id": admin, "role": "admin", "active": true, "active_keys": 0},
            {"id": gone, "role": null, "active": false, "active_keys": 0},
        ])
    );
    let forms = desk.ask_firm("/forms").await;
    assert_eq!(ids(&forms), [desk.firm.form]);
    assert_eq!(forms["items"][0]["title"], "New client enquiry");
    assert_eq!(ids(&desk.ask_firm("/keys").await), [desk.firm.key_id]);
    for list in ["members", "forms"] {
        let path = format!("/firms/{}/{list}", desk.world.id());
        desk.get(&desk.auditor, &path).await.refused(404, "firm_not_found");
    }
}

#[tokio::test]
async fn replays_are_listed_newest_first() {
    let desk = Desk::new().await;
    let other = desk.world.firm().await;
    let mut begun = Vec::new();
    for firm in [desk.firm.id, other.id, desk.firm.id] {
        let order = json!({"firm_id": firm, "reason": "a drill"});
        let answer = desk.call("POST", &desk.operator, "/replays", order).await;
        assert_eq!(answer.status, 202, "{}", answer.text());
        begun.push(answer.body["id"].as_str().unwrap().parse::<Uuid>().unwrap());
        desk.world.pass(std::time::Duration::from_secs(1));
    }
    begun.reverse();
    let all = desk.ask("/replays").await;
    assert_eq!(ids(&all), begun);
    assert_eq!(all["items"][0]["state"], "running");
    assert_eq!(all["items"][0].get("outcomes"), None);
    let first = desk.ask("/replays?limit=1").await;
    let next = first["next"].as_str().unwrap();
    assert_eq!(ids(&desk.ask(&format!("/replays?after={next}")).await), begun[1..]);
    let own = desk.ask(&format!("/replays?firm_id={}&limit=1", desk.firm.id)).await;
    assert_eq!(ids(&own), begun[..1]);
    let rest = format!("/replays?firm_id={}&after={}", desk.firm.id, begun[0]);
    assert_eq!(ids(&desk.ask(&rest).await), begun[2..]);
    for wrong in [format!("after={}", desk.world.id()), "firm_id=x".to_owned()] {
        let refused = desk.get(&desk.auditor, &format!("/replays?{wrong}")).await;
        assert_eq!(refused.code(), (400, "invalid_request"), "{wrong}");
    }
}
