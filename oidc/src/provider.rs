//! The provider: its description, the way to it, and the answer that comes back.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chrono::TimeDelta;
use domain::access::sign_in::{
    GrantedRole, PROOF_TIME, ProviderUser, claim_values, is_fresh_proof, proven_values,
};
use domain::values::Timestamp;
use openidconnect::core::{
    CoreAuthPrompt, CoreClient, CoreClientAuthMethod, CoreIdToken, CoreIdTokenVerifier,
    CoreJwsSigningAlgorithm, CoreProviderMetadata, CoreResponseType, CoreTokenResponse,
};
use openidconnect::{
    AuthType, AuthenticationFlow, AuthorizationCode, ClaimsVerificationError, ClientId,
    ClientSecret, CsrfToken, IssuerUrl, LocalizedClaim, Nonce, PkceCodeChallenge, PkceCodeVerifier,
    RedirectUrl, RequestTokenError, Scope, TokenResponse,
};
use serde_json::Value;
use sha2::{Digest, Sha256};
use tokio::sync::Mutex;
use url::Url;

use crate::client::{ProviderClient, with_causes};
use crate::error::{SignInError, WrongSetting};
use crate::settings::{ProviderSettings, safe_url};

/// Signatures of ID tokens that count. A token without a signature, or signed with the client's
/// secret, proves nothing.
const ALGORITHMS: [CoreJwsSigningAlgorithm; 9] = [
    CoreJwsSigningAlgorithm::RsaSsaPkcs1V15Sha256,
    CoreJwsSigningAlgorithm::RsaSsaPkcs1V15Sha384,
    CoreJwsSigningAlgorithm::RsaSsaPkcs1V15Sha512,
    CoreJwsSigningAlgorithm::RsaSsaPssSha256,
    CoreJwsSigningAlgorithm::RsaSsaPssSha384,
    CoreJwsSigningAlgorithm::RsaSsaPssSha512,
    CoreJwsSigningAlgorithm::EcdsaP256Sha256,
    CoreJwsSigningAlgorithm::EcdsaP384Sha384,
    CoreJwsSigningAlgorithm::EdDsa,
];

/// The longest time for which a description and its keys are used. A key that the provider has
/// withdrawn is trusted no longer than this.
const DESCRIPTION_AGE_MAX: TimeDelta = TimeDelta::hours(1);

/// The least time between the starts of two readings of the description. It is longer than a
/// reading takes. So calls that waited for the lock during a reading use that reading.
const READING_INTERVAL: TimeDelta = TimeDelta::seconds(15);

/// The provider of the settings.
pub struct Provider {
    settings: ProviderSettings,
    issuer: IssuerUrl,
    redirect_url: RedirectUrl,
    client: ProviderClient,
    /// The description with its keys. A reading holds the lock, so calls at once cause one reading.
    description: Mutex<ProviderDescription>,
}

/// The provider's description, as far as it was read.
#[derive(Default)]
struct ProviderDescription {
    /// The last one that was read, and the time of its reading.
    known: Option<(Arc<CoreProviderMetadata>, Timestamp)>,
    /// The last reading, and why it failed if it did.
    last_reading: Option<(Timestamp, Option<SignInError>)>,
}

impl ProviderDescription {
    /// Whether the last reading was a moment ago.
    fn was_read(&self, now: Timestamp) -> bool {
        let last = self.last_reading.as_ref();
        last.is_some_and(|(at, _)| now.get() - at.get() < READING_INTERVAL)
    }
}

/// Texts that tie the way to the provider and the answer together. None can be guessed.
#[derive(Clone, PartialEq, Eq)]
pub struct ProofOfFlow {
    /// Comes back with the answer.
    pub state: String,
    /// Comes back in the ID token.
    pub nonce: String,
    /// Proves at the exchange who began (PKCE): 43 characters of base64url.
    pub verifier: String,
}

/// The proof that a sign-in asks of the provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProofDemand {
    /// The provider may know the person from before.
    Any,
    /// The person proves again who it is, and the provider tells when that was.
    Fresh,
}

/// A user for whom the provider vouched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProvenUser {
    /// The user.
    pub user: ProviderUser,
    /// The role.
    pub role: GrantedRole,
    /// The time at which the person proved who it is, if the provider told.
    pub proven_at: Option<Timestamp>,
}

/// The parameters with which the provider led back.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProviderAnswer {
    /// The code.
    pub code: Option<String>,
    /// The error, in the place of a code.
    pub error: Option<String>,
    /// The issuer (RFC 9207), if the provider names itself.
    pub issuer: Option<String>,
}

impl Provider {
    /// The provider of these settings. Nothing is asked yet.
    ///
    /// # Errors
    /// [`WrongSetting`].
    pub fn new(settings: ProviderSettings) -> Result<Self, WrongSetting> {
        settings.check()?;
        let url = |_| WrongSetting::Url("the URLs");
        Ok(Self {
            issuer: IssuerUrl::new(settings.issuer.clone()).map_err(url)?,
            redirect_url: RedirectUrl::new(settings.redirect_url.clone()).map_err(url)?,
            client: ProviderClient::new(&settings.extra_roots, settings.question_timeout)
                .map_err(WrongSetting::Tls)?,
            description: Mutex::default(),
            settings,
        })
    }

    /// The SHA-256 of the settings that say who gets which role. A change of them ends the sessions
    /// that they granted.
    #[must_use]
    pub fn grants_sha256(&self) -> [u8; 32] {
        let ProviderSettings { issuer, client_id, roles_claim, grants, .. } = &self.settings;
        Sha256::digest(format!("{:?}", (issuer, client_id, roles_claim, grants))).into()
    }

    /// The host of the provider, for people.
    #[must_use]
    pub fn host(&self) -> &str {
        self.issuer.url().host_str().unwrap_or_default()
    }

    /// Whether browsers reach the console by TLS.
    #[must_use]
    pub fn is_encrypted(&self) -> bool {
        self.settings.redirect_url.starts_with("https://")
    }

    /// Asks the provider for its description.
    ///
    /// # Errors
    /// [`SignInError::Away`].
    pub async fn require_description(&self) -> Result<(), SignInError> {
        self.read_description().await.map(drop)
    }

    /// The description that was read within the last hour, or a new one.
    async fn recent_description(
        &self,
        now: Timestamp,
    ) -> Result<Arc<CoreProviderMetadata>, SignInError> {
        let mut description = self.description.lock().await;
        match &description.known {
            Some((known, read_at)) if now.get() - read_at.get() < DESCRIPTION_AGE_MAX => {
                Ok(Arc::clone(known))
            }
            _ => self.read_into(&mut description, now).await,
        }
    }

    /// Returns a newer description than `former`, if there is one. Reads the description again,
    /// unless the last reading was a moment ago: then `former` comes back.
    async fn described_after(
        &self,
        former: &Arc<CoreProviderMetadata>,
        now: Timestamp,
    ) -> Result<Arc<CoreProviderMetadata>, SignInError> {
        let mut description = self.description.lock().await;
        match &description.known {
            Some((known, _)) if !Arc::ptr_eq(known, former) || description.was_read(now) => {
                Ok(Arc::clone(known))
            }
            _ => self.read_into(&mut description, now).await,
        }
    }

    /// Reads the description. The former one stays known if that fails.
    async fn read_into(
        &self,
        description: &mut ProviderDescription,
        now: Timestamp,
    ) -> Result<Arc<CoreProviderMetadata>, SignInError> {
        if let Some((_, Some(error))) = &description.last_reading
            && description.was_read(now)
        {
            return Err(error.clone());
        }
        let read = self.read_description().await.map(Arc::new);
        description.last_reading = Some((now, read.as_ref().err().cloned()));
        if let Ok(read) = &read {
            description.known = Some((Arc::clone(read), now));
        }
        read
    }

    async fn read_description(&self) -> Result<CoreProviderMetadata, SignInError> {
        let issuer = self.issuer.clone();
        let read = CoreProviderMetadata::discover_async(issuer, &self.client).await;
        let read = read.map_err(|error| SignInError::Away(with_causes(&error)))?;
        let token = read.token_endpoint().map(|url| url.as_str());
        let places = [Some(read.authorization_endpoint().as_str()), token];
        if places.into_iter().any(|place| place.and_then(safe_url).is_none()) {
            let why = "its description has no authorization or token endpoint with https";
            return Err(SignInError::Away(why.to_owned()));
        }
        Ok(read)
    }

    /// The address at the provider to which a browser is led.
    ///
    /// # Errors
    /// [`SignInError::Away`].
    pub async fn authorization_url(
        &self,
        proof: &ProofOfFlow,
        demand: ProofDemand,
        now: Timestamp,
    ) -> Result<Url, SignInError> {
        let description = self.recent_description(now).await?;
        let verifier = PkceCodeVerifier::new(proof.verifier.clone());
        let client = CoreClient::from_provider_metadata(
            description.as_ref().clone(),
            ClientId::new(self.settings.client_id.clone()),
            None,
        )
        .set_redirect_uri(self.redirect_url.clone());
        let flow = AuthenticationFlow::<CoreResponseType>::AuthorizationCode;
        let state = proof.state.clone();
        let nonce = proof.nonce.clone();
        let mut asked = client
            .authorize_url(flow, || CsrfToken::new(state), || Nonce::new(nonce))
            .add_scopes(self.settings.scopes.iter().cloned().map(Scope::new))
            .set_pkce_challenge(PkceCodeChallenge::from_code_verifier_sha256(&verifier));
        if demand == ProofDemand::Fresh {
            let max_age = PROOF_TIME.to_std().unwrap_or_default();
            asked = asked.add_prompt(CoreAuthPrompt::Login).set_max_age(max_age);
        }
        let (url, _, _) = asked.url();
        Ok(url)
    }

    /// The user of an answer, with the role. The caller has compared the state.
    ///
    /// # Errors
    /// [`SignInError`].
    pub async fn prove_user(
        &self,
        answer: &ProviderAnswer,
        proof: &ProofOfFlow,
        demand: ProofDemand,
        now: Timestamp,
    ) -> Result<ProvenUser, SignInError> {
        if answer.issuer.as_ref().is_some_and(|issuer| *issuer != self.settings.issuer) {
            return Err(SignInError::Unproven("another provider answered".to_owned()));
        }
        if let Some(error) = &answer.error {
            return Err(SignInError::Refused(error_code(error)));
        }
        let code = answer.code.clone().filter(|code| !code.is_empty());
        let code = code.ok_or_else(|| SignInError::Unproven("it has no code".to_owned()))?;
        let description = self.recent_description(now).await?;
        let token = self.exchange_code(&description, code, proof).await?;
        let found = self.check_token(description, &token, proof, now).await?;
        // The person could remove the demand from the URL, so the ID token must show it.
        if demand == ProofDemand::Fresh && !is_fresh_proof(found.proven_at, now) {
            let why = "it does not tell, as auth_time, that you signed in just now";
            return Err(SignInError::Unproven(why.to_owned()));
        }
        Ok(found)
    }

    async fn exchange_code(
        &self,
        description: &CoreProviderMetadata,
        code: String,
        proof: &ProofOfFlow,
    ) -> Result<CoreIdToken, SignInError> {
        let secret = self.settings.client_secret.clone().map(ClientSecret::new);
        let way = auth_type(description, secret.is_some());
        let client = CoreClient::from_provider_metadata(
            description.clone(),
            ClientId::new(self.settings.client_id.clone()),
            secret,
        )
        .set_redirect_uri(self.redirect_url.clone())
        .set_auth_type(way);
        let exchange = client
            .exchange_code(AuthorizationCode::new(code))
            .map_err(|error| SignInError::Away(error.to_string()))?
            .set_pkce_verifier(PkceCodeVerifier::new(proof.verifier.clone()));
        let answer: CoreTokenResponse =
            exchange.request_async(&self.client).await.map_err(|error| match error {
                RequestTokenError::ServerResponse(refusal) => {
                    SignInError::Refused(error_code(refusal.error().as_ref()))
                }
                // The words of the error may repeat a token.
                RequestTokenError::Parse(error, _) => {
                    SignInError::Unproven(format!("it cannot be read, at {}", error.path()))
                }
                other => SignInError::Away(with_causes(&other)),
            })?;
        let token = answer.id_token().cloned();
        token.ok_or_else(|| SignInError::Unproven("it has no ID token".to_owned()))
    }

    /// Checks issuer, audience, signature, expiry and nonce. If the signature does not verify, the
    /// provider may have changed its keys, so the description is read again.
    async fn check_token(
        &self,
        description: Arc<CoreProviderMetadata>,
        token: &CoreIdToken,
        proof: &ProofOfFlow,
        now: Timestamp,
    ) -> Result<ProvenUser, SignInError> {
        let found = match self.verify_claims(&description, token, proof, now) {
            Err(ClaimsVerificationError::SignatureVerification(_)) => {
                let description = self.described_after(&description, now).await?;
                self.verify_claims(&description, token, proof, now)
            }
            other => other,
        };
        let user = found.map_err(|error| SignInError::Unproven(with_causes(&error)))?;
        let (user, proven_at) = user.ok_or_else(|| {
            SignInError::Unproven("its subject is empty, too long or not printable".to_owned())
        })?;
        let role = self.role_of(&user, &token_claims(token).unwrap_or_default())?;
        Ok(ProvenUser { user, role, proven_at })
    }

    fn role_of(&self, user: &ProviderUser, claims: &Value) -> Result<GrantedRole, SignInError> {
        let ProviderSettings { roles_claim, grants, .. } = &self.settings;
        if let Some(role) = GrantedRole::new(grants, &proven_values(claims, roles_claim)) {
            return Ok(role);
        }
        // An address that the provider did not verify grants no role. The second look only tells
        // the user whether that is the cause.
        let values = claim_values(claims, roles_claim);
        let name = user.name().to_owned();
        match GrantedRole::new(grants, &values) {
            Some(_) => Err(SignInError::UnverifiedAddress { name }),
            None => Err(SignInError::NoRole { name, values }),
        }
    }

    fn verify_claims(
        &self,
        description: &CoreProviderMetadata,
        token: &CoreIdToken,
        proof: &ProofOfFlow,
        now: Timestamp,
    ) -> Result<Option<(ProviderUser, Option<Timestamp>)>, ClaimsVerificationError> {
        let verifier = CoreIdTokenVerifier::new_public_client(
            ClientId::new(self.settings.client_id.clone()),
            self.issuer.clone(),
            description.jwks().clone(),
        )
        .set_allowed_algs(ALGORITHMS)
        .set_time_fn(move || now.get());
        let claims = token.claims(&verifier, &Nonce::new(proof.nonce.clone()))?;
        // OpenID Connect Core, section 3.1.3.7, step 5.
        if claims.authorized_party().is_some_and(|party| **party != self.settings.client_id) {
            let why = "it was made for another client".to_owned();
            return Err(ClaimsVerificationError::InvalidAudience(why));
        }
        let name = claims.name().and_then(plain_name);
        let names = [
            name,
            claims.preferred_username().map(|name| name.as_str()),
            claims.email().map(|email| email.as_str()),
        ];
        let user = ProviderUser::new(&self.settings.issuer, claims.subject().as_str(), &names);
        // The time of the proof is now at most: the fast clock of a provider must not lengthen it.
        let proven_at = claims.auth_time().map(|at| at.min(now.get()).into());
        Ok(user.map(|user| (user, proven_at)))
    }
}

/// The name without a language, or the first one.
fn plain_name(name: &LocalizedClaim<openidconnect::EndUserName>) -> Option<&str> {
    let name = name.get(None).or_else(|| name.iter().next().map(|(_, name)| name));
    name.map(|name| name.as_str())
}

/// The claims of a token whose signature was checked.
fn token_claims(token: &CoreIdToken) -> Option<Value> {
    let text = token.to_string();
    let payload = text.split('.').nth(1)?;
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(payload).ok()?).ok()
}

/// The way to send the client's secret: by the header, unless the provider takes the body alone.
fn auth_type(description: &CoreProviderMetadata, has_secret: bool) -> AuthType {
    let ways = description.token_endpoint_auth_methods_supported();
    let takes = |way| ways.is_none_or(|ways| ways.contains(&way));
    if has_secret && takes(CoreClientAuthMethod::ClientSecretBasic) {
        AuthType::BasicAuth
    } else {
        AuthType::RequestBody
    }
}

/// The code of an error, if it has the form of one. Other texts of a URL are not repeated.
fn error_code(text: &str) -> String {
    let is_code = (1..=64).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'));
    if is_code { text.to_owned() } else { "for a reason it did not name".to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_plain_error_code_is_repeated() {
        assert_eq!(error_code("access_denied"), "access_denied");
        for strange in ["", "<b>", "a b", "é", &"a".repeat(65)] {
            assert_eq!(error_code(strange), "for a reason it did not name");
        }
    }
}
