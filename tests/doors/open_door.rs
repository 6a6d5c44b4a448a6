//! The doors of a real process: its descriptors, its refusals, and where the internal door listens.

use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;
use std::{fs, io};

use rustls::pki_types::PrivateKeyDer;
use rustls::{ClientConfig, RootCertStore};
use tests::raw::exchange;
use tests::{ATTEMPTS, Receiver, TestDatabase, World};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;

use tests::process::{Listening, Served, firmforms, get, limited, serve, serving};

const READYZ: &str = "GET /readyz HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n";

/// The header that a door with https sends (RFC 6797).
const HTTPS_ONLY: &str = "\r\nstrict-transport-security: max-age=31536000\r\n";

/// The soft and the hard limit of descriptors of a process.
fn descriptors(served: &Served) -> (String, String) {
    let limits = format!("/proc/{}/limits", served.child.id().unwrap());
    let limits = fs::read_to_string(limits).unwrap();
    let line = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    let mut words = line.split_whitespace().skip(3).map(str::to_owned);
    (words.next().unwrap(), words.next().unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_raises_its_descriptor_limit() {
    let database = TestDatabase::new().await;
    let command = limited(&serving(&database, &[], &[]), "-S -n 200");
    let served = Listening::new(command).await.until_ready().await;
    let (soft, hard) = descriptors(&served);
    assert_eq!(soft, hard);
    assert_ne!(soft, "200");
}

/// A hundred attempts at once, and descriptors for fewer. An attempt that finds no descriptor is
/// made later, and is still the first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_descriptor_shortage_costs_no_attempt() {
    let world = World::real_time(TestDatabase::new().await).await;
    let (firm, receiver) = (world.firm().await, Receiver::start().await);
    for number in 0..100 {
        world.subscribe(&firm, &receiver.url(&format!("/{number}"))).await;
    }
    let arguments = ["--per-firm-and-host", "200", "--per-host", "200"];
    let command = limited(&serving(&world.database, &arguments, &[]), "-n 90");
    let served = Listening::new(command).await.until_ready().await;
    receiver.hold();
    world.submit(&firm).await;
    let short = async {
        while !served.log.lock().unwrap().contains("no file descriptor is left") {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), short).await.expect("a shortage");
    receiver.release();
    receiver.wait_for(100).await;
    let tries = format!("select number, outcome, error from {ATTEMPTS}");
    let recorded = async {
        loop {
            let tries: Vec<(i32, String, Option<String>)> =
                sqlx::query_as(&tries).fetch_all(world.pool()).await.unwrap();
            for one in &tries {
                assert_eq!(*one, (1, "delivered".to_owned(), None));
            }
            if tries.len() == 100 {
                return;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(60), recorded).await.expect("all delivered");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn door_refusals_are_counted_and_not_cached() {
    let served = serve(&TestDatabase::new().await, &[]).await;
    for (door, name) in [(served.public, "public"), (served.internal, "internal")] {
        let (status, answer) = exchange(door, "GET / HTTP/1.1\n\n").await.unwrap();
        assert_eq!(status, 400, "{answer}");
        assert!(answer.contains("\r\ncache-control: no-store\r\n"), "{answer}");
        let (_, metrics) = get(served.internal, "/metrics").await;
        let counted =
            format!("firmforms_door_refusals_total{{door=\"{name}\",reason=\"line_end\"}} 1\n");
        assert!(metrics.contains(&counted), "{metrics}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_internal_door_takes_a_unix_socket() {
    let database = TestDatabase::new().await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("internal.sock");
    let internal = format!("unix:{}", path.display());
    let mut command = firmforms(&database);
    command.args(["serve", "--addr", "127.0.0.1:0", "--internal-addr", &internal]);
    let mut child = command.env("NO_COLOR", "1").stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let mut log = String::new();
    while !log.contains(" INFO ready") {
        log += &lines.next_line().await.unwrap().expect("it starts");
    }
    assert!(log.contains(&format!("internal={internal}")), "{log}");
    assert!(!log.contains("WITHOUT TLS"), "{log}");
    let mut stream = UnixStream::connect(&path).await.unwrap();
    stream.write_all(READYZ.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
}

/// A door is open if other machines reach it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_open_door_without_tls_warns() {
    let database = TestDatabase::new().await;
    let mut command = firmforms(&database);
    command.args(["serve", "--addr", "0.0.0.0:0", "--internal-addr", "0.0.0.0:0"]);
    let mut child = command.env("NO_COLOR", "1").stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let mut log = String::new();
    while !log.contains(" INFO ready") {
        log += &lines.next_line().await.unwrap().expect("it starts");
    }
    for door in ["PUBLIC", "INTERNAL"] {
        assert!(log.contains(&format!("THE {door} DOOR IS OPEN WITHOUT TLS")), "{log}");
    }
}

/// A caller without a certificate, or without TLS, gets no answer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_internal_door_demands_a_client_certificate() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let certificate = |name: &str| {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        fs::write(file(&format!("{name}.pem")), made.cert.pem()).unwrap();
        fs::write(file(&format!("{name}.key")), made.signing_key.serialize_pem()).unwrap();
        (made.cert.der().clone(), made.signing_key.serialize_der())
    };
    let (door, _) = certificate("door");
    let client = certificate("client");
    let served = serve(
        &TestDatabase::new().await,
        &[
            "--internal-tls-cert",
            &file("door.pem"),
            "--internal-tls-key",
            &file("door.key"),
            "--internal-tls-client-ca",
            &file("client.pem"),
        ],
    )
    .await;
    let plain = exchange(served.internal, READYZ).await;
    assert!(plain.is_none(), "{plain:?}");
    let mut roots = RootCertStore::empty();
    roots.add(door).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = || {
        ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots.clone())
    };
    let known = config()
        .with_client_auth_cert(vec![client.0], PrivateKeyDer::Pkcs8(client.1.into()))
        .unwrap();
    let answer = over_tls(&served, known).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    assert!(answer.contains(HTTPS_ONLY), "{answer}");
    assert!(over_tls(&served, config().with_no_client_auth()).await.is_err());
}

/// A proxy ends the TLS of the public door. No proxy stands before the internal door.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_https_public_url_sets_hsts() {
    let database = TestDatabase::new().await;
    let served = serve(&database, &["--base-url", "https://forms.example.com"]).await;
    for path in ["/api/v1/me", "/docs", "/portal/keys"] {
        let (_, answer) = get(served.public, path).await;
        assert!(answer.contains(HTTPS_ONLY), "{path}: {answer}");
    }
    let (_, answer) = get(served.internal, "/readyz").await;
    assert!(!answer.contains("strict-transport-security"), "{answer}");
}

async fn over_tls(served: &Served, config: ClientConfig) -> io::Result<String> {
    let stream = TcpStream::connect(served.internal).await?;
    let name = "localhost".try_into().unwrap();
    let mut stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await?;
    stream.write_all(READYZ.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer)
}
