//! Bundles: an auditor takes one home and verifies it there, by two implementations that share no
//! code.

use std::fs;
use std::path::Path;
use std::time::Duration;

use tests::{Firm, World};
use tokio::process::Command;

use super::{audit, read_often, said};

const VERIFIER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/verify_bundle.py");

/// With no database, nor any folder of the service's.
async fn ours(bundle: &Path, more: &[&str]) -> (i32, String) {
    let mut command = Command::new(tests::program());
    command.env_clear().args(["audit", "verify", "--bundle", bundle.to_str().unwrap()]);
    said(&command.args(more).output().await.unwrap())
}

/// The second implementation.
async fn theirs(arguments: &[&str]) -> (i32, String) {
    said(&Command::new("python3").arg(VERIFIER).args(arguments).output().await.unwrap())
}

/// The exit code of both, which must agree, and our words.
pub(super) async fn both(bundle: &Path) -> (i32, String) {
    let (code, text) = ours(bundle, &[]).await;
    let (their_code, their_text) = theirs(&[bundle.to_str().unwrap()]).await;
    assert_eq!(code, their_code, "{text}{their_text}");
    (code, text)
}

pub(super) async fn export(world: &World, firm: &Firm, out: &Path, more: &[&str]) {
    let id = firm.id.to_string();
    let out = out.to_str().unwrap();
    let arguments = [&["audit", "export", "--firm", &id, "--out", out], more].concat();
    let (code, text) = audit(world, &arguments).await;
    assert_eq!(code, 0, "{text}");
}

#[tokio::test]
async fn g3_the_second_implementation_holds_the_vectors() {
    assert_eq!(theirs(&["--vectors"]).await, (0, "the vectors hold\n".to_owned()));
}

#[tokio::test]
async fn g3_two_implementations_verify_a_bundle_offline() {
    let world = World::new().await;
    let others = [world.firm().await, world.firm().await];
    let firm = world.firm().await;
    world.subscribe(&firm, "https://hooks.example.com/é?token=secret").await;
    world.pass(Duration::from_secs(60));
    read_often(&world, &firm, 20).await;
    read_often(&world, &others[0], 2).await;
    world.project().await;
    let folder = tempfile::tempdir().unwrap();
    let whole = folder.path().join("whole");
    export(&world, &firm, &whole, &[]).await;
    let (code, text) = both(&whole).await;
    assert_eq!(code, 0);
    assert!(text.contains(&format!("intact: entries 1 to 24 of 24 of firm {}", firm.id)), "{text}");
    assert!(!fs::read_to_string(&whole).unwrap().contains("secret"), "the query is masked");

    let part = folder.path().join("part");
    export(&world, &firm, &part, &["--until", "2026-11-01T12:00:30Z"]).await;
    let (code, text) = both(&part).await;
    assert_eq!(code, 0);
    assert!(text.contains("entries 1 to 5 of 2"), "{text}");
    assert!(text.contains("4 entries in this period: from any time"), "{text}");
    let later = folder.path().join("later");
    export(&world, &firm, &later, &["--since", "2026-11-01T12:00:30Z"]).await;
    let (code, text) = both(&later).await;
    assert!(code == 0 && text.contains("entries 4 to"), "{text}");
    assert!(text.contains("before it: entry 4 of 2026-11-01T12:00:00.000Z"), "{text}");

    let key = audit(&world, &["audit", "keys", "publish"]).await.1;
    let (keys, other) = (folder.path().join("keys"), folder.path().join("other"));
    fs::write(&keys, &key).unwrap();
    fs::write(&other, "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a\n")
        .unwrap();
    assert_eq!(ours(&whole, &["--public-keys", keys.to_str().unwrap()]).await.0, 0);
    assert_eq!(ours(&whole, &["--public-keys", other.to_str().unwrap()]).await.0, 1);
    assert_eq!(theirs(&[whole.to_str().unwrap(), key.trim()]).await.0, 0);
}

#[tokio::test]
async fn g3_both_refuse_changed_or_cut_bundles() {
    let world = World::new().await;
    let firm = world.firm().await;
    read_often(&world, &firm, 8).await;
    world.project().await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bundle");
    export(&world, &firm, &path, &[]).await;
    let kept = fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = kept.split_inclusive('\n').collect();
    let mut swapped = lines.clone();
    swapped.swap(3, 4);
    let last = lines.len() - 1;
    let without = |line: usize| [&lines[..line], &lines[line + 1..]].concat().concat();
    let changed = [
        (1, kept.replacen("key_created", "key_creatad", 1)),
        (1, kept.replacen("\\\"v\\\":1", "\\\"v\\\": 1", 1)),
        (1, swapped.concat()),
        (1, without(4)),
        (1, kept.replacen("\"last\":11", "\"last\":10", 1)),
        (1, kept.replacen("\"firms\":1", "\"firms\":2", 1)),
        (1, kept.replacen("\"seals\":0", "\"seals\":1", 1)),
        (1, format!("{kept}{{}}\n")),
        (2, without(last)),
        (2, kept.trim_end().to_owned()),
        (2, String::new()),
    ];
    for (expected, text) in changed {
        assert_ne!(text, kept);
        fs::write(&path, text).unwrap();
        let (code, text) = both(&path).await;
        assert_eq!(code, expected, "{text}");
    }
}
