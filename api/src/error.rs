//! Every answer that is not a success, and the single place that makes the response (contract,
//! section Errors; rulings 12 and "Internal codes").
//!
//! The sentences are for a person. They quote only the name of a field, never a value of the
//! caller.

use std::borrow::Cow;

use auditor::AuditError;
use axum::Json;
use axum::http::header::{CONNECTION, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use domain::activity::BATCH_MAX_EVENTS;
use domain::delivery::NotReissued;
use domain::event::Quota;
use domain::subscription::TargetRefusal;
use eventstore::disk::count_refusal;
use eventstore::{AppendError, Failure, outage};
use inviter::InviteError;
use serde::Serialize;
use telemetry::metrics::REFUSALS;
use telemetry::request_id::current_request_id;
use vault::VaultError;

use crate::body::fields::FieldError;
use crate::intake::{BadEvent, IntakeError};

/// The reason of an answer that is not a success.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The body is not the JSON the endpoint expects.
    #[error("{0}")]
    InvalidRequest(Cow<'static, str>),
    /// An event of a batch is refused, and with it the whole batch.
    #[error(transparent)]
    BadEvent(BadEvent),
    /// The body is longer than the limit.
    #[error("the body is too large")]
    BodyTooLarge,
    /// A batch has more events than the limit.
    #[error("a request has at most {BATCH_MAX_EVENTS} events")]
    TooManyEvents,
    /// The headers are too many or too long.
    #[error("the request's headers are too large")]
    HeadTooLarge,
    /// The route exists for other methods. The router adds `Allow`.
    #[error("this method is not allowed here")]
    MethodNotAllowed,
    /// `POST /hooks` with a trigger that does not exist or that the firm's plan does not have.
    #[error("this trigger does not exist or is not available")]
    UnknownTrigger,
    /// `target_url` is not a public https URL of at most 2,000 characters.
    #[error("{0}")]
    InvalidTarget(TargetRefusal),
    /// A sample of a trigger that does not exist or that the firm's plan does not have.
    #[error("this trigger does not exist or is not available")]
    NoSuchTrigger,
    /// DNS proves that `target_url` can never be reached (ruling 17).
    #[error("the target must be public: its name has private addresses only")]
    PrivateTarget,
    /// No key, a wrong key, or a revoked one.
    #[error("a valid API key is needed")]
    Unauthorized,
    /// On the internal API: no token, a wrong token, or a revoked one.
    #[error("a valid bearer token is needed")]
    NoToken,
    /// The firm is suspended or closed.
    #[error("the firm's account is suspended or closed")]
    FirmInactive,
    /// The token's role does not allow the call.
    #[error("this token may not do this")]
    Forbidden,
    /// The member may not make keys.
    #[error("only an active owner or admin of the firm may do this")]
    NotAManager,
    /// The firm has no such member, so the member may not make keys.
    #[error("the firm has no member with this id")]
    NoSuchMember,
    /// The caller sees no such object.
    #[error("there is no such thing here")]
    NotFound,
    /// No such route. A route with a similar path may be meant.
    #[error("there is no such thing here; did you mean {0}?")]
    DidYouMean(String),
    /// No form with that id in this firm.
    #[error("there is no form with this id")]
    FormNotFound,
    /// No firm with that id.
    #[error("there is no firm with this id")]
    FirmNotFound,
    /// No delivery with that id.
    #[error("there is no delivery with this id")]
    DeliveryNotFound,
    /// The events of the delivery, or of the moment, have left the database.
    #[error("its events have left the database: ask the operator to look into the archive")]
    Archived,
    /// No response with that id in this firm, or it is erased.
    #[error("there is no response with this id")]
    ResponseNotFound,
    /// The webhook of a workflow step is pending, delivered or cancelled.
    #[error("only a failed step can be tried anew")]
    NotFailed,
    /// The retention time of the step's body and URL is over, or its response was erased.
    #[error("what this step sent is not kept any more")]
    BodyPurged,
    /// The delivery cannot be reissued.
    #[error("{0}")]
    NotReissued(NotReissued),
    /// No replay with that id.
    #[error("there is no replay with this id")]
    ReplayNotFound,
    /// The replay was stopped or is done.
    #[error("this replay has ended")]
    ReplayEnded,
    /// The caller expected another number of deliveries in the replay.
    #[error("this selects {selected} deliveries, and not {expected}: nothing is sent again")]
    SelectionChanged {
        /// The number now.
        selected: usize,
        /// The number that the caller confirmed.
        expected: u32,
    },
    /// No pause with that id is in force.
    #[error("nothing is paused by this")]
    PauseNotFound,
    /// No signed checkpoint is here, or none covers the firm yet.
    #[error("no signed checkpoint covers this yet; the service signs one each hour")]
    NotSigned,
    /// No signed checkpoint has the asked number.
    #[error("there is no signed checkpoint of this number; the newest is {newest}")]
    NoSuchCheckpoint {
        /// The number of the newest one.
        newest: u64,
    },
    /// The caller's `Idempotency-Key` made a subscription of another body (ruling 61).
    #[error("this `Idempotency-Key` was sent with another body")]
    IdempotencyConflict,
    /// The firm has the most subscriptions it may have: 100.
    #[error("the firm already has 100 subscriptions")]
    TooManyHooks,
    /// The form of an invite is not published.
    #[error("the form is not published")]
    FormNotPublished,
    /// The key has used its calls of the minute.
    #[error("too many calls; try again in {0} seconds")]
    RateLimited(u64),
    /// The firm has used its invites of the day. The field is the number of seconds until the day
    /// ends.
    #[error("the firm has sent 300 invites today; the next day begins in {0} seconds")]
    InviteLimitReached(u64),
    /// The mail of an invite could not be sent.
    #[error("the invite could not be sent; try again in a few minutes")]
    SendFailed,
    /// The firm has the most active keys it may have: 25.
    #[error("the firm already has 25 active keys")]
    TooManyKeys,
    /// A defect of the service. The detail is for the log.
    #[error("something went wrong on our side")]
    Internal(String),
    /// The keyring cannot answer now. The detail is for the log. Only `/readyz` answers so.
    #[error("the keyring does not answer")]
    NoKeyring(String),
    /// A full disk refuses every report (case E15). Only `/readyz` answers so.
    #[error("the disk of a database is full: no report can be taken in")]
    DiskFull,
    /// The database cannot answer now. The detail is for the log.
    #[error("the service cannot answer right now; try again in a moment")]
    Unavailable(String),
}

/// Body of every error answer.
#[derive(Serialize)]
struct ErrorBody {
    error: String,
    code: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    index: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<usize>,
    /// Only in answers to holders of a token of the internal API.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

impl IntoResponse for Error {
    fn into_response(self) -> Response {
        self.answer_with_reason(None)
    }
}

impl Error {
    /// The answer with the reason of the failure, which is not for everybody.
    pub(crate) fn answer_with_reason(self, reason: Option<String>) -> Response {
        self.log_failure();
        let (status, code) = self.status_and_code();
        REFUSALS.count(&[("code", code)]);
        let (index, line) = self.index_and_line();
        let body = Json(ErrorBody { error: self.sentence(status), code, index, line, reason });
        let mut response = (status, body).into_response();
        if let Some((name, value)) = self.answer_header() {
            response.headers_mut().insert(name, value);
        }
        response
    }

    /// A request that does not have the shape the endpoint expects.
    pub(crate) fn invalid(sentence: impl Into<Cow<'static, str>>) -> Self {
        Self::InvalidRequest(sentence.into())
    }

    /// The status and the code of the answer.
    pub(crate) const fn status_and_code(&self) -> (StatusCode, &'static str) {
        match self {
            Self::InvalidRequest(_) | Self::BadEvent(_) => {
                (StatusCode::BAD_REQUEST, "invalid_request")
            }
            Self::BodyTooLarge | Self::TooManyEvents => {
                (StatusCode::PAYLOAD_TOO_LARGE, "invalid_request")
            }
            Self::HeadTooLarge => (StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, "invalid_request"),
            Self::MethodNotAllowed => (StatusCode::METHOD_NOT_ALLOWED, "invalid_request"),
            Self::UnknownTrigger => (StatusCode::BAD_REQUEST, "unknown_trigger"),
            Self::InvalidTarget(_) | Self::PrivateTarget => {
                (StatusCode::BAD_REQUEST, "invalid_target")
            }
            Self::Unauthorized | Self::NoToken => (StatusCode::UNAUTHORIZED, "unauthorized"),
            Self::FirmInactive => (StatusCode::FORBIDDEN, "firm_inactive"),
            Self::Forbidden => (StatusCode::FORBIDDEN, "forbidden"),
            Self::NotAManager | Self::NoSuchMember => (StatusCode::FORBIDDEN, "not_a_manager"),
            Self::NotFound | Self::DidYouMean(_) => (StatusCode::NOT_FOUND, "not_found"),
            Self::FormNotFound => (StatusCode::NOT_FOUND, "form_not_found"),
            Self::FirmNotFound => (StatusCode::NOT_FOUND, "firm_not_found"),
            Self::DeliveryNotFound => (StatusCode::NOT_FOUND, "delivery_not_found"),
            Self::Archived => (StatusCode::GONE, "archived"),
            Self::ResponseNotFound => (StatusCode::NOT_FOUND, "response_not_found"),
            Self::ReplayNotFound => (StatusCode::NOT_FOUND, "replay_not_found"),
            Self::PauseNotFound => (StatusCode::NOT_FOUND, "pause_not_found"),
            Self::ReplayEnded => (StatusCode::CONFLICT, "replay_ended"),
            Self::SelectionChanged { .. } => (StatusCode::CONFLICT, "selection_changed"),
            Self::NotReissued(_) => (StatusCode::CONFLICT, "not_reissued"),
            Self::NotFailed => (StatusCode::CONFLICT, "not_failed"),
            Self::BodyPurged => (StatusCode::CONFLICT, "body_purged"),
            Self::NotSigned => (StatusCode::CONFLICT, "not_signed"),
            Self::NoSuchCheckpoint { .. } => (StatusCode::NOT_FOUND, "not_found"),
            Self::IdempotencyConflict => (StatusCode::CONFLICT, "idempotency_conflict"),
            Self::TooManyHooks => (StatusCode::CONFLICT, "too_many_hooks"),
            Self::TooManyKeys => (StatusCode::CONFLICT, "too_many_keys"),
            Self::NoSuchTrigger => (StatusCode::NOT_FOUND, "unknown_trigger"),
            Self::FormNotPublished => (StatusCode::CONFLICT, "form_not_published"),
            Self::RateLimited(_) => (StatusCode::TOO_MANY_REQUESTS, "rate_limited"),
            Self::InviteLimitReached(_) => (StatusCode::TOO_MANY_REQUESTS, "invite_limit_reached"),
            Self::SendFailed => (StatusCode::BAD_GATEWAY, "send_failed"),
            Self::Internal(_) => (StatusCode::INTERNAL_SERVER_ERROR, "internal_error"),
            Self::NoKeyring(_) | Self::DiskFull | Self::Unavailable(_) => {
                (StatusCode::SERVICE_UNAVAILABLE, "unavailable")
            }
        }
    }

    /// The sentence of the answer. A person reports a 500 or 503 by the id of the call (ruling 38).
    fn sentence(&self, status: StatusCode) -> String {
        let reported =
            matches!(status, StatusCode::INTERNAL_SERVER_ERROR | StatusCode::SERVICE_UNAVAILABLE);
        match current_request_id().filter(|_| reported) {
            Some(id) => format!("{self} (request {id})"),
            None => self.to_string(),
        }
    }

    /// Place of the refused event in its batch: its index, and its line if there is one.
    const fn index_and_line(&self) -> (Option<usize>, Option<usize>) {
        if let Self::BadEvent(bad) = self { (Some(bad.index), bad.line) } else { (None, None) }
    }

    /// The header that belongs to the answer.
    fn answer_header(&self) -> Option<(HeaderName, HeaderValue)> {
        match self {
            Self::Unauthorized | Self::NoToken => {
                Some((WWW_AUTHENTICATE, HeaderValue::from_static("Bearer")))
            }
            // The rest of the body is not read, so the connection cannot be used again (case A7).
            Self::BodyTooLarge | Self::TooManyEvents => {
                Some((CONNECTION, HeaderValue::from_static("close")))
            }
            Self::RateLimited(seconds) | Self::InviteLimitReached(seconds) => {
                Some((RETRY_AFTER, HeaderValue::from(*seconds)))
            }
            Self::NoKeyring(_) | Self::DiskFull | Self::Unavailable(_) => {
                Some((RETRY_AFTER, HeaderValue::from_static("1")))
            }
            _ => None,
        }
    }

    /// Logs the errors that an operator must look into. No other place logs them. A JSON answer is
    /// logged by itself, and a page must ask for it.
    pub fn log_failure(&self) {
        if let Self::Internal(detail) = self {
            tracing::error!(detail, "a call failed");
        } else if let Self::Unavailable(detail) | Self::NoKeyring(detail) = self
            && !outage::is_known()
        {
            tracing::warn!(detail, "a call could not be answered");
        }
    }
}

impl From<AuditError> for Error {
    fn from(error: AuditError) -> Self {
        match error {
            AuditError::Database(error) => error.into(),
            AuditError::Nothing | AuditError::NotSignedYet => Self::NotSigned,
            AuditError::Backward(error) => Self::invalid(error.to_string()),
            error @ (AuditError::File { .. }
            | AuditError::Unreadable { .. }
            | AuditError::BrokenHead(_)
            | AuditError::Flawed(_)
            | AuditError::BrokenArchive(_)
            | AuditError::NoKey
            | AuditError::NotBegun
            | AuditError::Stopped
            | AuditError::NoInstallation
            | AuditError::Gap(_)
            | AuditError::UnreadableEvent(_)
            | AuditError::Lost { .. }
            | AuditError::SignedElsewhere { .. }
            | AuditError::Refused(_)
            | AuditError::Output(_)) => Self::Internal(error.to_string()),
        }
    }
}

impl From<FieldError> for Error {
    fn from(error: FieldError) -> Self {
        Self::invalid(error.to_string())
    }
}

impl From<AppendError> for Error {
    fn from(error: AppendError) -> Self {
        match error {
            AppendError::Conflict => Self::Unavailable(error.to_string()),
            AppendError::ActorInactive => Self::Unauthorized,
            AppendError::QuotaFull(Quota::Hooks) => Self::TooManyHooks,
            AppendError::QuotaFull(Quota::Keys) => Self::TooManyKeys,
            // Only the invite command counts invites, and it answers the full quota itself with the
            // time left.
            AppendError::QuotaFull(Quota::Invites) => Self::Internal(error.to_string()),
            AppendError::Database(error) => error.into(),
            AppendError::Unreadable(_) => Self::Internal(error.to_string()),
        }
    }
}

impl From<IntakeError> for Error {
    fn from(error: IntakeError) -> Self {
        match error {
            IntakeError::TooMany => Self::TooManyEvents,
            IntakeError::TooLarge => Self::BodyTooLarge,
            IntakeError::NotABatch(why) => Self::invalid(why),
            IntakeError::BadEvent(bad) => Self::BadEvent(bad),
            IntakeError::Revoked(_) => Self::NoToken,
            IntakeError::Append(error) | IntakeError::ClaimRefused(error) => error.into(),
            IntakeError::Away(why) => Self::Unavailable(why),
            IntakeError::Vault(why) => Self::Internal(why),
        }
    }
}

impl From<InviteError> for Error {
    fn from(error: InviteError) -> Self {
        match error {
            InviteError::NotSent | InviteError::BeingSent(_) => Self::SendFailed,
            InviteError::Busy => Self::Unavailable(error.to_string()),
            InviteError::LimitReached { seconds } => Self::InviteLimitReached(seconds),
            InviteError::Append(error) => error.into(),
            InviteError::NoForm => Self::FormNotFound,
            InviteError::NotPublished => Self::FormNotPublished,
            InviteError::NoFirm
            | InviteError::TriesUsedUp
            | InviteError::Rejected(_)
            | InviteError::Vault(_) => Self::Internal(error.to_string()),
        }
    }
}

impl From<VaultError> for Error {
    fn from(error: VaultError) -> Self {
        match error {
            VaultError::Database(error) => error.into(),
            VaultError::Broken(_) | VaultError::Unreadable(_) => Self::Internal(error.to_string()),
        }
    }
}

impl From<sqlx::Error> for Error {
    fn from(error: sqlx::Error) -> Self {
        count_refusal(&error);
        if Failure::new(&error).may_pass() {
            Self::Unavailable(error.to_string())
        } else {
            Self::Internal(error.to_string())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::to_bytes;
    use rstest::rstest;
    use serde_json::{Value, json};

    #[rstest]
    #[case(Error::invalid("`trigger` must be a string"), 400, "invalid_request")]
    #[case(Error::UnknownTrigger, 400, "unknown_trigger")]
    #[case(Error::InvalidTarget(TargetRefusal::NotHttps), 400, "invalid_target")]
    #[case(Error::PrivateTarget, 400, "invalid_target")]
    #[case(Error::Unauthorized, 401, "unauthorized")]
    #[case(Error::NoToken, 401, "unauthorized")]
    #[case(Error::FirmInactive, 403, "firm_inactive")]
    #[case(Error::NotFound, 404, "not_found")]
    #[case(Error::FormNotFound, 404, "form_not_found")]
    #[case(Error::TooManyHooks, 409, "too_many_hooks")]
    #[case(Error::IdempotencyConflict, 409, "idempotency_conflict")]
    #[case(Error::MethodNotAllowed, 405, "invalid_request")]
    #[case(Error::BodyTooLarge, 413, "invalid_request")]
    #[case(Error::TooManyEvents, 413, "invalid_request")]
    #[case(Error::HeadTooLarge, 431, "invalid_request")]
    #[case(Error::Internal("x".into()), 500, "internal_error")]
    #[case(Error::Unavailable("x".into()), 503, "unavailable")]
    #[case(Error::NoKeyring("x".into()), 503, "unavailable")]
    #[case(Error::DiskFull, 503, "unavailable")]
    #[case(Error::Forbidden, 403, "forbidden")]
    #[case(Error::NotAManager, 403, "not_a_manager")]
    #[case(Error::NoSuchMember, 403, "not_a_manager")]
    #[case(Error::DidYouMean("/api/v1/me".into()), 404, "not_found")]
    #[case(Error::FirmNotFound, 404, "firm_not_found")]
    #[case(Error::DeliveryNotFound, 404, "delivery_not_found")]
    #[case(Error::Archived, 410, "archived")]
    #[case(Error::NotReissued(NotReissued::Pending), 409, "not_reissued")]
    #[case(Error::SelectionChanged { selected: 2, expected: 1 }, 409, "selection_changed")]
    #[case(Error::PauseNotFound, 404, "pause_not_found")]
    #[case(Error::TooManyKeys, 409, "too_many_keys")]
    #[case(Error::NoSuchTrigger, 404, "unknown_trigger")]
    #[case(Error::FormNotPublished, 409, "form_not_published")]
    #[case(Error::RateLimited(7), 429, "rate_limited")]
    #[case(Error::InviteLimitReached(7), 429, "invite_limit_reached")]
    #[case(Error::SendFailed, 502, "send_failed")]
    #[tokio::test]
    async fn every_error_has_status_code_and_sentence(
        #[case] error: Error,
        #[case] status: u16,
        #[case] code: &str,
    ) {
        let sentence = error.to_string();
        let response = error.into_response();
        assert_eq!(response.status(), status);
        assert_eq!(response.headers()["content-type"], "application/json");
        let body = to_bytes(response.into_body(), 1_024).await.unwrap();
        let body: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(body, json!({ "error": sentence, "code": code }));
    }

    #[rstest]
    #[case(Error::Unauthorized, "www-authenticate", "Bearer")]
    #[case(Error::Unavailable(String::new()), "retry-after", "1")]
    #[case(Error::BodyTooLarge, "connection", "close")]
    #[case(Error::RateLimited(7), "retry-after", "7")]
    #[case(Error::InviteLimitReached(9), "retry-after", "9")]
    fn some_errors_carry_a_header(#[case] error: Error, #[case] name: &str, #[case] value: &str) {
        assert_eq!(error.into_response().headers()[name], value);
    }

    #[tokio::test]
    async fn a_bad_event_is_named_by_place() {
        let bad = BadEvent { index: 3, line: Some(5), why: "time: missing".into() };
        let response = Error::BadEvent(bad).into_response();
        let body = to_bytes(response.into_body(), 1_024).await.unwrap();
        let body: Value = serde_json::from_slice(&body).unwrap();
        let sentence = "event 3 (line 5): time: missing";
        let expected = json!({"error": sentence, "code": "invalid_request", "index": 3, "line": 5});
        assert_eq!(body, expected);
    }

    #[test]
    fn a_failed_append_becomes_a_code() {
        let unavailable = |error: Error| matches!(error, Error::Unavailable(_));
        assert!(unavailable(AppendError::Conflict.into()));
        assert!(unavailable(AppendError::Database(sqlx::Error::PoolTimedOut).into()));
        assert_eq!(Error::from(AppendError::ActorInactive), Error::Unauthorized);
        assert_eq!(Error::from(AppendError::QuotaFull(Quota::Hooks)), Error::TooManyHooks);
        assert_eq!(Error::from(AppendError::QuotaFull(Quota::Keys)), Error::TooManyKeys);
        assert!(matches!(AppendError::Unreadable("x".into()).into(), Error::Internal(_)));
        assert!(matches!(sqlx::Error::RowNotFound.into(), Error::Internal(_)));
    }

    #[test]
    fn details_stay_in_the_log() {
        let detail = "secret detail";
        let errors: [fn(String) -> Error; 3] =
            [Error::Internal, Error::Unavailable, Error::NoKeyring];
        for error in errors.map(|error| error(detail.to_owned())) {
            assert!(!error.to_string().contains(detail));
        }
    }
}
