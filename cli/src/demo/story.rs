//! The output of the demo.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::bail;
use api::intake::IntakeCounts;
use chrono::SecondsFormat;
use domain::subscription::Trigger;
use domain::values::AsOf;
use projector::as_of::{self, DeliveryThen};
use projector::audit::{self, EntryRow};
use projector::deliveries;
use serde_json::Value;
use service::System;
use uuid::Uuid;

use super::calls::DemoSubscriber;
use super::receiver::{ArrivedDelivery, openssl_signature};
use super::trouble::DemoPortal;
use crate::deliveries::view::attempt_sentence;
use crate::output::print_text;

/// Prints a text of one line or several.
macro_rules! say {
    ($($text:tt)*) => { print_text(&format!($($text)*)) };
}

/// The longest wait for all deliveries. After it the demo has failed.
pub(super) const DEMO_TIMEOUT: Duration = Duration::from_secs(60);

/// The most deliveries that openssl verifies too. Each takes a process.
const OPENSSL_CHECKS_MAX: usize = 100;

pub(super) fn print_opening(system: &System, started: Instant) {
    say!("PostgreSQL and both doors are up after {:.1} s", started.elapsed().as_secs_f64());
    say!("  public    {}", system.service.settings.base_url);
}

pub(super) fn print_reported(what: &str, accepted: &IntakeCounts) {
    let IntakeCounts { accepted, duplicates, stale } = accepted;
    say!(
        "\nThe product reports {what}: {accepted} accepted, {duplicates} duplicates, {stale} stale"
    );
}

pub(super) fn print_subscription(subscriber: &DemoSubscriber, trigger: Trigger, hook: &Value) {
    say!(
        "  {:<34} {trigger} → {} (hook {})",
        subscriber.name,
        hook["target_url"].as_str().unwrap_or_default(),
        hook["id"].as_str().unwrap_or_default()
    );
}

/// Waits until history has every delivery and none is pending.
pub(super) async fn wait_until_settled(system: &System, expected: usize) -> anyhow::Result<()> {
    let until = Instant::now() + DEMO_TIMEOUT;
    let mut nudge = system.service.store.nudge().subscribe();
    loop {
        let pending: (i64, i64) = deliveries::count(system.main_pool()).await?;
        if pending == (i64::try_from(expected)?, 0) {
            return Ok(());
        }
        if Instant::now() > until {
            bail!("{} deliveries in history, {} of them pending", pending.0, pending.1);
        }
        let moment = Duration::from_millis(20);
        drop(tokio::time::timeout(moment, nudge.changed()).await);
    }
}

/// Requires that every delivery arrived once with a good signature. The receiver verified all of
/// them; openssl verifies the first ones again.
pub(super) async fn require_arrivals(
    arrived: &[ArrivedDelivery],
    subscribers: &[DemoSubscriber],
    started: Instant,
    reported: Instant,
) -> anyhow::Result<()> {
    let ids: BTreeSet<&str> =
        arrived.iter().map(|one| one.header_text("x-service-delivery")).collect();
    let genuine = arrived.iter().filter(|one| one.genuine).count();
    say!(
        "\n{} deliveries arrived, {} different, {genuine} signatures good",
        arrived.len(),
        ids.len()
    );
    let mut by_openssl = 0;
    for one in arrived.iter().take(OPENSSL_CHECKS_MAX) {
        let secret = subscribers.iter().find(|subscriber| subscriber.firm_id == one.firm_id);
        let Some(subscriber) = secret else { continue };
        match openssl_signature(one, &subscriber.secret).await {
            Some(signature) if signature == one.header_text("x-service-signature") => {
                by_openssl += 1;
            }
            Some(_) => {
                bail!("openssl dgst disagrees about {}", one.header_text("x-service-delivery"))
            }
            None => {}
        }
    }
    match by_openssl {
        0 => say!("  (no openssl here to verify them a second time)"),
        count => say!("  {count} verified a second time by openssl dgst -sha256 -hmac"),
    }
    if let Some(first) = arrived.first() {
        say!(
            "  the first one {:.2} s after the start, {} ms after the reports began",
            first.at.duration_since(started).as_secs_f64(),
            first.at.duration_since(reported).as_millis()
        );
    }
    if ids.len() != arrived.len() || genuine != arrived.len() {
        bail!("a delivery arrived twice, or with a bad signature");
    }
    Ok(())
}

/// Prints one delivery as it arrived, and its history.
pub(super) async fn one_delivery(
    system: &System,
    arrived: &[ArrivedDelivery],
) -> anyhow::Result<()> {
    let Some(shown) = arrived.iter().min_by_key(|one| one.body.len()) else {
        bail!("nothing arrived");
    };
    let response = serde_json::from_slice::<Value>(&shown.body)?["response"]["id"].clone();
    say!("\nOne of them, for response {}, as it arrived:\n", response.as_str().unwrap_or_default());
    say!("  POST /hooks/{} HTTP/1.1", shown.firm_id);
    for (name, value) in &shown.headers {
        say!("  {name}: {}", value.to_str().unwrap_or_default());
    }
    say!("\n  {}", String::from_utf8_lossy(&shown.body));
    let id: Uuid = shown.header_text("x-service-delivery").parse()?;
    say!("\nIts history:\n");
    let mut connection = system.main_pool().acquire().await?;
    let found = as_of::find_delivery(&mut connection, shown.firm_id, id, AsOf::NOW, &[]).await?;
    let Some(DeliveryThen { row, attempts }) = found else { bail!("it is not in the log") };
    say!("  delivery {id}: {}", row.state);
    say!("  sha256 of the body {}", row.body_sha256.unwrap_or_default());
    for attempt in &attempts {
        say!("  {}", attempt_sentence(attempt));
    }
    Ok(())
}

/// Prints two entries of the audit log: the new key, and the subscription made with it.
pub(super) async fn one_entry(system: &System, arrived: &[ArrivedDelivery]) -> anyhow::Result<()> {
    let Some(shown) = arrived.iter().min_by_key(|one| one.body.len()) else {
        bail!("nothing arrived");
    };
    let hook = entry_about(system, shown.header_text("x-service-hook").parse()?).await?;
    let key = match &hook.actor_id {
        Some(key_id) => Some(entry_about(system, key_id.parse()?).await?),
        None => None,
    };
    say!("\nWho subscribed, in the firm's audit log:\n");
    for entry in key.iter().chain([&hook]) {
        say!(
            "  {}. {} {} at {}",
            entry.sequence,
            entry.action,
            entry.subject_id.as_deref().unwrap_or_default(),
            entry.at.to_rfc3339_opts(SecondsFormat::Millis, true)
        );
        say!("     follows {}", hex::encode(entry.previous_hash));
        say!("     hash    {}", hex::encode(entry.hash));
    }
    Ok(())
}

/// The first entry about a subject. Waits for the audit log to reach it.
async fn entry_about(system: &System, subject_id: Uuid) -> anyhow::Result<EntryRow> {
    let until = Instant::now() + DEMO_TIMEOUT;
    loop {
        let entries = audit::of_subject(system.main_pool(), subject_id).await?;
        if let Some(first) = entries.into_iter().next() {
            return Ok(first);
        }
        if Instant::now() > until {
            bail!("the audit log has nothing about {subject_id}");
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Prints the address of the console, and a token for it.
pub(super) fn print_console_link(url: &str, token: &str) {
    say!("\nThe console, for operators and auditors:\n");
    say!("  {url}");
    say!("  token {token}");
    say!("  One subscription of the first firm was just removed, another fails: look why.");
}

/// Prints a link to the portal, and the command that makes the next one.
pub(super) fn print_portal_link(portal: &DemoPortal, api: &str, token: &str) {
    let DemoPortal { firm_id, owner, link } = portal;
    say!("\nThe portal, for the owner of the first firm. A link works once, within a minute:\n");
    say!("  {link}");
    say!("  A workflow step of the firm failed: try it again there.");
    say!("  # another link");
    say!("  curl -H 'Authorization: Bearer {token}' -H 'Content-Type: application/json' \\");
    say!("       -d '{{\"member_id\": \"{owner}\"}}' {api}/firms/{firm_id}/portal-links");
}

/// Prints commands for the reader to run.
pub(super) fn try_it(base_url: &str, subscribers: &[DemoSubscriber]) {
    say!("\nTry it (Ctrl-C ends the demo):\n");
    for subscriber in subscribers {
        say!("  # {}", subscriber.name);
        say!("  curl -H 'X-API-Key: {}' {base_url}/me", subscriber.key);
        say!("  curl -H 'X-API-Key: {}' {base_url}/forms", subscriber.key);
        say!("  curl -H 'X-API-Key: {}' {base_url}/hooks", subscriber.key);
    }
}
