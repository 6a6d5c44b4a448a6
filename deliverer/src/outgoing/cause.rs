//! The cause of a failed request.

use std::error::Error;
use std::io;
use std::net::{Ipv4Addr, UdpSocket};

use domain::delivery::NetworkError;

/// The cause of a client's error.
pub(super) fn network_error(error: &reqwest::Error) -> NetworkError {
    if error_causes(error).any(|cause| cause.is::<rustls::Error>()) {
        NetworkError::Tls
    } else if error.is_timeout() {
        NetworkError::Timeout
    } else if error.is_connect() {
        NetworkError::Connect
    } else if error_causes(error).filter_map(<dyn Error>::downcast_ref).any(hyper::Error::is_parse)
    {
        NetworkError::Protocol
    } else {
        NetworkError::Reset
    }
}

/// `ENFILE` and `EMFILE`: no descriptor is left, in the system or in the process. `EADDRINUSE` and
/// `EADDRNOTAVAIL`: no port of an address of `--egress-bind` is left, or the address is gone.
const SHORTAGES: [i32; 4] = [23, 24, 98, 99];

/// Whether a connection failed because no descriptor or no port was left.
pub(super) fn is_shortage(error: &reqwest::Error) -> bool {
    error_causes(error).filter_map(<dyn Error>::downcast_ref).any(is_shortage_of_io)
}

/// Whether no descriptor is left now. For errors that do not show their cause.
pub(super) fn is_short_of_descriptors() -> bool {
    UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).is_err_and(|error| is_shortage_of_io(&error))
}

fn is_shortage_of_io(error: &io::Error) -> bool {
    error.raw_os_error().is_some_and(|code| SHORTAGES.contains(&code))
}

fn error_causes(error: &reqwest::Error) -> impl Iterator<Item = &(dyn Error + 'static)> {
    std::iter::successors(Some(error as &(dyn Error + 'static)), |cause| next(*cause))
}

/// `source` of an I/O error skips the error that it wraps.
fn next<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a (dyn Error + 'static)> {
    match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
        Some(wrapped) => Some(wrapped),
        None => error.source(),
    }
}
