//! Cells (ruling 47): keys that name them, and two services behind a real HAProxy. The tests with
//! HAProxy are skipped where it is not installed.

use std::fs;
use std::path::Path;
use std::time::Duration;

use axum::http::StatusCode;
use domain::access::Cell;
use nix::sys::signal::Signal;
use tests::raw::exchange;
use tests::{Firm, HAPROXY, HaProxy, TestDatabase, World, printed_configuration};
use tokio::process::Command;
use uuid::Uuid;
use vault::MailRecipient;

use crate::portal::link_of_owner;
use tests::process::{Served, call, firmforms, get, serve, signal, until};
use tests::scrape::Scrape;

/// The service of one cell, with a firm.
struct CellScene {
    cell: Cell,
    world: World,
    served: Served,
    firm: Firm,
}

impl CellScene {
    async fn new(number: &str) -> Self {
        let database = TestDatabase::new().await;
        let served =
            serve(&database, &["--cell", number, "--trusted-proxies", "127.0.0.1/32"]).await;
        let world = World::real_time(database).await;
        let firm = world.firm().await;
        Self { cell: number.parse().unwrap(), world, served, firm }
    }

    fn entry(&self) -> String {
        let (number, Served { public, internal, .. }) = (self.cell, &self.served);
        let server = format!("{{ public = \"{public}\", internal = \"{internal}\" }}");
        format!("[[cells]]\ncell = {number}\nservers = [{server}]\n")
    }

    /// A person's unsubscribe link. Without a cell it is a link of an older mail.
    fn link(&self, person: u128, cell: Option<Cell>) -> String {
        let person_id = Uuid::from_u128(person);
        let recipient = MailRecipient { firm_id: self.firm.id, person_id };
        self.world.service().inviter.identity.unsubscribe_link(recipient, cell)
    }

    /// Number of unsubscribed people in this cell.
    async fn unsubscribed(&self) -> i64 {
        self.world.count_events("AddressUnsubscribed").await
    }

    /// Requests of `/readyz` that were answered.
    async fn readiness_checks(&self) -> f64 {
        self.answered("/readyz").await
    }

    /// Visits of unsubscribe links that were answered.
    async fn visits(&self) -> f64 {
        self.answered("/unsubscribe/{link}").await
    }

    async fn answered(&self, route: &str) -> f64 {
        let scrape = Scrape::new(self.served.internal).await;
        let route = format!("route=\"{route}\"");
        let counts = scrape.series.iter().filter(|(series, _)| {
            series.starts_with("firmforms_http_requests_total{") && series.contains(&route)
        });
        counts.map(|(_, count)| count).sum()
    }
}

/// Visits an unsubscribe link by the public address, and returns the status.
async fn visit(router: &HaProxy, method: &str, link: &str) -> StatusCode {
    let sent = if method == "POST" { "List-Unsubscribe=One-Click" } else { "" };
    let request = format!(
        "{method} /unsubscribe/{link}?lang=en HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\
         Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n{sent}",
        sent.len()
    );
    exchange(router.public, &request).await.unwrap().0
}

/// HAProxy in front of these cells, if it is installed.
async fn haproxy(cells: &[&CellScene]) -> Option<HaProxy> {
    let entries: String = cells.iter().map(|cell| cell.entry()).collect();
    HaProxy::before(&entries).await
}

/// Stops a service.
async fn stop(served: &mut Served) {
    signal(&served.child, Signal::SIGTERM);
    assert!(served.child.wait().await.unwrap().success());
}

/// The body of an answer.
fn body(answer: &str) -> &str {
    answer.split_once("\r\n\r\n").unwrap().1
}

#[tokio::test]
async fn a_key_works_only_in_its_cell() {
    let (three, forty) = tokio::join!(CellScene::new("3"), CellScene::new("40"));
    for (own, other) in [(&three, &forty), (&forty, &three)] {
        let key = &own.firm.key;
        assert_eq!(key.chars().nth(4), Some(own.cell.digit()), "{key}");
        let id = own.firm.id.to_string();
        let member = own.firm.owner.to_string();
        let create = ["keys", "create", "--quiet", "--firm", &id, "--member", &member];
        let made = firmforms(&own.world.database)
            .args(create)
            .args(["--name", "at the terminal"])
            .output()
            .await
            .unwrap();
        let made = String::from_utf8(made.stdout).unwrap();
        assert_eq!(made.chars().nth(4), Some(own.cell.digit()), "{made}");
        for key in [key, made.trim()] {
            let (status, _) = call(own.served.public, ("GET", "/me"), key, "").await;
            assert_eq!(status, StatusCode::OK);
            let elsewhere = call(other.served.public, ("GET", "/me"), key, "").await;
            let wrong = format!("ffk_{}", "A".repeat(43));
            let refused = call(other.served.public, ("GET", "/me"), &wrong, "").await;
            assert_eq!(elsewhere.0, StatusCode::UNAUTHORIZED);
            assert_eq!(body(&elsewhere.1), body(&refused.1));
        }
    }
}

#[tokio::test]
async fn an_installation_keeps_its_cell_number() {
    let scene = CellScene::new("3").await;
    let mut again = firmforms(&scene.world.database);
    again.args(["serve", "--cell", "4", "--addr", "127.0.0.1:0"]);
    let refused = again.args(["--internal-addr", "127.0.0.1:0"]).output().await.unwrap();
    assert!(!refused.status.success());
    let told = String::from_utf8(refused.stderr).unwrap();
    assert!(told.contains("this installation is cell 3, and not 4"), "{told}");
    // Without the setting the installation keeps its cell.
    stop(&mut serve(&scene.world.database, &[]).await).await;
    let later = scene.world.firm().await;
    assert_eq!(later.key.chars().nth(4), Some(scene.cell.digit()));
}

#[tokio::test]
async fn cells_behind_haproxy_answer_as_alone() {
    let (three, forty) = tokio::join!(CellScene::new("3"), CellScene::new("40"));
    let Some(router) = haproxy(&[&three, &forty]).await else { return };
    let large = "x".repeat(2 << 20);
    for scene in [&three, &forty] {
        let form = format!("/forms/{}", scene.firm.form);
        let hook = r#"{"trigger": "form_submitted", "target_url": "https://hooks.example.com/"}"#;
        let calls = [
            ("GET", "/me", ""),
            ("GET", &form, ""),
            ("GET", "/triggers", ""),
            ("POST", "/hooks", &large),
            ("POST", "/hooks", "{"),
            ("GET", "/nothing", ""),
            ("DELETE", "/me", ""),
        ];
        for (method, path, sent) in calls {
            let key = &scene.firm.key;
            let direct = call(scene.served.public, (method, path), key, sent).await;
            let routed = call(router.public, (method, path), key, sent).await;
            assert_eq!(routed.0, direct.0, "{method} {path}");
            assert_eq!(body(&routed.1), body(&direct.1), "{method} {path}");
        }
        let bearer = format!(
            "GET /api/v1/me HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\
             Authorization: Bearer {}\r\n\r\n",
            scene.firm.key
        );
        let called = exchange(router.public, &bearer).await.unwrap();
        assert_eq!(called.0, StatusCode::OK, "a key as a bearer: {}", called.1);
        assert!(called.1.to_ascii_lowercase().contains("x-request-id: "), "{}", called.1);
        let made = call(router.public, ("POST", "/hooks"), &scene.firm.key, hook).await;
        assert_eq!(made.0, StatusCode::CREATED, "{}", made.1);
        let listed = call(scene.served.public, ("GET", "/hooks"), &scene.firm.key, "").await;
        assert!(listed.1.contains("hooks.example.com"), "{}", listed.1);
    }
    // Unknown cells, other texts and no key at all.
    let unknown = [format!("ffk_{}", "-".repeat(43)), "ffk_".into(), "x".into(), String::new()];
    for key in unknown {
        let direct = call(three.served.public, ("GET", "/me"), &key, "").await;
        let routed = call(router.public, ("GET", "/me"), &key, "").await;
        assert_eq!((routed.0, body(&routed.1)), (direct.0, body(&direct.1)), "{key}");
    }
}

#[tokio::test]
async fn code_and_cookie_route_the_portal() {
    let (three, forty) = tokio::join!(CellScene::new("3"), CellScene::new("40"));
    let Some(router) = haproxy(&[&three, &forty]).await else { return };
    for scene in [&three, &forty] {
        let link = link_of_owner(&scene.world, &scene.firm).await;
        let head = "HTTP/1.1\r\nHost: test\r\nConnection: close\r\n";
        let entered = exchange(router.public, &format!("GET {link} {head}\r\n")).await.unwrap();
        assert_eq!(entered.0, StatusCode::OK, "{}", entered.1);
        let set = entered.1.lines().find_map(|line| line.strip_prefix("set-cookie: ")).unwrap();
        let cookie = set.split(';').next().unwrap();
        let request = format!("GET /portal/keys {head}Cookie: {cookie}\r\n\r\n");
        let page = exchange(router.public, &request).await.unwrap();
        assert_eq!(page.0, StatusCode::OK, "{}", page.1);
    }
}

#[tokio::test]
async fn header_or_host_routes_internal_calls() {
    let (three, forty) = tokio::join!(CellScene::new("3"), CellScene::new("40"));
    let Some(router) = haproxy(&[&three, &forty]).await else { return };
    for scene in [&three, &forty] {
        let token = firmforms(&scene.world.database)
            .args(["tokens", "create", "--quiet", "--role", "operator", "--name", "ann"])
            .output()
            .await
            .unwrap();
        let token = String::from_utf8(token.stdout).unwrap();
        let cell = scene.cell;
        let asked = async |head: &str| {
            let request = format!(
                "GET /internal/v1/firms HTTP/1.1\r\n{head}\r\nConnection: close\r\n\
                 Authorization: Bearer {}\r\n\r\n",
                token.trim()
            );
            exchange(router.internal, &request).await.unwrap()
        };
        for head in [
            format!("Host: test\r\nX-Firmforms-Cell: {cell}"),
            format!("Host: cell-{cell}.example.com:81"),
        ] {
            let (status, answer) = asked(&head).await;
            assert_eq!(status, StatusCode::OK, "{head}: {answer}");
            assert!(answer.contains(&scene.firm.id.to_string()), "{head}: {answer}");
        }
        for head in ["Host: test", "Host: test\r\nX-Firmforms-Cell: 7", "Host: cell-x.example"] {
            let (status, answer) = asked(head).await;
            assert_eq!(status, StatusCode::NOT_FOUND, "{head}: {answer}");
            assert!(body(&answer).contains("\"code\":\"not_found\""), "{answer}");
        }
    }
}

/// The alarm of a lost end of the log once closed both doors for every firm until a person acted.
#[tokio::test]
async fn both_doors_answer_during_an_alarm() {
    let scene = CellScene::new("3").await;
    let Some(router) = haproxy(&[&scene]).await else { return };
    let lost = "insert into lost_tails (system_identifier, timeline, started_at, noticed_at,
                                        from_position, to_position)
                values (1, '', now(), now(), 1, 1)";
    scene.world.change_database(lost).await;
    let (status, told) = get(scene.served.internal, "/readyz").await;
    assert_eq!((status, told.contains(r#""name":"log_tail""#)), (StatusCode::OK, true), "{told}");
    // HAProxy takes a server away after two failed checks.
    let checks = scene.readiness_checks().await;
    let checked = async { while scene.readiness_checks().await < checks + 4.0 {} };
    tokio::time::timeout(Duration::from_secs(60), checked).await.unwrap();
    let me = call(router.public, ("GET", "/me"), &scene.firm.key, "").await;
    assert_eq!(me.0, StatusCode::OK, "{}", me.1);
    let report = format!(
        "POST /internal/v1/activity HTTP/1.1\r\nHost: test\r\nX-Firmforms-Cell: 3\r\n\
         Authorization: Bearer {}\r\nContent-Type: application/cloudevents-batch+json\r\n\
         Content-Length: 2\r\nConnection: close\r\n\r\n[]",
        scene.world.token()
    );
    let reported = exchange(router.internal, &report).await.unwrap();
    assert_eq!(reported.0, StatusCode::ACCEPTED, "{}", reported.1);
}

/// Behind two cells nine of twenty links were once unknown, and people could not withdraw consent.
#[tokio::test]
async fn the_first_character_routes_unsubscribe_links() {
    let (three, forty) = tokio::join!(CellScene::new("3"), CellScene::new("40"));
    let Some(router) = haproxy(&[&three, &forty]).await else { return };
    for scene in [&three, &forty] {
        for number in 0..5 {
            let link = scene.link(number, Some(scene.cell));
            assert_eq!(link.chars().next(), Some(scene.cell.digit()));
            assert_eq!(visit(&router, "GET", &link).await, StatusCode::OK, "{link}");
            assert_eq!(visit(&router, "POST", &link).await, StatusCode::OK, "{link}");
        }
        assert_eq!(scene.unsubscribed().await, 5);
    }
}

/// Links of 0.2.0 name no cell. More retries pass here than an address has failures.
#[tokio::test]
async fn an_older_unsubscribe_link_finds_its_cell() {
    let (three, forty, other) =
        tokio::join!(CellScene::new("3"), CellScene::new("40"), CellScene::new("41"));
    let Some(router) = haproxy(&[&three, &forty, &other]).await else { return };
    for scene in [&three, &forty, &other] {
        for number in 0..10 {
            let link = scene.link(number, None);
            assert_eq!(visit(&router, "GET", &link).await, StatusCode::OK, "{link}");
            assert_eq!(visit(&router, "POST", &link).await, StatusCode::OK, "{link}");
        }
        assert_eq!(scene.unsubscribed().await, 10);
    }
}

/// After some wrong links of an address, HAProxy asks one cell for each further link.
#[tokio::test]
async fn wrong_unsubscribe_links_soon_ask_one_cell() {
    let (three, forty) = tokio::join!(CellScene::new("3"), CellScene::new("40"));
    let Some(router) = haproxy(&[&three, &forty]).await else { return };
    let wrong = "A".repeat(64);
    let visits = async || three.visits().await + forty.visits().await;
    assert_eq!(visit(&router, "GET", &wrong).await, StatusCode::NOT_FOUND);
    let first = visits().await;
    assert!(first > 1.0, "each cell is asked: {first}");
    for _ in 0..40 {
        assert_eq!(visit(&router, "GET", &wrong).await, StatusCode::NOT_FOUND);
    }
    let before = visits().await;
    for _ in 0..10 {
        assert_eq!(visit(&router, "GET", &wrong).await, StatusCode::NOT_FOUND);
    }
    assert_eq!(visits().await - before, 10.0);
}

#[tokio::test]
async fn only_a_stopped_cell_is_unavailable() {
    let (mut three, forty) = tokio::join!(CellScene::new("3"), CellScene::new("40"));
    let Some(router) = haproxy(&[&three, &forty]).await else { return };
    let key = three.firm.key.clone();
    stop(&mut three.served).await;
    let is_down = async {
        while call(router.public, ("GET", "/me"), &key, "").await.0 != 503 {}
        call(router.public, ("GET", "/me"), &key, "").await
    };
    let down = tokio::time::timeout(Duration::from_secs(60), is_down).await.unwrap();
    assert_eq!(down.0, StatusCode::SERVICE_UNAVAILABLE);
    assert!(body(&down.1).contains("\"code\":\"unavailable\""), "{}", down.1);
    assert!(down.1.to_ascii_lowercase().contains("retry-after: 2\r\n"), "{}", down.1);
    let other = call(router.public, ("GET", "/me"), &forty.firm.key, "").await;
    assert_eq!(other.0, StatusCode::OK, "{}", other.1);
    // The other cell serves the pages that need no key.
    until(router.public, "/", 303).await;
}

/// The refusal names the file and the missing field.
#[tokio::test]
async fn a_wrong_cells_file_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let refused =
        printed_configuration(folder.path(), "public = \"127.0.0.1:1\"\n").await.unwrap_err();
    assert!(refused.contains("cells.toml") && refused.contains("internal"), "{refused}");
}

/// HAProxy takes the configuration without a warning.
#[tokio::test]
async fn haproxy_takes_64_cells_with_a_certificate() {
    if !Path::new(HAPROXY).exists() {
        println!("SKIPPED: no HAProxy on this machine");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let certified = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let pem = certified.cert.pem() + &certified.signing_key.serialize_pem();
    let certificate = folder.path().join("forms.pem");
    fs::write(&certificate, pem).unwrap();
    let entries: String = (0..64)
        .map(|cell| {
            let server =
                format!("{{ public = \"10.0.{cell}.1:8080\", internal = \"10.0.{cell}.1:8081\" }}");
            format!("[[cells]]\ncell = {cell}\nservers = [{server}]\n")
        })
        .collect();
    let plan = format!(
        "public = \"127.0.0.1:8443\"\ninternal = \"127.0.0.1:8444\"\ncertificate = {:?}\n{entries}",
        certificate.display().to_string()
    );
    let file = folder.path().join("haproxy.cfg");
    fs::write(&file, printed_configuration(folder.path(), &plan).await.unwrap()).unwrap();
    let checked = Command::new(HAPROXY).args(["-c", "-f"]).arg(&file).output().await.unwrap();
    let told = String::from_utf8_lossy(&checked.stderr);
    assert!(checked.status.success() && !told.contains("[WARNING]"), "{told}");
    let header = "Strict-Transport-Security";
    assert!(fs::read_to_string(&file).unwrap().contains(header));
    let clear = plan.lines().filter(|line| !line.starts_with("certificate"));
    let clear = clear.collect::<Vec<_>>().join("\n");
    assert!(!printed_configuration(folder.path(), &clear).await.unwrap().contains(header));
}
