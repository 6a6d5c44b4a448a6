//! The HTTP client that asks the provider. It follows no redirect and reads no proxy variable.

use std::error::Error;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use openidconnect::http::{Request, Response};
use openidconnect::{AsyncHttpClient, HttpRequest, HttpResponse};
use reqwest::redirect::Policy;
use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::{ClientConfig, RootCertStore};

use crate::settings::safe_url;

/// The longest answer. A set of keys has some KB.
const ANSWER_BYTES_MAX: usize = 1 << 20;

pub(crate) struct ProviderClient(reqwest::Client);

/// The reason why the provider gave no answer, as a text. It may name a URL of the provider, and
/// names neither a URL of this installation nor a secret.
#[derive(Debug)]
pub(crate) struct NoProviderAnswer(String);

impl fmt::Display for NoProviderAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for NoProviderAnswer {}

/// An error with its causes, as a text.
pub(crate) fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

impl From<reqwest::Error> for NoProviderAnswer {
    fn from(error: reqwest::Error) -> Self {
        Self(with_causes(&error))
    }
}

impl ProviderClient {
    #[expect(clippy::disallowed_methods, reason = "it asks the one provider of the settings")]
    pub(crate) fn new(
        extra: &[CertificateDer<'static>],
        question_timeout: Duration,
    ) -> Result<Self, String> {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        roots.add_parsable_certificates(extra.iter().cloned());
        let tls = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let client = reqwest::Client::builder()
            .tls_backend_preconfigured(tls)
            .redirect(Policy::none())
            .no_proxy()
            .timeout(question_timeout)
            .build();
        Ok(Self(client.map_err(|error| error.to_string())?))
    }

    async fn fetch_answer(&self, request: HttpRequest) -> Result<HttpResponse, NoProviderAnswer> {
        // A description may name URLs with http, also that of the keys.
        if safe_url(&request.uri().to_string()).is_none() {
            return Err(NoProviderAnswer(format!("{} is no URL with https", request.uri())));
        }
        let (parts, body) = request.into_parts();
        let request = Request::from_parts(parts, reqwest::Body::from(body));
        let mut answer = self.0.execute(request.try_into()?).await?;
        // A refused code has 400, and a refused client 401 (RFC 6749, section 5.2).
        let status = answer.status();
        if !status.is_success() && !matches!(status.as_u16(), 400 | 401) {
            return Err(NoProviderAnswer(format!("it answered {status}")));
        }
        let mut body = Vec::new();
        while let Some(chunk) = answer.chunk().await? {
            if body.len() + chunk.len() > ANSWER_BYTES_MAX {
                return Err(NoProviderAnswer("the answer is too long".to_owned()));
            }
            body.extend_from_slice(&chunk);
        }
        let mut response = Response::new(body);
        *response.status_mut() = status;
        *response.headers_mut() = answer.headers().clone();
        Ok(response)
    }
}

impl<'c> AsyncHttpClient<'c> for ProviderClient {
    type Error = NoProviderAnswer;
    type Future = Pin<Box<dyn Future<Output = Result<HttpResponse, NoProviderAnswer>> + Send + 'c>>;

    fn call(&'c self, request: HttpRequest) -> Self::Future {
        Box::pin(self.fetch_answer(request))
    }
}
