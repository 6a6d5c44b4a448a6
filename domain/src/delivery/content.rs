//! Bodies and answers of deliveries, as they are shown to operators and auditors (ruling 50).

use serde::Serialize;

/// Whether a body or an answer is shown, and why not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ContentState {
    /// The content is shown.
    Shown,
    /// Nobody gave a reason to see it.
    Withheld,
    /// Its retention is over.
    Purged,
    /// The response was erased, or the data of the closed firm were dropped.
    Erased,
    /// There never was any content.
    Empty,
}

/// Facts about a body or an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "four facts that do not depend on each other")]
pub struct ContentFacts {
    /// History has a digest of the content.
    pub existed: bool,
    /// The response is erased.
    pub erased: bool,
    /// The vault has the content.
    pub kept: bool,
    /// The reader gave a reason.
    pub asked: bool,
}

impl ContentFacts {
    /// Whether the content is shown, and why not.
    #[must_use]
    pub const fn state(self) -> ContentState {
        match self {
            Self { existed: false, .. } => ContentState::Empty,
            Self { erased: true, .. } => ContentState::Erased,
            Self { kept: false, .. } => ContentState::Purged,
            Self { asked: false, .. } => ContentState::Withheld,
            Self { asked: true, .. } => ContentState::Shown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Content that is not shown says why.
    #[test]
    fn kept_content_is_shown_for_a_reason() {
        let facts = ContentFacts { existed: true, erased: false, kept: true, asked: true };
        assert_eq!(facts.state(), ContentState::Shown);
        assert_eq!(ContentFacts { asked: false, ..facts }.state(), ContentState::Withheld);
        assert_eq!(ContentFacts { kept: false, ..facts }.state(), ContentState::Purged);
        let erased = ContentFacts { erased: true, kept: false, ..facts };
        assert_eq!(erased.state(), ContentState::Erased);
        assert_eq!(ContentFacts { existed: false, ..erased }.state(), ContentState::Empty);
    }
}
