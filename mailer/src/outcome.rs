//! The result of handing a mail over.

/// The result of handing a mail over (ruling 11).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MailOutcome {
    /// The server accepted the mail.
    Accepted,
    /// The server refuses this recipient for good: a bounce.
    Refused {
        /// The server's reply code; `None` if no command can name the address.
        code: Option<u16>,
    },
    /// Any other failure, in a few words without personal data. A server that took the whole mail
    /// and did not answer may have accepted it. Then the next attempt has the same bytes and
    /// Message-ID.
    Failed(String),
}
