//! An auditor with a token alone, at the internal door: bundles, covers, keys, checkpoints, the
//! last verification and the feed.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use api::commands::tokens::{self, HolderRole};
use auditor::archive::LogArchive;
use auditor::{CheckpointFolder, KeyFolder, Notary};
use domain::access::TokenScope;
use domain::audit::{EndedVerification, VerificationOutcome};
use eventstore::Clock;
use projector::verifications::{self, VerificationEnd};
use serde_json::{Value, json};
use service::SystemSetup;
use tests::{Answer, Firm, TestDatabase, World};
use uuid::Uuid;
use vault::SystemEntropy;

use super::bundles::both;
use super::{read, read_often};
use tests::process::data_dir;

/// A service with the folders of its notary, and an auditor's token for all firms.
struct Remote {
    world: World,
    notary: Notary,
    token: String,
}

impl Remote {
    async fn new() -> Self {
        let database = TestDatabase::new().await;
        let folder = data_dir(&database);
        let notary = Notary {
            keys: KeyFolder::in_folder(folder.join("audit-keys")),
            checkpoints: CheckpointFolder::in_folder(folder.join("checkpoints")),
        };
        let clock = Clock::standing_at("2026-11-01T12:00:00Z".parse().unwrap());
        let with = notary.clone();
        let archive = Some(LogArchive::in_folder(folder.join("archive")));
        let change = |setup| SystemSetup { notary: Some(with), archive, ..setup };
        let world = World::with(database, clock, change).await;
        let token = limited(&world, None).await;
        Self { world, notary, token }
    }

    async fn sign(&self) {
        self.world.project().await;
        let at = self.world.clock.now();
        self.notary.take_checkpoint(self.world.pool(), &SystemEntropy, at).await.unwrap();
    }

    async fn get(&self, path: &str) -> Answer {
        self.get_by(&self.token, path).await
    }

    async fn get_by(&self, token: &str, path: &str) -> Answer {
        self.world.get_internally(token, path).await
    }

    /// The lines of a feed, and the place to go on after.
    async fn feed(&self, query: &str) -> (Vec<Value>, Option<i64>) {
        let answer = self.get(&format!("/audit/feed?{query}")).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        let lines: Vec<Value> =
            answer.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let last = lines.last().map(|line| line["cursor"].as_i64().unwrap());
        (lines, last)
    }
}

async fn limited(world: &World, firm: Option<&Firm>) -> String {
    let scope = TokenScope {
        name: "auditor".into(),
        role: HolderRole::Auditor,
        expires_at: None,
        firm_ids: firm.map(|firm| vec![firm.id]),
    };
    tokens::create_limited(world.service(), scope).await.unwrap().token
}

fn sequences(lines: &[Value]) -> Vec<i64> {
    lines.iter().map(|line| line["sequence"].as_i64().unwrap()).collect()
}

#[tokio::test]
async fn an_auditor_needs_no_shell() {
    let remote = Remote::new().await;
    let world = &remote.world;
    let (other, firm) = (world.firm().await, world.firm().await);
    read_often(world, &firm, 1_500).await;
    let path = format!("/firms/{}/audit/export", firm.id);
    let unsigned = remote.get(&format!("{path}?format=bundle")).await;
    assert_eq!(unsigned.code(), (409, "not_signed"), "no checkpoint is there yet");
    remote.sign().await;
    // Later entries of both chains: the heads of the checkpoint are computed anew.
    read_often(world, &firm, 3).await;
    read(world, &other).await;
    let late = world.firm().await;
    world.project().await;

    let answer = remote.get(&format!("{path}?format=bundle")).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let named = answer.headers["content-disposition"].to_str().unwrap();
    assert_eq!(named, format!("attachment; filename=\"audit-{}-1.bundle\"", firm.id));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("bundle");
    fs::write(&file, answer.text()).unwrap();
    let (code, text) = both(&file).await;
    assert_eq!(code, 0, "{text}");
    assert!(text.contains(&format!("entries 1 to 1503 of 1503 of firm {}", firm.id)), "{text}");
    let begun_late = remote.get(&format!("/firms/{}/audit/export?format=bundle", late.id)).await;
    assert_eq!(begun_late.code(), (409, "not_signed"));

    // The next checkpoint covers them all. The old one still gives the old bytes.
    remote.sign().await;
    let newest = remote.get(&format!("{path}?format=bundle")).await;
    fs::write(&file, newest.text()).unwrap();
    assert!(both(&file).await.1.contains("of 1507 of firm"), "{}", both(&file).await.1);
    let pinned = remote.get(&format!("{path}?format=bundle&checkpoint=1")).await;
    assert_eq!(pinned.text(), answer.text());
    let missing = remote.get(&format!("{path}?format=bundle&checkpoint=3")).await;
    assert_eq!(missing.code(), (404, "not_found"));
    let why = missing.body["error"].as_str().unwrap();
    assert!(why.ends_with("the newest is 2"), "a number out of a page named no other: {why}");

    world.project().await;
    let recorded = remote.get(&format!("/firms/{}/audit?action=audit_exported", firm.id)).await;
    let told = recorded.body["items"].as_array().unwrap().len();
    assert_eq!(told, 3, "a refused export was recorded as one");
    assert_eq!(recorded.body["items"][0]["evidence"]["how"], "bundle");
    assert_eq!(recorded.body["items"][0]["actor"]["kind"], "auditor");
}

/// The bundle proves that the period is empty. The cover has the hash of the bundle's bytes.
#[tokio::test]
async fn an_empty_period_gets_bundle_and_cover() {
    let remote = Remote::new().await;
    let firm = remote.world.firm().await;
    remote.world.pass(Duration::from_secs(86_400));
    read_often(&remote.world, &firm, 2).await;
    remote.sign().await;
    let path = format!("/firms/{}/audit/export", firm.id);
    let empty = "since=2026-11-01T13:00:00Z&until=2026-11-02";
    let bundle = remote.get(&format!("{path}?format=bundle&{empty}")).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("bundle");
    fs::write(&file, bundle.text()).unwrap();
    let (code, text) = both(&file).await;
    assert!(code == 0 && text.contains("no entries in this period"), "{text}");

    let cover = remote.get(&format!("{path}?format=cover&{empty}")).await;
    assert_eq!(cover.headers["content-type"], "text/html; charset=utf-8");
    assert_eq!(
        cover.headers["content-security-policy"],
        "default-src 'none'; style-src 'unsafe-inline'"
    );
    let name = format!("audit-{}-2026-11-01-2026-11-02-1.bundle", firm.id);
    for part in [&super::empty::sha256(&file), &name, "No entries in this period."] {
        assert!(cover.text().contains(part), "{part}: {}", cover.text());
    }
    for (wrong, why) in [
        ("format=pdf", "`format` must be one of ndjson, csv, bundle, cover"),
        ("format=csv&checkpoint=1", "`checkpoint` is for the formats bundle and cover"),
        ("format=bundle&checkpoint=x", "`checkpoint` must be a whole number from 1 to"),
        ("since=march", "`since` must be a day such as 2026-01-31 (midnight UTC), or an RFC 3339"),
        ("since=2026-03-02&until=2026-03-01", "`until` must be later than `since`"),
    ] {
        let refused = remote.get(&format!("{path}?{wrong}")).await;
        assert_eq!(refused.code(), (400, "invalid_request"), "{wrong}");
        assert!(refused.body["error"].as_str().unwrap().starts_with(why), "{}", refused.body);
    }
}

/// A service whose tables contradict the checkpoint gives no bundle.
#[tokio::test]
async fn a_forged_chain_gets_no_old_signature() {
    let remote = Remote::new().await;
    let (firm, other) = (remote.world.firm().await, remote.world.firm().await);
    read_often(&remote.world, &other, 2).await;
    remote.sign().await;
    let forged =
        format!("update audit_heads set hash = sha256('forged') where firm_id = '{}'", other.id);
    super::tampering::tamper(&remote.world, &[&forged]).await;
    let answer = remote.get(&format!("/firms/{}/audit/export?format=bundle", firm.id)).await;
    assert_eq!(answer.code(), (500, "internal_error"), "{}", answer.text());
}

#[tokio::test]
async fn an_auditor_sees_keys_checkpoints_and_verdict() {
    let remote = Remote::new().await;
    let world = &remote.world;
    let firm = world.firm().await;
    assert_eq!(remote.get("/audit/verification").await.body["ended"], Value::Null);
    for _ in 0..3 {
        read(world, &firm).await;
        remote.sign().await;
    }
    let keys = remote.get("/audit/keys").await;
    let key = keys.body["items"][0]["public_key"].as_str().unwrap().to_owned();
    assert_eq!(keys.body["source"], "signers_folder");
    assert!(!keys.text().contains("seed") && keys.body["items"].as_array().unwrap().len() == 1);
    assert_eq!(remote.get("/audit/keys?format=text").await.text(), format!("{key}\n"));
    let pem = remote.get("/audit/keys?format=pem").await;
    assert_eq!(pem.text(), keys.body["items"][0]["pem"].as_str().unwrap());

    let page = remote.get("/audit/checkpoints?limit=2").await;
    assert_eq!(
        (&page.body["next"], page.body["items"].as_array().unwrap().len()),
        (&json!("2"), 2)
    );
    let rest = remote.get("/audit/checkpoints?limit=2&after=2").await;
    assert_eq!(rest.body["next"], Value::Null);
    let (_, path) = remote.notary.checkpoints.numbered_files().unwrap().pop().unwrap();
    let file: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    assert_eq!(rest.body["items"], json!([file]), "as the file holds it");

    let flaw = format!("entry 3 of firm {}: its hash is another", firm.id);
    let ended = EndedVerification {
        at: world.clock.now(),
        position: 7,
        outcome: VerificationOutcome::Broken(flaw.clone()),
    };
    let end = VerificationEnd { ended, intact: None, needs_archive: false };
    verifications::note_end(&mut world.pool().acquire().await.unwrap(), &end).await.unwrap();
    let shown = remote.get("/audit/verification").await.body;
    assert_eq!(
        (&shown["ended"]["outcome"], &shown["ended"]["why"]),
        (&json!("broken"), &json!(flaw))
    );
    assert_eq!(shown["ended"]["position"], 7);
    assert_eq!(shown["last_signature"]["number"], 3);
    let stranger = limited(world, Some(&world.firm().await)).await;
    let withheld = remote.get_by(&stranger, "/audit/verification").await;
    assert_eq!(withheld.body["ended"]["outcome"], "broken");
    assert!(!withheld.text().contains(&firm.id.to_string()), "{}", withheld.text());
}

/// The tests of dropping have an archive that is not empty.
#[tokio::test]
async fn an_auditor_sees_the_archive() {
    let remote = Remote::new().await;
    let folder = data_dir(&remote.world.database).join("archive");
    fs::create_dir_all(&folder).unwrap();
    remote.sign().await;
    let shown = remote.get("/audit/archive").await;
    let none = json!({"through": 0, "sealed_to": 0, "waiting": 0, "waiting_since": null});
    assert_eq!(shown.body, json!({"archived": none, "left": []}));
    fs::write(folder.join("00000001.json"), "{}").unwrap();
    assert_eq!(remote.get("/audit/archive").await.code(), (500, "internal_error"));
}

/// A token for one firm neither gets the bundles of another nor the feed of all.
#[tokio::test]
async fn a_firm_token_reaches_no_other_proof() {
    let remote = Remote::new().await;
    let (own, other) = (remote.world.firm().await, remote.world.firm().await);
    remote.sign().await;
    let token = limited(&remote.world, Some(&own)).await;
    for (firm, expected) in [(own.id, 200), (other.id, 404), (Uuid::nil(), 404)] {
        for path in [
            format!("/firms/{firm}/audit/export?format=bundle"),
            format!("/firms/{firm}/audit/export?format=cover"),
            format!("/audit/feed?firm={firm}"),
        ] {
            let answer = remote.get_by(&token, &path).await;
            assert_eq!(answer.status, expected, "{path}: {}", answer.text());
            assert!(expected == 200 || !answer.text().contains(&other.id.to_string()));
        }
    }
    remote.get_by(&token, "/audit/feed").await.refused(403, "forbidden");
    let product = remote.world.new_token(HolderRole::Product).await;
    for path in [
        "/audit/keys",
        "/audit/checkpoints",
        "/audit/verification",
        "/audit/archive",
        "/audit/feed",
    ] {
        assert_eq!(remote.get_by(&product, path).await.code(), (403, "forbidden"), "{path}");
    }
}

/// Entries come in their order, on pages of any size.
#[tokio::test]
async fn a_feed_gives_each_entry_once() {
    let remote = Remote::new().await;
    let (first, second) = (remote.world.firm().await, remote.world.firm().await);
    for _ in 0..5 {
        read_often(&remote.world, &first, 2).await;
        read_often(&remote.world, &second, 1).await;
    }
    remote.world.project().await;
    let mut seen = Vec::new();
    let mut after = 0;
    while let (lines, Some(last)) =
        remote.feed(&format!("firm={}&after={after}&limit=4", first.id)).await
    {
        seen.extend(lines);
        after = last;
    }
    assert_eq!(sequences(&seen), (1..=13).collect::<Vec<_>>());
    for pair in seen.windows(2) {
        assert_eq!(pair[1]["previous_hash"], pair[0]["hash"], "the chain can be followed");
    }
    let mut all = Vec::new();
    let mut after = 0;
    while let (lines, Some(last)) = remote.feed(&format!("after={after}&limit=4")).await {
        all.extend(lines);
        after = last;
    }
    let of = |firm: &Firm| all.iter().filter(|line| line["firm_id"] == json!(firm.id)).count();
    assert_eq!((of(&first), of(&second)), (13, 8));
    let positions: Vec<i64> = all.iter().map(|line| line["position"].as_i64().unwrap()).collect();
    assert!(positions.is_sorted_by(|one, next| one < next), "{positions:?}");
    for wrong in ["after=1000000", "after=-1", "wait=31", "limit=501", "firm=7", "colour=red"] {
        let refused = remote.get(&format!("/audit/feed?{wrong}")).await;
        assert_eq!(refused.code(), (400, "invalid_request"), "{wrong}");
    }
    let unknown = remote.get(&format!("/audit/feed?firm={}", remote.world.id())).await;
    assert_eq!(unknown.code(), (404, "firm_not_found"));
}

/// A record per call would be the next call's entry, for ever.
#[tokio::test]
async fn a_feed_session_is_recorded_once() {
    let remote = Remote::new().await;
    let firm = remote.world.firm().await;
    remote.world.project().await;
    let records = async || {
        remote.world.project().await;
        let path = format!("/firms/{}/audit?action=audit_exported", firm.id);
        let found = remote.get(&path).await.body;
        let items = found["items"].as_array().unwrap().clone();
        items.into_iter().map(|item| item["evidence"]["after"].clone()).collect::<Vec<_>>()
    };
    let feed = |after: i64| format!("firm={}&after={after}", firm.id);
    assert_eq!(sequences(&remote.feed(&feed(1)).await.0), [2, 3]);
    for after in [3, 3, 1] {
        remote.feed(&feed(after)).await;
    }
    assert_eq!(records().await, [1], "the calls went on, or repeated what was recorded");
    remote.feed(&feed(0)).await;
    assert_eq!(records().await, [0, 1], "an earlier place is another reading");
    remote.world.pass(Duration::from_secs(601));
    remote.feed(&feed(3)).await;
    assert_eq!(records().await, [3, 0, 1], "a session ends");
}

/// A waiting call whose token is revoked gets 401.
#[tokio::test]
async fn a_waiting_call_gets_the_next_entry() {
    let remote = Arc::new(Remote::new().await);
    let firm = remote.world.firm().await;
    remote.world.project().await;
    let query = format!("firm={}&after=3", firm.id);
    // The first call's own record is the next entry.
    assert_eq!(remote.feed(&query).await.1, None);
    let waits = |query: &str| {
        let path = format!("/audit/feed?{query}&wait=30");
        let remote = Arc::clone(&remote);
        tokio::spawn(async move { remote.get(&path).await })
    };
    let waiting = waits(&query);
    remote.world.project().await;
    let answer = waiting.await.unwrap();
    assert!(answer.text().contains("\"sequence\":4"), "{}", answer.text());

    let waiting = waits(&format!("firm={}&after=4", firm.id));
    let token = tokens::list(remote.world.service()).await.unwrap();
    let token = token.iter().find(|token| token.name == "auditor").unwrap().token_id;
    // The call has been admitted, and waits now.
    while remote.world.service().audit.waiting_calls() == 0 {
        tokio::task::yield_now().await;
    }
    tokens::revoke(remote.world.service(), token).await.unwrap();
    read(&remote.world, &firm).await;
    remote.world.project().await;
    assert_eq!(waiting.await.unwrap().code(), (401, "unauthorized"));
}
