//! Good heads and bad ones, by the rule that tells them apart.

use super::*;
use rstest::rstest;

fn checked(head: &str) -> Result<BodyFraming, Refusal> {
    let bytes = head.as_bytes();
    let extent = HeadScan::default().scan_bytes(bytes)?.expect("a whole head");
    assert_eq!(extent.end, bytes.len());
    check(&bytes[extent.start..extent.end])
}

fn with(header: &str) -> Result<BodyFraming, Refusal> {
    checked(&format!("POST /a HTTP/1.1\r\nHost: a\r\n{header}\r\n\r\n"))
}

fn line(line: &str) -> Result<BodyFraming, Refusal> {
    checked(&format!("{line}\r\nHost: a\r\n\r\n"))
}

#[rstest]
#[case("GET / HTTP/1.1\r\nHost: a\r\n\r\n", BodyFraming::Length(0))]
#[case("\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", BodyFraming::Length(0))]
#[case("GET / HTTP/1.0\r\n\r\n", BodyFraming::Length(0))]
#[case("GET / HTTP/1.1\r\nhOST:\r\n\r\n", BodyFraming::Length(0))]
#[case("GET / HTTP/1.1\r\nHost:\t [2001:db8::1]:8080 \r\nX:\r\n\r\n", BodyFraming::Length(0))]
#[case("POST / HTTP/1.0\r\nContent-Length: 007\r\n\r\n", BodyFraming::Length(7))]
#[case("POST / HTTP/1.1\r\nHost: a\r\ntransfer-encoding: Chunked\r\n\r\n", BodyFraming::Chunked)]
#[case("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", BodyFraming::Length(0))]
#[case("GET https://a.example:1/b?c HTTP/1.1\r\nHost: z\r\n\r\n", BodyFraming::Length(0))]
#[case("M-X!~ /a%20b?c=d HTTP/1.1\r\nHost: a\r\nX: \u{e9}\t\r\n\r\n", BodyFraming::Length(0))]
fn a21_a_good_head_tells_its_body(#[case] head: &str, #[case] body: BodyFraming) {
    assert_eq!(checked(head), Ok(body));
}

#[rstest]
#[case("GET / HTTP/1.1\nHost: a\r\n")]
#[case("GET / HTTP/1.1\r\nHost: a\n")]
#[case("\nGET / HTTP/1.1\r\n")]
fn a21_a_bare_line_feed_is_refused(#[case] part: &str) {
    assert_eq!(HeadScan::default().scan_bytes(part.as_bytes()), Err(Refusal::LineEnd));
}

#[rstest]
#[case("GET /")]
#[case("GET / HTTP/1.1 ")]
#[case(" GET / HTTP/1.1")]
#[case("GET  / HTTP/1.1")]
#[case("GET / / HTTP/1.1")]
#[case("GET\t/ HTTP/1.1")]
#[case("GET / HTTP/1.2")]
#[case("GET / HTTP/2.0")]
#[case("GET / http/1.1")]
#[case("GET / HTTP/11")]
#[case("GET /a\0 HTTP/1.1")]
#[case("GET /a\rb HTTP/1.1")]
#[case("GET /\u{e9} HTTP/1.1")]
#[case("G(T / HTTP/1.1")]
#[case("PRI * HTTP/2.0")]
fn a21_a_request_line_has_three_parts(#[case] request_line: &str) {
    assert_eq!(line(request_line), Err(Refusal::RequestLine));
}

#[rstest]
#[case("GET a HTTP/1.1")]
#[case("GET * HTTP/1.1")]
#[case("GET /a#b HTTP/1.1")]
#[case("CONNECT a:443 HTTP/1.1")]
#[case("CONNECT /a HTTP/1.1")]
#[case("GET a:443 HTTP/1.1")]
#[case("GET ftp://a/b HTTP/1.1")]
#[case("GET http:///b HTTP/1.1")]
#[case("GET http://[ HTTP/1.1")]
fn a21_a_target_is_path_or_absolute(#[case] request_line: &str) {
    assert_eq!(line(request_line), Err(Refusal::Target));
}

#[rstest]
#[case::fold("X: a\r\n b", Refusal::Fold)]
#[case::fold_by_tab("X: a\r\n\tb", Refusal::Fold)]
#[case::space_before_colon("Content-Length : 1", Refusal::Header)]
#[case::no_colon("X", Refusal::Header)]
#[case::no_name(": x", Refusal::Header)]
#[case::odd_name("X(: a", Refusal::Header)]
#[case::nul("X: a\0b", Refusal::Header)]
#[case::carriage_return("X: a\rb", Refusal::Header)]
#[case::delete("X: a\u{7f}", Refusal::Header)]
#[case::two_hosts("Host: a", Refusal::Host)]
#[case::two_lengths("Content-Length: 1\r\ncontent-length: 1", Refusal::ContentLength)]
#[case::sign("Content-Length: +1", Refusal::ContentLength)]
#[case::minus("Content-Length: -1", Refusal::ContentLength)]
#[case::list("Content-Length: 1, 1", Refusal::ContentLength)]
#[case::hex("Content-Length: 0x1", Refusal::ContentLength)]
#[case::empty("Content-Length:", Refusal::ContentLength)]
#[case::beyond("Content-Length: 9223372036854775808", Refusal::ContentLength)]
#[case::both("Transfer-Encoding: chunked\r\nContent-Length: 1", Refusal::TransferEncoding)]
#[case::both_turned("Content-Length: 1\r\nTransfer-Encoding: chunked", Refusal::TransferEncoding)]
#[case::other("Transfer-Encoding: gzip", Refusal::TransferEncoding)]
#[case::two("Transfer-Encoding: gzip, chunked", Refusal::TransferEncoding)]
#[case::identity("Transfer-Encoding: identity", Refusal::TransferEncoding)]
#[case::vertical_tab("Transfer-Encoding: \u{b}chunked", Refusal::Header)]
#[case::twice(
    "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
    Refusal::TransferEncoding
)]
fn a21_a_bad_header_is_refused(#[case] header: &str, #[case] refusal: Refusal) {
    assert_eq!(with(header), Err(refusal));
}

#[rstest]
#[case("GET / HTTP/1.1\r\n\r\n", Refusal::Host)]
#[case("GET / HTTP/1.1\r\nHost: a b\r\n\r\n", Refusal::Host)]
#[case("GET / HTTP/1.1\r\nHost: a@b\r\n\r\n", Refusal::Host)]
#[case("GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", Refusal::Host)]
#[case("GET / HTTP/1.0\r\nHost: a\r\nHost: a\r\n\r\n", Refusal::Host)]
#[case("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", Refusal::TransferEncoding)]
fn a21_host_and_version_must_fit(#[case] head: &str, #[case] refusal: Refusal) {
    assert_eq!(checked(head), Err(refusal));
}

/// A head of so many bytes in all.
fn of_bytes(bytes: usize) -> Vec<u8> {
    let (before, after) = ("GET / HTTP/1.1\r\nHost: a\r\nX: ", "\r\n\r\n");
    format!("{before}{}{after}", "x".repeat(bytes - before.len() - after.len())).into_bytes()
}

#[test]
fn a22_a_head_ends_at_16_kib() {
    let most = HeadExtent { start: 0, end: HEAD_BYTES_MAX };
    assert_eq!(HeadScan::default().scan_bytes(&of_bytes(HEAD_BYTES_MAX)), Ok(Some(most)));
    let more = of_bytes(HEAD_BYTES_MAX + 1);
    assert_eq!(HeadScan::default().scan_bytes(&more), Err(Refusal::HeadTooLarge));
    assert_eq!(HeadScan::default().scan_bytes(&more[..HEAD_BYTES_MAX]), Err(Refusal::HeadTooLarge));
    assert_eq!(HeadScan::default().scan_bytes(&more[..HEAD_BYTES_MAX - 1]), Ok(None));
    let empty_lines = "\r\n".repeat(HEAD_BYTES_MAX / 2);
    assert_eq!(HeadScan::default().scan_bytes(empty_lines.as_bytes()), Err(Refusal::HeadTooLarge));
}

#[test]
fn a22_heads_have_100_lines_at_most() {
    let most =
        format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "a:b\r\n".repeat(HEADER_LINES_MAX - 1));
    assert_eq!(checked(&most), Ok(BodyFraming::Length(0)));
    let more = format!("GET / HTTP/1.1\r\n{}", "a:b\r\n".repeat(HEADER_LINES_MAX + 1));
    assert_eq!(HeadScan::default().scan_bytes(more.as_bytes()), Err(Refusal::TooManyLines));
}

#[test]
fn bytes_after_a_head_are_not_read() {
    let head = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    let mut bytes = head.to_vec();
    bytes.extend_from_slice(&[b'\n'; HEAD_BYTES_MAX]);
    let extent = HeadScan::default().scan_bytes(&bytes).unwrap().unwrap();
    assert_eq!(extent, HeadExtent { start: 0, end: head.len() });
}

#[test]
fn a_cut_head_has_the_same_end() {
    let head = b"\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\nPOST";
    let whole = HeadScan::default().scan_bytes(head).unwrap();
    assert_eq!(whole, Some(HeadExtent { start: 2, end: head.len() - 4 }));
    for cut in 0..head.len() - 4 {
        let mut scan = HeadScan::default();
        assert_eq!(scan.scan_bytes(&head[..cut]), Ok(None));
        assert_eq!(scan.scan_bytes(head).unwrap(), whole);
    }
}
