//! Reads a mail as its recipient's program does: RFC 5322, 2045 to 2047. The reader
//! takes nothing that these RFCs do not allow.

use std::ops::Range;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// A mail that was read.
#[derive(Debug)]
pub(crate) struct Message {
    headers: Vec<(String, String)>,
    /// The part in plain text.
    pub(crate) text: String,
    /// The part in HTML.
    pub(crate) html: String,
}

impl Message {
    /// Every line is ASCII, ends in CRLF, and is no longer than RFC 5322, section 2.1.1, allows.
    pub(crate) fn read(bytes: &[u8]) -> Self {
        let mail = str::from_utf8(bytes).unwrap();
        assert!(mail.is_ascii() && mail.ends_with("\r\n"));
        for line in mail.trim_end_matches("\r\n").split("\r\n") {
            assert!(line.len() <= 998 && !line.contains(['\r', '\n', '\0']), "{line:?}");
        }
        let (head, body) = mail.split_once("\r\n\r\n").unwrap();
        let headers = headers(head);
        let content_type = &headers.iter().find(|(name, _)| name == "Content-Type").unwrap().1;
        let boundary = content_type
            .strip_prefix("multipart/alternative; boundary=\"")
            .and_then(|rest| rest.strip_suffix('"'))
            .unwrap();
        let opening = format!("--{boundary}\r\n");
        let inner = body.strip_suffix(&format!("\r\n--{boundary}--\r\n")).unwrap();
        let inner = inner.strip_prefix(&opening).unwrap();
        let parts: Vec<_> = inner.split(&format!("\r\n{opening}")).collect();
        let [text, html] = parts[..] else { panic!("{} parts", parts.len()) };
        Self { headers, text: part(text, "text/plain"), html: part(html, "text/html") }
    }

    /// The names of its headers, in order.
    pub(crate) fn names(&self) -> Vec<&str> {
        self.headers.iter().map(|(name, _)| name.as_str()).collect()
    }

    /// The value of a header.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
    }
}

fn headers(head: &str) -> Vec<(String, String)> {
    let unfolded = head.replace("\r\n ", " ");
    let header = |line: &str| {
        let (name, value) = line.split_once(": ").unwrap();
        assert!(name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-'), "{name}");
        (name.to_owned(), decoded(value))
    };
    unfolded.split("\r\n").map(header).collect()
}

/// RFC 2047, section 6: the space between two encoded words is nothing.
fn decoded(value: &str) -> String {
    let mut text = String::new();
    let mut after_encoded = true;
    for word in value.split(' ') {
        let inner = word.strip_prefix("=?utf-8?B?").and_then(|word| word.strip_suffix("?="));
        if !(text.is_empty() || inner.is_some() && after_encoded) {
            text.push(' ');
        }
        after_encoded = inner.is_some();
        match inner {
            Some(inner) => {
                assert!(word.len() <= 75, "{word}");
                text.push_str(&String::from_utf8(STANDARD.decode(inner).unwrap()).unwrap());
            }
            None => text.push_str(word),
        }
    }
    text
}

fn part(text: &str, content_type: &str) -> String {
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    assert_eq!(
        head,
        format!(
            "Content-Type: {content_type}; charset=utf-8\r\n\
             Content-Transfer-Encoding: quoted-printable"
        )
    );
    unquoted(body)
}

/// RFC 2045, section 6.7.
fn unquoted(body: &str) -> String {
    let mut bytes = Vec::new();
    for line in body.split("\r\n") {
        assert!(line.len() <= 76 && !line.ends_with([' ', '\t']), "{line:?}");
        let (line, end) = line.strip_suffix('=').map_or((line, "\n"), |line| (line, ""));
        let mut pieces = line.split('=');
        bytes.extend(pieces.next().unwrap_or_default().bytes());
        for piece in pieces {
            let digits = |at: Range<usize>| piece.get(at).unwrap();
            bytes.push(u8::from_str_radix(digits(0..2), 16).unwrap());
            bytes.extend(digits(2..piece.len()).bytes());
        }
        bytes.extend(end.bytes());
    }
    let text = String::from_utf8(bytes).unwrap();
    text.strip_suffix('\n').unwrap_or(&text).to_owned()
}
