//! The verdict on an answer, and the text that is kept of the answer (cases D1, D5, D6 and C20).

use domain::access::ApiKey;
use domain::delivery::signature::WebhookSecret;
use domain::delivery::{
    ANSWER_KEPT_BYTES, AnswerVerdict, AttemptAnswer, NetworkError, RedirectFault, clean_answer,
};
use domain::subscription::TargetRefusal;
use proptest::prelude::*;
use rstest::rstest;

#[rstest]
fn d1_any_2xx_is_delivered(#[values(200, 201, 202, 204, 206, 299)] status: u16) {
    assert_eq!(AttemptAnswer::Status(status).verdict(), AnswerVerdict::Delivered);
}

#[rstest]
fn d1_other_statuses_are_protocol_errors(#[values(0, 100, 101, 199, 600, 666, 999)] status: u16) {
    let answer = AttemptAnswer::Status(status);
    assert_eq!((answer.verdict(), answer.code()), (AnswerVerdict::Retry, "protocol"));
}

#[rstest]
fn d6_passing_faults_are_retried(
    #[values(408, 425, 429, 500, 501, 502, 503, 504, 505, 599)] status: u16,
) {
    assert_eq!(AttemptAnswer::Status(status).verdict(), AnswerVerdict::Retry);
}

#[rstest]
fn d6_final_faults_are_not_retried(
    #[values(400, 401, 403, 404, 405, 409, 410, 413, 418, 422, 426, 428, 451, 499)] status: u16,
) {
    assert_eq!(AttemptAnswer::Status(status).verdict(), AnswerVerdict::Failed);
}

#[rstest]
fn c20_a_final_redirect_fails_at_once(#[values(300, 301, 304, 305, 308, 399)] status: u16) {
    assert_eq!(AttemptAnswer::Status(status).verdict(), AnswerVerdict::Failed);
}

/// Rulings 18 and 19 fix the verdicts and words.
#[rstest]
#[case(AttemptAnswer::Status(200), AnswerVerdict::Delivered, "status")]
#[case(AttemptAnswer::Status(503), AnswerVerdict::Retry, "status")]
#[case(NetworkError::Dns.into(), AnswerVerdict::Retry, "dns")]
#[case(NetworkError::TargetRefusedByDns.into(), AnswerVerdict::Retry, "target_refused")]
#[case(NetworkError::Connect.into(), AnswerVerdict::Retry, "connect")]
#[case(NetworkError::Tls.into(), AnswerVerdict::Retry, "tls")]
#[case(NetworkError::Timeout.into(), AnswerVerdict::Retry, "timeout")]
#[case(NetworkError::Protocol.into(), AnswerVerdict::Retry, "protocol")]
#[case(NetworkError::Reset.into(), AnswerVerdict::Retry, "reset")]
#[case(AttemptAnswer::Refused(TargetRefusal::PrivateName), AnswerVerdict::Failed, "target_refused")]
#[case(RedirectFault::MissingLocation.into(), AnswerVerdict::Failed, "redirect_invalid")]
#[case(RedirectFault::SeveralLocations.into(), AnswerVerdict::Failed, "redirect_invalid")]
#[case(
    RedirectFault::Refused(TargetRefusal::NotHttps).into(),
    AnswerVerdict::Failed,
    "redirect_invalid"
)]
#[case(RedirectFault::Loop.into(), AnswerVerdict::Failed, "redirect_loop")]
#[case(RedirectFault::TooMany.into(), AnswerVerdict::Failed, "too_many_redirects")]
#[case(AttemptAnswer::NeverSent, AnswerVerdict::Retry, "never_sent")]
#[case(AttemptAnswer::OutOfDescriptors, AnswerVerdict::Retry, "never_sent")]
fn each_kind_has_its_verdict_and_word(
    #[case] answer: AttemptAnswer,
    #[case] verdict: AnswerVerdict,
    #[case] code: &str,
) {
    assert_eq!((answer.verdict(), answer.code()), (verdict, code));
}

#[test]
fn only_a_status_answer_has_a_status() {
    assert_eq!(AttemptAnswer::Status(410).status(), Some(410));
    assert_eq!(AttemptAnswer::NetworkError(NetworkError::Timeout).status(), None);
}

fn secret() -> WebhookSecret {
    WebhookSecret::from_bytes([7; 32])
}

#[rstest]
#[case::plain(b"ok\n\tthanks", "ok\n\tthanks")]
#[case::html(b"<b>no</b>", "<b>no</b>")]
#[case::nul(b"a\0b", "a\u{fffd}b")]
#[case::ansi(b"\x1b[31mred\x1b]0;t\x07", "\u{fffd}[31mred\u{fffd}]0;t\u{fffd}")]
#[case::c1_escape("a\u{9b}31m\u{7f}".as_bytes(), "a\u{fffd}31m\u{fffd}")]
#[case::carriage_return(b"a\rb", "a\u{fffd}b")]
#[case::invalid_utf_8(b"a\xff\xc3\x28", "a\u{fffd}\u{fffd}(")]
#[case::empty(b"", "")]
fn d5_a_kept_answer_is_harmless_text(#[case] bytes: &[u8], #[case] kept: &str) {
    assert_eq!(clean_answer(bytes, &[]), kept);
}

#[test]
fn d5_texts_like_secrets_are_masked() {
    let (key, secret) = (ApiKey::from_bytes([9; 32]), secret());
    let echo = format!(
        "a{k}b {s},{s}{s}ffk_ ffk_short whsec_ ffk_",
        k = key.as_str(),
        s = secret.as_str()
    );
    assert_eq!(
        clean_answer(echo.as_bytes(), &[]),
        "a[masked] [masked],[masked] ffk_short whsec_ ffk_"
    );
}

#[test]
fn d5_a_prefix_inside_splits_no_secret() {
    let key = format!("ffk_{}ffk_{}", "a".repeat(10), "b".repeat(29));
    assert_eq!(clean_answer(format!("<{key}>").as_bytes(), &[]), "<[masked]>");
}

#[test]
fn d5_the_given_secrets_are_masked() {
    let echo = b"t=5,v1=abcdef Bearer xyz";
    assert_eq!(clean_answer(echo, &["abcdef", "", "Bearer xyz"]), "t=5,v1=[masked] [masked]");
}

#[test]
fn d5_masking_comes_before_cutting() {
    let text = format!("{}{}", "x".repeat(ANSWER_KEPT_BYTES - 20), secret().as_str());
    let kept = clean_answer(text.as_bytes(), &[]);
    assert!(kept.ends_with("x[masked]"), "{kept}");
}

/// The cut is at a character border.
#[test]
fn d5_answers_are_cut_to_one_kib() {
    assert_eq!(clean_answer(&[b'a'; 16_384], &[]).len(), ANSWER_KEPT_BYTES);
    assert_eq!(clean_answer("é".repeat(600).as_bytes(), &[]).len(), ANSWER_KEPT_BYTES);
    let kept = clean_answer("€".repeat(600).as_bytes(), &[]);
    assert_eq!((kept.len(), kept.chars().count()), (1_023, 341));
    assert_eq!(clean_answer(&[0; 16_384], &[]).chars().count(), 341);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn d5_any_bytes_are_kept_harmless(
        before in proptest::collection::vec(any::<u8>(), 0..2_000),
        after in proptest::collection::vec(any::<u8>(), 0..2_000),
    ) {
        let secret = secret();
        let bytes = [before.as_slice(), secret.as_str().as_bytes(), after.as_slice()].concat();
        let kept = clean_answer(&bytes, &[]);
        prop_assert!(kept.len() <= ANSWER_KEPT_BYTES);
        prop_assert!(!kept.contains(secret.as_str()));
        prop_assert!(kept.chars().all(|c| !c.is_control() || c == '\n' || c == '\t'));
    }
}
