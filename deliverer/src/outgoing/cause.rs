//! The cause of a failed request.

use std::error::Error;
use std::io;

use domain::answer::NetworkError;

/// The cause of a client's error.
pub(super) fn network_error(error: &reqwest::Error) -> NetworkError {
    if causes(error).any(|cause| cause.is::<rustls::Error>()) {
        NetworkError::Tls
    } else if error.is_timeout() {
        NetworkError::Timeout
    } else if error.is_connect() {
        NetworkError::Connect
    } else if causes(error).filter_map(<dyn Error>::downcast_ref).any(hyper::Error::is_parse) {
        NetworkError::Protocol
    } else {
        NetworkError::Reset
    }
}

fn causes(error: &reqwest::Error) -> impl Iterator<Item = &(dyn Error + 'static)> {
    std::iter::successors(Some(error as &(dyn Error + 'static)), |cause| next(*cause))
}

/// `source` of an I/O error skips the error that it wraps.
fn next<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a (dyn Error + 'static)> {
    match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
        Some(wrapped) => Some(wrapped),
        None => error.source(),
    }
}
