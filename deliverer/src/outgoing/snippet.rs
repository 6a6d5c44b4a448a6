//! The little of an answer that is kept (ruling 25).
//!
//! Read as it comes, never decompressed, and dropped with its connection when there is more.

use reqwest::Response;
use tokio::time::{Duration, timeout};

/// Bytes read of an answer at most.
pub const SNIPPET_MAX_BYTES: usize = 16 * 1024;

/// What came of the body within both limits; an answer cut off is still an answer.
pub(super) async fn read(mut response: Response, within: Duration) -> Vec<u8> {
    let mut snippet = Vec::new();
    if response.content_length() == Some(0) {
        return snippet;
    }
    let reading = async {
        while let Ok(Some(chunk)) = response.chunk().await {
            let room = SNIPPET_MAX_BYTES - snippet.len();
            snippet.extend_from_slice(&chunk[..chunk.len().min(room)]);
            if chunk.len() >= room {
                break;
            }
        }
    };
    // Running out of time is an end like any other.
    let _ = timeout(within, reading).await;
    snippet
}
