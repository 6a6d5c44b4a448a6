//! Links, sessions and cookies.

use std::time::Duration;

use api::commands::tokens::{self, HolderRole};
use domain::values::Timestamp;
use projector::housekeeping::HousekeepingWorker;
use serde_json::json;
use tests::{World, activity};

use super::{PortalScene, PortalVisitor, ask, cookie_of, get, order_link, path_of};
use crate::console::value_of;

/// Owners and admins manage a firm. The code of a link is kept nowhere.
#[tokio::test]
async fn only_managers_get_a_portal_link() {
    let scene = PortalScene::new().await;
    let (world, firm) = (&scene.world, &scene.firm);
    let (admin, member) = (world.id(), world.id());
    for (id, role) in [(admin, "admin"), (member, "member")] {
        let event = activity(firm.id, "member.joined", json!({"member_id": id, "role": role}));
        world.report_one(event).await;
    }
    let made = scene.order(admin, json!({})).await;
    assert_eq!(made.status, 201, "{}", made.body);
    assert_eq!(made.headers["cache-control"], "no-store");
    let url = made.body["url"].as_str().unwrap();
    let code = url.strip_prefix("https://forms.test/portal/enter?code=").unwrap();
    assert_eq!(code.len(), 43);
    let until: Timestamp = (world.clock.now().get() + Duration::from_secs(60)).into();
    assert_eq!(made.body["expires_at"], json!(until));
    assert!(world.columns_holding(code).await.is_empty(), "the code is kept nowhere");
    for (who, code) in [(member, "not_a_manager"), (world.id(), "not_a_manager")] {
        assert_eq!(scene.order(who, json!({})).await.code(), (403, code));
    }
    let nowhere = order_link(world, world.id(), firm.owner, json!({})).await;
    assert_eq!(nowhere.code(), (404, "firm_not_found"));
    for wrong in [
        json!({"lang": "de"}),
        json!({"lang": 1}),
        json!({"frame_origin": "https://*.example.com"}),
        json!({"frame_origin": "https://a.example; script-src *"}),
        json!({"frame_origin": "https://a.example/page"}),
        json!({"other": true}),
    ] {
        let refused = scene.order(firm.owner, wrong.clone()).await;
        assert_eq!(refused.code(), (400, "invalid_request"), "{wrong}");
    }
    world.report_one(activity(firm.id, "firm.suspended", json!({}))).await;
    scene.order(firm.owner, json!({})).await.refused(403, "firm_inactive");
}

#[tokio::test]
async fn auditors_and_foreign_tokens_get_no_link() {
    let scene = PortalScene::new().await;
    let path = format!("/firms/{}/portal-links", scene.firm.id);
    let order = async |token: &str| {
        let body = json!({"member_id": scene.firm.owner});
        scene.world.call_internally(token, "POST", &path, body).await
    };
    let auditor = scene.world.new_token(HolderRole::Auditor).await;
    order(&auditor).await.refused(403, "forbidden");
    let scope = domain::access::TokenScope {
        name: "elsewhere".into(),
        role: HolderRole::Product,
        expires_at: None,
        firm_ids: Some(vec![scene.world.firm().await.id]),
    };
    let limited = tokens::create_limited(scene.world.service(), scope).await.unwrap();
    order(&limited.token).await.refused(404, "firm_not_found");
    order("fft_none").await.refused(401, "unauthorized");
}

/// Of two visits at once, one gets the session.
#[tokio::test]
async fn a_link_works_once() {
    let scene = PortalScene::new().await;
    let link = scene.link().await;
    let first = get(&scene.world, &link, &[]).await;
    assert_eq!(first.status, 200, "{}", first.text());
    let second = get(&scene.world, &link, &[]).await;
    assert_eq!(second.status, 401);
    assert!(!second.headers.contains_key("set-cookie"));
    let link = scene.link().await;
    let both = tokio::join!(get(&scene.world, &link, &[]), get(&scene.world, &link, &[]));
    let mut statuses = [both.0.status.as_u16(), both.1.status.as_u16()];
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 401], "two at once");
}

#[tokio::test]
async fn a_link_ends_after_a_minute() {
    let scene = PortalScene::new().await;
    let (early, late) = (scene.link().await, scene.link().await);
    scene.world.pass(Duration::from_millis(59_999));
    assert_eq!(get(&scene.world, &early, &[]).await.status, 200);
    scene.world.pass(Duration::from_millis(1));
    assert_eq!(get(&scene.world, &late, &[]).await.status, 401);
    for wrong in ["/portal/enter", "/portal/enter?code=", "/portal/enter?code=AAAA"] {
        assert_eq!(get(&scene.world, wrong, &[]).await.status, 401, "{wrong}");
    }
}

/// Programs open a link before the person does. Such a look once used the link up.
#[tokio::test]
async fn previews_leave_a_link_unused() {
    let scene = PortalScene::new().await;
    let link = scene.link().await;
    assert_eq!(ask(&scene.world, "HEAD", &link, &[]).await.status, 401);
    let guess = get(&scene.world, &link, &[("sec-purpose", "prefetch")]).await;
    assert_eq!(guess.status, 401);
    assert_eq!(get(&scene.world, &link, &[]).await.status, 200);
}

/// The member was demoted after the link was made.
#[tokio::test]
async fn a_demoted_member_cannot_use_a_link() {
    let scene = PortalScene::new().await;
    let link = scene.link().await;
    scene.report_owner("member.role_changed", json!({"role": "member"}), 1).await;
    let refused = get(&scene.world, &link, &[]).await;
    assert_eq!(refused.status, 401);
    assert!(!refused.headers.contains_key("set-cookie"));
}

/// The page of the link leads to the portal by itself.
#[tokio::test]
async fn a_session_lasts_half_an_hour() {
    let scene = PortalScene::new().await;
    let entered = get(&scene.world, &scene.link().await, &[]).await;
    let refresh = "<meta http-equiv=\"refresh\" content=\"0; url=/portal\">";
    assert!(entered.text().contains(refresh), "{}", entered.text());
    let set = entered.headers["set-cookie"].to_str().unwrap();
    let (pair, attributes) = set.split_once("; ").unwrap();
    assert!(pair.starts_with("__Host-firmforms_portal="), "{set}");
    assert_eq!(attributes, "Max-Age=1800; HttpOnly; Path=/; SameSite=Strict; Secure");
    let open = async || get(&scene.world, "/portal/secret", &[("cookie", pair)]).await.status;
    scene.world.pass(Duration::from_secs(30 * 60 - 1));
    assert_eq!(open().await, 200);
    scene.world.pass(Duration::from_secs(1));
    assert_eq!(open().await, 401);
}

#[tokio::test]
async fn the_sign_out_ends_all_cookie_copies() {
    let scene = PortalScene::new().await;
    let owner = scene.owner().await;
    let copy = PortalVisitor { world: &scene.world, cookie: owner.cookie.clone() };
    let left = owner.send("/portal/leave", &[]).await;
    assert_eq!(left.status, 200);
    let set = left.headers["set-cookie"].to_str().unwrap();
    assert!(set.starts_with("__Host-firmforms_portal=; Max-Age=0;"), "{set}");
    assert_eq!(copy.get("/portal").await.status, 401);
}

/// The beginning of the session is an entry, too.
#[tokio::test]
async fn each_look_is_the_members_entry() {
    let scene = PortalScene::new().await;
    let owner = scene.owner().await;
    let you = format!("member:{}", scene.firm.owner);
    let looks = async || {
        let entries = scene.entries().await;
        entries.iter().filter(|(action, by)| action == "audit_read" && *by == you).count()
    };
    assert_eq!(looks().await, 1);
    for (path, more) in [
        ("/portal/keys", 0),
        ("/portal/secret", 0),
        ("/portal/hooks", 1),
        ("/portal/deliveries", 1),
        ("/portal/audit", 1),
    ] {
        let before = looks().await;
        owner.page(path).await;
        assert_eq!(looks().await, before + more, "{path}");
    }
}

/// A browser sends no strict cookie with a link from another site. The page follows the link again.
#[tokio::test]
async fn a_cross_site_link_is_followed_again() {
    let scene = PortalScene::new().await;
    let from = [("sec-fetch-site", "cross-site")];
    let answer = get(&scene.world, "/portal/deliveries?state=failed", &from).await;
    assert_eq!(answer.status, 200);
    let refresh = "content=\"0; url=/portal/deliveries?state=failed\"";
    assert!(answer.text().contains(refresh), "{}", answer.text());
    assert_eq!(get(&scene.world, "/portal/deliveries", &[]).await.status, 401);
}

/// A cookie of a neighbour with the same name once hid the session.
#[tokio::test]
async fn a_foreign_cookie_hides_no_session() {
    let scene = PortalScene::new().await;
    let owner = scene.owner().await;
    for strange in ["__Host-firmforms_portal=", "__Host-firmforms_portal=AAAA"] {
        let cookie = format!("{strange}; {}", owner.cookie);
        let page = get(&scene.world, "/portal/keys", &[("cookie", &cookie)]).await;
        assert_eq!(page.status, 200, "{strange}");
    }
    let clear = owner.cookie.replace("__Host-", "");
    let page = get(&scene.world, "/portal/keys", &[("cookie", &clear)]).await;
    assert_eq!(page.status, 401, "behind TLS no neighbour can set the cookie");
}

#[tokio::test]
async fn link_browser_or_button_sets_the_language() {
    let scene = PortalScene::new().await;
    let french = scene.order(scene.firm.owner, json!({"lang": "fr"})).await;
    let french = PortalVisitor::with(&scene.world, &path_of(&french)).await;
    let page = french.page("/portal/keys").await;
    assert!(page.contains("<html lang=\"fr\">") && page.contains("Clés d’API"), "{page}");
    let owner = scene.owner().await;
    let headers = [("cookie", &*owner.cookie), ("accept-language", "de, es-MX;q=0.9, fr;q=0.5")];
    let spanish = get(&scene.world, "/portal/keys", &headers).await;
    assert_eq!(spanish.headers["content-language"], "es");
    assert!(spanish.text().contains("Claves de API"), "{}", spanish.text());
    assert_eq!(owner.send("/portal/lang", &[("lang", "fr")]).await.status, 303);
    let chosen = get(&scene.world, "/portal/keys", &headers).await;
    assert!(chosen.text().contains("<html lang=\"fr\">"), "{}", chosen.text());
    assert_eq!(owner.send("/portal/lang", &[("lang", "de")]).await.status, 400);
    let refused = get(&scene.world, "/portal", &[("accept-language", "fr")]).await;
    assert!(refused.text().contains("a expiré"), "{}", refused.text());
}

#[tokio::test]
async fn ended_links_and_sessions_are_forgotten() {
    let scene = PortalScene::new().await;
    let owner = scene.owner().await;
    scene.link().await;
    let sweep = async || {
        use eventstore::worker::{NextStep, Worker};
        let clock = scene.world.clock.clone();
        let mut worker = HousekeepingWorker::new(scene.world.pool().clone(), clock);
        while worker.step().await.unwrap() == NextStep::Busy {}
        scene.world.count("portal_sessions").await
    };
    assert_eq!(sweep().await, 2);
    scene.world.pass(Duration::from_secs(60));
    assert_eq!(sweep().await, 1);
    assert_eq!(owner.get("/portal/keys").await.status, 200);
    scene.world.pass(Duration::from_secs(30 * 60));
    assert_eq!(sweep().await, 0);
}

/// Without TLS, as on a developer's machine, the name has no prefix.
#[tokio::test]
async fn without_tls_the_cookie_has_another_name() {
    let database = tests::TestDatabase::new().await;
    let clock = eventstore::Clock::standing_at("2026-11-01T12:00:00Z".parse().unwrap());
    let change =
        |setup| service::SystemSetup { base_url: "http://127.0.0.1:8080/api/v1".into(), ..setup };
    let scene = PortalScene::from_world(World::with(database, clock, change).await).await;
    let entered = get(&scene.world, &scene.link().await, &[]).await;
    let set = entered.headers["set-cookie"].to_str().unwrap();
    assert!(set.starts_with("firmforms_portal="), "{set}");
    assert!(set.ends_with("; HttpOnly; Path=/portal; SameSite=Strict"), "{set}");
    let visitor = PortalVisitor { world: &scene.world, cookie: cookie_of(&entered) };
    assert!(!value_of(&visitor.page("/portal/secret").await, "form_token").is_empty());
}

/// The addresses of the portal begin at the root of the host. A base URL with a path once made
/// links that led nowhere.
#[tokio::test]
async fn portal_links_need_a_pathless_base_url() {
    let database = tests::TestDatabase::new().await;
    let clock = eventstore::Clock::standing_at("2026-11-01T12:00:00Z".parse().unwrap());
    let change = |setup| service::SystemSetup {
        base_url: "https://forms.test/forms/api/v1".into(),
        ..setup
    };
    let scene = PortalScene::from_world(World::with(database, clock, change).await).await;
    let refused = scene.order(scene.firm.owner, json!({})).await;
    assert_eq!(refused.code(), (400, "invalid_request"), "{}", refused.body);
    let page = get(&scene.world, "/portal/keys", &[]).await;
    assert_eq!(page.code(), (401, "unauthorized"), "as any unknown route");
}

/// The refusal of a used link was once a blank frame.
#[tokio::test]
async fn a_used_link_shows_inside_its_frame() {
    let scene = PortalScene::new().await;
    let app = "https://app.example.com";
    let order = json!({ "frame_origin": app });
    let link = path_of(&scene.order(scene.firm.owner, order.clone()).await);
    let late = path_of(&scene.order(scene.firm.owner, order.clone()).await);
    let owner = PortalVisitor::with(&scene.world, &link).await;
    let again = owner.get(&link).await;
    assert_eq!(again.status, 200, "{}", again.text());
    assert!(again.text().contains("0; url=/portal"), "{}", again.text());
    assert!(!again.headers.contains_key("set-cookie"));
    let admin = scene.world.id();
    let joined = json!({"member_id": admin, "role": "admin"});
    scene.world.report_one(activity(scene.firm.id, "member.joined", joined)).await;
    let other = path_of(&scene.order(admin, json!({})).await);
    let other = PortalVisitor::with(&scene.world, &other).await;
    let strange = other.get(&link).await;
    assert_eq!(strange.status, 401, "the session of another member");
    let spent = get(&scene.world, &link, &[("sec-fetch-site", "cross-site")]).await;
    scene.world.pass(Duration::from_secs(60));
    let late = get(&scene.world, &late, &[]).await;
    let demoted = path_of(&scene.order(scene.firm.owner, order).await);
    scene.report_owner("member.role_changed", json!({"role": "member"}), 1).await;
    let demoted = get(&scene.world, &demoted, &[]).await;
    for refused in [strange, spent, late, demoted] {
        assert_eq!(refused.status, 401, "{}", refused.text());
        let policy = refused.headers["content-security-policy"].to_str().unwrap();
        assert!(policy.contains(&format!("frame-ancestors {app};")), "{policy}");
    }
}

/// A browser sends no strict cookie with a link from another site. The page of a used link then
/// said that the live session was over.
#[tokio::test]
async fn a_used_link_elsewhere_keeps_the_session() {
    let scene = PortalScene::new().await;
    let link = scene.link().await;
    PortalVisitor::with(&scene.world, &link).await;
    let again = get(&scene.world, &link, &[("sec-fetch-site", "cross-site")]).await;
    assert_eq!(again.status, 200, "{}", again.text());
    assert!(again.text().contains("0; url=/portal"), "{}", again.text());
}

/// A final slash, two codes and another method once got an answer of the API.
#[tokio::test]
async fn odd_portal_requests_get_portal_pages() {
    let scene = PortalScene::new().await;
    let owner = scene.owner().await;
    let slash = owner.get("/portal/").await;
    assert_eq!(
        (slash.status.as_u16(), slash.headers["location"].to_str().unwrap()),
        (308, "/portal")
    );
    let link = scene.link().await;
    let twice = get(&scene.world, &format!("{link}&code=b"), &[]).await;
    assert_eq!(twice.status, 401);
    assert_eq!(twice.headers["content-type"], "text/html; charset=utf-8");
    for (method, path, allowed) in
        [("POST", "/portal/deliveries", "GET,HEAD"), ("GET", "/portal/secret/reveal", "POST")]
    {
        let refused = ask(&scene.world, method, path, &[]).await;
        assert_eq!(refused.status, 405, "{method} {path}");
        assert_eq!(refused.headers["allow"], allowed, "{method} {path}");
        assert_eq!(refused.headers["content-type"], "text/html; charset=utf-8");
    }
}

/// The choice of a language once led to the first page.
#[tokio::test]
async fn a_language_choice_stays_on_the_page() {
    let scene = PortalScene::new().await;
    let owner = scene.owner().await;
    let page = owner.page("/portal/deliveries?state=failed").await;
    let back = value_of(&page, "back");
    assert_eq!(back, "/portal/deliveries?state=failed");
    for (back, leads_to) in [(&*back, &*back), ("//evil.example/portal", "/portal")] {
        let chosen = owner.send("/portal/lang", &[("lang", "fr"), ("back", back)]).await;
        assert_eq!(chosen.headers["location"], leads_to);
    }
}
