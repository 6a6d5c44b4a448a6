//! The words of a command that failed.

use service::schema::is_denied;

/// Advice for a login without a right. Readings are recorded, so a reader's login does not do.
const LACKS_A_RIGHT: &str = ": this login lacks a right; use one of the service, or the \
                             administrator's; an auditor uses a token, see \
                             docs/how-to/audit-with-a-token.md";

/// The error with its causes, as one line. A cause that stands in the words before it is left out.
pub(crate) fn error_line(error: &anyhow::Error) -> String {
    let mut told = "firmforms".to_owned();
    for cause in error.chain() {
        let cause = cause.to_string();
        if !told.contains(&cause) {
            told.push_str(": ");
            told.push_str(&cause);
        }
    }
    let mut causes = error.chain().filter_map(|cause| cause.downcast_ref::<sqlx::Error>());
    if causes.any(is_denied) && !told.contains("this login") {
        told.push_str(LACKS_A_RIGHT);
    }
    told
}

/// The API's error as one line, with the cause that the API would only log.
pub(crate) fn terminal_error(error: api::Error) -> anyhow::Error {
    let said = error.to_string();
    match error {
        api::Error::Internal(detail) | api::Error::Unavailable(detail) => {
            anyhow::anyhow!("{said}: {detail}")
        }
        _ => anyhow::anyhow!(said),
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use anyhow::Context;

    use super::*;

    #[test]
    fn a_cause_is_told_once() {
        let denied = || io::Error::from(io::ErrorKind::PermissionDenied);
        let cause = denied().to_string();
        let error = anyhow::Error::from(sqlx::Error::Io(denied())).context("/etc/key");
        assert_eq!(error_line(&error).matches(&cause).count(), 1, "{}", error_line(&error));
        assert!(error_line(&error).starts_with("firmforms: /etc/key: "));
        let plain: anyhow::Result<()> = Err(denied()).context("reading");
        assert_eq!(error_line(&plain.unwrap_err()), format!("firmforms: reading: {cause}"));
    }
}
