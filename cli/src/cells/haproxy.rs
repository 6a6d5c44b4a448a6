//! The configuration of HAProxy 2.6 and later for a plan of cells.
//!
//! A public call goes to the cell that the first of a key's 43 characters names. A call of the
//! portal goes to the cell that its code or its cookie names, and an unsubscribe link to the cell
//! of its first character. A call without any of them, or with an unknown cell, goes to any cell,
//! which answers it like its own: a wrong key is a wrong key. An internal call names its cell in a
//! header, or by the first label of its host name.
//!
//! An unsubscribe link from before links named cells is asked of one cell after another, until one
//! knows it.

use std::fmt::Write as _;

use domain::access::{API_KEY_PREFIX, Cell};
use vault::UNROUTED_LINK_CHARS;

use super::plan::{CellPlan, CellServer};

/// The header by which an internal call names its cell.
const CELL_HEADER: &str = "x-firmforms-cell";

/// The cookies of the portal's sessions: with TLS, and without.
const PORTAL_COOKIES: [&str; 2] = ["__Host-firmforms_portal", "firmforms_portal"];

const HEAD: &str = r#"# Made by `firmforms cells haproxy`, for HAProxy 2.6 or later. Start each server with --cell,
# --base-url, and --trusted-proxies with the address of this proxy.
global
    log stdout format raw local0
    # A head too large for the service (16 KiB, 100 lines) reaches it: its refusal is JSON.
    tune.bufsize 32768
    tune.http.maxhdr 200

defaults
    mode http
    log global
    # As `option httplog`, without queries, which hold codes of the portal, and with the request id.
    log-format "%ci:%cp [%tr] %ft %b/%s %TR/%Tw/%Tc/%Tr/%Ta %ST %B %CC %CS %tsc %ac/%fc/%bc/%sc/%rc %sq/%bq %HM %HPO %HV %[var(txn.request_id)]"
    option dontlognull
    option forwardfor
    option httpchk
    http-check send meth GET uri /readyz
    http-check expect status 200
    default-server check inter 2s fall 2 rise 1
    timeout check 5s
    timeout connect 3s
    timeout http-request 30s
    timeout http-keep-alive 60s
    timeout client 60s
    timeout server 60s
    timeout queue 5s
    # Another server of the cell gets a call that reached none.
    retries 2
    option redispatch
    http-error status 400 content-type application/json string '{"error":"the request is malformed","code":"invalid_request"}'
    http-error status 408 content-type application/json string '{"error":"the request took too long","code":"invalid_request"}'
    http-error status 502 content-type application/json string '{"error":"the service did not answer; try again in a few seconds","code":"unavailable"}' hdr Retry-After 2
    http-error status 503 content-type application/json string '{"error":"the service is not available; try again in a few seconds","code":"unavailable"}' hdr Retry-After 2
    http-error status 504 content-type application/json string '{"error":"the service did not answer in time; try again in a few seconds","code":"unavailable"}' hdr Retry-After 2
"#;

/// Every answer has a request id (ruling 38), also an answer of HAProxy's own.
const REQUEST_IDS: &str = "
    http-request set-var(txn.request_id) req.fhdr(x-request-id) if { req.fhdr(x-request-id) -m reg ^[A-Za-z0-9._:-]{1,128}$ }
    http-request set-var(txn.request_id) uuid() unless { var(txn.request_id) -m found }
    http-after-response set-header X-Request-Id %[var(txn.request_id)] unless { res.fhdr(x-request-id) -m found }
    http-after-response set-var(txn.request_id) res.fhdr(x-request-id)
";

/// The path of the unsubscribe pages.
const UNSUBSCRIBE: &str = "/unsubscribe/";

/// Failed tries of old unsubscribe links in a minute, after which an address gets one cell for each
/// call. Mail programs follow few links, and a guesser would call all cells.
const OLD_LINK_FAILURES_MAX: u8 = 20;

/// Tries of one old link for each cell. Calls at the same time share the turns of the cells, so one
/// round may miss a cell.
const OLD_LINK_ROUNDS: usize = 3;

/// Says to browsers, also in answers of HAProxy's own, that they must not ask in clear text.
const HTTPS_ONLY: &str = "
    http-after-response set-header Strict-Transport-Security max-age=31536000";

/// The scheme of a key in the other header that may carry it, with the key's prefix.
const BEARER_KEY: &str = "bearer ffk_";

/// The whole configuration.
pub(super) fn configuration(plan: &CellPlan) -> String {
    let mut text = String::from(HEAD);
    // Writing to a string cannot fail.
    let _ = write_frontends(&mut text, plan).and_then(|()| write_backends(&mut text, plan));
    text
}

fn write_frontends(text: &mut String, plan: &CellPlan) -> std::fmt::Result {
    let digit_at = API_KEY_PREFIX.len();
    let bearer_digit_at = BEARER_KEY.len();
    let routed_chars = UNROUTED_LINK_CHARS + 1;
    let tls = plan.certificate.as_ref().map_or_else(String::new, |path| {
        format!(" ssl crt {path} alpn h2,http/1.1 ssl-min-ver TLSv1.2{HTTPS_ONLY}")
    });
    let link_at = UNSUBSCRIBE.len();
    let link = format!("^{UNSUBSCRIBE}[A-Za-z0-9_-]");
    write!(
        text,
        "
frontend public
    bind {}{tls}{REQUEST_IDS}    http-request set-var(txn.digit) req.fhdr(authorization),bytes({bearer_digit_at},1) if {{ req.fhdr(authorization) -m beg -i \"{BEARER_KEY}\" }}
    http-request set-var(txn.digit) req.fhdr(x-api-key),bytes({digit_at},1) if {{ req.fhdr(x-api-key) -m beg {API_KEY_PREFIX} }}
    http-request set-var(txn.digit) url_param(code),bytes(0,1) if {{ path /portal/enter }}
    http-request set-var(txn.digit) path,bytes({link_at},1) if {{ path_reg {link}{{{routed_chars}}}$ }}
",
        plan.public
    )?;
    for cookie in PORTAL_COOKIES {
        writeln!(
            text,
            "    http-request set-var(txn.digit) req.cook({cookie}),bytes(0,1) \
             if {{ path_beg /portal }} !{{ var(txn.digit) -m found }} {{ req.cook({cookie}) -m found }}"
        )?;
    }
    for cell in plan.cells.keys() {
        let digit = cell.digit();
        writeln!(text, "    use_backend public_{cell} if {{ var(txn.digit) -m str -- {digit} }}")?;
    }
    write!(
        text,
        "    use_backend unsubscribe_any if {{ path_reg {link}{{{UNROUTED_LINK_CHARS}}}$ }}
    default_backend public_any

frontend internal
    bind {}{REQUEST_IDS}    http-request set-var(txn.cell) req.hdr({CELL_HEADER})
    http-request set-var(txn.cell) req.hdr(host),field(1,.),regsub(^cell-,) if !{{ var(txn.cell) -m found }} {{ req.hdr(host) -m beg cell- }}
",
        plan.internal
    )?;
    for cell in plan.cells.keys() {
        writeln!(text, "    use_backend internal_{cell} if {{ var(txn.cell) -m str {cell} }}")?;
    }
    writeln!(text, "    default_backend internal_none")
}

fn write_backends(text: &mut String, plan: &CellPlan) -> std::fmt::Result {
    for (cell, servers) in &plan.cells {
        writeln!(text, "\nbackend public_{cell}\n    balance leastconn")?;
        public_servers(text, *cell, servers)?;
        writeln!(text, "\nbackend internal_{cell}\n    balance leastconn")?;
        for (number, server) in servers.iter().enumerate() {
            writeln!(text, "    server {cell}-{number} {}", server.internal)?;
        }
    }
    let servers = plan.cells.values().map(Vec::len).sum::<usize>();
    let tries = servers.max(OLD_LINK_ROUNDS * plan.cells.len());
    writeln!(
        text,
        "
# Unsubscribe links that name no cell: the next cell gets a call that one does not know.
backend unsubscribe_any
    balance roundrobin
    retry-on conn-failure 404
    retries {tries}
    option redispatch 1
    stick-table type ipv6 size 100k expire 1m store http_err_rate(1m)
    http-request track-sc0 src
    http-request disable-l7-retry if {{ sc_http_err_rate(0) gt {OLD_LINK_FAILURES_MAX} }}"
    )?;
    for (cell, servers) in &plan.cells {
        public_servers(text, *cell, servers)?;
    }
    writeln!(
        text,
        "
# Pages without a key, and wrong keys. One address always meets the same cell, which counts its wrong
# keys.
backend public_any
    balance source
    hash-type consistent"
    )?;
    for (cell, servers) in &plan.cells {
        public_servers(text, *cell, servers)?;
    }
    writeln!(
        text,
        "
backend internal_none
    http-request return status 404 content-type application/json string '{{\"error\":\"no cell of this number: name one in {CELL_HEADER}, or call the host cell-NUMBER\",\"code\":\"not_found\"}}'"
    )
}

/// The public doors of a cell. The internal door of the same process tells its health.
fn public_servers(text: &mut String, cell: Cell, servers: &[CellServer]) -> std::fmt::Result {
    for (number, CellServer { public, internal }) in servers.iter().enumerate() {
        let health = format!("addr {} port {}", internal.ip(), internal.port());
        writeln!(text, "    server {cell}-{number} {public} {health}")?;
    }
    Ok(())
}
