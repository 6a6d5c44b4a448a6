//! The receivers of docs/receivers, run as an integrator runs them, against real deliveries and
//! against everything they must refuse. Blocks of docs/how-to/receive-deliveries.md quote them. A
//! receiver whose language is not on this machine is skipped, and the test says so.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use api::commands::secrets;
use domain::delivery::signature::{WebhookSecret, sign_body};
use domain::event::Actor;
use eventstore::{Clock, connect};
use tempfile::TempDir;
use tests::{Firm, TestDatabase, World};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::vectors::{BODY, SignatureVector, SignatureVerdict, SignerInput, vectors};

/// How long a receiver may take to compile and start.
const PATIENCE: Duration = Duration::from_secs(60);

/// The lines that a receiver prints about a request begin so.
const VERDICTS: [&str; 3] = ["accepted ", "duplicate ", "refused "];

/// Number of deliveries that arrive side by side. A subscription has no more in flight.
const AT_ONCE: usize = 32;

pub(crate) fn docs(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs").join(path)
}

/// Whether the program is on this machine, and answers the probe with these words.
pub(crate) async fn found(program: &str, probe: &str, says: &str) -> bool {
    let output = Command::new(program).arg(probe).stderr(Stdio::null()).output().await;
    let found = output.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains(says));
    if !found {
        println!("skipped: no {program}");
    }
    found
}

/// Runs a file of docs/receivers.
fn run(program: &str, arguments: &[&str], file: &str) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).arg(docs("receivers").join(file));
    command
}

/// A receiver: a process, and its printed lines.
struct Receiver {
    _process: Child,
    _folder: TempDir,
    lines: UnboundedReceiver<String>,
    port: u16,
}

impl Receiver {
    async fn start(mut command: Command, secrets: &str) -> Self {
        let folder = TempDir::new().unwrap();
        let mut process = command
            .envs([("PORT", "0"), ("WEBHOOK_SECRETS", secrets), ("GONE", "/gone")])
            .env("SEEN", folder.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let (sender, lines) = unbounded_channel();
        tokio::spawn(pass_on(process.stdout.take().unwrap(), sender.clone()));
        tokio::spawn(pass_on(process.stderr.take().unwrap(), sender));
        let mut receiver = Self { _process: process, _folder: folder, lines, port: 0 };
        let ready = receiver.line_with(|line| line.contains("127.0.0.1:")).await;
        let (_, port) = ready.split_once("127.0.0.1:").unwrap();
        let digits = port.split(|char: char| !char.is_ascii_digit()).next().unwrap();
        receiver.port = digits.parse().unwrap();
        receiver
    }

    fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    async fn line_with(&mut self, wanted: impl Fn(&str) -> bool) -> String {
        let mut other = Vec::new();
        let search = async {
            while let Some(line) = self.lines.recv().await {
                if wanted(&line) {
                    return Some(line);
                }
                other.push(line);
            }
            None
        };
        let found = tokio::time::timeout(PATIENCE, search).await;
        found.ok().flatten().unwrap_or_else(|| panic!("the receiver said only {other:?}"))
    }

    /// The line that the receiver printed about the next request.
    async fn verdict(&mut self) -> String {
        self.line_with(|line| VERDICTS.iter().any(|verdict| line.starts_with(verdict))).await
    }

    /// Sends a request. Returns the status of the answer.
    async fn post(&self, request: &Request<'_>) -> u16 {
        let mut head = format!(
            "POST /hook HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {}\r\n\
             Content-Type: application/json\r\nX-Service-Event: form_submitted\r\n",
            request.body.len()
        );
        if let Some(signature) = &request.signature {
            head += &format!("X-Service-Signature: {signature}\r\n");
        }
        if let Some(delivery_id) = request.delivery_id {
            head += &format!("X-Service-Delivery: {delivery_id}\r\n");
        }
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).await.unwrap();
        let bytes = [head.as_bytes(), b"\r\n", request.body].concat();
        stream.write_all(&bytes).await.unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.unwrap();
        String::from_utf8_lossy(&answer).split(' ').nth(1).unwrap().parse().unwrap()
    }

    /// Sends a request. Returns the status of the answer and the printed line.
    async fn judge(&mut self, request: Request<'_>) -> (u16, String) {
        (self.post(&request).await, self.verdict().await)
    }
}

async fn pass_on(stream: impl AsyncRead + Unpin, sender: UnboundedSender<String>) {
    let mut lines = BufReader::new(stream).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let _ = sender.send(line);
    }
}

/// A request made by hand.
struct Request<'a> {
    signature: Option<String>,
    delivery_id: Option<&'a str>,
    body: &'a [u8],
}

/// Both secrets of a receiver.
#[derive(Clone, Copy)]
struct SecretPair<'a> {
    older: &'a str,
    newer: &'a str,
}

/// A world on the real clock: the receivers look at theirs.
async fn world() -> (World, Firm, String) {
    let database = TestDatabase::new().await;
    let clock = Clock::of_database(&connect(database.main.clone(), 1)).await.unwrap();
    let world = World::at(database, clock).await;
    let firm = world.firm().await;
    let revealed = secrets::reveal(world.service(), firm.id, Actor::System).await.unwrap();
    (world, firm, revealed.secret.as_str().to_owned())
}

/// The rules of every receiver. `event` is the event that the receiver prints for a body whose
/// event differs from the header's.
async fn keeps_the_rules(command: Command, event: &str) {
    let (world, firm, secret) = world().await;
    let newer = WebhookSecret::from_bytes([9; 32]);
    let both = format!("{secret},,{}", newer.as_str());
    let mut receiver = Receiver::start(command, &both).await;
    takes_real_deliveries(&world, &firm, &mut receiver).await;
    let secrets = SecretPair { older: &secret, newer: newer.as_str() };
    passes_the_vectors(&world, secrets, &mut receiver).await;
    refuses_what_is_not_signed(&world, &secret, &mut receiver).await;
    takes_each_delivery_once(&world, (&secret, newer.as_str()), &mut receiver, event).await;
}

async fn takes_real_deliveries(world: &World, firm: &Firm, receiver: &mut Receiver) {
    world.subscribe(firm, &receiver.url("/hook?a=b")).await;
    world.subscribe(firm, &receiver.url("/gone")).await;
    for _ in 0..2 {
        world.submit(firm).await;
        assert_eq!(world.deliver().await, 2);
        let verdicts = BTreeSet::from([receiver.verdict().await, receiver.verdict().await]);
        let accepted = verdicts.first().unwrap();
        assert_eq!(verdicts.last().unwrap(), "refused gone");
        let words: Vec<&str> = accepted.split(' ').collect();
        assert_eq!((words[0], words[2]), ("accepted", "form_submitted"), "{accepted}");
        let (state, _) = world.history(words[1].parse().unwrap()).await;
        assert_eq!(state, "delivered");
    }
    let hooks = world.get(firm, "/hooks").await.body;
    assert_eq!(hooks.as_array().unwrap().len(), 1, "two 410s end a subscription: {hooks}");
    for _ in 0..AT_ONCE {
        world.submit(firm).await;
    }
    assert_eq!(world.deliver().await, AT_ONCE);
    let mut verdicts = BTreeSet::new();
    for _ in 0..AT_ONCE {
        verdicts.insert(receiver.verdict().await);
    }
    let accepted = verdicts.iter().filter(|verdict| verdict.ends_with(" form_submitted"));
    assert_eq!(accepted.count(), AT_ONCE, "{verdicts:?}");
}

async fn passes_the_vectors(world: &World, secrets: SecretPair<'_>, receiver: &mut Receiver) {
    let input = SignerInput {
        now: world.clock.now().get().timestamp(),
        slack: 60,
        older: secrets.older.to_owned(),
        newer: secrets.newer.to_owned(),
    };
    let can_arrive = |it: &SignatureVector| it.header.trim() == it.header && it.header.is_ascii();
    let has_secrets = |it: &SignatureVector| it.secrets == [secrets.older, secrets.newer];
    // A receiver parses a body that it accepts.
    let is_parsed = |it: &SignatureVector| it.verdict == SignatureVerdict::Valid;
    let mut judged = 0;
    for vector in vectors(&input) {
        let unreadable = is_parsed(&vector) && vector.body != BODY.as_bytes();
        if unreadable || !can_arrive(&vector) || !has_secrets(&vector) {
            continue;
        }
        let delivery_id = world.id().to_string();
        let request = Request {
            signature: Some(vector.header),
            delivery_id: Some(&delivery_id),
            body: &vector.body,
        };
        let (status, said) = receiver.judge(request).await;
        let (expected, begins) = match vector.verdict {
            SignatureVerdict::Valid => (204, "accepted "),
            SignatureVerdict::Malformed => (401, "refused malformed signature"),
            SignatureVerdict::Stale => (401, "refused stale signature"),
            SignatureVerdict::Mismatch => (401, "refused wrong signature"),
        };
        assert_eq!(status, expected, "{}: {said}", vector.name);
        assert!(said.starts_with(begins), "{}: {said}", vector.name);
        judged += 1;
    }
    assert!(judged > 35, "only {judged} vectors");
}

async fn refuses_what_is_not_signed(world: &World, secret: &str, receiver: &mut Receiver) {
    let now = world.clock.now().get().timestamp();
    let good = sign_body(secret, now, BODY.as_bytes());
    let (malformed, wrong) = ("refused malformed signature", "refused wrong signature");
    let delivery_id = world.id().to_string();
    let delivery_id = Some(delivery_id.as_str());
    let none = Request { signature: None, delivery_id, body: BODY.as_bytes() };
    assert_eq!(receiver.judge(none).await, (401, malformed.to_owned()));
    let not_text: Vec<u8> = BODY.as_bytes().iter().copied().filter(|byte| byte != &0xbf).collect();
    for changed in [BODY.replace("Zoé", "Zoë").as_bytes(), &not_text] {
        let request = Request { signature: Some(good.clone()), delivery_id, body: changed };
        assert_eq!(receiver.judge(request).await, (401, wrong.to_owned()));
    }
    let no_id = Request { signature: Some(good.clone()), delivery_id: None, body: BODY.as_bytes() };
    assert_eq!(receiver.judge(no_id).await, (400, "refused no delivery id".to_owned()));
    let request = Request { signature: Some(good), delivery_id, body: BODY.as_bytes() };
    let (status, verdict) = receiver.judge(request).await;
    assert_eq!(status, 204, "what was refused is not remembered: {verdict}");
    assert!(verdict.starts_with("accepted"), "{verdict}");
}

async fn takes_each_delivery_once(
    world: &World,
    (older, newer): (&str, &str),
    receiver: &mut Receiver,
    event: &str,
) {
    let delivery_id = world.id().to_string();
    let accepted = format!("accepted {delivery_id} {event}");
    let duplicate = format!("duplicate {delivery_id}");
    let now = world.clock.now().get().timestamp();
    for (secret, seconds, verdict) in
        [(newer, 0, &accepted), (newer, 0, &duplicate), (older, -4 * 60, &duplicate)]
    {
        let signature = Some(sign_body(secret, now + seconds, BODY.as_bytes()));
        let request = Request { signature, delivery_id: Some(&delivery_id), body: BODY.as_bytes() };
        assert_eq!(receiver.judge(request).await, (204, verdict.clone()));
    }
}

#[tokio::test]
async fn the_python_receiver_keeps_the_rules() {
    if found("python3", "--version", "Python 3").await {
        keeps_the_rules(run("python3", &[], "receiver.py"), "lead_hot").await;
    }
}

#[tokio::test]
async fn the_javascript_receiver_keeps_the_rules() {
    if found("node", "--version", "v").await {
        keeps_the_rules(run("node", &[], "receiver.mjs"), "lead_hot").await;
    }
}

#[tokio::test]
async fn the_java_receiver_keeps_the_rules() {
    if found("java", "--list-modules", "jdk.compiler").await {
        keeps_the_rules(run("java", &[], "Receiver.java"), "form_submitted").await;
    }
}

#[tokio::test]
async fn the_php_receiver_keeps_the_rules() {
    if found("php", "--version", "PHP 8").await {
        keeps_the_rules(run("php", &["-S", "127.0.0.1:0"], "receiver.php"), "lead_hot").await;
    }
}

#[tokio::test]
async fn the_go_receiver_keeps_the_rules() {
    if found("go", "version", "go1").await {
        // `go run` would start the program as a child of its own, which a kill does not reach.
        let folder = TempDir::new().unwrap();
        let program = folder.path().join("receiver");
        let mut build = run("go", &["build", "-o", program.to_str().unwrap()], "receiver.go");
        assert!(build.status().await.unwrap().success());
        keeps_the_rules(Command::new(&program), "lead_hot").await;
    }
}

#[test]
fn the_guide_quotes_the_receivers_own_lines() {
    let guide = std::fs::read_to_string(docs("how-to/receive-deliveries.md")).unwrap();
    let mut quoted = BTreeSet::new();
    for (before, block) in blocks(&guide) {
        let Some((_, link)) = before.split_once("](../receivers/") else { continue };
        let (file, _) = link.split_once(')').unwrap();
        let text = std::fs::read_to_string(docs("receivers").join(file)).unwrap();
        assert!(text.contains(&block), "{file} does not contain:\n{block}");
        quoted.insert(file.to_owned());
    }
    let files = std::fs::read_dir(docs("receivers")).unwrap();
    let files: BTreeSet<String> =
        files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    assert_eq!(quoted, files, "each receiver is quoted");
}

/// The fenced blocks of a page, each with the last line of text before it.
fn blocks(page: &str) -> Vec<(&str, String)> {
    let (mut blocks, mut before, mut open) = (Vec::new(), "", None::<String>);
    for line in page.lines() {
        match &mut open {
            Some(_) if line == "```" => blocks.push((before, open.take().unwrap())),
            Some(block) => *block += &format!("{line}\n"),
            None if line.starts_with("```") => open = Some(String::new()),
            None if !line.is_empty() => before = line,
            None => {}
        }
    }
    blocks
}
