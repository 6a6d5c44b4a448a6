//! The proof: the last verification, public keys, signed checkpoints and the archive.

use axum::extract::State;
use domain::values::Timestamp;
use maud::{Markup, html};
use serde::Deserialize;

use crate::SharedState;
use crate::ask::ListAnswer;
use crate::frame::PageContent;
use crate::parts;
use crate::visit::{PageAnswer, PageVisit};

/// Checkpoints on the page.
const SHOWN_CHECKPOINTS: u64 = 25;

/// The last verification and the last signature.
#[derive(Debug, Deserialize)]
pub(super) struct ProofState {
    pub(super) ended: Option<EndedCheck>,
    running: Option<RunningCheck>,
    pub(super) last_signature: Option<LastCheckpoint>,
}

/// A verification that ended.
#[derive(Debug, Deserialize)]
pub(super) struct EndedCheck {
    pub(super) at: Timestamp,
    pub(super) position: i64,
    pub(super) outcome: String,
    why: Option<String>,
}

/// A verification under way.
#[derive(Debug, Deserialize)]
struct RunningCheck {
    began_at: Timestamp,
    position: i64,
}

/// A signed checkpoint, as the service noted it.
#[derive(Debug, Deserialize)]
pub(super) struct LastCheckpoint {
    pub(super) number: u64,
    pub(super) at: Timestamp,
    pub(super) position: i64,
}

/// A signed checkpoint, as its file holds it.
#[derive(Debug, Deserialize)]
struct SignedFile {
    checkpoint: CheckpointContent,
}

/// The content of a checkpoint.
#[derive(Debug, Deserialize)]
struct CheckpointContent {
    number: u64,
    at: Timestamp,
    position: i64,
    firms: u64,
    seals: i64,
    heads: String,
    key_id: String,
}

/// The archive, and what has left the database.
#[derive(Debug, Deserialize)]
struct ArchiveState {
    archived: Option<ArchivedLog>,
    left: Vec<LeftRange>,
}

/// The archived part of the log.
#[derive(Debug, Deserialize)]
struct ArchivedLog {
    through: i64,
    sealed_to: i64,
    waiting: i64,
    waiting_since: Option<Timestamp>,
}

/// A range whose deliveries have left.
#[derive(Debug, Deserialize)]
struct LeftRange {
    first_position: i64,
    last_position: i64,
}

/// Public keys.
#[derive(Debug, Deserialize)]
struct KnownKeys {
    items: Vec<PublicKey>,
    source: String,
}

/// A public key.
#[derive(Debug, Deserialize)]
struct PublicKey {
    id: String,
    public_key: String,
}

/// Shows the proof.
pub(crate) async fn show(State(state): State<SharedState>, visit: PageVisit) -> PageAnswer {
    let verification = "/internal/v1/audit/verification";
    if visit.format.is_some() {
        let none = |_: &ProofState| PageContent::new("Proof", html! {});
        return visit.show_answer(&state, verification, none).await;
    }
    let session = &visit.session;
    let checked: ProofState = state.ask_json(session, verification).await?;
    // A process without the folder of checkpoints knows none, and says so.
    let keys: Option<KnownKeys> = state.ask_json(session, "/internal/v1/audit/keys").await.ok();
    let last = checked.last_signature.as_ref().map_or(0, |last| last.number);
    let after = last.saturating_sub(SHOWN_CHECKPOINTS);
    let path = format!("/internal/v1/audit/checkpoints?after={after}");
    let files: Option<ListAnswer<SignedFile>> = state.ask_json(session, &path).await.ok();
    let archive: Result<ArchiveState, _> =
        state.ask_json(session, "/internal/v1/audit/archive").await;
    let content = html! {
        (parts::section("verification", "Verification", &verification_facts(&visit, &checked)))
        (parts::section("keys", "Public keys", &key_table(keys.as_ref())))
        (parts::section("checkpoints", "Signed checkpoints", &files_table(&visit, files.as_ref())))
        (parts::section("archive", "Archive of the log", &archive_facts(&visit, archive.as_ref().ok())))
        (parts::section("offline", "Verify without this service", &offline_help()))
    };
    Ok(visit.page(&PageContent::new("Proof", content).with_data()))
}

fn verification_facts(visit: &PageVisit, checked: &ProofState) -> Markup {
    let ended = html! {
        @match &checked.ended {
            Some(ended) => {
                (parts::state(&ended.outcome)) " to position " (ended.position) ", "
                (parts::time(ended.at, visit.now))
                @if let Some(why) = &ended.why { " " (parts::foreign_text(why)) }
            },
            None => { (parts::no_value()) },
        }
    };
    let running = html! {
        @match &checked.running {
            Some(running) => {
                "at position " (running.position) ", begun " (parts::time(running.began_at, visit.now))
            },
            None => { (parts::no_value()) },
        }
    };
    let signed = html! {
        @match &checked.last_signature {
            Some(last) => {
                "checkpoint " (last.number) " to position " (last.position) ", "
                (parts::time(last.at, visit.now))
            },
            None => { (parts::no_value()) },
        }
    };
    parts::fact_list(&[("Last", ended), ("Under way", running), ("Last signature", signed)])
}

fn archive_facts(visit: &PageVisit, archive: Option<&ArchiveState>) -> Markup {
    let Some(ArchiveState { archived, left }) = archive else {
        return html! { p.none { "The archive cannot be read, or is not of this log. "
        "See the log of the service." } };
    };
    let written = html! {
        @match archived {
            Some(archived) => { "to position " (archived.through) " of " (archived.sealed_to) },
            None => { "This process has no archive." },
        }
    };
    let waiting = html! {
        @match archived {
            Some(ArchivedLog { waiting, waiting_since: Some(since), .. }) => {
                (waiting) " segments, the first since " (parts::time(*since, visit.now))
            },
            _ => { (parts::no_value()) },
        }
    };
    let gone = html! {
        @match (left.first(), left.last()) {
            (Some(first), Some(last)) => {
                "deliveries of " (left.len()) " ranges, from position " (first.first_position)
                " to " (last.last_position)
            },
            _ => { (parts::no_value()) },
        }
    };
    parts::fact_list(&[("Archived", written), ("Waiting", waiting), ("Left the database", gone)])
}

fn key_table(known: Option<&KnownKeys>) -> Markup {
    html! {
        @match known {
            None => p.none { "This process knows no key." },
            Some(known) => {
                @let rows = html! {
                    @for key in &known.items {
                        tr {
                            td { code data-id=(key.id) { (key.id) } }
                            td { code data-id=(key.public_key) { (key.public_key) } }
                        }
                    }
                };
                (parts::table("Public keys", &["Key", "Ed25519"], &rows))
                p { "Source: " (known.source) ". Trust a key that came to you another way." }
            },
        }
    }
}

const HEADS: [&str; 7] = ["Number", "Time", "Position", "Chains", "Seals", "Heads", "Key"];

fn files_table(visit: &PageVisit, files: Option<&ListAnswer<SignedFile>>) -> Markup {
    let files: Vec<&CheckpointContent> = files
        .map(|files| files.items.iter().rev().map(|file| &file.checkpoint).collect())
        .unwrap_or_default();
    let rows = html! {
        @for file in &files {
            tr {
                td { (file.number) }
                td { (parts::time(file.at, visit.now)) }
                td { (file.position) }
                td { (file.firms) }
                td { (file.seals) }
                td { code { (parts::plain_id(&file.heads)) } }
                td { code { (file.key_id) } }
            }
        }
    };
    html! {
        @if files.is_empty() { p.none { "This process knows no signed checkpoint." } }
        @else { (parts::table("Signed checkpoints", &HEADS, &rows)) }
    }
}

fn offline_help() -> Markup {
    html! {
        p { "A bundle holds the entries of a firm and a period with their proof. The page "
            "Audit log of a firm gives it. This verifies it, on any machine:" }
        pre { "firmforms audit verify --bundle FILE --public-keys KEYS" }
    }
}
