//! The start of an answer, which is kept (ruling 25, delivered).
//!
//! The body is read as it comes and never decompressed. If it is longer, its connection is dropped.

use reqwest::Response;
use tokio::time::{Duration, timeout};

/// Bytes of an answer that are read, at most.
pub const SNIPPET_MAX_BYTES: usize = 16 * 1024;

/// The body within both limits. An answer that is cut off is still an answer.
pub(super) async fn read(mut response: Response, within: Duration) -> Vec<u8> {
    let mut snippet = Vec::new();
    if response.content_length() == Some(0) {
        return snippet;
    }
    let reading = async {
        while let Ok(Some(chunk)) = response.chunk().await {
            let left = SNIPPET_MAX_BYTES - snippet.len();
            snippet.extend_from_slice(&chunk[..chunk.len().min(left)]);
            if chunk.len() >= left {
                break;
            }
        }
    };
    // A timeout is an end like any other.
    let _ = timeout(within, reading).await;
    snippet
}
