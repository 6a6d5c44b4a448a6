//! Pages and commands of an owner.

use std::time::Duration;

use domain::event::Actor;
use serde_json::json;
use tests::{Reply, activity};

use super::{PortalScene, get, refs};
use crate::console::value_of;

#[tokio::test]
async fn pages_open_and_commands_name_the_member() {
    let scene = PortalScene::new().await;
    let owner = scene.owner().await;
    for path in scene.pages() {
        owner.page(&path).await;
    }
    for (path, fields) in scene.commands() {
        let answer = owner.send(&path, &refs(&fields)).await;
        assert!([200, 303].contains(&answer.status.as_u16()), "{path}: {}", answer.text());
    }
    let you = Actor::Member(scene.firm.owner).to_string();
    let entries = scene.entries().await;
    for action in [
        "key_created",
        "secret_revealed",
        "secret_rotated",
        "hook_tested",
        "target_revealed",
        "replay_requested",
        "workflow_step_retried",
        "key_revoked",
        "hook_removed",
    ] {
        let last = entries.iter().rev().find(|(done, _)| done == action);
        assert_eq!(last.map(|(_, by)| by), Some(&you), "{action}: {entries:?}");
    }
    assert!(owner.page("/portal/audit").await.contains("<td>you</td>"));
}

#[tokio::test]
async fn a_new_key_works_and_shows_once() {
    let scene = PortalScene::new().await;
    let owner = scene.owner().await;
    let id = value_of(&owner.page("/portal/keys").await, "request_id");
    let id = ("request_id", &*id);
    let made = owner.send("/portal/keys", &[("name", "n8n <cloud>"), id]).await;
    let (_, rest) = made.text().split_once("<pre class=\"shown\" tabindex=\"0\">").unwrap();
    let key = rest.split('<').next().unwrap().to_owned();
    assert!(key.starts_with("ffk_") && key.len() == 47, "{key}");
    assert_eq!(made.headers["cache-control"], "no-store");
    let me = scene.world.call(&key, "GET", "/me", json!(null)).await;
    assert_eq!(me.status, 200, "{}", me.body);
    let page = owner.page("/portal/keys").await;
    assert!(page.contains(&key[..12]) && !page.contains(&key), "{page}");
    assert_eq!(owner.send("/portal/keys", &[("name", " "), id]).await.status, 400);
    let long = "a".repeat(101);
    let fresh = scene.world.id().to_string();
    let long = [("name", &*long), ("request_id", &*fresh)];
    assert_eq!(owner.send("/portal/keys", &long).await.status, 400);
}

/// The page lists the subscriptions that are removed with the key.
#[tokio::test]
async fn a_revocation_needs_the_keys_start() {
    let scene = PortalScene::new().await;
    let owner = scene.owner().await;
    let page = owner.page(&format!("/portal/keys/{}", scene.firm.key_id)).await;
    assert!(page.contains("These subscriptions are removed with the key:"), "{page}");
    assert!(page.contains(&scene.hook.to_string()), "{page}");
    let path = format!("/portal/keys/{}/revoke", scene.firm.key_id);
    for wrong in [&[][..], &[("prefix", "")], &[("prefix", "ffk_AAAAAAAA")]] {
        assert_eq!(owner.send(&path, wrong).await.status, 400, "{wrong:?}");
    }
    let right = [("prefix", &scene.firm.key[..12])];
    let revoked = owner.send(&path, &right).await;
    assert_eq!(revoked.headers["location"], "/portal/keys?done=revoked");
    assert!(owner.page("/portal/keys?done=revoked").await.contains("role=\"status\""));
    assert_eq!(owner.send(&path, &right).await.status, 404, "a second time");
    assert_eq!(scene.world.get(&scene.firm, "/me").await.status, 401);
    let gone = owner.page(&format!("/portal/hooks/{}", scene.hook)).await;
    assert!(gone.contains("Why it was removed") && gone.contains("key_revoked"), "{gone}");
}

/// A rotation needs a confirmation.
#[tokio::test]
async fn the_secret_shows_for_one_minute() {
    let scene = PortalScene::new().await;
    let owner = scene.owner().await;
    assert!(!owner.page("/portal/secret").await.contains("whsec_"));
    let shown = owner.send("/portal/secret/reveal", &[]).await;
    assert_eq!(shown.headers["refresh"], "60; url=/portal/secret");
    assert_eq!(shown.headers["cache-control"], "no-store");
    let secret = |page: &str| {
        let at = page.find("whsec_").unwrap();
        page[at..].split('<').next().unwrap().to_owned()
    };
    let first = secret(shown.text());
    assert_eq!(owner.send("/portal/secret/rotate", &[]).await.status, 400);
    let long = "a".repeat(201);
    let sure = [("sure", "yes"), ("since", &*scene.since)];
    let refused =
        owner.send("/portal/secret/rotate", &[sure[0], sure[1], ("reason", &*long)]).await;
    assert_eq!(refused.status, 400, "{}", refused.text());
    assert_eq!(secret(owner.send("/portal/secret/reveal", &[]).await.text()), first);
    assert_eq!(owner.send("/portal/secret/rotate", &sure[..1]).await.status, 400);
    let rotated = owner.send("/portal/secret/rotate", &sure).await;
    assert_ne!(secret(rotated.text()), first);
    assert_eq!(rotated.headers["refresh"], "60; url=/portal/secret");
}

#[tokio::test]
async fn a_form_replays_a_delivery_once() {
    let scene = PortalScene::new().await;
    let owner = scene.owner().await;
    let path = format!("/portal/deliveries/{}", scene.failed);
    let request_id = value_of(&owner.page(&path).await, "request_id");
    let fields = [("request_id", &*request_id), ("reason", "they were down")];
    let replay = format!("{path}/replay");
    for wrong in [&fields[..1], &fields[1..], &[("request_id", "a"), fields[1]]] {
        assert_eq!(owner.send(&replay, wrong).await.status, 400, "{wrong:?}");
    }
    let before = scene.receiver.received().len();
    for _ in 0..2 {
        let again = owner.send(&replay, &fields).await;
        let to = again.headers.get("location").map(|to| to.to_str().unwrap().to_owned());
        assert_eq!(to, Some(format!("{path}?done=replayed")), "{}", again.text());
    }
    scene.world.replay().await;
    scene.world.deliver().await;
    assert_eq!(scene.receiver.received().len(), before + 1);
    let page = owner.page(&path).await;
    assert!(page.contains("delivered") && !page.contains("request_id"), "{page}");
    let id = scene.world.id().to_string();
    let late = owner.send(&replay, &[("request_id", &id), fields[1]]).await;
    assert_eq!(late.status, 409, "only a failed one: {}", late.text());
}

#[tokio::test]
async fn a_run_page_retries_its_failed_step() {
    let scene = PortalScene::new().await;
    let owner = scene.owner().await;
    let page = owner.page(&format!("/portal/runs/{}", scene.run)).await;
    let step = value_of(&page, "step_id");
    assert_eq!(step, scene.step.to_string());
    let retry = format!("/portal/runs/{}/retry", scene.run);
    for (wrong, status) in [("", 400), ("a", 404), (&*scene.world.id().to_string(), 404)] {
        assert_eq!(owner.send(&retry, &[("step_id", wrong)]).await.status, status, "{wrong}");
    }
    let before = scene.receiver.received().len();
    let retried = owner.send(&retry, &[("step_id", &step)]).await;
    assert_eq!(retried.status, 303, "{}", retried.text());
    scene.world.deliver().await;
    assert_eq!(scene.receiver.received().len(), before + 1);
    assert!(!owner.page(&format!("/portal/runs/{}", scene.run)).await.contains("step_id"));
    let late = owner.send(&retry, &[("step_id", &step)]).await;
    assert_eq!(late.status, 409, "{}", late.text());
    assert_eq!(owner.get(&format!("/portal/runs/{}", scene.world.id())).await.status, 404);
}

#[tokio::test]
async fn subscriptions_show_health_and_removal_cause() {
    let scene = PortalScene::new().await;
    let owner = scene.owner().await;
    let page = owner.page("/portal/hooks").await;
    assert!(page.contains("1 / 2"), "{page}");
    assert!(!page.contains("secret=abc"), "targets are masked: {page}");
    scene.receiver.reply([Reply::status(410)]);
    scene.world.submit(&scene.firm).await;
    scene.world.deliver().await;
    assert!(owner.page("/portal/hooks").await.contains("the next 410 removes it"));
    scene.receiver.reply([Reply::status(410)]);
    scene.world.submit(&scene.firm).await;
    scene.world.deliver().await;
    let removed = owner.page("/portal/hooks?removed=true").await;
    assert!(removed.contains(&scene.hook.to_string()), "{removed}");
    let gone = owner.page(&format!("/portal/hooks/{}", scene.hook)).await;
    for part in ["target_gone", "Deliveries that decided it", " 410 "] {
        assert!(gone.contains(part), "{part}: {gone}");
    }
    let late = owner.send(&format!("/portal/hooks/{}/test", scene.hook), &[]).await;
    assert_eq!(late.status, 404, "no test of a removed one");
}

#[tokio::test]
async fn a_sample_shows_only_the_status() {
    let scene = PortalScene::new().await;
    let owner = scene.owner().await;
    let before = scene.receiver.received().len();
    scene.receiver.reply([Reply::status(418).body(b"a secret of the receiver")]);
    let sent = owner.send(&format!("/portal/hooks/{}/test", scene.hook), &[]).await;
    assert!(sent.text().contains("418"), "{}", sent.text());
    assert!(!sent.text().contains("a secret of the receiver"), "{}", sent.text());
    assert_eq!(scene.receiver.received().len(), before + 1);
}

#[tokio::test]
async fn the_whole_target_is_shown_on_demand() {
    let scene = PortalScene::new().await;
    let owner = scene.owner().await;
    let path = format!("/portal/hooks/{}", scene.hook);
    assert!(!owner.page(&path).await.contains("secret=abc"));
    let shown = owner.send(&format!("{path}/target"), &[]).await;
    assert!(shown.text().contains("/hook?secret=abc"), "{}", shown.text());
}

#[tokio::test]
async fn lists_go_on_at_the_next_page() {
    let scene = PortalScene::new().await;
    scene.world.pass(Duration::from_secs(1));
    for _ in 0..50 {
        scene.world.submit(&scene.firm).await;
    }
    scene.world.project().await;
    let owner = scene.owner().await;
    let page = owner.page("/portal/deliveries?trigger=form_submitted").await;
    let (_, rest) = page.split_once("rel=\"next\"").map_or(("", ""), |parts| parts);
    assert!(!rest.is_empty(), "{page}");
    let at = page.find("/portal/deliveries?trigger=form_submitted&amp;after=").unwrap();
    let next = page[at..].split('"').next().unwrap().replace("&amp;", "&");
    let second = owner.page(&next).await;
    assert!(second.contains(&scene.failed.to_string()), "{second}");
    let strange = format!("/portal/deliveries?after={}", scene.world.id());
    assert_eq!(owner.get(&strange).await.status, 400);
}

#[tokio::test]
async fn pages_wear_the_firms_brand() {
    let scene = PortalScene::new().await;
    let brand = json!({"color": "#ffcc00", "logo_url": "https://cdn.example/a.png?b=c&d=e"});
    let event = activity(scene.firm.id, "firm.changed", json!({ "brand": brand }));
    scene.world.report_one(event).await;
    let owner = scene.owner().await;
    let page = owner.get("/portal/keys").await;
    for part in [
        "<bdi>Harrow Lane</bdi>",
        "href=\"/portal/brand/ffcc00\"",
        "src=\"https://cdn.example/a.png?b=c&amp;d=e\"",
        "referrerpolicy=\"no-referrer\"",
    ] {
        assert!(page.text().contains(part), "{part}: {}", page.text());
    }
    let policy = page.headers["content-security-policy"].to_str().unwrap();
    assert!(policy.contains("img-src 'self' https://cdn.example;"), "{policy}");
    let style = get(&scene.world, "/portal/style.css", &[]).await;
    assert_eq!(style.headers["content-type"], "text/css; charset=utf-8");
    assert!(style.text().contains(".portal header.top"));
}

#[tokio::test]
async fn lists_show_where_history_begins() {
    let scene = PortalScene::new().await;
    let day = Duration::from_hours(24);
    scene.world.pass(62 * day);
    scene.world.purge().await;
    scene.world.drop_old_history(day).await;
    let owner = scene.owner().await;
    for (path, is_bounded) in
        [("deliveries", true), ("deliveries?since=2026-12-01", false), ("steps", true)]
    {
        let page = owner.page(&format!("/portal/{path}")).await;
        assert_eq!(page.contains("No longer listed"), is_bounded, "{path}: {page}");
    }
}
