//! Why the vault could not read or write.

use uuid::Uuid;

use crate::seal::BrokenSeal;

/// Why the vault could not read or write.
#[derive(Debug, thiserror::Error)]
pub enum VaultError {
    /// The database did not answer.
    #[error("the database: {0}")]
    Database(#[from] sqlx::Error),
    /// The bytes do not decrypt with this key.
    #[error(transparent)]
    Broken(#[from] BrokenSeal),
    /// The document has an unknown form. serde's own message would quote the document.
    #[error("a document that cannot be read: {:?} at line {} column {}",
            .0.classify(), .0.line(), .0.column())]
    Unreadable(serde_json::Error),
}

impl VaultError {
    /// Whether the response or a name on it exists, although the caller said
    /// [`PriorContent::Nothing`](crate::responses::PriorContent::Nothing).
    #[must_use]
    pub fn is_taken(&self) -> bool {
        let Self::Database(sqlx::Error::Database(error)) = self else {
            return false;
        };
        matches!(error.constraint(), Some("responses_pkey" | "response_people_pkey"))
    }
}

impl From<serde_json::Error> for VaultError {
    /// Drops the source: a logger of an error also logs its sources.
    fn from(error: serde_json::Error) -> Self {
        Self::Unreadable(error)
    }
}

/// Turns a failed read into a log line with the id. The line holds nothing of the data.
pub(crate) fn unless_broken<T>(read: Result<T, VaultError>, id: Uuid) -> Option<T> {
    read.inspect_err(|_| tracing::error!(%id, "a row of the vault cannot be decrypted or read"))
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn b15_an_unreadable_document_is_not_quoted() {
        let error = serde_json::from_str::<Vec<u32>>(r#"["canary"]"#).unwrap_err();
        assert!(error.to_string().contains("canary"), "its own words do");
        let error = VaultError::from(error);
        assert_eq!(error.to_string(), "a document that cannot be read: Data at line 1 column 9");
        assert!(std::error::Error::source(&error).is_none());
    }
}
