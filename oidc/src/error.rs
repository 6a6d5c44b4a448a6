//! Errors of settings and of sign-ins.

use thiserror::Error;

/// A setting that cannot serve.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum WrongSetting {
    /// The URL cannot be read, or is in clear text on the open net.
    #[error("{0}: a URL with https is needed; http is for this machine only")]
    Url(&'static str),
    /// The redirect URL leads elsewhere.
    #[error("the redirect URL must end in {0}, without query and fragment")]
    ReturnPath(&'static str),
    /// No value of the claim grants a role.
    #[error("no role is granted: nobody could sign in")]
    NoGrants,
    /// The TLS client cannot be made.
    #[error("the TLS client: {0}")]
    Tls(String),
}

/// Why nobody signed in.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SignInError {
    /// The provider does not answer, or its description cannot be used.
    #[error("the provider cannot be asked: {0}")]
    Away(String),
    /// The provider refused.
    #[error("the provider refused the sign-in: {0}")]
    Refused(String),
    /// The answer or its ID token does not prove who came.
    #[error("the answer of the provider proves nobody: {0}")]
    Unproven(String),
    /// The role was granted to an address that the provider did not verify.
    #[error("the provider has not verified the address of {name}, so it grants no role")]
    UnverifiedAddress {
        /// The name of the user.
        name: String,
    },
    /// The claim has no value that grants a role.
    #[error("{name} is known to the provider, and has no role here")]
    NoRole {
        /// The name of the user.
        name: String,
        /// The values of the claim.
        values: Vec<String>,
    },
}
