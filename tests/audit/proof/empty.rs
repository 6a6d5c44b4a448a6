//! A period without entries: the neighbours in the chain prove that there are none.

use std::fs;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use tests::{Firm, World};

use super::bundles::{both, export};
use super::{audit, read, read_often};

const NO_ENTRIES: &str = "no entries in this period";

/// A firm with entries at noon and at 18:00 of one day, and none between.
async fn quiet_afternoon(world: &World) -> Firm {
    let firm = world.firm().await;
    world.pass(Duration::from_secs(6 * 3_600));
    read_often(world, &firm, 3).await;
    world.project().await;
    firm
}

fn lines(bundle: &Path) -> Vec<String> {
    fs::read_to_string(bundle).unwrap().split_inclusive('\n').map(str::to_owned).collect()
}

#[tokio::test]
async fn an_empty_period_is_exported() {
    let world = World::new().await;
    let firm = quiet_afternoon(&world).await;
    let folder = tempfile::tempdir().unwrap();
    for (name, bounds, neighbours) in [
        ("between", ["2026-11-01T13:00:00Z", "2026-11-01T18:00:00Z"], "entry 3 of"),
        ("before", ["2026-10-01", "2026-11-01"], "the begin of the chain; after it: entry 1 of"),
        (
            "after",
            ["2026-12-01", "2027-01-01"],
            "in this period up to the checkpoint: from 2026-12-01T00:00:00.000Z",
        ),
    ] {
        let bundle = folder.path().join(name);
        export(&world, &firm, &bundle, &["--since", bounds[0], "--until", bounds[1]]).await;
        let (code, text) = both(&bundle).await;
        assert_eq!(code, 0, "{name}: {text}");
        assert!(text.contains(NO_ENTRIES) && text.contains(neighbours), "{name}: {text}");
        assert!(lines(&bundle).len() <= 4, "{name}: only the neighbours are in it");
    }
}

/// A bundle whose header and entries disagree is refused.
#[tokio::test]
async fn a_cut_entry_breaks_its_bundle() {
    let world = World::new().await;
    let firm = quiet_afternoon(&world).await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("day");
    let day = ["--since", "2026-11-01T17:00:00Z", "--until", "2026-11-02"];
    export(&world, &firm, &path, &day).await;
    let (code, text) = both(&path).await;
    assert!(code == 0 && text.contains("entries in this period"), "{text}");
    assert!(!text.contains(NO_ENTRIES), "{text}");
    let kept = lines(&path);
    let header: Value = serde_json::from_str(&kept[0]).unwrap();
    assert_eq!((&header["v"], &header["first"]), (&2.into(), &3.into()));
    let with = |changes: &[(&str, Value)]| {
        let mut header = header.clone();
        for (name, value) in changes {
            header[name] = value.clone();
        }
        format!("{header}\n")
    };
    let second: Value = serde_json::from_str(&kept[1]).unwrap();
    let without_first = [("first", 4.into()), ("previous_hash", second["hash"].clone())];
    let earlier = [("since", "2026-11-01T12:00:00.000Z".into())];
    for (why, header, entries) in [
        ("an entry of the middle", kept[0].clone(), [&kept[1..3], &kept[4..]].concat()),
        ("the neighbour before", with(&without_first), kept[2..].to_vec()),
        ("a wider period", with(&earlier), kept[1..].to_vec()),
        (
            "no period in version 2",
            with(&[("since", Value::Null), ("until", Value::Null)]),
            kept[1..].to_vec(),
        ),
        ("a period in version 1", with(&[("v", 1.into())]), kept[1..].to_vec()),
        (
            "a period that is none",
            with(&[("until", "2026-11-01T17:00:00.000Z".into())]),
            kept[1..].to_vec(),
        ),
        ("no time", with(&[("until", "tomorrow".into())]), kept[1..].to_vec()),
    ] {
        fs::write(&path, header + &entries.concat()).unwrap();
        let (code, text) = both(&path).await;
        assert_eq!(code, 1, "{why}: {text}");
    }
}

/// A narrower period in the header claims less than the bundle has, and the claim is true.
#[tokio::test]
async fn a_narrower_period_is_a_true_claim() {
    let world = World::new().await;
    let firm = quiet_afternoon(&world).await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("day");
    export(&world, &firm, &path, &["--since", "2026-11-01T12:00:00Z", "--until", "2026-11-02"])
        .await;
    let narrower = fs::read_to_string(&path).unwrap().replacen(
        "\"until\":\"2026-11-02T00:00:00.000Z\"",
        "\"until\":\"2026-11-01T12:30:00.000Z\"",
        1,
    );
    fs::write(&path, narrower).unwrap();
    let (code, text) = both(&path).await;
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("3 entries in this period: from 2026-11-01T12:00:00.000Z"), "{text}");
}

#[tokio::test]
async fn a_failed_export_leaves_no_file() {
    let world = World::new().await;
    let firm = world.firm().await;
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("march.bundle");
    let id = firm.id.to_string();
    let export = ["audit", "export", "--firm", &id, "--out", out.to_str().unwrap()];
    // Nothing has followed the log, so there is no chain.
    let (code, text) = audit(&world, &export).await;
    assert!(code == 1 && text.contains("no entry of this firm yet"), "{text}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    read(&world, &firm).await;
    world.project().await;
    assert_eq!(audit(&world, &export).await.0, 0);
    let written = fs::read(&out).unwrap();
    let (code, text) = audit(&world, &export).await;
    assert!(code == 1 && text.contains("march.bundle: it exists already"), "{text}");
    assert_eq!(fs::read(&out).unwrap(), written);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    let backward = [&export[..4], &["--since", "2026-03-02", "--until", "2026-03-01"]].concat();
    let (code, text) = audit(&world, &backward).await;
    assert!(code == 1 && text.contains("`until` must be later than `since`"), "{text}");
}

#[tokio::test]
async fn an_export_has_a_cover_for_people() {
    let world = World::new().await;
    let firm = quiet_afternoon(&world).await;
    let folder = tempfile::tempdir().unwrap();
    let (out, cover) = (folder.path().join("day.bundle"), folder.path().join("day.html"));
    let more =
        ["--since", "2026-11-01", "--until", "2026-11-02", "--cover", cover.to_str().unwrap()];
    export(&world, &firm, &out, &more).await;
    let page = fs::read_to_string(&cover).unwrap();
    let key = audit(&world, &["audit", "keys", "publish"]).await.1;
    for part in [
        "<tr><th>audit_read</th><td>3</td></tr>",
        "<tr><th>key_created</th><td>1</td></tr>",
        "day.bundle",
        &firm.id.to_string(),
        key.trim(),
        &sha256(&out),
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    let id = firm.id.to_string();
    let (csv, other) = (folder.path().join("a.csv"), folder.path().join("b.html"));
    let wrong =
        ["audit", "export", "--firm", &id, "--format", "csv", "--out", csv.to_str().unwrap()];
    let wrong = [&wrong[..], &["--cover", other.to_str().unwrap()]].concat();
    let (code, text) = audit(&world, &wrong).await;
    assert!(code == 1 && text.contains("--cover is a page about a bundle"), "{text}");
    assert!(!csv.exists() && !other.exists());
}

pub(super) fn sha256(file: &Path) -> String {
    use sha2::{Digest, Sha256};
    hex::encode(Sha256::digest(fs::read(file).unwrap()))
}

#[tokio::test]
async fn a_list_leaves_out_readings() {
    let world = World::new().await;
    let firm = quiet_afternoon(&world).await;
    let id = firm.id.to_string();
    let list = ["audit", "list", "--firm", &id, "--json"];
    let listed = async |more: &[&str]| {
        let (code, text) = audit(&world, &[&list[..], more].concat()).await;
        assert_eq!(code, 0, "{text}");
        let items: Value = serde_json::from_str(&text).unwrap();
        let actions = items.as_array().unwrap().iter();
        actions.map(|item| item["action"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(listed(&["--no-reads"]).await, ["key_created", "member_joined", "firm_opened"]);
    let (code, text) = audit(&world, &["audit", "export", "--firm", &id, "--format", "csv"]).await;
    assert_eq!(code, 0, "{text}");
    world.project().await;
    let left = listed(&["--no-reads"]).await;
    assert_eq!(left[0], "key_created", "an export is a reading, too");
    let two = ["--action", "firm_opened", "--action", "member_joined"];
    assert_eq!(listed(&two).await, ["member_joined", "firm_opened"]);
    assert_eq!(
        listed(&["--action", "firm_opened,key_created,key_created"]).await,
        ["key_created", "firm_opened"]
    );
    assert!(listed(&["--until", "2026-11-01"]).await.is_empty(), "a day begins at midnight");
    let (code, text) = audit(&world, &[&list[..], &["--action", "hook_painted"]].concat()).await;
    assert!(code == 2 && text.contains("hook_removed"), "the actions are named: {text}");
}
