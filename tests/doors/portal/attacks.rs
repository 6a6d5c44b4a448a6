//! Attacks: other firms, former managers, forms of other sites, frames, foreign text.

use serde_json::json;
use tests::{Reply, activity, make_request};

use super::{PortalScene, PortalVisitor, get, path_of, post, refs};

const SCRIPT: &str = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>";

/// A session of one firm asks for ids of another firm.
#[tokio::test]
async fn a_session_reaches_no_other_firm() {
    let scene = PortalScene::new().await;
    let other = scene.world.firm().await;
    let link = super::order_link(&scene.world, other.id, other.owner, json!({})).await;
    let stranger = PortalVisitor::with(&scene.world, &path_of(&link)).await;
    let firm = scene.firm.id.to_string();
    for path in scene.pages() {
        let answer = stranger.get(&path).await;
        let names_one = path.matches('-').count() > 3;
        let status = if names_one { 404 } else { 200 };
        assert_eq!(answer.status, status, "{path}: {}", answer.text());
        for secret in [&*firm, "hook?secret", &scene.firm.key[..12], &scene.hook.to_string()] {
            assert!(!answer.text().contains(secret), "{path}: {secret}");
        }
    }
    let of_hook = format!("/portal/deliveries?hook_id={}", scene.hook);
    assert!(stranger.page(&of_hook).await.contains("Nothing here."));
    for (path, fields) in scene.commands() {
        let is_own = ["/portal/keys", "/portal/secret/reveal", "/portal/secret/rotate"];
        if is_own.contains(&&*path) {
            continue;
        }
        let refused = stranger.send(&path, &refs(&fields)).await;
        assert_eq!(refused.status, 404, "{path}: {}", refused.text());
    }
    let entries = scene.entries().await;
    let by = format!("member:{}", other.owner);
    assert!(!entries.iter().any(|(_, actor)| *actor == by), "{entries:?}");
}

/// The right is looked up at every request, and again by every append. Such a member once went on.
#[tokio::test]
async fn a_demoted_or_former_member_is_refused() {
    let scene = PortalScene::new().await;
    let owner = scene.owner().await;
    let token = owner.form_token().await;
    for (second, kind, data) in [
        (1, "member.role_changed", json!({"role": "member"})),
        (3, "member.disabled", json!({})),
        (5, "member.left", json!({})),
    ] {
        scene.report_owner(kind, data, second).await;
        let before = scene.events().await;
        for path in scene.pages() {
            assert_eq!(owner.get(&path).await.status, 401, "{kind} {path}");
        }
        for (path, fields) in scene.commands() {
            let mut fields = refs(&fields);
            fields.push(("form_token", &token));
            let headers = [("cookie", &*owner.cookie)];
            let refused = post(&scene.world, &path, &headers, &fields).await;
            assert_eq!(refused.status, 401, "{kind} {path}");
        }
        assert_eq!(scene.events().await, before, "{kind}");
        scene.report_owner("member.joined", json!({"role": "admin"}), second + 1).await;
        assert_eq!(owner.get("/portal/keys").await.status, 200, "an admin again");
    }
    let event = tests::later(activity(scene.firm.id, "firm.suspended", json!({})), 9);
    scene.world.report_one(event).await;
    assert_eq!(owner.get("/portal/keys").await.status, 401, "of a suspended firm");
}

/// Without the session's form token, or from another site or origin, each command gets 403.
#[tokio::test]
async fn a_form_of_another_site_is_refused() {
    let scene = PortalScene::new().await;
    let (owner, other) = (scene.owner().await, scene.owner().await);
    let (own, strange) = (owner.form_token().await, other.form_token().await);
    let before = scene.events().await;
    for (path, fields) in scene.commands() {
        let cookie = ("cookie", &*owner.cookie);
        for (headers, token) in [
            (&[cookie][..], None),
            (&[cookie], Some("")),
            (&[cookie], Some(&*strange)),
            (&[cookie, ("sec-fetch-site", "cross-site")], Some(&own)),
            (&[cookie, ("sec-fetch-site", "same-site")], Some(&own)),
            (&[cookie, ("origin", "https://evil.example"), ("host", "forms.test")], Some(&own)),
            (&[cookie, ("origin", "null"), ("host", "forms.test")], Some(&own)),
        ] {
            let mut fields = refs(&fields);
            fields.extend(token.map(|token| ("form_token", token)));
            let refused = post(&scene.world, &path, headers, &fields).await;
            assert_eq!(refused.status, 403, "{path} {headers:?}");
        }
        let get = owner.get(&path).await;
        assert!([200, 404, 405].contains(&get.status.as_u16()), "{path} {}", get.status);
    }
    let looks = scene.events().await - before;
    let entries = scene.entries().await;
    let acts = [
        "key_created",
        "secret_revealed",
        "secret_rotated",
        "hook_tested",
        "replay_requested",
        "workflow_step_retried",
        "key_revoked",
        "target_revealed",
    ];
    let done: Vec<_> = entries.iter().rev().take(usize::try_from(looks).unwrap()).collect();
    assert!(!done.iter().any(|(action, _)| acts.contains(&&**action)), "{done:?}");
}

#[tokio::test]
async fn a_form_of_another_type_is_refused() {
    let scene = PortalScene::new().await;
    let owner = scene.owner().await;
    let headers = [("cookie", &*owner.cookie), ("content-type", "text/plain")];
    let request = make_request("POST", "/portal/keys", &headers, "name=a");
    let refused = scene.world.public(request).await;
    assert_eq!(refused.status, 415);
}

/// Without an origin in the link, no site frames a page.
#[tokio::test]
async fn only_the_named_origin_frames_pages() {
    let scene = PortalScene::new().await;
    let policy = |answer: &tests::Answer| {
        answer.headers["content-security-policy"].to_str().unwrap().to_owned()
    };
    let owner = scene.owner().await;
    for path in scene.pages().iter().map(String::as_str).chain(["/portal/none"]) {
        let answer = owner.get(path).await;
        let csp = policy(&answer);
        assert!(csp.contains("frame-ancestors 'none'"), "{path}: {csp}");
        assert_eq!(answer.headers["x-frame-options"], "DENY", "{path}");
        assert!(!csp.contains("unsafe") && !csp.contains("script-src"), "{csp}");
        assert_eq!(answer.headers["cache-control"], "no-store", "{path}");
        assert!(!answer.text().contains("<script") && !answer.text().contains("style="), "{path}");
        assert!(answer.bytes.len() < 60 << 10, "{path}: {} bytes", answer.bytes.len());
    }
    let app = "https://app.example.com";
    let framed = scene.order(scene.firm.owner, json!({ "frame_origin": app })).await;
    let entered = get(&scene.world, &path_of(&framed), &[]).await;
    let set = entered.headers["set-cookie"].to_str().unwrap();
    assert!(set.ends_with("Path=/; SameSite=None; Secure; Partitioned"), "{set}");
    let visitor = PortalVisitor { world: &scene.world, cookie: super::cookie_of(&entered) };
    let page = visitor.get("/portal/keys").await;
    scene.world.pass(std::time::Duration::from_secs(1_800));
    for answer in [entered, page, visitor.get("/portal/keys").await] {
        let csp = policy(&answer);
        assert!(csp.contains(&format!("frame-ancestors {app};")), "{csp}");
        assert!(!answer.headers.contains_key("x-frame-options"));
    }
}

#[tokio::test]
async fn names_labels_reasons_and_targets_stay_text() {
    let scene = PortalScene::new().await;
    let firm = &scene.firm;
    let brand = json!({"color": "red;}</style><script>", "logo_url": "javascript:alert(1)"});
    let event = activity(firm.id, "firm.changed", json!({"name": SCRIPT, "brand": brand}));
    scene.world.report_one(event).await;
    scene.world.new_key(firm, SCRIPT).await;
    let target = scene.receiver.url("/%22%3E%3Cscript%3Ealert(1)?a=<script>alert(1)</script>");
    let hook = scene.world.subscribe(firm, &target).await;
    let answer = Reply::status(500).header("content-type", "text/html").body(SCRIPT.as_bytes());
    scene.receiver.reply([answer]);
    let owner = scene.owner().await;
    let secret = [("sure", "yes"), ("reason", SCRIPT), ("since", &*scene.since)];
    assert_eq!(owner.send("/portal/secret/rotate", &secret).await.status, 200);
    scene.world.project().await;
    let mut pages = scene.pages();
    pages.push(format!("/portal/hooks/{hook}"));
    pages.push("/portal/audit?done=%3Cscript%3E&other=%22%3E%3Cscript%3Ealert(1)".into());
    let mut shown = 0;
    for path in pages {
        let page = owner.page(&path).await;
        shown += usize::from(page.contains("&lt;script&gt;alert(1)"));
        assert_tame(&page, &path);
    }
    assert!(shown > 5, "{shown} pages showed the text");
    let tested = owner.send(&format!("/portal/hooks/{hook}/test"), &[]).await;
    assert_eq!(tested.status, 200, "{}", tested.text());
    assert_tame(tested.text(), "test");
    let whole = owner.send(&format!("/portal/hooks/{hook}/target"), &[]).await;
    assert_tame(whole.text(), "target");
    let cookie = [("cookie", &*owner.cookie)];
    for path in ["deliveries?state", "deliveries?hook_id", "hooks?after", "audit?after"] {
        let path = format!("/portal/{path}=%3Cscript%3Ealert(1)");
        let strange = get(&scene.world, &path, &cookie).await;
        assert_eq!(strange.status, 400, "{path}");
        assert_tame(strange.text(), &path);
    }
}

fn assert_tame(page: &str, path: &str) {
    for part in ["<script", "<img", "\"'><", "javascript:", "</style>"] {
        assert!(!page.contains(part), "{path}: {part}: {page}");
    }
}

/// A brand's colour could once write more than a colour into the style.
#[tokio::test]
async fn a_brand_style_takes_only_a_colour() {
    let scene = PortalScene::new().await;
    let style = get(&scene.world, "/portal/brand/1a2b3c", &[]).await;
    assert_eq!(style.text(), ":root{--brand:#1a2b3c;--brand-ink:#ffffff}");
    for wrong in ["red", "%7D*%7Bcolor:red", "12345", "1234567"] {
        assert_eq!(get(&scene.world, &format!("/portal/brand/{wrong}"), &[]).await.status, 404);
    }
}

/// A request with two hundred cookies once made a statement for each cookie. Here malformed texts
/// are refused while the table is locked.
#[tokio::test]
async fn malformed_cookies_and_codes_cost_no_statement() {
    let scene = PortalScene::new().await;
    let owner = scene.owner().await;
    let name = owner.cookie.split_once('=').unwrap().0;
    let mut held = scene.world.pool().begin().await.unwrap();
    let lock = "lock table portal_sessions in access exclusive mode";
    sqlx::query(lock).execute(&mut *held).await.unwrap();
    for value in ["", "x", &"A".repeat(42), &"!".repeat(43)] {
        let cookies = vec![format!("{name}={value}"); 200].join("; ");
        let answer = get(&scene.world, "/portal/keys", &[("cookie", &cookies)]).await;
        assert_eq!(answer.status, 401, "{value}");
    }
    assert_eq!(get(&scene.world, "/portal/enter?code=x", &[]).await.status, 401);
    held.rollback().await.unwrap();
    assert_eq!(owner.get("/portal/keys").await.status, 200);
}
