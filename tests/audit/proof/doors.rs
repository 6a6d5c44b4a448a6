//! Questions of auditors and operators, at the internal door and at the terminal.

use api::commands::tokens::HolderRole;
use serde_json::{Value, json};
use tests::{Answer, Firm, Receiver, Reply, World};

use super::audit;

async fn get(world: &World, role: HolderRole, firm: &Firm, path: &str) -> Answer {
    let token = world.new_token(role).await;
    world.get_internally(&token, &format!("/firms/{}{path}", firm.id)).await
}

fn actions(answer: &Answer) -> Vec<&str> {
    let items = answer.body["items"].as_array().unwrap();
    items.iter().map(|item| item["action"].as_str().unwrap()).collect()
}

/// A subscription whose target answered two deliveries in a row with 410; four were to follow.
async fn gone(world: &World, firm: &Firm) -> (uuid::Uuid, Receiver) {
    let receiver = Receiver::start().await;
    let hook = world.subscribe(firm, &receiver.url("/box?token=canary")).await;
    receiver.reply([Reply::status(410).body(b"moved out"), Reply::status(410)]);
    for _ in 0..2 {
        world.submit(firm).await;
        world.deliver().await;
    }
    (hook, receiver)
}

/// The reading of the list becomes an entry, too.
#[tokio::test]
async fn g5_audit_lists_are_filtered_and_paged() {
    let world = World::new().await;
    let firm = world.firm().await;
    let hook = world.subscribe(&firm, "https://hooks.example.com/box?token=canary").await;
    world.remove_hook(&firm, hook).await.ok();
    world.project().await;
    let all = get(&world, HolderRole::Auditor, &firm, "/audit").await;
    assert_eq!(all.status, 200, "{}", all.body);
    assert_eq!(
        actions(&all),
        ["hook_removed", "hook_created", "key_created", "member_joined", "firm_opened"]
    );
    let removed = &all.body["items"][0];
    assert_eq!(removed["reason"], "deleted_by_key");
    assert_eq!(removed["actor"], json!({"kind": "key", "id": firm.key_id}));
    assert_eq!(removed["subject"], json!({"kind": "hook", "id": hook}));
    assert_eq!(removed["evidence"]["target"], "https://hooks.example.com/…");
    assert_eq!(removed["evidence"]["trigger"], "form_submitted");
    assert_eq!(removed["previous_hash"], all.body["items"][1]["hash"]);
    assert!(!all.text().contains("canary"));

    let page = get(&world, HolderRole::Operator, &firm, "/audit?limit=2").await;
    assert_eq!(page.body["next"], "4");
    let next = get(&world, HolderRole::Operator, &firm, "/audit?limit=2&after=4").await;
    assert_eq!(actions(&next), ["key_created", "member_joined"]);
    let period = "/audit?no_reads=true&since=2026-01-01&limit=2";
    let page = get(&world, HolderRole::Operator, &firm, period).await;
    assert_eq!(actions(&page), ["hook_removed", "hook_created"]);
    let after = format!("{period}&after={}", page.body["next"].as_str().unwrap());
    let next = get(&world, HolderRole::Operator, &firm, &after).await;
    assert_eq!(actions(&next), ["key_created", "member_joined"]);
    world.project().await;
    for (query, expected) in [
        ("action=hook_created", vec!["hook_created"]),
        ("actor=key", vec!["hook_removed", "hook_created"]),
        ("actor=auditor", vec!["audit_read"]),
        (&format!("subject={hook}"), vec!["hook_removed", "hook_created"]),
        ("subject=hook", vec!["hook_removed", "hook_created"]),
        ("subject=hook&actor=key&no_reads=true&limit=1", vec!["hook_removed"]),
        ("action=audit_read&no_reads=true", vec![]),
        ("action=hook_created,hook_removed&limit=1", vec!["hook_removed"]),
        ("action=hook_created&actor=key&subject=hook", vec!["hook_created"]),
        ("action=hook_created&actor=system", vec![]),
        ("since=2026-01-01&after=4711", vec![]),
        ("subject=hook&until=2026-11-01T12:00:00Z", vec![]),
    ] {
        let found = get(&world, HolderRole::Operator, &firm, &format!("/audit?{query}")).await;
        assert_eq!(actions(&found), expected, "{query}");
    }
    for wrong in ["action=hook_painted", "limit=0", "limit=501", "since=yesterday", "colour=red"] {
        let refused = get(&world, HolderRole::Auditor, &firm, &format!("/audit?{wrong}")).await;
        assert_eq!(refused.code(), (400, "invalid_request"), "{wrong}");
    }
    for path in ["/audit", "/audit/export", "/hooks", &format!("/hooks/{hook}/history")] {
        let refused = get(&world, HolderRole::Product, &firm, path).await;
        assert_eq!(refused.code(), (403, "forbidden"), "{path}");
    }
}

/// Paths of targets are often their secrets (core 8 c). Lists, exports and bundles showed them.
/// An operator sees a path only with a reason.
#[tokio::test]
async fn no_list_or_export_shows_target_paths() {
    let world = World::new().await;
    let (firm, receiver) = (world.firm().await, Receiver::start().await);
    let url = receiver.url("/canary/in?token=canary");
    let hook = world.subscribe(&firm, &url).await;
    world.submit(&firm).await;
    receiver.reply([Reply::status(410)]);
    assert_eq!(world.deliver().await, 1);
    world.project().await;
    let deliveries = get(&world, HolderRole::Operator, &firm, "/deliveries").await;
    let delivery = deliveries.body["items"][0]["id"].as_str().unwrap().to_owned();
    let (one, why) = (format!("/deliveries/{delivery}"), format!("/hooks/{hook}/history"));
    let export = "/audit/export?format=csv";
    for path in ["/hooks", "/hooks?warned=true", &why, &one, "/audit", "/audit/export", export] {
        let shown = get(&world, HolderRole::Auditor, &firm, path).await;
        assert_eq!(shown.status, 200, "{path}");
        assert!(!shown.text().contains("canary"), "{path}: {}", shown.text());
    }
    let (hook_id, firm_id) = (hook.to_string(), firm.id.to_string());
    for command in [
        vec!["hooks", "list", "--firm", &firm_id, "--json"],
        vec!["hooks", "why", &hook_id, "--json"],
        vec!["deliveries", "show", "--firm", &firm_id, &delivery, "--json"],
        vec!["lanes", "list", "--json"],
        vec!["audit", "list", "--firm", &firm_id, "--json"],
        vec!["audit", "export", "--firm", &firm_id],
    ] {
        let (code, text) = audit(&world, &command).await;
        assert_eq!(code, 0, "{command:?}: {text}");
        assert!(!text.contains("canary"), "{command:?}: {text}");
    }
    let own = world.get(&firm, "/hooks").await;
    assert_eq!(own.body[0]["target_url"], url, "the firm's own people see all of it");
}

/// The reason is recorded before the target is shown.
#[tokio::test]
async fn an_operator_sees_targets_for_a_reason() {
    let world = World::new().await;
    let (firm, receiver) = (world.firm().await, Receiver::start().await);
    let url = receiver.url("/in?token=canary");
    let hook = world.subscribe(&firm, &url).await;
    let response_id = world.submit(&firm).await;
    let step = receiver.url("/step?email=canary");
    world.order_step(&world.step_order(&firm, &step, response_id)).await.ok();
    assert_eq!(world.deliver().await, 2);
    world.project().await;
    let why = format!("/hooks/{hook}/history?show_target=");
    for (role, reason, refused) in [
        (HolderRole::Auditor, "the%20receiver%20asked", (403, "forbidden")),
        (HolderRole::Operator, "", (400, "invalid_request")),
        (HolderRole::Operator, &"x".repeat(201), (400, "invalid_request")),
    ] {
        let answer = get(&world, role, &firm, &format!("{why}{reason}")).await;
        assert_eq!(answer.code(), refused, "{reason}");
    }
    let shown = get(&world, HolderRole::Operator, &firm, &format!("{why}lost%20it")).await;
    assert_eq!(shown.body["target"], url);
    let deliveries = get(&world, HolderRole::Operator, &firm, "/deliveries").await;
    let ids: Vec<String> = deliveries.body["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["id"].as_str().unwrap().to_owned())
        .collect();
    let mut seen = Vec::new();
    for id in &ids {
        let path = format!("/deliveries/{id}?show_target=lost%20it");
        let shown = get(&world, HolderRole::Operator, &firm, &path).await;
        seen.push(shown.body["attempts"][0]["hops"][0]["url"].as_str().unwrap().to_owned());
        let firm_id = firm.id.to_string();
        let command =
            ["deliveries", "show", "--firm", &firm_id, id, "--json", "--show-target", "lost it"];
        let (code, text) = audit(&world, &command).await;
        assert!(code == 0 && text.contains("canary"), "{text}");
    }
    seen.sort();
    assert_eq!(seen, [url, step]);
    let (code, text) =
        audit(&world, &["hooks", "why", &hook.to_string(), "--show-target", "lost it"]).await;
    assert!(code == 0 && text.contains("canary"), "{text}");

    world.project().await;
    let entries = get(&world, HolderRole::Auditor, &firm, "/audit?action=target_revealed").await;
    let entries = entries.body["items"].as_array().unwrap();
    assert_eq!(entries.len(), 6);
    assert!(entries.iter().all(|entry| entry["reason"] == "lost it"), "{entries:?}");
    assert!(entries.iter().all(|entry| entry["actor"]["kind"] == "operator"), "{entries:?}");
    assert_eq!(entries[5]["evidence"]["hook_id"], json!(hook));

    world.order_erasure(&firm, response_id).await;
    let of_step = deliveries.body["items"].as_array().unwrap();
    let of_step = of_step.iter().find(|one| one["run_id"].is_string()).unwrap();
    let path = format!("/deliveries/{}?show_target=x", of_step["id"].as_str().unwrap());
    let gone = get(&world, HolderRole::Operator, &firm, &path).await;
    assert_eq!(gone.code(), (409, "body_purged"));
}

#[tokio::test]
async fn an_audited_export_has_every_entry() {
    let world = World::new().await;
    let firm = world.firm().await;
    super::read_often(&world, &firm, 1_200).await;
    world.project().await;
    let csv = get(&world, HolderRole::Auditor, &firm, "/audit/export?format=csv").await;
    assert_eq!(csv.headers["content-type"], "text/csv; charset=utf-8");
    assert_eq!(csv.text().lines().count(), 1 + 1_203);
    let lines = get(&world, HolderRole::Auditor, &firm, "/audit/export").await;
    let entries: Vec<Value> =
        lines.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(entries.len(), 1_203);
    assert_eq!(entries[1_202]["sequence"], 1_203);
    let none =
        get(&world, HolderRole::Auditor, &firm, "/audit/export?until=2020-01-01T00:00:00Z").await;
    assert_eq!((none.status.as_u16(), none.text()), (200, ""));
    world.project().await;
    let exported = get(&world, HolderRole::Operator, &firm, "/audit?action=audit_exported").await;
    assert_eq!(exported.body["items"].as_array().unwrap().len(), 3);
    assert_eq!(exported.body["items"][2]["evidence"]["how"], "csv");
    assert_eq!(exported.body["items"][2]["actor"]["kind"], "auditor");
}

#[tokio::test]
async fn g5_one_answer_explains_a_hook_removal() {
    let world = World::new().await;
    let firm = world.firm().await;
    let (hook, _receiver) = gone(&world, &firm).await;
    let path = format!("/hooks/{hook}/history");
    let answer = get(&world, HolderRole::Auditor, &firm, &path).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    let (found, removal) = (&answer.body, &answer.body["removal"]);
    assert_eq!((&found["state"], &removal["reason"]), (&json!("removed"), &json!("target_gone")));
    assert_eq!(removal["actor"], format!("receiver:{hook}"));
    assert_eq!(removal["delivered_between"], 0);
    let deciding = removal["deciding"].as_array().unwrap();
    assert_eq!(deciding.len(), 2);
    assert_eq!(deciding[0]["attempts"][0]["status"], 410);
    assert!(deciding[0]["attempts"][0]["answer_sha256"].is_string());
    let entries = found["entries"].as_array().unwrap();
    let said: Vec<_> = entries.iter().map(|entry| entry["action"].as_str().unwrap()).collect();
    assert_eq!(said, ["hook_created", "hook_warned", "hook_warned", "hook_removed"]);
    let evidence = &entries[3]["evidence"]["deliveries"];
    assert_eq!(evidence[0]["delivery_id"], deciding[0]["delivery_id"]);
    assert_eq!(evidence[1]["status"], 410);
    assert!(!answer.text().contains("canary") && !answer.text().contains("moved out"));

    let listed = get(&world, HolderRole::Auditor, &firm, "/hooks?removed=true").await;
    assert_eq!(listed.body["items"][0]["reason"], "target_gone");
    let later = "/hooks?removed=true&since=2026-11-02T00:00:00Z";
    assert_eq!(get(&world, HolderRole::Auditor, &firm, later).await.body["items"], json!([]));
    removals_are_bounded_on_both_sides(&world, &firm).await;

    let (code, text) = audit(&world, &["hooks", "why", &hook.to_string()]).await;
    assert_eq!(code, 0, "{text}");
    for part in [
        "state: removed",
        "reason: target_gone",
        "by: receiver:",
        "because two deliveries in a row ended with 410",
        "try 1: 410, SHA-256 ",
        "audit entry 4: hook_created, hash ",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let other = world.firm().await;
    get(&world, HolderRole::Auditor, &other, &path).await.refused(404, "not_found");
    let unknown = audit(&world, &["hooks", "why", &world.id().to_string()]).await;
    assert_eq!(unknown.0, 1);
}

/// A list of the removals of March had no end: the door and the terminal refused `until`.
async fn removals_are_bounded_on_both_sides(world: &World, firm: &Firm) {
    let id = firm.id.to_string();
    for (until, removals) in [("2026-11-01", 0), ("2026-11-02", 1)] {
        for as_of in ["", "&as_of=2026-11-01T12:00:00Z"] {
            let path = format!("/hooks?removed=true&since=2026-10-01&until={until}{as_of}");
            let listed = get(world, HolderRole::Auditor, firm, &path).await;
            assert_eq!(listed.body["items"].as_array().unwrap().len(), removals, "{path}");
        }
        let asked = ["hooks", "list", "--firm", &id, "--removed", "--since", "2026-10-01"];
        let (code, text) = audit(world, &[&asked[..], &["--until", until]].concat()).await;
        assert_eq!((code, text.contains("target_gone")), (0, removals == 1), "{text}");
    }
    let backward = "/hooks?removed=true&since=2026-11-02&until=2026-11-01";
    let refused = get(world, HolderRole::Auditor, firm, backward).await;
    assert_eq!(refused.code(), (400, "invalid_request"));
}

/// A list of removed subscriptions ended at 500 and did not say so. Earlier removals could not be
/// seen.
#[tokio::test]
async fn g5_lists_of_removed_subscriptions_have_pages() {
    let world = World::new().await;
    let firm = world.firm().await;
    let mut hooks = Vec::new();
    for number in 0..3 {
        let hook = world.subscribe(&firm, &format!("https://hooks.example.com/{number}")).await;
        world.remove_hook(&firm, hook).await.ok();
        hooks.push(json!(hook));
    }
    let end = world.last_position().await;
    for as_of in [String::new(), format!("&as_of={end}")] {
        let path = format!("/hooks?removed=true&limit=2{as_of}");
        let page = get(&world, HolderRole::Auditor, &firm, &path).await.body;
        assert_eq!(ids(&page), [&hooks[2], &hooks[1]]);
        let next = format!("{path}&after={}", page["next"].as_str().unwrap());
        let last = get(&world, HolderRole::Auditor, &firm, &next).await.body;
        assert_eq!((ids(&last), &last["next"]), (vec![&hooks[0]], &Value::Null));
        for wrong in [format!("{path}&after={}", firm.id), path.replace("limit=2", "limit=501")] {
            let refused = get(&world, HolderRole::Auditor, &firm, &wrong).await;
            assert_eq!(refused.code(), (400, "invalid_request"), "{wrong}");
        }
    }
    let (id, after) = (firm.id.to_string(), hooks[1].as_str().unwrap());
    let asked = ["hooks", "list", "--firm", &id, "--removed", "--after", after, "--json"];
    let (code, text) = audit(&world, &asked).await;
    assert_eq!(code, 0, "{text}");
    let listed: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((listed.as_array().unwrap().len(), &listed[0]["id"]), (1, &hooks[0]));
}

/// A list could not be gone on with once the last subscription of its page was removed.
#[tokio::test]
async fn a_list_goes_on_after_a_removal() {
    let world = World::new().await;
    let (firm, other) = (world.firm().await, world.firm().await);
    let older = json!(world.subscribe(&firm, "https://hooks.example.com/older").await);
    let newer = json!(world.subscribe(&firm, "https://hooks.example.com/newer").await);
    let page = get(&world, HolderRole::Auditor, &firm, "/hooks?limit=1").await.body;
    assert_eq!(ids(&page), [&newer]);
    let last = page["next"].as_str().unwrap();
    world.remove_hook(&firm, last).await.ok();
    let next = format!("/hooks?limit=1&after={last}");
    assert_eq!(ids(&get(&world, HolderRole::Auditor, &firm, &next).await.body), [&older]);
    let foreign = get(&world, HolderRole::Auditor, &other, &next).await;
    assert_eq!(foreign.code(), (400, "invalid_request"));
}

fn ids(page: &Value) -> Vec<&Value> {
    page["items"].as_array().unwrap().iter().map(|item| &item["id"]).collect()
}

/// The first 410 warns the subscription.
#[tokio::test]
async fn a_hook_stays_warned_until_a_success() {
    let world = World::new().await;
    let firm = world.firm().await;
    let receiver = Receiver::start().await;
    let hook = world.subscribe(&firm, &receiver.url("/box")).await;
    receiver.reply([Reply::status(410), Reply::status(200)]);
    let warned = || async { get(&world, HolderRole::Operator, &firm, "/hooks?warned=true").await };
    world.submit(&firm).await;
    world.deliver().await;
    assert_eq!(warned().await.body["items"][0]["id"], json!(hook));
    let (code, text) =
        audit(&world, &["hooks", "list", "--firm", &firm.id.to_string(), "--warned"]).await;
    assert!(code == 0 && text.contains(&hook.to_string()), "{text}");
    world.submit(&firm).await;
    world.deliver().await;
    assert_eq!(warned().await.body["items"], json!([]));
    let live = get(&world, HolderRole::Operator, &firm, "/hooks").await;
    assert_eq!(live.body["items"][0]["id"], json!(hook));
}
