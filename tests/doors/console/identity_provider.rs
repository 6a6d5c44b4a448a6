//! A provider of OpenID Connect on a real socket: description, keys, authorization, tokens. The
//! provider makes the checks of a real one, and signs with real keys.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use axum::body::{Body, Bytes};
use axum::extract::{Query, Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{any, get, post};
use axum::{Json, Router};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use oidc::{ProviderSettings, QUESTION_TIMEOUT};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair, RsaKeyPair};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use tests::World;
use tokio::net::TcpListener;
use vault::{Entropy, SystemEntropy};

/// An RSA key for these tests alone.
const RSA_KEY: &[u8] = include_bytes!("provider_key.der");

pub(super) const CLIENT_ID: &str = "firmforms";
pub(super) const CLIENT_SECRET: &str = "s3cret/with=signs";

/// The signature of the next ID tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Signing {
    Rs256,
    Es256,
    /// By an elliptic key that the description gained since it was first read.
    NewEs256,
    /// By a key that no description has.
    StrangeKey,
    /// None at all.
    Unsigned,
    /// By the client's secret.
    Hs256,
}

/// A fault of the provider at one of its URLs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ProviderFault {
    /// No answer.
    Silence,
    /// An error of the server, in plain text.
    Error,
    /// An answer that does not end.
    LongAnswer,
    /// A redirect to the page that counts its calls.
    Elsewhere,
    /// JSON of another shape, with the ID token where no token belongs.
    OtherShape,
}

/// The provider. Its user signs in at once, as these claims say.
pub(super) struct IdentityProvider {
    pub(super) issuer: String,
    pub(super) claims: Mutex<Map<String, Value>>,
    pub(super) signing: Mutex<Signing>,
    /// Refuses each sign-in with this error.
    pub(super) refusal: Mutex<Option<String>>,
    /// Faults by path.
    pub(super) faults: Mutex<HashMap<&'static str, ProviderFault>>,
    /// Members of the description, over the usual ones.
    pub(super) description: Mutex<Map<String, Value>>,
    /// Calls of the page to which [`ProviderFault::Elsewhere`] leads.
    pub(super) led_elsewhere: Mutex<u32>,
    /// Times that the description was read.
    pub(super) described: Mutex<u32>,
    redirect_url: Mutex<String>,
    codes: Mutex<HashMap<String, PromisedToken>>,
    keys: Vec<EcdsaKeyPair>,
}

/// The promise of a code.
struct PromisedToken {
    challenge: String,
    nonce: String,
}

impl IdentityProvider {
    pub(super) async fn start() -> Arc<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        Self::on(listener, "127.0.0.1")
    }

    /// On this listener, under this name of the machine.
    pub(super) fn on(listener: TcpListener, host: &str) -> Arc<Self> {
        let key = || {
            let random = SystemRandom::new();
            let algorithm = &ECDSA_P256_SHA256_FIXED_SIGNING;
            let key = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
            EcdsaKeyPair::from_pkcs8(algorithm, key.as_ref(), &random).unwrap()
        };
        let provider = Arc::new(Self {
            issuer: format!("http://{host}:{}", listener.local_addr().unwrap().port()),
            claims: Mutex::default(),
            signing: Mutex::new(Signing::Rs256),
            refusal: Mutex::default(),
            faults: Mutex::default(),
            description: Mutex::default(),
            led_elsewhere: Mutex::default(),
            described: Mutex::default(),
            redirect_url: Mutex::new("http://127.0.0.1:8081/console/sign-in/return".into()),
            codes: Mutex::default(),
            keys: (0..3).map(|_| key()).collect(),
        });
        let router = Router::new()
            .route("/.well-known/openid-configuration", get(describe))
            .route("/jwks", get(jwks))
            .route("/authorize", get(authorize))
            .route("/token", post(token))
            .route("/elsewhere", any(elsewhere))
            .layer(from_fn_with_state(Arc::clone(&provider), fail))
            .with_state(Arc::clone(&provider));
        tokio::spawn(async move { axum::serve(listener, router).await });
        provider
    }

    /// The settings of a client, whose answers go to this console.
    pub(super) fn settings(&self, origin: &str, grants: &[&str]) -> ProviderSettings {
        let redirect_url = format!("{origin}/console/sign-in/return");
        redirect_url.clone_into(&mut self.redirect_url.lock().unwrap());
        ProviderSettings {
            issuer: self.issuer.clone(),
            client_id: CLIENT_ID.into(),
            client_secret: Some(CLIENT_SECRET.into()),
            redirect_url,
            scopes: vec!["profile".into()],
            roles_claim: "groups".into(),
            grants: grants.iter().map(|grant| grant.parse().unwrap()).collect(),
            extra_roots: Vec::new(),
            question_timeout: QUESTION_TIMEOUT,
        }
    }

    /// Claims of the next ID tokens, over the usual ones. Null leaves one out.
    pub(super) fn claim(&self, claims: &Value) {
        *self.claims.lock().unwrap() = claims.as_object().unwrap().clone();
    }

    /// Has this path of the provider fail from now on.
    pub(super) fn fail_at(&self, path: &'static str, fault: ProviderFault) {
        self.faults.lock().unwrap().insert(path, fault);
    }

    /// Members of the description from now on, over the usual ones.
    pub(super) fn describe_as(&self, members: &Value) {
        *self.description.lock().unwrap() = members.as_object().unwrap().clone();
    }

    pub(super) fn sign(&self, signing: Signing) {
        *self.signing.lock().unwrap() = signing;
    }

    /// Answers an authorization request with the address to which the browser returns.
    pub(super) fn authorize(&self, query: &HashMap<String, String>) -> Result<String, String> {
        let asked = |name: &str| query.get(name).map(String::as_str).unwrap_or_default();
        for (name, expected) in [
            ("response_type", "code"),
            ("client_id", CLIENT_ID),
            ("redirect_uri", &**self.redirect_url.lock().unwrap()),
            ("code_challenge_method", "S256"),
            ("scope", "openid profile"),
        ] {
            if asked(name) != expected {
                return Err(format!("{name} is {:?}", asked(name)));
            }
        }
        let back = format!("{}?state={}", asked("redirect_uri"), asked("state"));
        if let Some(error) = &*self.refusal.lock().unwrap() {
            return Ok(format!("{back}&error={error}"));
        }
        let code = URL_SAFE_NO_PAD.encode(SystemEntropy.new_secret());
        let promise = PromisedToken {
            challenge: asked("code_challenge").to_owned(),
            nonce: asked("nonce").to_owned(),
        };
        self.codes.lock().unwrap().insert(code.clone(), promise);
        Ok(format!("{back}&code={code}"))
    }

    fn id_token(&self, nonce: &str) -> String {
        let signing = *self.signing.lock().unwrap();
        let (alg, kid) = match signing {
            Signing::Rs256 => ("RS256", "rsa"),
            Signing::Es256 => ("ES256", "ec0"),
            Signing::NewEs256 => ("ES256", "ec1"),
            Signing::StrangeKey => ("ES256", "ec0"),
            Signing::Unsigned => ("none", "rsa"),
            Signing::Hs256 => ("HS256", "rsa"),
        };
        let noon = 1_793_534_400;
        let mut claims = json!({
            "iss": self.issuer, "sub": "ann-1", "aud": CLIENT_ID, "nonce": nonce, "iat": noon,
            "exp": noon + 300, "name": "Ann Lee", "groups": ["staff", "ops"],
        });
        for (name, value) in &*self.claims.lock().unwrap() {
            match value {
                Value::Null => drop(claims.as_object_mut().unwrap().remove(name)),
                value => claims[name] = value.clone(),
            }
        }
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let head = part(&json!({"alg": alg, "kid": kid, "typ": "JWT"}));
        let signed = format!("{head}.{}", part(&claims));
        let random = SystemRandom::new();
        let by = |place: usize| {
            self.keys[place].sign(&random, signed.as_bytes()).unwrap().as_ref().to_vec()
        };
        let signature = match signing {
            Signing::Rs256 => {
                let key = RsaKeyPair::from_pkcs8(RSA_KEY).unwrap();
                let mut signature = vec![0; key.public().modulus_len()];
                key.sign(
                    &ring::signature::RSA_PKCS1_SHA256,
                    &random,
                    signed.as_bytes(),
                    &mut signature,
                )
                .unwrap();
                signature
            }
            Signing::Es256 => by(0),
            Signing::NewEs256 => by(1),
            Signing::StrangeKey => by(2),
            Signing::Unsigned => Vec::new(),
            Signing::Hs256 => {
                let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, CLIENT_SECRET.as_bytes());
                ring::hmac::sign(&key, signed.as_bytes()).as_ref().to_vec()
            }
        };
        format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
    }
}

type SharedProvider = State<Arc<IdentityProvider>>;

/// Answers with the fault that is set for the path, if there is one.
async fn fail(State(provider): SharedProvider, request: Request, next: Next) -> Response {
    let fault = provider.faults.lock().unwrap().get(request.uri().path()).copied();
    match fault {
        None => next.run(request).await,
        Some(ProviderFault::Silence) => std::future::pending().await,
        Some(ProviderFault::Error) => {
            (StatusCode::INTERNAL_SERVER_ERROR, "out of order").into_response()
        }
        Some(ProviderFault::LongAnswer) => {
            let chunk = Ok::<_, Infallible>(Bytes::from_static(&[b' '; 1 << 16]));
            Body::from_stream(futures::stream::repeat(chunk)).into_response()
        }
        Some(ProviderFault::Elsewhere) => Redirect::temporary("/elsewhere").into_response(),
        Some(ProviderFault::OtherShape) => {
            let strange = json!({"access_token": {"secret": provider.id_token("a nonce")}});
            Json(strange).into_response()
        }
    }
}

async fn elsewhere(State(provider): SharedProvider) {
    *provider.led_elsewhere.lock().unwrap() += 1;
}

async fn describe(State(provider): SharedProvider) -> Json<Value> {
    *provider.described.lock().unwrap() += 1;
    let issuer = &provider.issuer;
    let mut description = json!({
        "issuer": issuer,
        "authorization_endpoint": format!("{issuer}/authorize"),
        "token_endpoint": format!("{issuer}/token"),
        "jwks_uri": format!("{issuer}/jwks"),
        "response_types_supported": ["code"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": ["RS256", "ES256", "HS256", "none"],
    });
    for (name, value) in &*provider.description.lock().unwrap() {
        description[name] = value.clone();
    }
    Json(description)
}

async fn jwks(State(provider): SharedProvider) -> Json<Value> {
    let rsa = RsaKeyPair::from_pkcs8(RSA_KEY).unwrap();
    let public = ring::rsa::PublicKeyComponents::<Vec<u8>>::from(rsa.public());
    let mut keys = vec![json!({
        "kty": "RSA", "kid": "rsa", "use": "sig", "alg": "RS256",
        "n": URL_SAFE_NO_PAD.encode(public.n), "e": URL_SAFE_NO_PAD.encode(public.e),
    })];
    // The second key appears at the second reading.
    let known = if *provider.described.lock().unwrap() > 1 { 2 } else { 1 };
    for (place, key) in provider.keys.iter().take(known).enumerate() {
        let point = &key.public_key().as_ref()[1..];
        keys.push(json!({
            "kty": "EC", "crv": "P-256", "kid": format!("ec{place}"), "use": "sig",
            "x": URL_SAFE_NO_PAD.encode(&point[..32]), "y": URL_SAFE_NO_PAD.encode(&point[32..]),
        }));
    }
    Json(json!({"keys": keys}))
}

async fn authorize(
    State(provider): SharedProvider,
    Query(query): Query<HashMap<String, String>>,
) -> Response {
    match provider.authorize(&query) {
        Ok(back) => Redirect::to(&back).into_response(),
        Err(fault) => (StatusCode::BAD_REQUEST, fault).into_response(),
    }
}

async fn token(State(provider): SharedProvider, headers: HeaderMap, body: String) -> Response {
    let refused =
        |error: &str| (StatusCode::BAD_REQUEST, Json(json!({"error": error}))).into_response();
    // The parts of the secret are encoded as in a form (RFC 6749, section 2.3.1).
    let secret = super::form_body(&[(CLIENT_ID, CLIENT_SECRET)]).replace('=', ":");
    let basic = format!("Basic {}", STANDARD.encode(secret));
    if headers.get("authorization").is_none_or(|given| *given != *basic) {
        return refused("invalid_client");
    }
    let fields: HashMap<String, String> = super::query_of(&format!("?{body}"));
    let promise = provider.codes.lock().unwrap().remove(&fields["code"]);
    let Some(promise) = promise else { return refused("invalid_grant") };
    let verifier = URL_SAFE_NO_PAD.encode(Sha256::digest(fields["code_verifier"].as_bytes()));
    let is_right = fields["grant_type"] == "authorization_code"
        && verifier == promise.challenge
        && fields["redirect_uri"] == **provider.redirect_url.lock().unwrap();
    if !is_right {
        return refused("invalid_grant");
    }
    let answer = json!({
        "access_token": "unused", "token_type": "Bearer", "expires_in": 300,
        "id_token": provider.id_token(&promise.nonce),
    });
    Json(answer).into_response()
}

/// A world whose console uses this provider.
pub(super) async fn world_with(provider: ProviderSettings) -> World {
    let provider = Some(Arc::new(oidc::Provider::new(provider).unwrap()));
    let clock = eventstore::Clock::standing_at("2026-11-01T12:00:00Z".parse().unwrap());
    let change = |setup| service::SystemSetup { provider, ..setup };
    World::with(tests::TestDatabase::new().await, clock, change).await
}
