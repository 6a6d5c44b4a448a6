//! Finds the object that a person at a terminal means: by its id, by the beginning of its id, or by
//! its name. A whole id is not looked up: the command that takes it says if there is none.

use std::fmt;

use domain::subscription::shown_target;
use domain::values::IdRange;
use projector::candidates::{self, Candidate};
use projector::search::{self, FoundObject};
use sqlx::PgPool;
use uuid::Uuid;

/// The beginning of each API key.
const KEY_BEGINS: &str = "ffk_";

/// The kept beginning of a key, in characters. More of a key is never looked up.
const KEY_PREFIX_CHARS: usize = 12;

/// The kind of an object that has a short name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NamedKind {
    /// A firm: also by its name, or the beginning of its name.
    Firm,
    /// A key of this firm: also by the beginning of its text.
    Key(Uuid),
    /// A key of any firm, in the same words.
    AnyKey,
    /// A member of this firm.
    Member(Uuid),
    /// A subscription.
    Hook,
    /// A delivery.
    Delivery,
    /// A token of the internal API.
    Token,
    /// A replay.
    Replay,
    /// Any object, as the name of its stream of events.
    Stream,
}

/// Why a text means no object.
#[derive(Debug, thiserror::Error)]
pub enum NamingError {
    /// The text has not the form of an id.
    #[error(
        "{text:?} is no UUID of a {kind}, and no beginning of one (4 digits at least): \
         `firmforms {}` shows them", .kind.list()
    )]
    NoId {
        /// The kind of the object.
        kind: NamedKind,
        /// The text.
        text: String,
    },
    /// No object is called so.
    #[error("no {kind} is called {text:?}, and no id begins so: `firmforms {}` shows them", .kind.list())]
    Unknown {
        /// The kind of the object.
        kind: NamedKind,
        /// The text.
        text: String,
    },
    /// Several objects are called so.
    #[error("{text:?} may be each of these: {}", listed(.candidates))]
    Ambiguous {
        /// The text.
        text: String,
        /// The objects.
        candidates: Vec<Candidate>,
    },
    /// The database does not answer.
    #[error(transparent)]
    Database(#[from] sqlx::Error),
}

/// The object of this kind that the text means.
///
/// # Errors
/// If the text means none or several.
pub async fn find(pool: &PgPool, kind: NamedKind, text: &str) -> Result<Uuid, NamingError> {
    let text = text.trim();
    let range = IdRange::new(text);
    if let Some(id) = range.and_then(IdRange::whole_id) {
        return Ok(id);
    }
    let mut found = match range {
        Some(range) => in_range(pool, kind, range).await?,
        None => Vec::new(),
    };
    match kind {
        NamedKind::Firm | NamedKind::Stream => {
            found.extend(candidates::firms_named(pool, text).await?);
        }
        NamedKind::Key(firm_id) if text.starts_with(KEY_BEGINS) => {
            found.extend(candidates::keys_beginning(pool, firm_id, &key_prefix(text)).await?);
        }
        NamedKind::AnyKey if text.starts_with(KEY_BEGINS) => {
            let keys = search::by_key_start(pool, &key_prefix(text)).await?;
            found.extend(keys.into_iter().map(describe_candidate));
        }
        _ if range.is_none() => return Err(NamingError::NoId { kind, text: text.to_owned() }),
        _ => {}
    }
    if kind == NamedKind::Firm && found.is_empty() {
        let begin_so = search::by_firm_name(pool, &text.to_lowercase()).await?;
        found.extend(begin_so.into_iter().map(describe_candidate));
    }
    only_candidate(kind, text, found)
}

fn key_prefix(text: &str) -> String {
    text.chars().take(KEY_PREFIX_CHARS).collect()
}

/// The firm of an object, if a table has the object.
pub async fn firm_of(
    pool: &PgPool,
    kind: NamedKind,
    id: Uuid,
) -> Result<Option<Uuid>, sqlx::Error> {
    let found = search::by_id(pool, id, id).await?;
    Ok(found.into_iter().find(|object| kind.is_of(object)).and_then(|object| object.firm_id))
}

async fn objects_in(
    pool: &PgPool,
    kind: NamedKind,
    range: IdRange,
) -> Result<Vec<Candidate>, sqlx::Error> {
    let found = search::by_id(pool, range.first, range.last).await?;
    Ok(found.into_iter().filter(|object| kind.is_of(object)).map(describe_candidate).collect())
}

fn describe_candidate(object: FoundObject) -> Candidate {
    let FoundObject { kind, id, label, .. } = object;
    let label = if kind == "hook" { shown_target(&label) } else { label };
    Candidate { id, label: format!("{kind} {label}") }
}

async fn in_range(
    pool: &PgPool,
    kind: NamedKind,
    range: IdRange,
) -> Result<Vec<Candidate>, sqlx::Error> {
    match kind {
        NamedKind::Firm => candidates::firms_in(pool, range).await,
        NamedKind::Key(firm_id) => candidates::keys_in(pool, firm_id, range).await,
        NamedKind::Hook => candidates::hooks_in(pool, range).await,
        NamedKind::Delivery => candidates::deliveries_in(pool, range).await,
        NamedKind::Token => candidates::tokens_in(pool, range).await,
        NamedKind::Replay => candidates::replays_in(pool, range).await,
        NamedKind::Member(firm_id) => candidates::members_in(pool, firm_id, range).await,
        NamedKind::AnyKey | NamedKind::Stream => objects_in(pool, kind, range).await,
    }
}

fn only_candidate(
    kind: NamedKind,
    text: &str,
    mut found: Vec<Candidate>,
) -> Result<Uuid, NamingError> {
    found.sort_by_key(|candidate| candidate.id);
    found.dedup_by_key(|candidate| candidate.id);
    let text = text.to_owned();
    match &found[..] {
        [] => Err(NamingError::Unknown { kind, text }),
        [one] => Ok(one.id),
        _ => Err(NamingError::Ambiguous { text, candidates: found }),
    }
}

fn listed(candidates: &[Candidate]) -> String {
    let listed = candidates.iter().map(|one| format!("{} ({})", one.id, one.label));
    listed.collect::<Vec<_>>().join(", ")
}

impl NamedKind {
    /// Whether an object that was found is of this kind.
    fn is_of(self, object: &FoundObject) -> bool {
        let kind = match self {
            Self::Firm => "firm",
            Self::Key(_) | Self::AnyKey => "key",
            Self::Member(_) => "member",
            Self::Hook => "hook",
            Self::Delivery => "delivery",
            Self::Token => "token",
            Self::Replay => "replay",
            Self::Stream => return true,
        };
        object.kind == kind
    }

    /// The command that lists such objects.
    const fn list(self) -> &'static str {
        match self {
            Self::Firm => "firms list",
            Self::Key(_) | Self::AnyKey => "keys list --firm FIRM",
            Self::Member(_) => "members list --firm FIRM",
            Self::Hook => "hooks list --firm FIRM",
            Self::Delivery => "deliveries list --firm FIRM",
            Self::Token => "tokens list",
            Self::Replay => "replay list",
            Self::Stream => "find TEXT",
        }
    }
}

impl fmt::Display for NamedKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Firm => "firm",
            Self::Key(_) | Self::AnyKey => "key",
            Self::Member(_) => "member",
            Self::Hook => "subscription",
            Self::Delivery => "delivery",
            Self::Token => "token",
            Self::Replay => "replay",
            Self::Stream => "object",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(id: u128) -> Candidate {
        Candidate { id: Uuid::from_u128(id), label: "Harrow Lane".to_owned() }
    }

    #[test]
    fn only_one_object_is_meant() {
        let of = |found| {
            only_candidate(NamedKind::Firm, "harrow", found).map_err(|error| error.to_string())
        };
        assert_eq!(of(vec![candidate(1), candidate(1)]), Ok(Uuid::from_u128(1)), "found twice");
        let unknown = of(vec![]).unwrap_err();
        assert!(unknown.contains("no firm is called \"harrow\""), "{unknown}");
        assert!(unknown.contains("`firmforms firms list`"), "{unknown}");
        let several = of(vec![candidate(1), candidate(2)]).unwrap_err();
        assert!(several.contains("-000000000002 (Harrow Lane)"), "{several}");
    }
}
