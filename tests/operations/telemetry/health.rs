//! Every role can be watched: it lives, it is ready, it counts.

use std::net::SocketAddr;

use axum::http::StatusCode;
use tests::raw::exchange;
use tests::{TestDatabase, World};
use tokio::io::{AsyncBufReadExt, BufReader};

use tests::process::{firmforms, get, serving};
use tests::scrape::Scrape;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h4_a_role_without_doors_is_watched_at_the_internal_address_when_it_is_given() {
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

/// Two of them on one machine, started as they always were, do not meet at an address.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h4_a_role_without_doors_opens_none_unless_told() {
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
