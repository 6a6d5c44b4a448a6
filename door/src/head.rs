//! The check of a request head (RFC 9112, sections 2 to 6; cases A21 and A22): a pure decision on
//! bytes.
//!
//! Where RFC 9112 lets a server repair or choose, this check refuses. Two readers must never
//! disagree about the end of a head or of a body. hyper reads every accepted head in the same way.

use axum::http::Uri;
use axum::http::uri::Authority;

use crate::refusal::{HEADER_LINES_MAX, Refusal};

/// The most bytes of a head, from the request line to the empty line (case A22).
pub(crate) const HEAD_BYTES_MAX: usize = 16 << 10;

/// The greatest length that a body can announce. No handler takes as much; hyper's own limit is
/// higher.
const BODY_LENGTH_MAX: u64 = i64::MAX as u64;

/// Finds the end of a request head that arrives in pieces. Looks at each byte once.
#[derive(Debug, Default)]
pub(crate) struct HeadScan {
    seen: usize,
    start: usize,
    line: usize,
    lines: usize,
}

/// The range of a request head in the received bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HeadExtent {
    /// The first byte after empty lines, which may come first (RFC 9112, section 2.2).
    pub(crate) start: usize,
    /// The first byte after the empty line that ends the head.
    pub(crate) end: usize,
}

impl HeadScan {
    /// Looks at the bytes that arrived since the last call.
    pub(crate) fn scan_bytes(&mut self, bytes: &[u8]) -> Result<Option<HeadExtent>, Refusal> {
        let within = bytes.len().min(HEAD_BYTES_MAX);
        while let Some(found) = bytes[self.seen..within].iter().position(|byte| *byte == b'\n') {
            let feed = self.seen + found;
            self.seen = feed + 1;
            let line = bytes[self.line..feed].strip_suffix(b"\r").ok_or(Refusal::LineEnd)?;
            self.line = self.seen;
            if !line.is_empty() {
                self.lines += 1;
            } else if self.lines > 0 {
                return Ok(Some(HeadExtent { start: self.start, end: self.seen }));
            } else {
                self.start = self.seen;
            }
            if self.lines > 1 + HEADER_LINES_MAX {
                return Err(Refusal::TooManyLines);
            }
        }
        self.seen = within;
        if bytes.len() < HEAD_BYTES_MAX { Ok(None) } else { Err(Refusal::HeadTooLarge) }
    }
}

/// The end of the body, as the head announces it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BodyFraming {
    /// The body has this many bytes.
    Length(u64),
    /// The body is chunked. The gate does not look for the last chunk.
    Chunked,
}

/// Checks a whole request head and returns the framing of the body.
pub(crate) fn check(head: &[u8]) -> Result<BodyFraming, Refusal> {
    let mut lines = HeadLines(head);
    let version = check_request_line(lines.next().ok_or(Refusal::RequestLine)?)?;
    let mut framing = FramingHeaders::default();
    for line in lines {
        let (name, value) = check_header(line)?;
        framing.take_header(name, value)?;
    }
    framing.body_framing(version)
}

/// The lines of a request head, without their ends and without the empty line.
struct HeadLines<'a>(&'a [u8]);

impl<'a> Iterator for HeadLines<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let feed = self.0.iter().position(|byte| *byte == b'\n')?;
        let line = &self.0[..feed];
        self.0 = &self.0[feed + 1..];
        line.strip_suffix(b"\r").filter(|line| !line.is_empty())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HttpVersion {
    Http10,
    Http11,
}

/// `method SP request-target SP HTTP-version` (RFC 9112, section 3).
fn check_request_line(line: &[u8]) -> Result<HttpVersion, Refusal> {
    let mut parts = line.split(|byte| *byte == b' ');
    let (Some(method), Some(target), Some(version), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err(Refusal::RequestLine);
    };
    let version = match version {
        b"HTTP/1.0" => HttpVersion::Http10,
        b"HTTP/1.1" => HttpVersion::Http11,
        _ => return Err(Refusal::RequestLine),
    };
    if !is_token(method) || !target.iter().all(u8::is_ascii_graphic) {
        return Err(Refusal::RequestLine);
    }
    if is_target(method, target) { Ok(version) } else { Err(Refusal::Target) }
}

/// Accepts a path, the absolute form, which a server must take (RFC 9112, section 3.2.2), or `*`
/// for OPTIONS. CONNECT and its authority form are for proxies. A client never sends a fragment.
fn is_target(method: &[u8], target: &[u8]) -> bool {
    if method == b"CONNECT" || target.contains(&b'#') {
        return false;
    }
    let Ok(uri) = Uri::try_from(target) else {
        return false;
    };
    match target {
        [b'/', ..] => true,
        b"*" => method == b"OPTIONS",
        _ => matches!(uri.scheme_str(), Some("http" | "https")) && uri.host().is_some(),
    }
}

/// `field-name ":" OWS field-value OWS` (RFC 9112, section 5). A line that begins with white space
/// continues the line before (obs-fold), and is refused.
fn check_header(line: &[u8]) -> Result<(&[u8], &[u8]), Refusal> {
    if let [b' ' | b'\t', ..] = line {
        return Err(Refusal::Fold);
    }
    let colon = line.iter().position(|byte| *byte == b':').ok_or(Refusal::Header)?;
    let name = &line[..colon];
    let value = &line[colon + 1..];
    if is_token(name) && value.iter().all(|byte| is_field_byte(*byte)) {
        Ok((name, value.trim_ascii()))
    } else {
        Err(Refusal::Header)
    }
}

/// RFC 9110, section 5.6.2.
fn is_token(bytes: &[u8]) -> bool {
    let is_tchar = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
    !bytes.is_empty() && bytes.iter().all(is_tchar)
}

/// RFC 9110, section 5.5.
const fn is_field_byte(byte: u8) -> bool {
    byte == b'\t' || (byte >= b' ' && byte != 0x7f)
}

/// The headers that decide about the message's target and end.
#[derive(Default)]
struct FramingHeaders {
    has_host: bool,
    length: Option<u64>,
    is_chunked: bool,
}

impl FramingHeaders {
    /// Takes one header. Each of these headers may come once (RFC 9112, sections 3.2, 6.1 and 6.3).
    fn take_header(&mut self, name: &[u8], value: &[u8]) -> Result<(), Refusal> {
        if name.eq_ignore_ascii_case(b"host") {
            if self.has_host || !is_host(value) {
                return Err(Refusal::Host);
            }
            self.has_host = true;
        } else if name.eq_ignore_ascii_case(b"content-length") {
            if self.length.is_some() {
                return Err(Refusal::ContentLength);
            }
            self.length = Some(parse_length(value).ok_or(Refusal::ContentLength)?);
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            if self.is_chunked || !value.eq_ignore_ascii_case(b"chunked") {
                return Err(Refusal::TransferEncoding);
            }
            self.is_chunked = true;
        }
        Ok(())
    }

    fn body_framing(&self, version: HttpVersion) -> Result<BodyFraming, Refusal> {
        match (self.is_chunked, self.length, version) {
            (_, _, HttpVersion::Http11) if !self.has_host => Err(Refusal::Host),
            (true, Some(_), _) | (true, _, HttpVersion::Http10) => Err(Refusal::TransferEncoding),
            (true, None, HttpVersion::Http11) => Ok(BodyFraming::Chunked),
            (false, length, _) => Ok(BodyFraming::Length(length.unwrap_or(0))),
        }
    }
}

/// Accepts a host with or without a port, or nothing (RFC 9110, section 7.2).
fn is_host(value: &[u8]) -> bool {
    value.is_empty() || (!value.contains(&b'@') && Authority::try_from(value).is_ok())
}

fn parse_length(value: &[u8]) -> Option<u64> {
    if !value.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let length = std::str::from_utf8(value).ok()?.parse().ok()?;
    (length <= BODY_LENGTH_MAX).then_some(length)
}

#[cfg(test)]
mod tests;
