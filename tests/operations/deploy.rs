//! The files of `deploy` name existing metrics and settings, and the proxy in front works.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use telemetry::metrics::{ALL, MetricKind};
use tests::TestDatabase;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpSocket;

use tests::process::serve;

fn deployed(path: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    std::fs::read_to_string(root.join("deploy").join(path)).unwrap()
}

/// The words of a text that begin as our metrics do.
fn metrics_in(text: &str) -> BTreeSet<&str> {
    let words = text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    words.filter(|word| word.starts_with("firmforms_")).collect()
}

/// The names of all series that a scrape shows.
fn series() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for metric in ALL {
        let ends: &[&str] = match metric.kind {
            MetricKind::Histogram => &["_bucket", "_count", "_sum"],
            MetricKind::Counter | MetricKind::Gauge => &[""],
        };
        names.extend(ends.iter().map(|end| format!("{}{end}", metric.name)));
    }
    names
}

#[test]
fn rules_and_dashboards_name_existing_metrics() {
    let known = series();
    for path in [
        "prometheus/rules.yml",
        "grafana/service.json",
        "grafana/receivers.json",
        "grafana/database.json",
    ] {
        let text = deployed(path);
        let named = metrics_in(&text);
        assert!(named.len() > 5, "{path}");
        for name in named {
            assert!(known.contains(name), "{path}: {name}");
        }
    }
}

#[test]
fn alerts_have_a_first_look_and_tests() {
    let rules = deployed("prometheus/rules.yml");
    let tests = deployed("prometheus/rules_test.yml");
    let page = include_str!("../../docs/how-to/run-in-production.md");
    let alerts: Vec<&str> =
        rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).collect();
    assert!(alerts.len() > 10);
    for alert in alerts {
        assert!(page.contains(&format!("`{alert}`")), "{alert} has no first look");
        assert_eq!(tests.matches(&format!("alertname: {alert}}}")).count(), 1, "{alert} silent");
        assert_eq!(tests.matches(&format!("alertname=\"{alert}\"")).count(), 1, "{alert} firing");
    }
}

#[test]
fn dashboard_panels_have_queries_and_distinct_places() {
    for name in ["service", "receivers", "database"] {
        let dashboard: Value =
            serde_json::from_str(&deployed(&format!("grafana/{name}.json"))).unwrap();
        let mut places = BTreeSet::new();
        for panel in dashboard["panels"].as_array().unwrap() {
            assert!(panel["targets"].as_array().is_some_and(|asked| !asked.is_empty()), "{panel}");
            let place = &panel["gridPos"];
            assert!(place["x"].as_u64().unwrap() + place["w"].as_u64().unwrap() <= 24, "{panel}");
            assert!(places.insert((place["x"].as_u64(), place["y"].as_u64())), "{panel}");
        }
    }
}

/// The secrets that a file may have, by the names of their settings.
fn secrets() -> Vec<String> {
    let settings = deployed("../docs/reference/settings.md");
    let flags = settings.split("|`--").skip(1).filter_map(|row| row.split('`').next());
    flags.filter_map(|flag| flag.strip_suffix("-file").map(str::to_owned)).collect()
}

/// The package makes each credential blank, and its settings file names each.
#[test]
fn systemd_units_load_each_secret_as_credential() {
    let secrets = secrets();
    assert!(secrets.len() > 4, "{secrets:?}");
    let made = deployed("debian/postinst");
    let made = made.split("for name in ").nth(1).unwrap().split(';').next().unwrap();
    // A line of a shell goes on after a backslash.
    let words = made.split_whitespace().filter(|word| *word != "\\");
    let mut made: Vec<&str> = words.collect();
    made.sort_unstable();
    let mut named: Vec<&str> = secrets.iter().map(String::as_str).collect();
    named.sort_unstable();
    assert_eq!(made, named);
    let told = deployed("debian/firmforms.toml");
    for secret in named {
        assert!(told.contains(secret), "{secret}");
        for unit in ["firmforms.service", "firmforms@.service"] {
            let line = format!("\nLoadCredential={secret}:/etc/firmforms/credentials/{secret}\n");
            assert!(deployed(&format!("systemd/{unit}")).contains(&line), "{unit}: {secret}");
        }
    }
}

/// nginx with the sample, in clear text on this port, before the service at this address.
fn nginx(folder: &Path, port: u16, service: SocketAddr) -> Option<std::process::Child> {
    let program = ["/usr/sbin/nginx", "/usr/bin/nginx"].map(PathBuf::from);
    let program = program.into_iter().find(|program| program.is_file())?;
    let without_tls = |line: &&str| {
        let line = line.trim();
        !line.starts_with("ssl_") && !line.starts_with("listen [::]")
    };
    let sample: String = deployed("nginx/firmforms.conf")
        .replace("127.0.0.1:8080", &service.to_string())
        .replace("listen 443 ssl http2", &format!("listen 127.0.0.1:{port}"))
        .replace("/var/log/nginx", &folder.display().to_string())
        .lines()
        .filter(without_tls)
        .map(|line| line.to_owned() + "\n")
        .collect();
    let folder_name = folder.display();
    let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|kind| format!("{kind}_temp_path {folder_name}/{kind};\n"))
        .concat();
    let main = format!(
        "daemon off;\nmaster_process off;\npid {folder_name}/pid;\nerror_log stderr;\n\
         events {{}}\nhttp {{\n{temporary}{sample}}}\n"
    );
    let file = folder.join("nginx.conf");
    std::fs::write(&file, main).unwrap();
    let mut command = Command::new(program);
    command.arg("-p").arg(folder).arg("-c").arg(file).stderr(Stdio::inherit());
    Some(command.spawn().unwrap())
}

/// A call from 127.0.0.2, with an address that the caller made up.
async fn call(port: u16, forged: usize) -> Option<u16> {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(SocketAddr::new(IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2)), 0)).unwrap();
    let mut stream = socket.connect(SocketAddr::from(([127, 0, 0, 1], port))).await.ok()?;
    let key = "A".repeat(43);
    let request = format!(
        "GET /api/v1/me HTTP/1.1\r\nHost: forms.example.com\r\nX-Forwarded-For: 198.51.100.{forged}\r\n\
         X-API-Key: ffk_{key}\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await.ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.ok()?;
    answer.split(' ').nth(1)?.parse().ok()
}

/// The limit counts the address that nginx saw. Without nginx the test is skipped.
#[tokio::test]
async fn a_forged_address_behind_nginx_is_ignored() {
    let database = TestDatabase::new().await;
    let served = serve(&database, &["--trusted-proxies", "127.0.0.1/32"]).await;
    let folder = tempfile::tempdir().unwrap();
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let Some(mut proxy) = nginx(folder.path(), port, served.public) else {
        println!("skipped: there is no nginx");
        return;
    };
    let started = async {
        loop {
            if let Some(status) = call(port, 1).await {
                return status;
            }
            tokio::task::yield_now().await;
        }
    };
    let first = tokio::time::timeout(std::time::Duration::from_secs(60), started).await.unwrap();
    let mut statuses = vec![first];
    for forged in 2..=30 {
        statuses.push(call(port, forged).await.unwrap());
    }
    proxy.kill().unwrap();
    proxy.wait().unwrap();
    assert_eq!(statuses[0], 401, "{statuses:?}");
    assert_eq!(statuses.last(), Some(&429), "{statuses:?}");
}
