//! The way of a browser to the provider and back. A cookie keeps its beginning. State, nonce and
//! proof key are derived from the cookie by a key of the keyring, so no table holds them, and any
//! process takes the answer.

use axum::http::request::Parts;
pub(crate) mod rates;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use domain::access::sign_in::{FLOW_TIME, SESSION_TIME};
use domain::values::Timestamp;
use oidc::{ProofDemand, ProofOfFlow, ProvenUser, Provider, ProviderAnswer, SignInError};
use sha2::{Digest, Sha256};

use crate::error::Error;
use crate::public::client_behind_proxies;
use crate::service::Service;
use crate::sessions;

pub use self::rates::SignInRates;

/// Bytes of random, end and signature.
const FLOW_BYTES: usize = 32 + 8 + 32;

/// The beginning of a way to the provider.
#[derive(Clone, PartialEq, Eq)]
pub struct SignInFlow {
    random: [u8; 32],
    ends_at: i64,
    purpose: FlowPurpose,
}

/// The reason of a sign-in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FlowPurpose {
    /// This page of the console shall come.
    Page(String),
    /// An act waits for a fresh proof of the person (ruling 62).
    Act {
        /// The path to which its form goes.
        path: String,
        /// The fields of its form, as a query.
        fields: String,
        /// SHA-256 of the cookie of the session that the sign-in ends.
        replaced: Option<[u8; 32]>,
    },
}

impl FlowPurpose {
    /// The text in the cookie. A path begins with a slash.
    fn cookie_text(&self) -> String {
        match self {
            Self::Page(page) => page.clone(),
            Self::Act { path, fields, replaced: None } => format!("act {path} {fields}"),
            Self::Act { path, fields, replaced: Some(replaced) } => {
                format!("act {} {path} {fields}", URL_SAFE_NO_PAD.encode(replaced))
            }
        }
    }

    fn read(text: &str) -> Self {
        Self::read_act(text).unwrap_or_else(|| Self::Page(text.to_owned()))
    }

    fn read_act(text: &str) -> Option<Self> {
        let act = text.strip_prefix("act ")?;
        let (replaced, form) = match act.split_once(' ')? {
            (first, _) if first.starts_with('/') => (None, act),
            (first, form) => (Some(URL_SAFE_NO_PAD.decode(first).ok()?.try_into().ok()?), form),
        };
        let (path, fields) = form.split_once(' ')?;
        Some(Self::Act { path: path.to_owned(), fields: fields.to_owned(), replaced })
    }

    /// SHA-256 of the cookie of the session that the sign-in ends.
    const fn replaced(&self) -> Option<[u8; 32]> {
        match self {
            Self::Page(_) => None,
            Self::Act { replaced, .. } => *replaced,
        }
    }

    const fn proof_demand(&self) -> ProofDemand {
        match self {
            Self::Page(_) => ProofDemand::Any,
            Self::Act { .. } => ProofDemand::Fresh,
        }
    }
}

/// A session that began.
pub struct BegunSession {
    /// The text of its cookie.
    pub cookie: String,
    /// The name of the user.
    pub name: String,
}

/// Why an answer of the provider began no session.
#[derive(Debug, thiserror::Error)]
pub enum FlowError {
    /// No cookie of this browser began the way, its time is over, or it led to a session before.
    #[error("this sign-in did not begin in this browser, or is over: sign in again")]
    NoFlow,
    /// Too many sign-ins of this address failed. The next may begin in so many seconds.
    #[error("too many sign-ins failed from this address: try again in {0} seconds")]
    TooMany(u64),
    /// The provider, or its answer.
    #[error(transparent)]
    Provider(#[from] SignInError),
    /// The service.
    #[error(transparent)]
    Service(#[from] Error),
}

impl SignInFlow {
    /// Begins a way.
    #[must_use]
    pub fn begin(service: &Service, purpose: FlowPurpose) -> Self {
        let ends_at = (service.clock.now().get() + FLOW_TIME).timestamp_millis();
        Self { random: service.entropy.new_secret(), ends_at, purpose }
    }

    /// The text of the cookie.
    #[must_use]
    pub fn cookie(&self, service: &Service) -> String {
        let signature = service.inviter.identity.sign_session(&self.labelled_bytes("sign-in flow"));
        let ends_at = self.ends_at.to_be_bytes();
        let purpose = self.purpose.cookie_text();
        let bytes = [&self.random[..], &ends_at, &signature, purpose.as_bytes()].concat();
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// The way of a cookie, unless its time is over.
    #[must_use]
    pub fn read(service: &Service, cookie: &str) -> Option<Self> {
        let bytes = URL_SAFE_NO_PAD.decode(cookie).ok()?;
        let (head, purpose) = bytes.split_first_chunk::<FLOW_BYTES>()?;
        let (random, rest) = head.split_first_chunk()?;
        let (ends_at, signature) = rest.split_first_chunk()?;
        let purpose = FlowPurpose::read(str::from_utf8(purpose).ok()?);
        let flow = Self { random: *random, ends_at: i64::from_be_bytes(*ends_at), purpose };
        let named = flow.labelled_bytes("sign-in flow");
        let is_ours = service.inviter.identity.has_signed_session(&named, signature);
        let is_over = service.clock.now().get().timestamp_millis() >= flow.ends_at;
        (is_ours && !is_over).then_some(flow)
    }

    /// The address at the provider to which the browser is led.
    ///
    /// # Errors
    /// [`FlowError::Provider`].
    pub async fn provider_address(
        &self,
        service: &Service,
        provider: &Provider,
    ) -> Result<String, FlowError> {
        let proof = self.proof(service);
        let demand = self.purpose.proof_demand();
        let address = provider.authorization_url(&proof, demand, service.clock.now()).await;
        Ok(address.inspect_err(log_failure)?.into())
    }

    /// The reason of the sign-in.
    #[must_use]
    pub const fn purpose(&self) -> &FlowPurpose {
        &self.purpose
    }

    /// The texts that tie the answer to this way.
    #[must_use]
    fn proof(&self, service: &Service) -> ProofOfFlow {
        let derived = |label| {
            let signature = service.inviter.identity.sign_session(&self.labelled_bytes(label));
            URL_SAFE_NO_PAD.encode(signature)
        };
        ProofOfFlow {
            state: derived("sign-in state"),
            nonce: derived("sign-in nonce"),
            verifier: derived("sign-in verifier"),
        }
    }

    /// Each label begins otherwise than the names of sessions and forms, which are random.
    fn labelled_bytes(&self, label: &str) -> Vec<u8> {
        [label.as_bytes(), &self.sha256()].concat()
    }

    fn sha256(&self) -> [u8; 32] {
        let ends_at = self.ends_at.to_be_bytes();
        Sha256::digest([&self.random[..], &ends_at, self.purpose.cookie_text().as_bytes()].concat())
            .into()
    }

    /// Exchanges the answer of the provider for a session. The state must be that of this way. If
    /// 20 sign-ins of the address failed within a minute, the provider is not asked. `parts` are
    /// those of the request that brings the answer.
    ///
    /// # Errors
    /// [`FlowError`].
    pub async fn finish_sign_in(
        &self,
        service: &Service,
        provider: &Provider,
        parts: &Parts,
        state: &str,
        answer: &ProviderAnswer,
    ) -> Result<BegunSession, FlowError> {
        let named = self.labelled_bytes("sign-in state");
        let state = URL_SAFE_NO_PAD.decode(state).unwrap_or_default();
        if !service.inviter.identity.has_signed_session(&named, &state) {
            return Err(FlowError::NoFlow);
        }
        let address = client_behind_proxies(parts, &service.settings.trusted_proxies);
        let now: Timestamp = service.clock.now();
        let asked =
            service.admission.sign_in_rates.begin_try(address, now).map_err(FlowError::TooMany)?;
        let proof = self.proof(service);
        let demand = self.purpose.proof_demand();
        let found = provider.prove_user(answer, &proof, demand, now).await.inspect_err(log_failure);
        let ProvenUser { user, role, proven_at } = match found {
            Ok(found) => found,
            Err(error) => {
                if answer.error.is_none() && is_forged(&error) {
                    asked.count_failure(now);
                }
                return Err(error.into());
            }
        };
        drop(asked);
        let scope = user.session_scope(role, (now.get() + SESSION_TIME).into());
        let replaced = self.purpose.replaced();
        let cookie =
            sessions::begin_for_user(service, self.sha256(), replaced, &scope, proven_at).await?;
        let cookie = cookie.ok_or(FlowError::NoFlow)?;
        Ok(BegunSession { cookie, name: scope.name })
    }
}

/// Whether somebody may have made the code up. A provider that is away, and a user without a role,
/// are no failures of the address.
const fn is_forged(error: &SignInError) -> bool {
    matches!(error, SignInError::Refused(_) | SignInError::Unproven(_))
}

/// Notes in the log why nobody signed in, without a name of a user.
fn log_failure(error: &SignInError) {
    match error {
        SignInError::NoRole { .. } => {
            tracing::warn!("a user of the provider has no role here, and was refused");
        }
        SignInError::UnverifiedAddress { .. } => {
            tracing::warn!("an address that the provider has not verified was refused");
        }
        SignInError::Away(_) | SignInError::Refused(_) | SignInError::Unproven(_) => {
            tracing::warn!(%error, "nobody signed in by the provider");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::tests::nowhere;

    fn flow_to(service: &Service, page: &str) -> SignInFlow {
        SignInFlow::begin(service, FlowPurpose::Page(page.to_owned()))
    }

    #[tokio::test]
    async fn the_cookie_keeps_the_act_that_waits() {
        let service = nowhere();
        let fields = "reason=a+b%0Ac&prefix=ffk_x".to_owned();
        for replaced in [None, Some([7; 32])] {
            let path = "/console/pauses/begin".to_owned();
            let fields = fields.clone();
            let act = FlowPurpose::Act { path, fields, replaced };
            let flow = SignInFlow::begin(&service, act.clone());
            let read = SignInFlow::read(&service, &flow.cookie(&service)).unwrap();
            assert_eq!(*read.purpose(), act);
            assert_eq!(act.proof_demand(), ProofDemand::Fresh);
        }
        let page = flow_to(&service, "/console/act now").purpose().proof_demand();
        assert_eq!(page, ProofDemand::Any);
    }

    #[tokio::test]
    async fn a_changed_cookie_is_no_beginning() {
        let service = nowhere();
        let flow = flow_to(&service, "/console/proof");
        let cookie = flow.cookie(&service);
        assert!(SignInFlow::read(&service, &cookie).is_some_and(|read| read == flow));
        for place in 0..cookie.len() {
            let mut other = cookie.clone().into_bytes();
            other[place] = if other[place] == b'A' { b'B' } else { b'A' };
            let other = String::from_utf8(other).unwrap();
            let read = SignInFlow::read(&service, &other);
            assert!(other == cookie || read.is_none_or(|read| read == flow), "{place}");
        }
        for other in ["", "A", "é", &cookie[4..]] {
            assert!(SignInFlow::read(&service, other).is_none(), "{other}");
        }
    }

    /// No cookie shows the texts.
    #[tokio::test]
    async fn each_sign_in_has_its_own_texts() {
        let service = nowhere();
        let flow = flow_to(&service, "/console");
        let other = flow_to(&service, "/console").proof(&service);
        let ProofOfFlow { state, nonce, verifier } = flow.proof(&service);
        let all = [&state, &nonce, &verifier, &other.state, &other.nonce, &other.verifier];
        for (place, text) in all.iter().enumerate() {
            assert_eq!(text.len(), 43);
            assert!(!all[..place].contains(text) && !flow.cookie(&service).contains(*text));
        }
    }
}
