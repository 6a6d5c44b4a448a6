use super::*;
use rstest::rstest;

fn read(text: &str) -> SmtpUrl {
    text.parse().unwrap()
}

#[rstest]
#[case("smtp://mail.example.com", "mail.example.com", 587, SmtpEncryption::StartTls)]
#[case("smtp://mail.example.com:25/", "mail.example.com", 25, SmtpEncryption::StartTls)]
#[case("smtps://Mail.Example.com", "mail.example.com", 465, SmtpEncryption::Implicit)]
#[case("smtps://[2001:db8::1]:1465", "2001:db8::1", 1465, SmtpEncryption::Implicit)]
#[case("smtp://localhost:1025?tls=none", "localhost", 1025, SmtpEncryption::None)]
#[case("smtp://127.0.0.2:1025?tls=none", "127.0.0.2", 1025, SmtpEncryption::None)]
#[case("smtp://[::1]?tls=none", "::1", 587, SmtpEncryption::None)]
fn a_url_names_a_server(
    #[case] text: &str,
    #[case] host: &str,
    #[case] port: u16,
    #[case] encryption: SmtpEncryption,
) {
    let url = read(text);
    assert_eq!((url.host.as_str(), url.port, url.encryption), (host, port, encryption));
    assert!(url.login.is_none());
}

#[rstest]
#[case("smtp://a:b@h.example", "a", "b")]
#[case("smtp://a%40b.example:p%3Aw%25%2F%C3%A9@h.example", "a@b.example", "p:w%/é")]
#[case("smtp://a:+=&@h.example", "a", "+=&")]
#[case("smtp://a:b:c@h.example", "a", "b:c")]
fn a_url_can_hold_a_login(#[case] text: &str, #[case] user: &str, #[case] password: &str) {
    let login = read(text).login.unwrap();
    assert_eq!((login.user.as_str(), login.password.as_str()), (user, password));
}

#[rstest]
#[case("mail.example.com", NotAnSmtpUrl::Malformed)]
#[case("smtp://h.example:99999", NotAnSmtpUrl::Malformed)]
#[case("https://h.example", NotAnSmtpUrl::Scheme)]
#[case("localhost:25", NotAnSmtpUrl::Scheme)]
#[case("smtp:h.example", NotAnSmtpUrl::Host)]
#[case("smtp:///", NotAnSmtpUrl::Host)]
#[case("smtp://a@h.example", NotAnSmtpUrl::Login)]
#[case("smtp://:b@h.example", NotAnSmtpUrl::Login)]
#[case("smtp://a:b%zz@h.example", NotAnSmtpUrl::Login)]
#[case("smtp://a:b%+1@h.example", NotAnSmtpUrl::Login)]
#[case("smtp://a:b%4@h.example", NotAnSmtpUrl::Login)]
#[case("smtp://a:b%ff@h.example", NotAnSmtpUrl::Login)]
#[case("smtp://a:b%00c@h.example", NotAnSmtpUrl::Login)]
#[case("smtp://h.example/us", NotAnSmtpUrl::Parameter)]
#[case("smtp://h.example#us", NotAnSmtpUrl::Parameter)]
#[case("smtp://h.example?tls=opportunistic", NotAnSmtpUrl::Parameter)]
#[case("smtp://h.example?TLS=none", NotAnSmtpUrl::Parameter)]
#[case("smtps://localhost?tls=none", NotAnSmtpUrl::Parameter)]
#[case("smtp://h.example?ehlo=a%0d%0ab", NotAnSmtpUrl::Parameter)]
#[case("smtp://h.example?tls=none", NotAnSmtpUrl::Bare)]
#[case("smtp://10.0.0.1?tls=none", NotAnSmtpUrl::Bare)]
#[case("smtp://localhost.example?tls=none", NotAnSmtpUrl::Bare)]
fn other_urls_are_refused(#[case] text: &str, #[case] why: NotAnSmtpUrl) {
    assert_eq!(text.parse::<SmtpUrl>(), Err(why));
}

/// The refusal of a URL does not show the password either.
#[test]
fn b15_no_url_shows_its_password() {
    let url = read("smtp://firm:secret-word@h.example");
    assert!(!format!("{url:?}").contains("secret-word"));
    let refused = "smtp://firm:secret-word@h.example?x".parse::<SmtpUrl>().unwrap_err();
    assert!(!format!("{refused:?} {refused}").contains("secret-word"));
}
