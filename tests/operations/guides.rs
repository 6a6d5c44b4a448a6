//! The guides that the service serves at `/docs`. The script that checks a signature is tried with
//! the service's own signer, and the programs of the quickstart with a running service. A program
//! whose language is not on this machine is skipped, and the test says so.

use std::process::Stdio;

use domain::delivery::signature::{WebhookSecret, sign_body};
use serde_json::{Value, json};
use tests::{Receiver, TestDatabase, World, make_request};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::Command;

use crate::receivers::{docs, found};
use tests::process::serve;

const SCRIPT: &str = include_str!("../../api/src/docs/guides/signature.js");

/// Node.js 18 has WebCrypto under another name than browsers.
const DRIVER: &str = "
import { webcrypto } from 'node:crypto';
globalThis.crypto ??= webcrypto;
const results = [];
for (const input of CASES) {
  results.push(await check({ ...input, body: Uint8Array.from(input.body) }));
}
console.log(JSON.stringify(results));
";

/// Seconds of the clock in these cases.
const NOW: i64 = 1_800_000_000;

const BODY: &str =
    r#"{"event":"lead_hot","respondent":{"name":"Zoé 🎉","score":1.50},"note":"a\nb c"}"#;

/// Input of the check, and its answer.
struct SignatureCase {
    header: String,
    body: Vec<u8>,
    secret: String,
    verdict: &'static str,
    /// Part of a sentence of the answer.
    says: &'static str,
}

/// The inputs that the service would send and a receiver would have.
fn sound() -> SignatureCase {
    let secret = WebhookSecret::from_bytes([7; 32]).as_str().to_owned();
    let header = sign_body(&secret, NOW, BODY.as_bytes());
    SignatureCase {
        header,
        body: BODY.into(),
        secret,
        verdict: "holds",
        says: "t is 0 seconds old",
    }
}

fn with_header(header: &str, verdict: &'static str, says: &'static str) -> SignatureCase {
    SignatureCase { header: header.to_owned(), verdict, says, ..sound() }
}

fn sent_at(seconds: i64, verdict: &'static str, says: &'static str) -> SignatureCase {
    with_header(&sign_body(&sound().secret, NOW + seconds, BODY.as_bytes()), verdict, says)
}

fn with_body(body: impl AsRef<[u8]>, says: &'static str) -> SignatureCase {
    SignatureCase { body: body.as_ref().to_vec(), verdict: "differs", says, ..sound() }
}

fn with_secret(secret: &str, verdict: &'static str, says: &'static str) -> SignatureCase {
    SignatureCase { secret: secret.to_owned(), verdict, says, ..sound() }
}

fn cases() -> Vec<SignatureCase> {
    let SignatureCase { header, secret, .. } = sound();
    let (t, v1) = header.split_once(',').unwrap();
    let (zeros, refused) = ("0".repeat(64), "unreadable");
    let written_again = "The body was parsed and written again";
    let escaped = SignatureCase {
        header: sign_body(&secret, NOW, "{\"a\":\"é\"}".as_bytes()),
        ..with_body(r#"{"a": "\u00e9"}"#, written_again)
    };
    let spaced = BODY.replace("\":", "\": ").replace(",\"", ",\n  \"");
    let other = WebhookSecret::from_bytes([8; 32]);
    let key = format!("ffk_{}", "A".repeat(43));
    vec![
        sound(),
        with_header(&format!(" X-Service-Signature: {header}\r\n"), "holds", "0 seconds"),
        with_header(&format!("{t},v1={zeros},{v1}"), "holds", "Number 2 of 2 v1"),
        with_header(&format!("{v1}, {t}"), "holds", "Strict receivers refuse more"),
        sent_at(-300, "holds", "5 minutes old"),
        sent_at(300, "holds", "5 minutes ahead"),
        sent_at(-301, "old", "5 minutes 1 second old"),
        sent_at(-90_061, "old", "1 day 1 hour 1 minute 1 second old"),
        sent_at(301, "early", "5 minutes 1 second ahead"),
        with_header("", refused, "The header is empty"),
        with_header("garbage", refused, "“garbage” has not the form"),
        with_header(v1, refused, "t is there 0 times"),
        with_header(&format!("{t},{header}"), refused, "t is there 2 times"),
        with_header(t, refused, "There is no v1"),
        with_header(&header.replace("t=", "t=-"), refused, "t is not a number"),
        with_header(&header.replacen(',', "000,", 1), refused, "t has milliseconds"),
        with_header(&header[..header.len() - 1], refused, "63 characters, not 64"),
        with_header(&format!("{t},v1={}", v1[3..].to_uppercase()), refused, "upper case"),
        with_header(&format!("{t},v1={}", "x".repeat(64)), refused, "not lower-case hexadecimal"),
        with_body(format!("{BODY}\n"), "begins or ends with white space"),
        with_body(format!("\u{feff}{BODY}"), "begins or ends with white space"),
        with_body(&spaced, written_again),
        escaped,
        with_body(spaced.replace("1.50", "1.5"), "has white space between its parts"),
        with_body(BODY.replace("Zoé", "Zoe"), "The body looks whole"),
        with_body(&BODY[..20], "The body is not JSON"),
        with_body("", "The body is empty"),
        with_body([0xff], "The body is not UTF-8"),
        with_secret("", "incomplete", "The secret is empty"),
        with_secret(" \n", "incomplete", "The secret is empty"),
        with_secret(&format!("\"{secret}\"\n"), "differs", "white space or quotes"),
        with_secret("\"\"", "differs", "does not begin with whsec_"),
        with_secret(&secret[6..], "differs", "lacks its beginning"),
        with_secret(&secret[..40], "differs", "has 40 characters, not 49"),
        with_secret(&key, "differs", "is an API key"),
        with_secret(other.as_str(), "differs", "may be another firm's"),
    ]
}

#[tokio::test]
async fn the_page_explains_each_signatures_verdict() {
    if !found("node", "--version", "v").await {
        return;
    }
    let cases = cases();
    let input = |case: &SignatureCase| {
        json!({
            "header": case.header, "body": case.body, "secret": case.secret, "now": NOW,
        })
    };
    let inputs: Vec<Value> = cases.iter().map(input).collect();
    let script = format!("{SCRIPT}{}", DRIVER.replace("CASES", &json!(inputs).to_string()));
    let mut node = Command::new("node")
        .args(["--input-type=module", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    node.stdin.take().unwrap().write_all(script.as_bytes()).await.unwrap();
    let output = node.wait_with_output().await.unwrap();
    let results: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(results.len(), cases.len());
    for (case, result) in cases.iter().zip(results) {
        let SignatureCase { header, secret, body, verdict, says } = case;
        let body = String::from_utf8_lossy(body);
        assert_eq!(result["verdict"], *verdict, "{header:?} {body:?} {secret:?}: {result}");
        assert!(result["says"].to_string().contains(says), "{says}: {result}");
    }
}

/// Runs a program of the quickstart as an integrator does: with a key, an address, and a response
/// while it waits.
async fn leads_from_a_key_to_a_delivery_and_back(program: &str, file: &str) {
    let database = TestDatabase::new().await;
    let served = serve(&database, &[]).await;
    let (world, receiver) = (World::real_time(database).await, Receiver::start().await);
    let firm = world.firm().await;
    let mut run = Command::new(program)
        .arg(docs("quickstart").join(file))
        .env("BASE", format!("http://{}/api/v1", served.public))
        .env("KEY", &firm.key)
        .env("TARGET", receiver.url("/hook"))
        .env("no_proxy", "*")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(run.stdout.take().unwrap()).lines();
    let mut printed = String::new();
    while !printed.contains("subscribed ") {
        printed += &lines.next_line().await.unwrap().expect("it subscribes");
    }
    for said in ["Harrow Lane", "form_submitted", "\"event\""] {
        assert!(printed.contains(said), "{said}: {printed}");
    }
    world.submit(&firm).await;
    receiver.wait_for(1).await;
    run.stdin.take().unwrap().write_all(b"\n").await.unwrap();
    assert!(run.wait().await.unwrap().success());
    assert_eq!(world.get(&firm, "/hooks").await.body, json!([]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_curl_quickstart_gets_a_delivery() {
    if found("curl", "--version", "curl").await {
        leads_from_a_key_to_a_delivery_and_back("sh", "quickstart.sh").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_python_quickstart_gets_a_delivery() {
    if found("python3", "--version", "Python 3").await {
        leads_from_a_key_to_a_delivery_and_back("python3", "quickstart.py").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_javascript_quickstart_gets_a_delivery() {
    if found("node", "--version", "v").await {
        leads_from_a_key_to_a_delivery_and_back("node", "quickstart.mjs").await;
    }
}

/// Deliveries leave from these addresses. Without the setting, the path is like any unknown one.
#[tokio::test]
async fn egress_addresses_are_public_without_a_key() {
    let get = |path: &str| make_request("GET", path, &[], "");
    let list = "/.well-known/firmforms-egress.json";
    let clock = eventstore::Clock::standing_at("2026-11-01T12:00:00.000Z".parse().unwrap());
    let egress: Vec<std::net::IpAddr> =
        ["203.0.113.7", "2001:db8::7"].map(|address| address.parse().unwrap()).to_vec();
    let bound = World::with(TestDatabase::new().await, clock, |setup| service::SystemSetup {
        egress,
        ..setup
    })
    .await;
    let answer = bound.public(get(list)).await;
    let expected = serde_json::json!({"addresses": ["203.0.113.7", "2001:db8::7"]});
    assert_eq!((answer.status.as_u16(), &answer.body), (200, &expected));
    let page = bound.public(get("/docs/receive")).await;
    assert!(page.text().contains("203.0.113.7") && page.text().contains(list));
    let free = World::on(bound.database).await;
    assert_eq!(free.public(get(list)).await.status, 401, "like any unknown path");
    assert!(!free.public(get("/docs/receive")).await.text().contains("firewall"));
}
