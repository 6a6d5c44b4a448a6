//! Asks the internal API in this process.

use axum::body::{Body, Bytes, to_bytes};
use axum::extract::Request;
use axum::http::Method;
use axum::http::header::CONTENT_TYPE;
use axum::response::Response;
use domain::values::Timestamp;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::ConsoleState;
use crate::refusal::Refusal;
use api::sessions::Session;

/// Longest answer that becomes a page. A list has 500 rows at most.
const ANSWER_BYTES_MAX: usize = 16 << 20;

/// A list of the API, with the start of the next page if there may be one.
#[derive(Debug, Deserialize)]
pub(crate) struct ListAnswer<T> {
    pub(crate) items: Vec<T>,
    #[serde(default)]
    pub(crate) next: Option<String>,
    /// Older deliveries have left, and the question reaches there.
    #[serde(default)]
    pub(crate) archived_before: Option<Timestamp>,
}

/// An error of the API.
#[derive(Deserialize)]
struct ErrorAnswer {
    error: String,
}

impl ConsoleState {
    /// The answer to a question, as bytes of JSON.
    pub(crate) async fn ask_bytes(&self, session: &Session, path: &str) -> Result<Bytes, Refusal> {
        read_bytes(self.pass_question(session, path).await?).await
    }

    /// The answer to a question, read.
    pub(crate) async fn ask_json<T: DeserializeOwned>(
        &self,
        session: &Session,
        path: &str,
    ) -> Result<T, Refusal> {
        parse_json(&self.ask_bytes(session, path).await?)
    }

    /// The answer to a question as it comes: a file may be longer than memory. A refusal becomes a
    /// page.
    pub(crate) async fn ask_file(
        &self,
        session: &Session,
        path: &str,
    ) -> Result<Response, Refusal> {
        let response = self.pass_question(session, path).await?;
        if response.status().is_success() {
            return Ok(response);
        }
        Err(read_bytes(response).await.err().unwrap_or_else(Refusal::no_page))
    }

    async fn pass_question(&self, session: &Session, path: &str) -> Result<Response, Refusal> {
        let request = Request::get(path).body(Body::empty()).map_err(|_| Refusal::no_page())?;
        Ok(self.door.call(session, request).await)
    }

    /// The answer to a command.
    pub(crate) async fn send_command(
        &self,
        session: &Session,
        command: ApiCommand<'_>,
    ) -> Result<Value, Refusal> {
        let request = Request::builder()
            .method(command.method)
            .uri(command.path)
            .header(CONTENT_TYPE, "application/json")
            .body(Body::from(command.body.to_string()))
            .map_err(|_| Refusal::no_page())?;
        parse_json(&read_bytes(self.door.call(session, request).await).await?)
    }
}

/// A call that changes something, or that asks for something in its body.
pub(crate) struct ApiCommand<'a> {
    pub(crate) method: Method,
    pub(crate) path: &'a str,
    pub(crate) body: Value,
}

async fn read_bytes(response: Response) -> Result<Bytes, Refusal> {
    let status = response.status();
    let bytes = to_bytes(response.into_body(), ANSWER_BYTES_MAX)
        .await
        .map_err(|_| Refusal::broken("the answer broke off"))?;
    if status.is_success() {
        return Ok(bytes);
    }
    let sentence = serde_json::from_slice::<ErrorAnswer>(&bytes).map(|body| body.error);
    Err(Refusal::of_api(status, sentence.unwrap_or_else(|_| status.to_string()), bytes))
}

/// Reads JSON of the API.
pub(crate) fn parse_json<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Refusal> {
    serde_json::from_slice(bytes).map_err(|error| Refusal::broken(&error.to_string()))
}

/// Reads the answer of a query as the API would show it.
pub(crate) fn reread_answer<T: DeserializeOwned>(found: &impl Serialize) -> Result<T, Refusal> {
    let value = serde_json::to_value(found).map_err(|error| Refusal::broken(&error.to_string()))?;
    serde_json::from_value(value).map_err(|error| Refusal::broken(&error.to_string()))
}
