//! `listen`: a receiver for people who build one. It prints each request, checks the signature,
//! answers by a script, and tells the next step of the service. It needs no database.

mod next;
mod script;

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context;
use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::header::{CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use clap::Args;
use domain::delivery::signature::{BadSignature, SignedRequest, WebhookSecret, verify_request};
use domain::values::printable_text;
use tokio::net::TcpListener;

use self::next::{ArrivalKind, next_step};
use self::script::ScriptedAnswer;
use crate::output::print_line;

/// The largest body that is taken. A delivery has far less.
const BODY_MAX_BYTES: usize = 16 << 20;

/// The arguments of `listen`.
#[derive(Debug, Args)]
pub(crate) struct ListenArgs {
    /// The address to listen at.
    #[arg(long, default_value = "127.0.0.1:9000", value_name = "ADDRESS")]
    at: SocketAddr,
    /// The webhook signing secret; two, with a comma between, while it is rotated. Without one, no
    /// signature is checked.
    #[arg(long, env = "FIRMFORMS_WEBHOOK_SECRET", hide_env_values = true, value_delimiter = ',',
          value_parser = listen_secret)]
    webhook_secret: Vec<WebhookSecret>,
    /// The answers to the next requests: a status, a status with Retry-After, or a slow 200. Then
    /// 200.
    #[arg(long, value_delimiter = ',', value_name = "200,410,429:30,slow:11")]
    answers: Vec<ScriptedAnswer>,
    /// Print the bodies, too.
    #[arg(long)]
    bodies: bool,
}

fn listen_secret(text: &str) -> Result<WebhookSecret, String> {
    WebhookSecret::parse(text.trim()).map_err(|error| error.to_string())
}

pub(crate) async fn run(asked: ListenArgs) -> anyhow::Result<()> {
    let listener = TcpListener::bind(asked.at).await.with_context(|| asked.at.to_string())?;
    let address = listener.local_addr()?;
    print_line(&format!("listening at http://{address}: any path takes deliveries"));
    if asked.webhook_secret.is_empty() {
        print_line("no --webhook-secret: signatures are not checked");
    }
    let listening = Listening {
        secrets: asked.webhook_secret.into(),
        shows_bodies: asked.bodies,
        talk: Arc::new(Mutex::new(Talk { script: asked.answers.into(), ..Talk::default() })),
    };
    let router = Router::new()
        .fallback(receive_request)
        .layer(DefaultBodyLimit::max(BODY_MAX_BYTES))
        .with_state(listening);
    tokio::select! {
        ended = axum::serve(listener, router) => Ok(ended?),
        // A slow answer keeps nobody at the terminal.
        _ = tokio::signal::ctrl_c() => Ok(()),
    }
}

#[derive(Clone)]
struct Listening {
    secrets: Arc<[WebhookSecret]>,
    shows_bodies: bool,
    talk: Arc<Mutex<Talk>>,
}

/// Deliveries and subscriptions that are remembered, each. Then all are forgotten.
const REMEMBERED_MAX: usize = 10_000;

/// The requests so far.
#[derive(Default)]
struct Talk {
    script: VecDeque<ScriptedAnswer>,
    requests: u64,
    /// Arrivals of each delivery.
    arrivals: HashMap<String, u32>,
    /// 410s of each subscription since its last success.
    gone: HashMap<String, u32>,
}

/// The verdict on a signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SignatureCheck {
    Good,
    Unchecked,
    /// With the reason.
    Bad(&'static str),
}

async fn receive_request(
    State(listening): State<Listening>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let check = listening.check_signature(&headers, &body);
    let (line, answer) = {
        let mut talk = listening.talk.lock().unwrap_or_else(PoisonError::into_inner);
        let answer = talk.next_answer(check);
        let told = talk.describe_request(&headers, check, answer);
        (format!("#{} {method} {} {told}", talk.requests, printable_text(uri.path())), answer)
    };
    print_line(&format!("{line} ({} bytes)", body.len()));
    if listening.shows_bodies {
        print_line(&String::from_utf8_lossy(&body));
    }
    tokio::time::sleep(answer.wait).await;
    let status = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::OK);
    let mut response = status.into_response();
    if let Some(seconds) = answer.retry_after {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

impl Listening {
    #[expect(clippy::disallowed_methods, reason = "a receiver compares with its own clock")]
    fn check_signature(&self, headers: &HeaderMap, body: &[u8]) -> SignatureCheck {
        if self.secrets.is_empty() {
            return SignatureCheck::Unchecked;
        }
        let header = header_text(headers, "x-service-signature");
        if header.is_empty() {
            return SignatureCheck::Bad("missing");
        }
        let now = chrono::Utc::now().timestamp();
        let mut reason = "of another secret or body";
        for secret in self.secrets.iter() {
            match verify_request(SignedRequest { header, body }, secret.as_str(), now) {
                Ok(()) => return SignatureCheck::Good,
                Err(BadSignature::Malformed) => reason = "malformed",
                Err(BadSignature::Stale) => reason = "more than 5 minutes old",
                Err(BadSignature::Mismatch) => {}
            }
        }
        SignatureCheck::Bad(reason)
    }
}

impl Talk {
    /// The next answer. A request that does not verify uses up none of the script.
    fn next_answer(&mut self, check: SignatureCheck) -> ScriptedAnswer {
        self.requests += 1;
        match check {
            SignatureCheck::Bad(_) => ScriptedAnswer::UNVERIFIED,
            SignatureCheck::Good | SignatureCheck::Unchecked => {
                self.script.pop_front().unwrap_or(ScriptedAnswer::OK)
            }
        }
    }

    /// Tells the request, the answer and the next step.
    fn describe_request(
        &mut self,
        headers: &HeaderMap,
        check: SignatureCheck,
        answer: ScriptedAnswer,
    ) -> String {
        let event = printable_text(header_text(headers, "x-service-event"));
        let delivery = header_text(headers, "x-service-delivery");
        let hook = header_text(headers, "x-service-hook");
        let signature = match check {
            SignatureCheck::Good => "signature good".to_owned(),
            SignatureCheck::Unchecked => "signature not checked".to_owned(),
            SignatureCheck::Bad(why) => format!("signature bad: {why}"),
        };
        let shown = printable_text(delivery);
        let head = format!("{event} {shown}");
        let status = answer.status;
        if let SignatureCheck::Bad(_) = check {
            return format!("{head}, {signature} -> {status}: failed, and not sent again");
        }
        let arrival = count_up(&mut self.arrivals, delivery);
        let repeat = if arrival > 1 { format!(", arrival {arrival}") } else { String::new() };
        let kind = kind_of(headers);
        let gone = match (kind, answer.status) {
            (ArrivalKind::Hook, 410) => count_up(&mut self.gone, hook),
            (ArrivalKind::Hook, 200..=299) if !answer.is_too_slow() => {
                self.gone.remove(hook);
                0
            }
            _ => 0,
        };
        let next = next_step(kind, arrival, answer, gone);
        let slow = match answer.wait.as_secs() {
            0 => String::new(),
            seconds => format!(" after {seconds} s"),
        };
        format!("{head}{repeat}, {signature} -> {status}{slow}: {next}")
    }
}

/// The kind of a delivery, by its headers.
fn kind_of(headers: &HeaderMap) -> ArrivalKind {
    if header_text(headers, "x-service-test") == "1" {
        ArrivalKind::Test
    } else if header_text(headers, CONTENT_TYPE.as_str()) == "application/cloudevents+json" {
        ArrivalKind::Notice
    } else if header_text(headers, "x-service-hook").is_empty() {
        ArrivalKind::Step
    } else {
        ArrivalKind::Hook
    }
}

/// Counts one more of this id. A delivery without an id is always the first.
fn count_up(counts: &mut HashMap<String, u32>, id: &str) -> u32 {
    if id.is_empty() {
        return 1;
    }
    if counts.len() >= REMEMBERED_MAX {
        counts.clear();
    }
    let count = counts.entry(id.to_owned()).or_default();
    *count += 1;
    *count
}

/// A header's text; empty without one.
fn header_text<'a>(headers: &'a HeaderMap, name: &str) -> &'a str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}
