//! Sign-in by a provider of OpenID Connect: the authorization code flow with PKCE.
//!
//! - [`Provider`] knows the settings, and the provider's description once it was read.
//! - [`Provider::authorization_url`] leads a browser to the provider.
//! - [`Provider::prove_user`] exchanges the code that came back, checks the ID token and gives the
//!   role.
//!
//! Both steps need the same [`ProofOfFlow`]. The caller derives it anew for the second step, so it
//! need not keep it.
//!
//! This crate knows no session and no database. Its client asks the provider alone.

mod client;
mod error;
mod provider;
mod settings;

pub use error::{SignInError, WrongSetting};
pub use provider::{ProofDemand, ProofOfFlow, ProvenUser, Provider, ProviderAnswer};
pub use settings::{ProviderSettings, QUESTION_TIMEOUT, RETURN_PATH};
