//! The owner's story in a real browser, with scripts and without.

use std::net::{Ipv4Addr, SocketAddr};
use std::{env, fs};

use axum::Router;
use axum::response::Html;
use axum::routing::get;
use door::{Door, DoorSettings, TlsCertificate, TlsPaths};
use eventstore::Clock;
use serde_json::json;
use service::SystemSetup;
use tests::{Browser, TestDatabase, World, activity};
use tokio_util::sync::CancellationToken;

use super::{PortalScene, path_of};
use crate::console::browser::{FAINT, NAMELESS, keep_picture, violations};

/// A portal on a socket, and a browser.
struct PortalWalk {
    scene: PortalScene,
    browser: Browser,
    origin: String,
    stop: CancellationToken,
}

impl PortalWalk {
    async fn begin() -> Option<Self> {
        let browser = Browser::open().await?;
        let door = Door::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await.unwrap();
        let origin = format!("http://{}", door.local_addr().unwrap());
        let clock = Clock::standing_at("2026-11-01T12:00:00Z".parse().unwrap());
        let base_url = format!("{origin}/api/v1");
        let change = |setup| SystemSetup { base_url, ..setup };
        let world = World::with(TestDatabase::new().await, clock, change).await;
        let scene = PortalScene::from_world(world).await;
        let brand = json!({"color": "#7a1f5c"});
        let event = activity(scene.firm.id, "firm.changed", json!({ "brand": brand }));
        scene.world.report_one(event).await;
        let stop = CancellationToken::new();
        let router = scene.world.public_door();
        tokio::spawn(door.serve(router, DoorSettings::default(), stop.clone()));
        Some(Self { scene, browser, origin, stop })
    }

    /// Enters by a new link. The page of the link leads to the portal by itself.
    async fn enter(&mut self) {
        let link = self.scene.link().await;
        self.go(&link).await;
        self.browser.arrive("/portal").await;
        self.assert_says("Deliveries that failed last").await;
    }

    async fn go(&mut self, path: &str) {
        self.browser.go(&format!("{}{path}", self.origin)).await;
    }

    async fn assert_says(&mut self, sentence: &str) {
        let text = self.browser.text().await;
        assert!(text.contains(sentence), "{sentence}: {text}");
    }

    async fn end(self) {
        let Self { browser, origin, stop, .. } = self;
        let elsewhere: Vec<_> =
            browser.asked.iter().filter(|url| !url.starts_with(&origin)).collect();
        assert!(elsewhere.is_empty(), "{elsewhere:?}");
        assert!(browser.complaints.is_empty(), "{:?}", browser.complaints);
        browser.close().await;
        stop.cancel();
    }
}

/// Story three: an owner makes a key, sees a delivery, rotates the secret and retries a step.
async fn owners_story(walk: &mut PortalWalk) {
    walk.enter().await;
    walk.browser.click("nav a", "API keys").await;
    walk.browser.write("name", "n8n").await;
    walk.browser.click("main button", "Create the key").await;
    walk.assert_says("Copy the key now.").await;
    let key = walk.browser.value("document.querySelector('.shown').textContent").await;
    assert!(key.as_str().unwrap().starts_with("ffk_"), "{key}");
    walk.browser.click("nav a", "Deliveries").await;
    walk.browser.click("tbody a", &walk.scene.failed.to_string()[..8]).await;
    walk.assert_says("404").await;
    walk.browser.click("nav a", "Signing secret").await;
    walk.browser.value("document.querySelector('[name=sure]').checked = true").await;
    walk.browser.click("main button", "Rotate the secret").await;
    walk.assert_says("The new secret signs.").await;
    walk.assert_says("whsec_").await;
    walk.browser.click("main a", "Hide the secret").await;
    walk.browser.click("nav a", "Workflow steps").await;
    walk.browser.click("tbody a[href*='/runs/']", "").await;
    walk.browser.click("main button", "Try again").await;
    walk.assert_says("The step is tried again.").await;
    walk.browser.click("header button", "Sign out").await;
    walk.assert_says("You have signed out.").await;
}

#[tokio::test]
async fn the_owners_story_is_walked() {
    let Some(mut walk) = PortalWalk::begin().await else { return };
    owners_story(&mut walk).await;
    walk.end().await;
}

#[tokio::test]
async fn the_owners_story_needs_no_script() {
    let Some(mut walk) = PortalWalk::begin().await else { return };
    walk.browser.without_scripts().await;
    owners_story(&mut walk).await;
    walk.end().await;
}

/// A page of another origin shows the portal in a frame, and the browser refuses.
#[tokio::test]
async fn a_foreign_frame_shows_no_portal() {
    let Some(mut walk) = PortalWalk::begin().await else { return };
    walk.enter().await;
    // Another host name of the machine is another origin.
    let elsewhere = walk.origin.replace("127.0.0.1", "localhost");
    walk.browser.go(&format!("{elsewhere}/portal/none")).await;
    let framed = format!(
        "new Promise((done) => {{ const frame = document.createElement('iframe');
           frame.onload = () => done(true); frame.src = {};
           document.body.append(frame); }})",
        json!(format!("{}/portal/keys", walk.origin))
    );
    walk.browser.value(&framed).await;
    let refused = walk.browser.complaints.iter().any(|said| said.contains("frame"));
    assert!(refused, "{:?}", walk.browser.complaints);
    walk.browser.close().await;
    walk.stop.cancel();
}

/// The link names the site of the application, whose page frames the portal. The browser keeps the
/// cookie for this pair of sites.
#[tokio::test]
async fn a_session_lasts_in_its_applications_frame() {
    let Some(mut browser) = Browser::open().await else { return };
    browser.trust_any_certificate().await;
    let (tls, stop) = (self_signed(), CancellationToken::new());
    let portal = Door::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await.unwrap();
    let application = Door::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await.unwrap();
    let origin = format!("https://{}", portal.local_addr().unwrap());
    let elsewhere = format!("https://localhost:{}", application.local_addr().unwrap().port());
    let base_url = format!("{origin}/api/v1");
    let clock = Clock::standing_at("2026-11-01T12:00:00Z".parse().unwrap());
    let change = |setup| SystemSetup { base_url, ..setup };
    let world = World::with(TestDatabase::new().await, clock, change).await;
    let scene = PortalScene::from_world(world).await;
    let link = scene.order(scene.firm.owner, json!({ "frame_origin": elsewhere })).await;
    let page = format!("<!doctype html><iframe src=\"{}{}\">", origin, path_of(&link));
    let page = Router::new().route("/", get(async || Html(page)));
    for (door, router) in [(portal, scene.world.public_door()), (application, page)] {
        let settings = DoorSettings { tls: Some(tls.clone()), ..DoorSettings::default() };
        tokio::spawn(door.serve(router, settings, stop.clone()));
    }
    browser.go(&elsewhere).await;
    browser.enter_frame("/portal").await;
    let text = browser.text().await;
    assert!(text.contains("Deliveries that failed last"), "{text}");
    browser.value("document.querySelector('nav a[href$=\"/keys\"]').click()").await;
    browser.enter_frame("/portal/keys").await;
    let text = browser.text().await;
    assert!(text.contains("Create the key"), "{text}");
    browser.close().await;
    stop.cancel();
}

fn self_signed() -> TlsCertificate {
    let folder = tempfile::tempdir().unwrap();
    let (certificate, key) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    fs::write(&certificate, made.cert.pem()).unwrap();
    fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    TlsCertificate::load(TlsPaths { certificate, key, client_roots: None }).unwrap()
}

/// Both themes, a phone and three languages.
#[tokio::test]
async fn every_portal_page_is_readable() {
    let Some(mut walk) = PortalWalk::begin().await else { return };
    let axe = env::var_os("FIRMFORMS_AXE").map(|path| fs::read_to_string(path).unwrap());
    if axe.is_none() {
        println!("SKIPPED: axe-core, because FIRMFORMS_AXE names no script");
    }
    walk.scene.world.new_key(&walk.scene.firm, "A key that nobody uses").await;
    walk.scene.world.project().await;
    let mut faults = Vec::new();
    let mut pages = walk.scene.pages();
    pages.push("/portal/none".into());
    for (theme, width, lang) in
        [("light", 1_280, "English"), ("dark", 1_280, "Français"), ("light", 320, "Español")]
    {
        walk.browser.look(theme, width).await;
        walk.enter_in(lang).await;
        for path in &pages {
            walk.go(path).await;
            let place = format!("{path} {theme} {width} {lang}");
            for (fault, found) in [
                ("faint", walk.browser.value(FAINT).await),
                ("nameless", walk.browser.value(NAMELESS).await),
            ] {
                if found != json!([]) {
                    faults.push(format!("{place}: {fault} {found}"));
                }
            }
            let wide = walk.browser.value("document.documentElement.scrollWidth").await;
            if wide.as_u64() > Some(width.into()) {
                faults.push(format!("{place}: {wide} pixels wide"));
            }
            if let Some(axe) = &axe {
                faults.extend(violations(&mut walk.browser, axe, &place).await);
            }
            keep_picture(&mut walk.browser, &place).await;
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    walk.browser.close().await;
    walk.stop.cancel();
}

impl PortalWalk {
    /// Enters, and chooses a language by its button.
    async fn enter_in(&mut self, lang: &str) {
        self.enter().await;
        self.browser.click("footer button", lang).await;
    }
}
