//! Pages that showed or offered too much, too little, or in another language.

use std::time::Duration;

use api::commands::keys;
use domain::event::Actor;
use serde_json::json;

use super::{PortalScene, PortalVisitor, path_of};
use crate::console::value_of;

impl PortalScene {
    async fn french(&self) -> PortalVisitor<'_> {
        let link = self.order(self.firm.owner, json!({"lang": "fr"})).await;
        PortalVisitor::with(&self.world, &path_of(&link)).await
    }

    /// Orders another step of the run.
    async fn another_step(&self) {
        let response_id = self.world.submit(&self.firm).await;
        let mut order = self.world.step_order(&self.firm, &self.receiver.url("/step"), response_id);
        order["run_id"] = json!(self.run);
        self.world.order_step(&order).await.ok();
    }
}

/// A wrong filter once showed everything.
#[tokio::test]
async fn a_wrong_filter_is_refused() {
    let scene = PortalScene::new().await;
    let owner = scene.owner().await;
    for path in [
        "/deliveries?hook_id=abc",
        "/deliveries?after=abc",
        "/deliveries?trigger=abc",
        "/deliveries?state=abc",
        "/hooks?after=abc",
        "/hooks?removed=abc",
        "/steps?after=abc",
        &format!("/runs/{}?after=abc", scene.run),
        "/audit?after=abc",
        "/audit?looks=abc",
        "/keys?after=abc",
        "/keys?revoked=abc",
    ] {
        let refused = owner.get(&format!("/portal{path}")).await;
        assert_eq!(refused.status, 400, "{path}: {}", refused.text());
    }
}

/// The page once offered a replay that could not succeed.
#[tokio::test]
async fn a_removed_subscription_offers_no_replay() {
    let scene = PortalScene::new().await;
    let path = format!("/portal/deliveries/{}", scene.failed);
    let replay = format!("{path}/replay");
    let id = scene.world.id().to_string();
    let fields = [("request_id", &*id), ("reason", "they were down")];
    let (service, by) = (scene.world.service(), Actor::Member(scene.firm.owner));
    keys::revoke(service, scene.firm.id, scene.firm.key_id, by).await.unwrap();
    scene.world.project().await;
    let assert_hidden = async |sentence: &str| {
        let french = scene.french().await;
        let page = french.page(&path).await;
        assert!(page.contains(sentence) && !page.contains("request_id"), "{sentence}: {page}");
        let refused = french.send(&replay, &fields).await;
        assert_eq!(refused.status, 409, "{}", refused.text());
        assert!(refused.text().contains(sentence), "{}", refused.text());
    };
    assert_hidden("Son abonnement a été supprimé").await;
}

#[tokio::test]
async fn a_purged_delivery_offers_no_replay() {
    let scene = PortalScene::new().await;
    scene.world.pass(Duration::from_hours(31 * 24));
    scene.world.purge().await;
    scene.world.project().await;
    let french = scene.french().await;
    let path = format!("/portal/deliveries/{}", scene.failed);
    let page = french.page(&path).await;
    let sentence = "n’est plus conservé";
    assert!(page.contains(sentence) && !page.contains("request_id"), "{page}");
    let id = scene.world.id().to_string();
    let fields = [("request_id", &*id), ("reason", "they were down")];
    let refused = french.send(&format!("{path}/replay"), &fields).await;
    assert_eq!(refused.status, 409, "{}", refused.text());
    assert!(refused.text().contains(sentence), "{}", refused.text());
}

/// The page once offered a second replay while one waited.
#[tokio::test]
async fn a_waiting_replay_allows_no_second() {
    let scene = PortalScene::new().await;
    let owner = scene.owner().await;
    let path = format!("/portal/deliveries/{}", scene.failed);
    let replay = format!("{path}/replay");
    let (one, two) = (scene.world.id().to_string(), scene.world.id().to_string());
    let reason = ("reason", "they were down");
    assert_eq!(owner.send(&replay, &[("request_id", &*one), reason]).await.status, 303);
    let page = owner.page(&path).await;
    let sentence = "It is being sent already.";
    assert!(page.contains(sentence) && !page.contains("request_id"), "{page}");
    let second = owner.send(&replay, &[("request_id", &*two), reason]).await;
    assert_eq!(second.status, 409, "{}", second.text());
    assert!(second.text().contains(sentence), "{}", second.text());
}

/// The page once showed a failed step with a button, beside the news of its retry.
#[tokio::test]
async fn a_retried_step_shows_as_pending() {
    let scene = PortalScene::new().await;
    let owner = scene.owner().await;
    let run = format!("/portal/runs/{}", scene.run);
    let step = scene.step.to_string();
    let retried = owner.send(&format!("{run}/retry"), &[("step_id", &step)]).await;
    assert_eq!(retried.status, 303, "{}", retried.text());
    let page = owner.page(&format!("{run}?done=retried")).await;
    assert!(page.contains("pending") && !page.contains("step_id"), "{page}");
}

/// The refusal was once in English.
#[tokio::test]
async fn a_french_member_is_refused_in_french() {
    let scene = PortalScene::new().await;
    let french = scene.french().await;
    let (long, id) = ("a".repeat(101), scene.world.id().to_string());
    let refused = french.send("/portal/keys", &[("name", &*long), ("request_id", &*id)]).await;
    assert_eq!(refused.status, 400);
    assert!(refused.text().contains("Un champ est trop long"), "{}", refused.text());
    assert!(!refused.text().contains("must have"), "{}", refused.text());
}

/// Readings once filled the page. A filter shows them.
#[tokio::test]
async fn the_audit_page_hides_plain_readings() {
    let scene = PortalScene::new().await;
    let owner = scene.owner().await;
    for _ in 0..55 {
        owner.page("/portal/deliveries").await;
    }
    scene.world.project().await;
    let page = owner.page("/portal/audit").await;
    for action in ["hook_created", "key_created"] {
        assert!(page.contains(action), "{action}: {page}");
    }
    assert!(!page.contains("audit_read"), "{page}");
    let with = owner.page("/portal/audit?looks=true").await;
    assert!(with.contains("audit_read") && with.contains("<code>deliveries</code>"), "{with}");
}

/// A form that was sent twice once made two keys.
#[tokio::test]
async fn a_twice_sent_form_makes_one_key() {
    let scene = PortalScene::new().await;
    let owner = scene.owner().await;
    let id = value_of(&owner.page("/portal/keys").await, "request_id");
    let fields = [("name", "n8n"), ("request_id", &*id)];
    let (one, two) =
        tokio::join!(owner.send("/portal/keys", &fields), owner.send("/portal/keys", &fields));
    let mut statuses = [one.status.as_u16(), two.status.as_u16()];
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 409], "{} {}", one.text(), two.text());
    let later = owner.send("/portal/keys", &fields).await;
    assert_eq!(later.status, 409, "{}", later.text());
    assert!(later.text().contains("was made when this form was sent first"), "{}", later.text());
    assert_eq!(owner.page("/portal/keys").await.matches(">n8n<").count(), 1);
}

/// A form that was sent twice once made two secrets.
#[tokio::test]
async fn a_twice_sent_form_rotates_once() {
    let scene = PortalScene::new().await;
    let owner = scene.owner().await;
    let since = value_of(&owner.page("/portal/secret").await, "since");
    assert_eq!(since, scene.since);
    let fields = [("sure", "yes"), ("since", &*since)];
    let rotate = async || owner.send("/portal/secret/rotate", &fields).await;
    let (one, two) = tokio::join!(rotate(), rotate());
    let mut statuses = [one.status.as_u16(), two.status.as_u16()];
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 409], "{} {}", one.text(), two.text());
    let rotations = scene.entries().await;
    let rotations = rotations.iter().filter(|(action, _)| action == "secret_rotated").count();
    assert_eq!(rotations, 1);
}

/// A run with more steps than a page was once cut without a word.
#[tokio::test]
async fn a_long_run_has_more_pages() {
    let scene = PortalScene::new().await;
    scene.world.pass(Duration::from_secs(1));
    for _ in 0..50 {
        scene.another_step().await;
    }
    scene.world.project().await;
    let owner = scene.owner().await;
    let path = format!("/portal/runs/{}", scene.run);
    let page = owner.get(&path).await;
    assert!(page.bytes.len() < 60 << 10, "{} bytes", page.bytes.len());
    let at = page.text().find(&format!("{path}?after=")).unwrap();
    let next = page.text()[at..].split('"').next().unwrap();
    let second = owner.page(next).await;
    assert_eq!(second.matches("<tr>").count(), 2, "the head and one step: {second}");
}

/// Each revoked key once made the page of keys longer.
#[tokio::test]
async fn revoked_keys_have_their_own_pages() {
    let scene = PortalScene::new().await;
    let (service, firm) = (scene.world.service(), &scene.firm);
    for number in 0..51 {
        let name = format!("gone {number}");
        let made = scene.world.new_key(firm, &name).await;
        keys::revoke(service, firm.id, made.id, Actor::Member(firm.owner)).await.unwrap();
    }
    let owner = scene.owner().await;
    let page = owner.page("/portal/keys").await;
    assert!(!page.contains("gone ") && page.contains(">you<"), "{page}");
    let revoked = owner.get("/portal/keys?revoked=true").await;
    assert_eq!(revoked.text().matches(">gone ").count(), 50, "{}", revoked.text());
    assert!(revoked.bytes.len() < 60 << 10, "{} bytes", revoked.bytes.len());
    let at = revoked.text().find("/portal/keys?revoked=true&amp;after=").unwrap();
    let next = revoked.text()[at..].split('"').next().unwrap().replace("&amp;", "&");
    assert_eq!(owner.page(&next).await.matches(">gone ").count(), 1);
}
