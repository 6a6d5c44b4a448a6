//! Sessions: from a token to a cookie, and to the end of both.

use std::time::Duration;

use api::commands::tokens::{self, HolderRole};
use domain::access::TokenScope;
use tests::World;

use super::{Scene, Visitor, cookie_of, get, post, sign_in};

/// No script and no other site gets the cookie.
#[tokio::test]
async fn a_token_becomes_an_eight_hour_cookie() {
    let world = World::new().await;
    let token = world.new_token(HolderRole::Operator).await;
    let answer = sign_in(&world, &token, &[]).await;
    assert_eq!(
        (answer.status.as_u16(), &answer.headers["location"]),
        (303, &"/console".parse().unwrap())
    );
    let set = answer.headers["set-cookie"].to_str().unwrap();
    let (pair, attributes) = set.split_once("; ").unwrap();
    assert_eq!(attributes, "Path=/console; Max-Age=28800; HttpOnly; SameSite=Strict");
    assert!(pair.starts_with("firmforms_console=") && !set.contains(&token), "{set}");
    let secure = sign_in(&world, &token, &[("origin", "https://a:1"), ("host", "a:1")]).await;
    let set = secure.headers["set-cookie"].to_str().unwrap();
    let (pair, attributes) = set.split_once("; ").unwrap();
    assert_eq!(attributes, "Path=/; Max-Age=28800; HttpOnly; SameSite=Strict; Secure");
    assert!(pair.starts_with("__Host-firmforms_console="), "{set}");
    assert_eq!(get(&world, "/console/firms", &[("cookie", pair)]).await.status, 200);
}

/// A site of the same domain can set cookies of this name, which a browser may send first. Such a
/// cookie once hid the session.
#[tokio::test]
async fn a_foreign_cookie_hides_no_session() {
    let scene = Scene::new().await;
    let own = scene.visitor(HolderRole::Operator).await;
    let other = scene.visitor(HolderRole::Auditor).await;
    let open =
        async |cookie: String| get(&scene.world, "/console/firms", &[("cookie", &cookie)]).await;
    for strange in ["firmforms_console=", "firmforms_console=AAAA", "__Host-firmforms_console=A"] {
        let page = open(format!("{strange}; {}", own.cookie)).await;
        assert_eq!(page.status, 200, "{strange}");
    }
    let secure = format!("{}; __Host-{}", other.cookie, own.cookie);
    let page = open(secure).await;
    assert!(page.text().contains("<span>operator</span>"), "{}", page.text());
}

/// Behind a proxy that rewrites the host, nobody could once sign in.
#[tokio::test]
async fn a_rewritten_host_allows_the_sign_in() {
    let scene = Scene::new().await;
    let token = scene.world.new_token(HolderRole::Operator).await;
    let rewritten = [("origin", "https://console.example"), ("host", "10.0.0.7:8081")];
    let same = [&[("sec-fetch-site", "same-origin")][..], &rewritten].concat();
    assert_eq!(sign_in(&scene.world, &token, &same).await.status, 303);
    let old = sign_in(&scene.world, &token, &rewritten).await;
    assert_eq!(old.status, 403, "a browser without this header is compared with the host");
    let foreign = [&[("sec-fetch-site", "cross-site")][..], &rewritten].concat();
    assert_eq!(sign_in(&scene.world, &token, &foreign).await.status, 403);
}

/// Revoked and unknown tokens are refused, too.
#[tokio::test]
async fn only_operator_and_auditor_tokens_sign_in() {
    let world = World::new().await;
    let revoked = tokens::create(world.service(), "op", HolderRole::Operator).await.unwrap();
    tokens::revoke(world.service(), revoked.id).await.unwrap();
    let product = tokens::create(world.service(), "back end", HolderRole::Product).await.unwrap();
    let strange = format!("fft_{}", "A".repeat(43));
    for (token, status) in
        [(&*revoked.token, 401), (&strange, 401), ("", 401), ("fft_", 401), (&product.token, 403)]
    {
        let answer = sign_in(&world, token, &[]).await;
        assert_eq!(answer.status, status, "{token}");
        assert!(!answer.headers.contains_key("set-cookie"), "{token}");
        assert!(token.is_empty() || !answer.text().contains(token), "{token}");
    }
}

#[tokio::test]
async fn a_session_ends_with_its_token() {
    let scene = Scene::new().await;
    let service = scene.world.service();
    let is_open = async |visitor: &Visitor<'_>| visitor.get("/console/firms").await.status == 200;
    let lasting = scene.visitor(HolderRole::Auditor).await;
    let made = tokens::create(service, "op", HolderRole::Operator).await.unwrap();
    let revoked = Visitor::with(&scene.world, &made.token).await;
    let expires_at = Some("2026-11-01T12:20:00Z".parse().unwrap());
    let scope = TokenScope {
        name: "20 minutes".into(),
        role: HolderRole::Operator,
        expires_at,
        firm_ids: None,
    };
    let short = tokens::create_limited(service, scope).await.unwrap();
    let expired = Visitor::with(&scene.world, &short.token).await;
    assert!(is_open(&lasting).await && is_open(&revoked).await && is_open(&expired).await);
    tokens::revoke(service, made.id).await.unwrap();
    assert!(!is_open(&revoked).await);
    scene.world.pass(Duration::from_mins(20));
    assert!(!is_open(&expired).await && is_open(&lasting).await);
}

/// Opens a page like a browser, which keeps the cookie of each answer.
async fn use_session(world: &World, cookie: &mut String) -> u16 {
    let answer = get(world, "/console/firms", &[("cookie", cookie)]).await;
    if answer.headers.contains_key("set-cookie") {
        *cookie = cookie_of(&answer);
    }
    answer.status.as_u16()
}

/// An unused session once stayed open for eight hours.
#[tokio::test]
async fn an_unused_session_ends_after_30_minutes() {
    let scene = Scene::new().await;
    let mut cookie = scene.visitor(HolderRole::Operator).await.cookie;
    let first = cookie.clone();
    for _ in 0..2 {
        scene.world.pass(Duration::from_secs(30 * 60 - 1));
        assert_eq!(use_session(&scene.world, &mut cookie).await, 200);
    }
    let copy = get(&scene.world, "/console/firms", &[("cookie", &first)]).await;
    assert_eq!(copy.status, 303, "a copy of an older cookie");
    let newer = scene.at("/deliveries/newer?after=2026-11-01T12:00:00Z");
    let answer = get(&scene.world, &newer, &[("cookie", &cookie)]).await;
    assert!(!answer.headers.contains_key("set-cookie"), "a page that asks by itself is no use");
    scene.world.pass(Duration::from_mins(30));
    assert_eq!(use_session(&scene.world, &mut cookie).await, 303);
}

#[tokio::test]
async fn a_used_session_ends_after_8_hours() {
    let scene = Scene::new().await;
    let mut cookie = scene.visitor(HolderRole::Operator).await.cookie;
    for _ in 0..16 {
        scene.world.pass(Duration::from_mins(29));
        assert_eq!(use_session(&scene.world, &mut cookie).await, 200);
    }
    scene.world.pass(Duration::from_secs(16 * 60 - 1));
    assert_eq!(use_session(&scene.world, &mut cookie).await, 200);
    scene.world.pass(Duration::from_secs(1));
    assert_eq!(use_session(&scene.world, &mut cookie).await, 303);
}

/// A site of the same domain can set a cookie without the prefix, and so sign in a victim as the
/// attacker.
#[tokio::test]
async fn a_cookie_without_prefix_fails_behind_tls() {
    let scene = Scene::new().await;
    let cookie = scene.visitor(HolderRole::Operator).await.cookie;
    let tls = [("host", "ops.example"), ("sec-fetch-site", "same-origin")];
    for (cookie, status) in [(cookie.clone(), 303), (format!("__Host-{cookie}"), 200)] {
        let headers = [&tls[..], &[("cookie", &*cookie)]].concat();
        let answer = get(&scene.world, "/console/firms", &headers).await;
        assert_eq!(answer.status, status, "{cookie}");
        if status == 200 {
            assert!(cookie_of(&answer).starts_with("__Host-"), "{cookie}");
        }
    }
}

/// Each of 60 wrong tokens once got 401.
#[tokio::test]
async fn after_20_wrong_tokens_an_address_waits() {
    let world = World::new().await;
    let token = world.new_token(HolderRole::Operator).await;
    for _ in 0..20 {
        assert_eq!(sign_in(&world, "fft_wrong", &[]).await.status, 401);
    }
    let refused = sign_in(&world, "fft_wrong", &[]).await;
    assert_eq!(
        (refused.status.as_u16(), &refused.headers["retry-after"]),
        (429, &"60".parse().unwrap())
    );
    assert!(refused.text().contains("wait 60 seconds"), "{}", refused.text());
    assert_eq!(sign_in(&world, &token, &[]).await.status, 303, "a right token is served");
    world.pass(Duration::from_secs(60));
    assert_eq!(sign_in(&world, "fft_wrong", &[]).await.status, 401);
}

/// Data without a session get 401.
#[tokio::test]
async fn pages_without_session_lead_to_sign_in() {
    let scene = Scene::new().await;
    let page = scene.at("/deliveries?state=failed");
    let answer = get(&scene.world, &page, &[]).await;
    let location = answer.headers["location"].to_str().unwrap().to_owned();
    assert_eq!(answer.status, 303);
    assert!(location.starts_with("/console/sign-in?back=%2Fconsole%2Ffirms%2F"), "{location}");
    assert!(location.ends_with("deliveries%3Fstate%3Dfailed"), "{location}");
    assert_eq!(get(&scene.world, &scene.at("/deliveries.json"), &[]).await.status, 401);
    // A token opens the API, and no page.
    let bearer = format!("Bearer {}", scene.world.token());
    let answer = get(&scene.world, "/console", &[("authorization", &bearer)]).await;
    assert_eq!(answer.status, 303);
    let forged = get(&scene.world, "/console", &[("cookie", "firmforms_console=AAAA")]).await;
    assert_eq!(forged.status, 303);
    let form = get(&scene.world, &location, &[]).await;
    assert_eq!(form.status, 200);
    assert!(form.text().contains("deliveries?state=failed\""), "{}", form.text());
}

/// The sign-in leads to no page outside the console.
#[tokio::test]
async fn sign_in_leads_to_the_wanted_page() {
    let world = World::new().await;
    let token = world.new_token(HolderRole::Operator).await;
    for (back, led_to) in [
        ("/console/proof", "/console/proof"),
        ("https://evil.example/", "/console"),
        ("//evil.example/console", "/console"),
    ] {
        let fields = [("token", &*token), ("back", back)];
        let answer = post(&world, "/console/sign-in", &[], &fields).await;
        assert_eq!(answer.headers["location"], led_to, "{back}");
    }
}

/// A browser sends no strict cookie with a link from another site. The page follows the link again.
#[tokio::test]
async fn a_cross_site_link_is_followed_again() {
    let world = World::new().await;
    let answer = get(&world, "/console/proof?a=1", &[("sec-fetch-site", "cross-site")]).await;
    assert_eq!(answer.status, 200);
    let refresh = "<meta http-equiv=\"refresh\" content=\"0; url=/console/proof?a=1\">";
    assert!(answer.text().contains(refresh), "{}", answer.text());
}

/// A link from another site once made an export.
#[tokio::test]
async fn a_cross_site_link_makes_no_export() {
    let scene = Scene::new().await;
    for page in ["/audit/export?format=csv", "/deliveries/export?format=csv"] {
        let page = scene.at(page);
        let answer = get(&scene.world, &page, &[("sec-fetch-site", "cross-site")]).await;
        assert!(!answer.text().contains("http-equiv"), "{}", answer.text());
        let link = format!("<a href=\"{page}\">Continue</a>");
        assert!(answer.text().contains(&link), "{}", answer.text());
    }
}

#[tokio::test]
async fn the_sign_out_takes_the_cookie_away() {
    let scene = Scene::new().await;
    let visitor = scene.visitor(HolderRole::Operator).await;
    let answer = visitor.send("/console/sign-out", &[]).await;
    assert_eq!(answer.status, 303);
    let set = answer.headers["set-cookie"].to_str().unwrap();
    assert!(set.starts_with("firmforms_console=; Path=/console; Max-Age=0;"), "{set}");
    let all: Vec<_> = answer.headers.get_all("set-cookie").iter().collect();
    let secure = "__Host-firmforms_console=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict; Secure";
    assert!(all.contains(&&secure.parse().unwrap()), "{all:?}");
    let unasked =
        post(&scene.world, "/console/sign-out", &[("cookie", &visitor.cookie)], &[]).await;
    assert_eq!(unasked.status, 403, "another site signs nobody out");
}

/// No table holds these sessions, and a copy of a cookie outlives the sign-out. The sign-out once
/// seemed to end a stolen cookie.
#[tokio::test]
async fn the_page_warns_of_copied_cookies() {
    let scene = Scene::new().await;
    let page = get(&scene.world, "/console/sign-in", &[]).await;
    let sentence = "The sign-out takes the cookie from this browser alone";
    assert!(page.text().contains(sentence), "{}", page.text());
}

#[tokio::test]
async fn no_answer_is_framed_scripted_or_kept() {
    let scene = Scene::new().await;
    let visitor = scene.visitor(HolderRole::Operator).await;
    for path in ["/console", "/console/sign-in", "/console/nothing", "/console/firms.json"] {
        let answer = visitor.get(path).await;
        let header = |name: &str| answer.headers[name].to_str().unwrap().to_owned();
        let policy = header("content-security-policy");
        assert!(policy.starts_with("default-src 'none'; style-src 'self'; script-src 'self'"));
        assert!(policy.contains("frame-ancestors 'none'") && !policy.contains("unsafe"));
        assert_eq!(header("x-frame-options"), "DENY", "{path}");
        assert_eq!(header("x-content-type-options"), "nosniff", "{path}");
        assert_eq!(header("referrer-policy"), "same-origin", "{path}");
        assert_eq!(header("cache-control"), "no-store", "{path}");
    }
}
