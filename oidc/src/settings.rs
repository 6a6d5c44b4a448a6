//! The settings of a provider.

use std::time::Duration;

use domain::access::sign_in::RoleGrant;
use rustls::pki_types::CertificateDer;
use url::{Host, Url};

use crate::error::WrongSetting;

/// The path of the redirect URI: the page to which the provider sends the browser back.
pub const RETURN_PATH: &str = "/console/sign-in/return";

/// The longest time of one question, unless a test sets another. A sign-in asks up to five, and the
/// door answers within 60 seconds.
pub const QUESTION_TIMEOUT: Duration = Duration::from_secs(5);

/// The settings of a provider.
#[derive(Clone)]
pub struct ProviderSettings {
    /// The issuer, exactly as its ID tokens name it.
    pub issuer: String,
    /// The client's id.
    pub client_id: String,
    /// The client's secret; `None` for a public client.
    pub client_secret: Option<String>,
    /// The URL of the page that takes the answer, as the provider knows it.
    pub redirect_url: String,
    /// Scopes beside `openid`.
    pub scopes: Vec<String>,
    /// The claim whose values grant roles.
    pub roles_claim: String,
    /// The roles that values of the claim grant.
    pub grants: Vec<RoleGrant>,
    /// Roots to trust beside the platform's.
    pub extra_roots: Vec<CertificateDer<'static>>,
    /// The longest time of one question to the provider.
    pub question_timeout: Duration,
}

impl ProviderSettings {
    pub(crate) fn check(&self) -> Result<(), WrongSetting> {
        safe_url(&self.issuer).ok_or(WrongSetting::Url("the issuer"))?;
        let redirect = safe_url(&self.redirect_url).ok_or(WrongSetting::Url("the redirect URL"))?;
        let is_bare = redirect.query().is_none() && redirect.fragment().is_none();
        if redirect.path() != RETURN_PATH || !is_bare {
            return Err(WrongSetting::ReturnPath(RETURN_PATH));
        }
        if self.grants.is_empty() {
            return Err(WrongSetting::NoGrants);
        }
        Ok(())
    }
}

/// The URL, if nobody on the way can read or change what it carries.
pub(crate) fn safe_url(text: &str) -> Option<Url> {
    let url = Url::parse(text).ok()?;
    let is_local = match url.host()? {
        Host::Domain(name) => name == "localhost",
        Host::Ipv4(address) => address.is_loopback(),
        Host::Ipv6(address) => address.is_loopback(),
    };
    let is_safe = url.scheme() == "https" || (url.scheme() == "http" && is_local);
    (is_safe && url.username().is_empty() && url.password().is_none()).then_some(url)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    fn settings() -> ProviderSettings {
        ProviderSettings {
            issuer: "https://id.example/realms/a".into(),
            client_id: "firmforms".into(),
            client_secret: None,
            redirect_url: "https://ops.example/console/sign-in/return".into(),
            scopes: Vec::new(),
            roles_claim: "groups".into(),
            grants: vec!["ops=operator".parse().unwrap()],
            extra_roots: Vec::new(),
            question_timeout: QUESTION_TIMEOUT,
        }
    }

    #[rstest]
    #[case("https://id.example", "https://ops.example/console/sign-in/return", None)]
    #[case("http://127.0.0.1:9", "http://localhost:8081/console/sign-in/return", None)]
    #[case("http://id.example", "https://ops.example/console/sign-in/return", Some("the issuer"))]
    #[case("id.example", "https://ops.example/console/sign-in/return", Some("the issuer"))]
    #[case("https://a:b@id.example", "https://ops.example/console/sign-in/return", Some("issuer"))]
    #[case("https://id.example", "http://ops.example/console/sign-in/return", Some("redirect URL"))]
    #[case("https://id.example", "https://ops.example/console", Some("must end in"))]
    #[case("https://id.example", "https://ops.example/console/sign-in/return?a=b", Some("without"))]
    fn issuer_and_redirect_urls_are_checked(
        #[case] issuer: &str,
        #[case] redirect_url: &str,
        #[case] fault: Option<&str>,
    ) {
        let (issuer, redirect_url) = (issuer.to_owned(), redirect_url.to_owned());
        let checked = ProviderSettings { issuer, redirect_url, ..settings() }.check();
        let told = checked.err().map(|fault| fault.to_string());
        match (told, fault) {
            (None, None) => {}
            (Some(told), Some(fault)) => assert!(told.contains(fault), "{told}"),
            other => panic!("{other:?}"),
        }
    }

    /// Without grants nobody could sign in.
    #[test]
    fn settings_without_grants_are_refused() {
        let none = ProviderSettings { grants: Vec::new(), ..settings() };
        assert_eq!(none.check(), Err(WrongSetting::NoGrants));
    }
}
