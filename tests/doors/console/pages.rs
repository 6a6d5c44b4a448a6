//! Pages: all of them open, show the API's data, and obey the rules of the API.

use std::time::Duration;

use api::commands::tokens::HolderRole;
use serde_json::Value;
use tests::Reply;

use super::{Scene, firm_named};

const DAY: Duration = Duration::from_hours(24);

/// Every page of an installation in which something has happened.
pub(super) async fn pages(scene: &Scene) -> Vec<String> {
    let delivery = scene.deliveries().await[0];
    let mut pages: Vec<String> = [
        "",
        "/firms",
        "/receivers",
        "/pauses",
        "/replays",
        "/log",
        "/log/1",
        "/proof",
        "/tokens",
        "/sizes",
        "/find?q=Harrow",
    ]
    .into_iter()
    .map(|page| format!("/console{page}"))
    .collect();
    pages.push(format!("/console/log?stream={}", scene.hook));
    pages.push(format!("/console/receivers?host={}", "127.0.0.1"));
    let of_firm = [
        String::new(),
        "/deliveries".into(),
        "/deliveries?state=delivered&trigger=form_submitted".into(),
        format!("/deliveries/{delivery}"),
        "/hooks".into(),
        "/hooks?removed=true".into(),
        "/hooks?warned=true".into(),
        format!("/hooks/{}", scene.hook),
        "/audit".into(),
        "/audit?action=hook_created&no_reads=true".into(),
        "/audit/1".into(),
        "/keys".into(),
        format!("/keys/{}", scene.firm.key_id),
        "/access".into(),
        "/person".into(),
        "/replay".into(),
    ];
    pages.extend(of_firm.iter().map(|path| scene.at(path)));
    pages
}

#[tokio::test]
async fn every_page_opens_and_is_small() {
    let scene = Scene::new().await;
    scene.go().await;
    scene.receiver.reply([Reply::status(500)]);
    for role in [HolderRole::Operator, HolderRole::Auditor] {
        let visitor = scene.visitor(role).await;
        for path in pages(&scene).await {
            let page = visitor.page(&path).await;
            assert!(page.contains("<h1>") && page.contains("<main id=\"content\""), "{path}");
            assert!(page.len() < 60 << 10, "{path}: {} bytes", page.len());
            assert!(!page.contains(" style=") && !page.contains(" onclick="), "{path}");
        }
    }
}

#[tokio::test]
async fn page_data_equals_the_api_answer() {
    let scene = Scene::new().await;
    let visitor = scene.visitor(HolderRole::Operator).await;
    let delivery = scene.deliveries().await[0];
    for path in [
        "/hooks".to_owned(),
        "/keys".to_owned(),
        "/deliveries".to_owned(),
        "/access".to_owned(),
        format!("/deliveries/{delivery}"),
        format!("/hooks/{}/history", scene.hook),
    ] {
        let page = scene.at(path.trim_end_matches("/history"));
        let shown = visitor.get(&format!("{page}.json?")).await;
        assert_eq!(shown.status, 200, "{page}");
        let operator = scene.world.new_token(HolderRole::Operator).await;
        let path = format!("/firms/{}{path}", scene.firm.id);
        let api = scene.world.get_internally(&operator, &path).await;
        let without_use = |mut body: Value| {
            for name in ["last_used_at", "tokens", "entries"] {
                strike(&mut body, name);
            }
            body
        };
        assert_eq!(without_use(shown.body), without_use(api.body), "{page}");
    }
    let csv = visitor.get(&format!("{}.csv", scene.at("/deliveries"))).await;
    assert_eq!(csv.headers["content-type"], "text/csv; charset=utf-8");
    assert!(csv.text().lines().count() == 2 && csv.text().contains(&delivery.to_string()));
    let lines = visitor.get(&format!("{}.ndjson", scene.at("/audit"))).await;
    assert!(lines.text().lines().count() > 3, "{}", lines.text());
}

/// Removes a field at any depth.
fn strike(value: &mut Value, name: &str) {
    match value {
        Value::Object(object) => {
            object.remove(name);
            object.values_mut().for_each(|value| strike(value, name));
        }
        Value::Array(items) => items.iter_mut().for_each(|value| strike(value, name)),
        _ => {}
    }
}

#[tokio::test]
async fn a_removed_subscription_says_why_it_went() {
    let scene = Scene::new().await;
    scene.go().await;
    let visitor = scene.visitor(HolderRole::Auditor).await;
    let removed = visitor.page(&scene.at("/hooks?removed=true")).await;
    assert!(removed.contains(&format!("/hooks/{}\"", scene.hook)), "{removed}");
    let page = visitor.page(&scene.at(&format!("/hooks/{}", scene.hook))).await;
    assert!(page.contains("Two deliveries in a row were answered 410 Gone."), "{page}");
    assert_eq!(page.matches("Answered 410").count(), 2);
    assert!(page.contains("Deliveries that arrived between the two: 0."), "{page}");
    assert!(page.contains("hook_removed") && page.contains("bundle"), "{page}");
    assert!(!page.contains("secret=abc"), "the query of a target is masked");
}

#[tokio::test]
async fn a_delivery_page_explains_its_state() {
    let scene = Scene::new().await;
    let visitor = scene.visitor(HolderRole::Auditor).await;
    let arrived = scene.deliveries().await[0];
    let page = visitor.page(&scene.at(&format!("/deliveries/{arrived}"))).await;
    assert!(page.contains("Try 1 of 8 was answered 2xx."), "{page}");
    assert!(page.contains("withheld: give a reason to see it"), "{page}");
    assert!(page.contains("/console/receivers?host=127.0.0.1\""), "{page}");
    scene.receiver.reply([Reply::status(503).header("retry-after", "60")]);
    let waits = scene.deliver().await;
    let page = visitor.page(&scene.at(&format!("/deliveries/{waits}"))).await;
    assert!(page.contains("Try 2 of 8 is due in "), "{page}");
    assert!(page.contains("The receiver asked to wait 60 s."), "{page}");
    let then = format!("/deliveries/{arrived}?as_of=2026-11-01T12:00:00.000Z");
    assert!(visitor.page(&scene.at(&then)).await.contains("Back to now"));
}

#[tokio::test]
async fn a_list_shows_where_history_begins() {
    let scene = Scene::new().await;
    let world = &scene.world;
    world.pass(62 * DAY);
    world.drop_old_history(DAY).await;
    let visitor = scene.visitor(HolderRole::Auditor).await;
    for (path, is_bounded) in [("/deliveries", true), ("/deliveries?since=2026-12-01", false)] {
        let page = visitor.page(&scene.at(path)).await;
        assert_eq!(page.contains("firmforms archive find"), is_bounded, "{path}: {page}");
    }
}

#[tokio::test]
async fn a_workflow_step_has_five_attempts() {
    let scene = Scene::new().await;
    let response_id = scene.world.submit(&scene.firm).await;
    let step = scene.world.step_order(&scene.firm, &scene.receiver.url("/step"), response_id);
    scene.world.order_step(&step).await.ok();
    scene.world.deliver().await;
    scene.world.project().await;
    let visitor = scene.visitor(HolderRole::Auditor).await;
    let listed = visitor.get(&format!("{}.json", scene.at("/deliveries"))).await.body;
    let listed = listed["items"].as_array().unwrap();
    let step = listed.iter().find(|one| one["run_id"].is_string()).unwrap();
    let step = step["id"].as_str().unwrap();
    let page = visitor.page(&scene.at(&format!("/deliveries/{step}"))).await;
    assert!(page.contains("Try 1 of 5 was answered 2xx.") && page.contains(", step "), "{page}");
    let list = visitor.page(&scene.at("/deliveries")).await;
    assert!(list.contains("run <span"), "{list}");
}

#[tokio::test]
async fn an_entry_shows_bytes_proof_and_neighbour() {
    let scene = Scene::new().await;
    let visitor = scene.visitor(HolderRole::Auditor).await;
    let page = visitor.page(&scene.at("/audit/2")).await;
    let entry = visitor.get(&format!("{}.json", scene.at("/audit/2"))).await.body;
    assert!(page.contains(entry["hash"].as_str().unwrap()), "{page}");
    assert!(page.contains("No signed checkpoint covers it yet"), "{page}");
    assert!(page.contains(&scene.at("/audit/1")), "{page}");
    let canonical: Value = serde_json::from_str(entry["canonical"].as_str().unwrap()).unwrap();
    assert_eq!(canonical["sequence"], 2);
    assert_eq!(visitor.get(&scene.at("/audit/99999")).await.status, 404);
    let export = visitor.get(&scene.at("/audit/export?format=csv&since=&until=")).await;
    assert!(export.text().starts_with("sequence,at,action"), "{}", export.text());
    let bundle = visitor.get(&scene.at("/audit/export?format=bundle")).await;
    assert_eq!(bundle.status, 409, "nothing is signed yet");
    assert!(bundle.text().contains("<h1>Conflict</h1>"), "{}", bundle.text());
}

#[tokio::test]
async fn each_look_makes_one_audit_entry() {
    let scene = Scene::new().await;
    let visitor = scene.visitor(HolderRole::Auditor).await;
    let delivery = scene.deliveries().await[0];
    let reads = async || {
        let entries = scene.entries().await;
        entries.iter().filter(|(action, _)| action == "audit_read").count()
    };
    for path in [format!("/deliveries/{delivery}"), "/audit/1".into(), "/deliveries".into()] {
        let before = reads().await;
        visitor.page(&scene.at(&path)).await;
        assert_eq!(reads().await, before + 1, "{path}");
    }
    let before = reads().await;
    let newer = visitor.get(&scene.at(&format!("/deliveries/newer?than={delivery}"))).await;
    assert_eq!((newer.body["newer"].as_u64(), reads().await), (Some(0), before));
    scene.deliver().await;
    let newer = visitor.get(&scene.at(&format!("/deliveries/newer?than={delivery}"))).await;
    assert_eq!(newer.body["newer"], 1);
}

#[tokio::test]
async fn a_limited_token_sees_no_other_firm() {
    let scene = Scene::new().await;
    let other = firm_named(&scene.world, "Elsewhere Ltd").await;
    let visitor = scene.limited(HolderRole::Operator, &[other]).await;
    for path in pages(&scene).await.into_iter().filter(|path| path.contains("/firms/")) {
        let answer = visitor.get(&path).await;
        assert_eq!(answer.status, 404, "{path}");
        assert!(!answer.text().contains("Harrow"), "{path}");
    }
    let delivery = scene.deliveries().await[0];
    for path in ["/console", "/console/firms", "/console/replays"] {
        let page = visitor.page(path).await;
        assert!(!page.contains("Harrow") && !page.contains(&scene.firm.id.to_string()), "{path}");
    }
    assert!(visitor.page("/console/firms").await.contains("Elsewhere Ltd"));
    for path in ["/console/receivers", "/console/sizes"] {
        assert_eq!(visitor.get(path).await.status, 403, "{path}");
    }
    let found = visitor.send("/console/find", &[("q", &delivery.to_string())]).await;
    assert!(found.text().contains("Nothing here."), "{}", found.text());
    assert_eq!(visitor.get("/console/log/2").await.status, 404);
    let newer = visitor.get(&scene.at(&format!("/deliveries/newer?than={delivery}"))).await;
    assert_eq!(newer.status, 404);
}

#[tokio::test]
async fn the_search_box_leads_to_its_finding() {
    let scene = Scene::new().await;
    let visitor = scene.visitor(HolderRole::Auditor).await;
    let delivery = scene.deliveries().await[0];
    let prefix = &scene.firm.key[..12];
    for (text, page) in [
        (delivery.to_string(), scene.at(&format!("/deliveries/{delivery}"))),
        (scene.hook.to_string(), scene.at(&format!("/hooks/{}", scene.hook))),
        (prefix.to_owned(), scene.at(&format!("/keys/{}", scene.firm.key_id))),
        ("harrow".to_owned(), scene.at("")),
    ] {
        let answer = visitor.send("/console/find", &[("q", &text)]).await;
        assert_eq!(answer.headers["location"], page, "{text}");
    }
    let address = visitor.send("/console/find", &[("q", "ann@example.com")]).await;
    assert_eq!(address.status, 200, "an address goes into no URL");
    assert!(address.text().contains("People are found within a firm"));
}

/// A key, a token and a webhook secret once went into the address of a page.
#[tokio::test]
async fn no_secret_enters_a_page_address() {
    let scene = Scene::new().await;
    let visitor = scene.visitor(HolderRole::Auditor).await;
    let key = &scene.firm.key;
    let page = scene.at(&format!("/keys/{}", scene.firm.key_id));
    for text in [key.clone(), format!("Bearer {key}")] {
        let answer = visitor.send("/console/find", &[("q", &text)]).await;
        assert_eq!(answer.headers["location"], page, "{text}");
    }
    let strange = format!("ffk_{}", "z".repeat(43));
    let token = format!("fft_{}", "A".repeat(43));
    for text in [&*strange, &token, "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8", "Harrow x"]
    {
        let answer = visitor.send("/console/find", &[("q", text)]).await;
        assert_eq!(answer.status, 200, "{text}");
        assert!(!answer.headers.contains_key("location"), "{text}");
        assert!(!answer.text().contains(text), "{text}: {}", answer.text());
    }
    for text in [&*token, "whsec_AAAA"] {
        for answer in [
            visitor.send("/console/find", &[("q", text)]).await,
            visitor.get(&format!("/console/find?q={text}")).await,
        ] {
            let sentence = "Nobody looks for a token or a webhook secret by its text.";
            assert!(answer.text().contains(sentence), "{text}: {}", answer.text());
        }
    }
    let cut = visitor.get(&format!("/console/find?q={strange}")).await;
    assert_eq!(cut.headers["location"], "/console/find?q=ffk_zzzzzzzz");
}

/// Newer deliveries were once counted without the filters of the page.
#[tokio::test]
async fn newer_deliveries_are_counted_by_filter() {
    let scene = Scene::new().await;
    let visitor = scene.visitor(HolderRole::Auditor).await;
    let delivery = scene.deliveries().await[0];
    let page = visitor.page(&scene.at("/deliveries?state=delivered&limit=7")).await;
    let link = format!("/deliveries/newer?than={delivery}&amp;state=delivered\"");
    assert!(page.contains(&scene.at(&link)), "{page}");
    scene.receiver.reply([Reply::status(404)]);
    scene.deliver().await;
    let newer = async |filters: &str| {
        let path = scene.at(&format!("/deliveries/newer?than={delivery}{filters}"));
        visitor.get(&path).await.body["newer"].as_u64()
    };
    for (filters, count) in [
        ("", 1),
        ("&state=failed", 1),
        ("&state=delivered", 0),
        // The page's newest row has left the list since.
        ("&state=pending", 0),
        ("&trigger=payment_received", 0),
        (&format!("&hook_id={}", scene.hook), 1),
        (&format!("&hook_id={}", scene.world.id()), 0),
        ("&since=2026-11-02T00:00:00Z", 0),
        ("&until=2026-11-01T00:00:00Z", 0),
    ] {
        assert_eq!(newer(filters).await, Some(count), "{filters}");
    }
    let odd = visitor.get(&scene.at(&format!("/deliveries/newer?than={delivery}&state=x"))).await;
    assert_eq!(odd.status, 400);
    for _ in 0..25 {
        scene.world.submit(&scene.firm).await;
    }
    scene.world.project().await;
    assert_eq!(newer("").await, Some(21), "more than 20 are not counted");
}

/// An open page once kept its token in use, because it asks for newer deliveries by itself.
#[tokio::test]
async fn an_open_page_is_no_token_use() {
    let scene = Scene::new().await;
    let visitor = scene.visitor(HolderRole::Auditor).await;
    let delivery = scene.deliveries().await[0];
    let last_use = async || {
        let used = "select last_used_at from tokens where name = 'auditor'";
        let used: Option<chrono::DateTime<chrono::Utc>> =
            sqlx::query_scalar(used).fetch_one(scene.world.pool()).await.unwrap();
        used.unwrap()
    };
    visitor.page("/console/firms").await;
    let before = last_use().await;
    scene.world.pass(Duration::from_secs(300));
    let newer = visitor.get(&scene.at(&format!("/deliveries/newer?than={delivery}"))).await;
    assert_eq!((newer.status.as_u16(), last_use().await), (200, before));
    visitor.page("/console/firms").await;
    assert!(last_use().await > before, "a page is a use");
}

/// A replay of deliveries like the listed ones was once of all states.
#[tokio::test]
async fn a_replay_link_keeps_the_page_filter() {
    let scene = Scene::new().await;
    let operator = scene.visitor(HolderRole::Operator).await;
    let page = operator.page(&scene.at("/deliveries?state=delivered&limit=5")).await;
    let link = scene.at("/replay?state=delivered");
    assert!(page.contains(&format!("{link}\"")), "{page}");
    let form = operator.page(&link).await;
    assert!(form.contains("name=\"state\" value=\"delivered\""), "{form}");
}

#[tokio::test]
async fn a_relative_time_becomes_an_instant() {
    let scene = Scene::new().await;
    let visitor = scene.visitor(HolderRole::Auditor).await;
    let answer = visitor.get(&scene.at("/deliveries?since=24h&state=")).await;
    let expected = scene.at("/deliveries?since=2026-10-31T12%3A00%3A01.000Z&state=");
    assert_eq!(answer.status, 303);
    let location = answer.headers["location"].to_str().unwrap();
    assert_eq!(location, expected.trim_end_matches("&state="));
    visitor.page(location).await;
}

#[tokio::test]
async fn pages_of_a_list_follow_each_other() {
    let scene = Scene::new().await;
    let first = scene.deliveries().await[0];
    let second = scene.deliver().await;
    let visitor = scene.visitor(HolderRole::Auditor).await;
    let page = visitor.page(&scene.at("/deliveries?limit=1")).await;
    assert!(page.contains(&second.to_string()) && !page.contains(&first.to_string()));
    let next = scene.at(&format!("/deliveries?limit=1&amp;after={second}"));
    assert!(page.contains(&next), "{page}");
    let page = visitor.page(&next.replace("&amp;", "&")).await;
    assert!(page.contains(&first.to_string()) && page.contains("First page"), "{page}");
}

#[tokio::test]
async fn a_missing_page_says_not_found() {
    let scene = Scene::new().await;
    let visitor = scene.visitor(HolderRole::Operator).await;
    let missing = scene.world.id();
    for path in [
        "/console/nothing".to_owned(),
        "/console/firms/x".to_owned(),
        format!("/console/firms/{missing}"),
        scene.at(&format!("/deliveries/{missing}")),
        scene.at("/deliveries/..%2F..%2Ftokens"),
        scene.at(&format!("/hooks/{missing}")),
        format!("/console/replays/{missing}"),
        "/console/log/999999".to_owned(),
    ] {
        let answer = visitor.get(&path).await;
        assert_eq!(answer.status, 404, "{path}");
        assert!(answer.text().contains("<h1>Not Found</h1>"), "{path}");
    }
    assert_eq!(visitor.get(&scene.at("/deliveries?state=bogus")).await.status, 400);
}
