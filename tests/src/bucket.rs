//! A double of a bucket of S3 on a real socket. It takes an object only if its name is free, as the
//! conditional put of S3 does, and causes faults.

use std::collections::BTreeMap;
use std::future::pending;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};
use tokio::net::TcpListener;
use url::form_urlencoded;

/// Objects on a page of a list. S3 has a thousand; a small page makes every list have several.
const PAGE_OBJECTS: usize = 2;

const BUCKET: &str = "/bucket";

/// A fault of the bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BucketFault {
    /// None.
    None,
    /// So many requests are answered with 503.
    Busy(usize),
    /// No request is answered.
    Silent,
    /// The key may do nothing.
    Denied,
    /// There is no such bucket.
    Absent,
    /// An object with another byte is stored, and the answer says that all is well.
    Lying,
    /// An object is stored, and the answer is lost.
    Forgetful,
    /// Another writer stores its manifest a moment before.
    Overtaken,
}

struct BucketState {
    objects: BTreeMap<String, Vec<u8>>,
    fault: BucketFault,
    methods: Vec<Method>,
}

/// The double.
pub struct BucketDouble {
    address: SocketAddr,
    state: Arc<Mutex<BucketState>>,
}

type SharedState = Arc<Mutex<BucketState>>;

impl BucketDouble {
    /// An empty bucket.
    pub async fn start() -> Self {
        let objects = BTreeMap::new();
        let state = BucketState { objects, fault: BucketFault::None, methods: Vec::new() };
        let state = Arc::new(Mutex::new(state));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new()
            .fallback(answer)
            .layer(DefaultBodyLimit::disable())
            .with_state(Arc::clone(&state));
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { address, state }
    }

    /// The URL of an archive in the bucket.
    #[must_use]
    pub fn url(&self) -> &'static str {
        "s3://bucket/archive/of-a-log"
    }

    /// The variables of a process that may use the bucket.
    #[must_use]
    pub fn variables(&self) -> Vec<(String, String)> {
        [
            ("AWS_ENDPOINT_URL", format!("http://{}", self.address)),
            ("AWS_ALLOW_HTTP", "true".to_owned()),
            ("AWS_REGION", "eu-central-1".to_owned()),
            ("AWS_ACCESS_KEY_ID", "key".to_owned()),
            ("AWS_SECRET_ACCESS_KEY", "secret".to_owned()),
            ("AWS_TIMEOUT", "2s".to_owned()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .to_vec()
    }

    /// Causes this fault from now on.
    pub fn set_fault(&self, fault: BucketFault) {
        self.state.lock().unwrap().fault = fault;
    }

    /// The objects by their names in the archive.
    #[must_use]
    pub fn objects(&self) -> BTreeMap<String, Vec<u8>> {
        self.state.lock().unwrap().objects.clone()
    }

    /// Replaces the objects.
    pub fn set_objects(&self, objects: BTreeMap<String, Vec<u8>>) {
        self.state.lock().unwrap().objects = objects;
    }

    /// Number of requests with this method.
    #[must_use]
    pub fn count(&self, method: &Method) -> usize {
        self.state.lock().unwrap().methods.iter().filter(|one| *one == method).count()
    }
}

async fn answer(
    State(state): State<SharedState>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let fault = {
        let mut state = state.lock().unwrap();
        state.methods.push(method.clone());
        let fault = state.fault;
        if let BucketFault::Busy(left) = &mut state.fault {
            *left = left.saturating_sub(1);
        }
        fault
    };
    match fault {
        BucketFault::Busy(1..) => return error(StatusCode::SERVICE_UNAVAILABLE, "SlowDown"),
        BucketFault::Silent => pending().await,
        BucketFault::Denied => return error(StatusCode::FORBIDDEN, "AccessDenied"),
        BucketFault::Absent => return error(StatusCode::NOT_FOUND, "NoSuchBucket"),
        _ => {}
    }
    let signed = headers.get(header::AUTHORIZATION).is_some_and(|value| {
        value.to_str().unwrap().starts_with("AWS4-HMAC-SHA256 Credential=key/")
    });
    if !signed {
        return error(StatusCode::FORBIDDEN, "SignatureDoesNotMatch");
    }
    let mut state = state.lock().unwrap();
    if uri.path() == BUCKET {
        return state.list(uri.query().unwrap_or_default());
    }
    let name = uri.path().strip_prefix("/bucket/archive/of-a-log/").unwrap().to_owned();
    match method {
        Method::PUT => state.put(name, &headers, &body),
        Method::GET | Method::HEAD => state.get(&name, &headers),
        // Nothing is ever deleted.
        _ => error(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed"),
    }
}

impl BucketState {
    fn put(&mut self, name: String, headers: &HeaderMap, body: &Bytes) -> Response {
        let header = |name: &str| headers.get(name).map(|value| value.to_str().unwrap());
        if header("if-none-match") != Some("*") {
            return error(StatusCode::BAD_REQUEST, "ItWouldReplace");
        }
        if header("x-amz-checksum-sha256") != Some(&STANDARD.encode(Sha256::digest(body))) {
            return error(StatusCode::BAD_REQUEST, "BadDigest");
        }
        if header("x-amz-sdk-checksum-algorithm") != Some("SHA256") {
            return error(StatusCode::BAD_REQUEST, "MissingUploadObjectWithObjectLockHeaders");
        }
        let is_manifest = name.ends_with(".json");
        if is_manifest && self.fault == BucketFault::Overtaken {
            self.objects.insert(name.clone(), b"of another writer".to_vec());
        }
        if self.objects.contains_key(&name) {
            return error(StatusCode::PRECONDITION_FAILED, "PreconditionFailed");
        }
        let mut content = body.to_vec();
        if self.fault == BucketFault::Lying {
            let middle = content.len() / 2;
            content[middle] ^= 1;
        }
        self.objects.insert(name, content);
        if self.fault == BucketFault::Forgetful {
            return error(StatusCode::INTERNAL_SERVER_ERROR, "InternalError");
        }
        [(header::ETAG, "\"tag\"")].into_response()
    }

    fn get(&self, name: &str, headers: &HeaderMap) -> Response {
        let Some(content) = self.objects.get(name) else {
            return error(StatusCode::NOT_FOUND, "NoSuchKey");
        };
        let dated =
            [(header::ETAG, "\"tag\""), (header::LAST_MODIFIED, "Sun, 29 Nov 2026 12:00:00 GMT")];
        let Some(range) = headers.get(header::RANGE) else {
            return (dated, content.clone()).into_response();
        };
        let range = range.to_str().unwrap().strip_prefix("bytes=").unwrap();
        let (first, last) = range.split_once('-').unwrap();
        let first: usize = first.parse().unwrap();
        let last = last.parse::<usize>().unwrap().min(content.len() - 1);
        let shown = [(header::CONTENT_RANGE, format!("bytes {first}-{last}/{}", content.len()))];
        let part = content[first..=last].to_vec();
        (StatusCode::PARTIAL_CONTENT, dated, shown, part).into_response()
    }

    /// A page of the list. The token of the next page is the last name of this one.
    fn list(&self, query: &str) -> Response {
        let query: BTreeMap<_, _> = form_urlencoded::parse(query.as_bytes()).collect();
        assert_eq!(query["prefix"], "archive/of-a-log/");
        let after = query.get("continuation-token").map_or("", |token| token);
        let mut later = self.objects.iter().filter(|(name, _)| name.as_str() > after).peekable();
        let mut page = String::new();
        let mut last = "";
        for (name, content) in later.by_ref().take(PAGE_OBJECTS) {
            page += &format!(
                "<Contents><Key>archive/of-a-log/{name}</Key><Size>{}</Size><ETag>tag</ETag>\
                 <LastModified>2026-11-29T12:00:00.000Z</LastModified></Contents>",
                content.len()
            );
            last = name;
        }
        if later.peek().is_some() {
            page += &format!("<NextContinuationToken>{last}</NextContinuationToken>");
        }
        format!("<ListBucketResult>{page}</ListBucketResult>").into_response()
    }
}

fn error(status: StatusCode, code: &str) -> Response {
    (status, format!("<Error>\n<Code>{code}</Code>\n</Error>")).into_response()
}
