//! Walks in a real browser. Without Chromium on the machine the walks are skipped, and say so.
//!
//! `FIRMFORMS_SCREENS` names a folder for pictures. `FIRMFORMS_AXE` names the script of axe-core,
//! which then looks at each page too.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::{env, fs};

use api::commands::tokens::HolderRole;
use auditor::{CheckpointFolder, KeyFolder, Notary};
use door::{Door, DoorSettings};
use eventstore::Clock;
use serde_json::{Value, json};
use service::SystemSetup;
use tests::{Browser, Receiver, Reply, TestDatabase, World};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use vault::SystemEntropy;

use super::Scene;
use super::identity_provider::IdentityProvider;
use tests::process::data_dir;

/// A world whose console is on a socket.
struct Walk {
    scene: Scene,
    browser: Browser,
    origin: String,
    stop: CancellationToken,
}

/// The texts whose contrast with their ground is too small, computed as in WCAG 2.
pub(crate) const FAINT: &str = r#"
(() => {
  const channels = (color) => {
    const parts = color.match(/[\d.]+/g).map(Number);
    return { rgb: parts.slice(0, 3), alpha: parts[3] ?? 1 };
  };
  const light = (rgb) => {
    const [r, g, b] = rgb.map((part) => {
      const share = part / 255;
      return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const groundOf = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const { rgb, alpha } = channels(getComputedStyle(at).backgroundColor);
      if (alpha === 1) return rgb;
    }
    return [255, 255, 255];
  };
  const faint = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.textContent.trim() || !element.checkVisibility()) continue;
    const ink = light(channels(getComputedStyle(element).color).rgb);
    const ground = light(groundOf(element));
    const contrast = (Math.max(ink, ground) + 0.05) / (Math.min(ink, ground) + 0.05);
    if (contrast < 4.5) faint.push(`${element.tagName} ${walker.currentNode.textContent.trim()}`);
  }
  return faint;
})()
"#;

/// Fields without a label, links and buttons without words, ids that occur twice, and a number of
/// `h1` other than one.
pub(crate) const NAMELESS: &str = r#"
(() => {
  const wrong = [];
  for (const field of document.querySelectorAll("input:not([type=hidden]), select, textarea")) {
    if (!field.labels?.length) wrong.push(`field ${field.name}`);
  }
  for (const one of document.querySelectorAll("a, button, summary")) {
    if (!one.textContent.trim()) wrong.push(`${one.tagName} without words`);
  }
  const ids = [...document.querySelectorAll("[id]")].map((one) => one.id);
  wrong.push(...ids.filter((id, at) => ids.indexOf(id) !== at).map((id) => `id ${id} twice`));
  if (document.querySelectorAll("h1").length !== 1) wrong.push("not one h1");
  return wrong;
})()
"#;

impl Walk {
    async fn begin(role: HolderRole) -> Option<Self> {
        let door = Door::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await.unwrap();
        let mut walk = Self::at(door, scene_with(None)).await?;
        walk.sign_in(role).await;
        Some(walk)
    }

    /// A walk at this door, without a session. The scene is made only if there is a browser.
    async fn at(door: Door, scene: impl Future<Output = Scene>) -> Option<Self> {
        let browser = Browser::open().await?;
        let scene = scene.await;
        let origin = format!("http://{}", door.local_addr().unwrap());
        let stop = CancellationToken::new();
        let router = scene.world.internal_door();
        tokio::spawn(door.serve(router, DoorSettings::default(), stop.clone()));
        Some(Self { scene, browser, origin, stop })
    }

    async fn sign_in(&mut self, role: HolderRole) {
        let token = self.scene.world.new_token(role).await;
        self.go("/console").await;
        self.browser.write("token", &token).await;
        self.browser.click("button", "Sign in").await;
        let text = self.browser.text().await;
        assert!(text.contains("Needs a decision"), "{text}");
    }

    async fn go(&mut self, path: &str) {
        self.browser.go(&format!("{}{path}", self.origin)).await;
    }

    async fn assert_says(&mut self, sentence: &str) {
        let text = self.browser.text().await;
        assert!(text.contains(sentence), "{sentence}: {text}");
    }

    /// Ends the walk. Nothing was asked of another host, and the browser has not complained.
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

/// A firm with a subscription that went, another whose receiver fails, and a signed log.
async fn scene_with(provider: Option<Arc<oidc::Provider>>) -> Scene {
    let database = TestDatabase::new().await;
    let folder = data_dir(&database);
    let notary = Notary {
        keys: KeyFolder::in_folder(folder.join("audit-keys")),
        checkpoints: CheckpointFolder::in_folder(folder.join("checkpoints")),
    };
    let clock = Clock::standing_at("2026-11-01T12:00:00Z".parse().unwrap());
    let with = notary.clone();
    let change = |setup| SystemSetup { notary: Some(with), provider, ..setup };
    let world = World::with(database, clock, change).await;
    let (firm, receiver) = (world.firm().await, Receiver::start().await);
    let hook = world.subscribe(&firm, &receiver.url("/gone")).await;
    let scene = Scene { world, firm, receiver, hook };
    scene.go().await;
    scene.world.subscribe(&scene.firm, &scene.receiver.url("/failing")).await;
    for _ in 0..8 {
        scene.receiver.reply((0..3).map(|_| Reply::status(500)));
        if scene.world.deliver().await == 0 {
            scene.world.submit(&scene.firm).await;
            scene.world.deliver().await;
        }
        scene.world.pass(std::time::Duration::from_secs(60));
    }
    scene.world.project().await;
    let at = scene.world.clock.now();
    notary.take_checkpoint(scene.world.pool(), &SystemEntropy, at).await.unwrap();
    scene
}

/// Story one: why did the subscription go, and where is the proof?
async fn auditors_story(walk: &mut Walk) {
    walk.go("/console").await;
    walk.browser.click("td a", "Removed subscriptions").await;
    walk.browser.click("tbody a", &walk.scene.hook.to_string()[..8]).await;
    walk.assert_says("Two deliveries in a row were answered 410 Gone.").await;
    walk.assert_says("Deliveries that arrived between the two: 0.").await;
    let bundle = walk.scene.at("/audit/export?format=bundle");
    let fetched = format!("fetch({}).then((answer) => answer.text())", json!(bundle));
    let text = walk.browser.value(&fetched).await;
    assert!(text.as_str().unwrap().contains("hook_removed"), "{text}");
    walk.browser.click("main tbody a[href*='/audit/']", "").await;
    walk.assert_says("Covered by the signed checkpoint 1.").await;
}

/// Story two: which receiver fails? Pause its host, then send again.
async fn operators_story(walk: &mut Walk) {
    walk.go("/console").await;
    walk.browser.click(".decisions a", "127.0.0.1").await;
    walk.browser.unfold("Pause this host").await;
    walk.browser.write("reason", "they mend it").await;
    walk.browser.click("main button", "Pause this host").await;
    walk.assert_says("The pause has begun.").await;
    walk.browser.unfold("Resume this host").await;
    walk.browser.write("reason", "it is mended").await;
    walk.browser.click("main button", "Resume this host").await;
    walk.assert_says("The pause has ended.").await;
    let replay = walk.scene.at("/replay");
    walk.go(&replay).await;
    walk.browser.write("reason", "after the outage").await;
    walk.browser.write("state", "failed").await;
    walk.browser.click("main button", "Dry run").await;
    walk.assert_says("are sent again").await;
}

#[tokio::test]
async fn an_auditor_finds_cause_and_proof() {
    let Some(mut walk) = Walk::begin(HolderRole::Auditor).await else { return };
    auditors_story(&mut walk).await;
    walk.end().await;
}

#[tokio::test]
async fn an_operator_pauses_and_plans_a_replay() {
    let Some(mut walk) = Walk::begin(HolderRole::Operator).await else { return };
    operators_story(&mut walk).await;
    walk.end().await;
}

#[tokio::test]
async fn both_stories_are_walked_without_a_script() {
    let Some(mut walk) = Walk::begin(HolderRole::Operator).await else { return };
    walk.browser.without_scripts().await;
    auditors_story(&mut walk).await;
    operators_story(&mut walk).await;
    walk.end().await;
}

/// The user then signs out.
#[tokio::test]
async fn a_provider_user_reaches_the_wanted_page() {
    let door = Door::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await.unwrap();
    // `localhost` and `127.0.0.1` are two sites for a browser, as a provider and a console are.
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let identity = IdentityProvider::on(listener, "localhost");
    let origin = format!("http://{}", door.local_addr().unwrap());
    let settings = identity.settings(&origin, &["ops=operator"]);
    // The scene's clock moves on by minutes. The sign-in must not expire meanwhile.
    identity.claim(&json!({"exp": 4_000_000_000_u64}));
    let provider = Arc::new(oidc::Provider::new(settings).unwrap());
    let Some(mut walk) = Walk::at(door, scene_with(Some(provider))).await else { return };
    walk.go("/console/proof").await;
    walk.browser.click("a", "Sign in by localhost").await;
    walk.browser.arrive("/console/proof").await;
    walk.assert_says("Ann Lee").await;
    let page = walk.browser.value("document.querySelector('h1').textContent").await;
    assert_eq!(page, "Proof");
    walk.browser.click("button", "Sign out").await;
    walk.go("/console/proof").await;
    walk.assert_says("Sign in by localhost").await;
    walk.browser.asked.retain(|url| !url.starts_with(&identity.issuer));
    walk.end().await;
}

#[tokio::test]
async fn the_keyboard_leads_through_the_console() {
    let Some(mut walk) = Walk::begin(HolderRole::Auditor).await else { return };
    let deliveries = walk.scene.at("/deliveries?limit=1");
    walk.go(&deliveries).await;
    walk.browser.press("j").await;
    let focused = "document.activeElement.closest('tr') !== null";
    assert_eq!(walk.browser.value(focused).await, true);
    walk.browser.press_through("Enter").await;
    walk.assert_says("How it came here").await;
    walk.browser.press("g").await;
    walk.browser.press_through("a").await;
    assert_eq!(walk.browser.value("document.querySelector('h1').textContent").await, "Audit log");
    walk.browser.press("/").await;
    assert_eq!(walk.browser.value("document.activeElement.id").await, "search");
    walk.browser.press("Escape").await;
    walk.browser.press("?").await;
    assert_eq!(walk.browser.value("document.getElementById('help').open").await, true);
    walk.go(&deliveries).await;
    walk.browser.press_through("l").await;
    let place = walk.browser.value("location.search").await;
    assert!(place.as_str().unwrap().contains("after="), "{place}");
    walk.end().await;
}

/// Both themes on a desk, and a phone.
#[tokio::test]
async fn every_page_is_readable_on_every_screen() {
    let Some(mut walk) = Walk::begin(HolderRole::Operator).await else { return };
    let axe = env::var_os("FIRMFORMS_AXE").map(|path| fs::read_to_string(path).unwrap());
    if axe.is_none() {
        println!("SKIPPED: axe-core, because FIRMFORMS_AXE names no script");
    }
    let mut faults = Vec::new();
    for path in super::pages::pages(&walk.scene).await {
        for (theme, width) in [("light", 1_280), ("dark", 1_280), ("light", 320)] {
            walk.browser.look(theme, width).await;
            walk.go(&path).await;
            let place = format!("{path} {theme} {width}");
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
    walk.end().await;
}

pub(crate) async fn violations(browser: &mut Browser, axe: &str, place: &str) -> Vec<String> {
    browser.value(&format!("{axe}; undefined")).await;
    let run = "axe.run().then((found) => found.violations.map((one) => \
               `${one.id}: ${one.nodes.map((node) => node.html).join(' ')}`))";
    let found: Value = browser.value(run).await;
    let found = found.as_array().unwrap().iter();
    found.map(|one| format!("{place}: axe {one}")).collect()
}

pub(crate) async fn keep_picture(browser: &mut Browser, place: &str) {
    let Some(folder) = env::var_os("FIRMFORMS_SCREENS").map(PathBuf::from) else { return };
    let name: String =
        place.chars().map(|letter| if letter.is_alphanumeric() { letter } else { '-' }).collect();
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join(format!("{name}.png")), browser.picture().await).unwrap();
}
