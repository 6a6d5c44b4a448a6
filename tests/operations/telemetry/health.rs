//! Every role answers for its health and readiness, and shows metrics.

use std::net::SocketAddr;

use axum::http::StatusCode;
use tests::raw::exchange;
use tests::{TestDatabase, World};
use tokio::io::{AsyncBufReadExt, BufReader};

use tests::process::{firmforms, get, serving};
use tests::scrape::Scrape;

/// The command line gives the internal address. Neither API is served there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h4_doorless_roles_serve_health_and_metrics() {
    let world = World::real_time(TestDatabase::new().await).await;
    for (role, figure) in [
        ("deliverer", r#"firmforms_worker_step_failures_total{worker="deliver"}"#),
        ("projector", r#"firmforms_worker_step_failures_total{worker="audit_log"}"#),
    ] {
        let mut child = serving(&world.database, &["--role", role], &[]).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let (mut internal, mut public) = (None::<SocketAddr>, false);
        while let Some(line) = lines.next_line().await.unwrap() {
            let told = |door| line.split_whitespace().find_map(|word| word.strip_prefix(door));
            internal = internal.or_else(|| told("internal=")?.parse().ok());
            public |= told("public=").is_some();
            if line.ends_with(" INFO ready") {
                break;
            }
        }
        let internal = internal.expect("it says where it is watched");
        assert!(!public, "{role} has no public door");
        for path in ["/livez", "/readyz", "/metrics"] {
            assert_eq!(get(internal, path).await.0, 200, "{role} {path}");
        }
        for path in ["/internal/v1/activity", "/api/v1/me", "/internal/v1/replays"] {
            assert_eq!(get(internal, path).await.0, 404, "{role} {path}");
        }
        let post = "POST /metrics HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n";
        let refused = exchange(internal, post).await.unwrap();
        assert_eq!(refused.0, StatusCode::METHOD_NOT_ALLOWED, "{}", refused.1);
        assert!(refused.1.contains(r#""code":"invalid_request""#), "{}", refused.1);
        let told = Scrape::new(internal).await;
        assert!(told.series.contains_key(figure), "{role}: {}", told.text);
    }
}

/// Two such roles on one machine do not meet at an address.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h4_doorless_roles_listen_nowhere_by_default() {
    let world = World::real_time(TestDatabase::new().await).await;
    for role in ["deliverer", "projector"] {
        let mut command = firmforms(&world.database);
        command.args(["serve", "--role", role]).env("NO_COLOR", "1");
        let mut child = command.stderr(std::process::Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        while let Some(line) = lines.next_line().await.unwrap() {
            assert!(!line.contains("listening"), "{role}: {line}");
            if line.ends_with(" INFO ready") {
                break;
            }
        }
    }
}
