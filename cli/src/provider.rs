//! The settings of the provider by which users sign in at the console.

use std::path::PathBuf;

use anyhow::{Context, bail};
use clap::Args;
use domain::access::sign_in::RoleGrant;
use oidc::{Provider, ProviderSettings, QUESTION_TIMEOUT};
use rustls::pki_types::CertificateDer;

use crate::secret_file::read_secret;

/// The provider of OpenID Connect, and the roles of its users.
#[derive(Debug, Clone, Args)]
pub(crate) struct OidcArgs {
    /// The issuer of a provider of OpenID Connect, whose users sign in at the console.
    #[arg(long, env = "FIRMFORMS_OIDC_ISSUER", value_name = "URL",
          requires_all = ["oidc_client_id", "oidc_redirect_url", "oidc_roles"])]
    pub(crate) oidc_issuer: Option<String>,
    /// The id of this client at the provider.
    #[arg(long, env = "FIRMFORMS_OIDC_CLIENT_ID", value_name = "ID", requires = "oidc_issuer")]
    pub(crate) oidc_client_id: Option<String>,
    /// The secret of this client; none for a public client.
    #[arg(
        long,
        env = "FIRMFORMS_OIDC_CLIENT_SECRET",
        hide_env_values = true,
        value_name = "SECRET",
        requires = "oidc_issuer"
    )]
    pub(crate) oidc_client_secret: Option<String>,
    /// A file with that secret.
    #[arg(
        long,
        env = "FIRMFORMS_OIDC_CLIENT_SECRET_FILE",
        value_name = "FILE",
        conflicts_with = "oidc_client_secret",
        requires = "oidc_issuer"
    )]
    pub(crate) oidc_client_secret_file: Option<PathBuf>,
    /// The console's URL with the path /console/sign-in/return.
    #[arg(long, env = "FIRMFORMS_OIDC_REDIRECT_URL", value_name = "URL", requires = "oidc_issuer")]
    pub(crate) oidc_redirect_url: Option<String>,
    /// Scopes beside openid.
    #[arg(
        long,
        env = "FIRMFORMS_OIDC_SCOPES",
        value_delimiter = ',',
        default_value = "profile,email"
    )]
    pub(crate) oidc_scopes: Vec<String>,
    /// The claim of the ID token whose values grant roles: a text or a list. Dots lead into
    /// objects. An address needs email_verified.
    #[arg(
        long,
        env = "FIRMFORMS_OIDC_ROLES_CLAIM",
        value_name = "CLAIM",
        default_value = "groups"
    )]
    pub(crate) oidc_roles_claim: String,
    /// The roles of the claim's values: VALUE=operator or VALUE=auditor, for some firms
    /// VALUE=auditor:FIRM+FIRM. A user without a known value is refused.
    #[arg(
        long,
        env = "FIRMFORMS_OIDC_ROLES",
        value_name = "VALUE=ROLE",
        value_delimiter = ',',
        requires = "oidc_issuer"
    )]
    pub(crate) oidc_roles: Vec<RoleGrant>,
}

/// The provider of the settings, if one is set.
pub(crate) fn configured_provider(
    args: &OidcArgs,
    extra_roots: &[CertificateDer<'static>],
) -> anyhow::Result<Option<Provider>> {
    let Some(issuer) = args.oidc_issuer.clone() else { return Ok(None) };
    let needed = (args.oidc_client_id.clone(), args.oidc_redirect_url.clone());
    let (Some(client_id), Some(redirect_url)) = needed else {
        bail!("--oidc-issuer needs --oidc-client-id and --oidc-redirect-url");
    };
    let file = args.oidc_client_secret_file.as_deref();
    let client_secret = read_secret(args.oidc_client_secret.clone(), file)?;
    let settings = ProviderSettings {
        issuer,
        client_id,
        client_secret: client_secret.map(|secret| secret.trim().to_owned()),
        redirect_url,
        scopes: args.oidc_scopes.clone(),
        roles_claim: args.oidc_roles_claim.clone(),
        grants: args.oidc_roles.clone(),
        extra_roots: extra_roots.to_vec(),
        question_timeout: QUESTION_TIMEOUT,
    };
    Provider::new(settings).map(Some).context("sign-in by a provider")
}
