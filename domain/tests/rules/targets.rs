//! Which texts are targets (rulings 15, 19 and 20, cases C1–C11, C17).

use domain::subscription::{
    AllowedTargets, Target, TargetHost, TargetRefusal, shown_target, shown_with_path,
};
use proptest::prelude::*;
use rstest::rstest;

fn parse(text: &str) -> Result<Target, TargetRefusal> {
    Target::parse(text, &AllowedTargets::default())
}

fn target(text: &str) -> Target {
    parse(text).unwrap()
}

fn refusal(text: &str) -> TargetRefusal {
    parse(text).unwrap_err()
}

fn loopback() -> AllowedTargets {
    AllowedTargets::new(vec!["127.0.0.0/8".parse().unwrap()]).with_http()
}

fn join(location: &str) -> Result<Target, TargetRefusal> {
    target("https://a.example/x/y?q").join(location.as_bytes(), &AllowedTargets::default())
}

#[rstest]
fn c1_a_target_is_https_written_out(
    #[values(
        "",
        "h",
        "http://a.example/",
        "ftp://a.example/",
        "file:///etc/passwd",
        "javascript:alert(1)",
        "//a.example/",
        "https:a.example",
        "https:/a.example",
        "wss://a.example/",
        "HTTPS://a.example/"
    )]
    text: &str,
) {
    assert_eq!(refusal(text), TargetRefusal::NotHttps);
}

/// The URL parser would repair these texts.
#[rstest]
#[case("https:////a.example", TargetRefusal::NoHost)]
#[case("https:///a.example", TargetRefusal::NoHost)]
#[case("https://", TargetRefusal::NoHost)]
#[case("https://?a", TargetRefusal::NoHost)]
#[case("https://#a", TargetRefusal::NoHost)]
#[case("https://:443/", TargetRefusal::NotAUrl)]
#[case(r"https:\\a.example", TargetRefusal::ForbiddenCharacter)]
fn c1_a_repaired_url_is_refused(#[case] text: &str, #[case] why: TargetRefusal) {
    assert_eq!(refusal(text), why);
}

/// The characters count as sent.
#[test]
fn c2_2_000_characters_are_the_most() {
    let of = |chars: usize, fill: &str| {
        let start = "https://a.example/";
        format!("{start}{}", fill.repeat(chars - start.len()))
    };
    assert_eq!(target(&of(2_000, "a")).as_str().len(), 2_000);
    assert_eq!(refusal(&of(2_001, "a")), TargetRefusal::TooLong);
    assert!(parse(&of(2_000, "é")).is_ok());
    assert_eq!(refusal(&of(2_001, "é")), TargetRefusal::TooLong);
}

#[rstest]
#[case("https://u:p@a.example/", TargetRefusal::UserInfo)]
#[case("https://u@a.example/", TargetRefusal::UserInfo)]
#[case("https://@a.example/", TargetRefusal::UserInfo)]
#[case("https://:@a.example/", TargetRefusal::UserInfo)]
#[case("https://a.example@1.1.1.1", TargetRefusal::UserInfo)]
#[case("https://1.1.1.1 &@2.2.2.2# @3.3.3.3/", TargetRefusal::ForbiddenCharacter)]
#[case(r"https://good\@127.0.0.1/", TargetRefusal::ForbiddenCharacter)]
#[case("https://good%40127.0.0.1/", TargetRefusal::NotAUrl)]
fn c3_user_info_is_refused(#[case] text: &str, #[case] why: TargetRefusal) {
    assert_eq!(refusal(text), why);
}

/// An at sign in path or query is no user info.
#[test]
fn c3_a_later_at_sign_is_accepted() {
    assert_eq!(target("https://a.example/@me?x=@#@").host(), name("a.example"));
}

#[rstest]
fn c4_space_control_and_backslash_are_refused(
    #[values(
        " https://a.example/",
        "https://a.example/ ",
        "ht\ntps://exa\tmple.com",
        "https://a.example/a b",
        "https://a.example/\r\nX: y",
        "https://a.example/\0",
        "https://a.example/\u{7f}",
        "https://a.example/\u{85}",
        "https://a.example/\u{2028}",
        "https://a.example/\u{3000}",
        r"https://a.example/a\b",
        r"https://a.example/?a\b",
        "\u{1b}https://a.example/"
    )]
    text: &str,
) {
    assert_eq!(refusal(text), TargetRefusal::ForbiddenCharacter);
}

#[test]
fn c4_control_bytes_are_refused_anywhere() {
    let text = "https://a.example/p?q#f";
    for byte in (0..=0x20).chain([0x7f]) {
        for place in 0..=text.len() {
            let mut with = text.to_owned();
            with.insert(place, char::from(byte));
            assert_eq!(refusal(&with), TargetRefusal::ForbiddenCharacter, "{with:?}");
        }
    }
}

#[rstest]
fn c5_private_ipv4_is_refused_however_written(
    #[values(
        "2130706433",
        "0x7f.1",
        "0x7f000001",
        "0X7F000001",
        "0177.0.0.1",
        "127.1",
        "0",
        "0x",
        "127.0.0.1.",
        "%31%32%37.0.0.1",
        "①②⑦.⓪.⓪.①",
        "127。0。0。1",
        "0300.0250.0.1",
        "10.0.0.1",
        "172.31.255.255",
        "192.168.1.1:8443",
        "169.254.169.254",
        "100.100.100.200",
        "192.0.0.192",
        "168.63.129.16"
    )]
    host: &str,
) {
    let why = refusal(&format!("https://{host}/"));
    assert!(matches!(why, TargetRefusal::PrivateAddress(ip) if ip.is_ipv4()), "{why:?}");
}

#[rstest]
fn c6_private_ipv6_is_refused_however_written(
    #[values(
        "::",
        "::1",
        "::ffff:127.0.0.1",
        "::ffff:1.1.1.1",
        "::127.0.0.1",
        "::ffff:0:7f00:1",
        "::5efe:7f00:1",
        "64:ff9b::7f00:1",
        "64:ff9b:1::1",
        "2002:7f00:1::",
        "2001::1",
        "100::1",
        "2001:db8::1",
        "3fff::1",
        "5f00::1",
        "fc00::1",
        "fd00:ec2::254",
        "fe80::1",
        "fec0::1",
        "ff02::1"
    )]
    host: &str,
) {
    let why = refusal(&format!("https://[{host}]/"));
    assert!(matches!(why, TargetRefusal::PrivateAddress(ip) if ip.is_ipv6()), "{why:?}");
}

#[rstest]
fn c6_a_malformed_address_is_no_url(
    #[values("[fe80::1%25eth0]", "[127.0.0.1]", "1.2.3.4.5", "256.1.1.1", "a.example.0x1", "[::1")]
    host: &str,
) {
    assert_eq!(refusal(&format!("https://{host}/")), TargetRefusal::NotAUrl);
}

#[rstest]
fn c9_private_names_are_refused(
    #[values(
        "localhost",
        "LOCALHOST",
        "localhost.",
        "x.localhost",
        "printer.local",
        "a.b.internal",
        "metadata.google.internal.",
        "home.arpa",
        "x.home.arpa",
        "x.onion",
        "intranet",
        "com.",
        "%6cocalhost",
        "ⓛocalhost"
    )]
    host: &str,
) {
    assert_eq!(refusal(&format!("https://{host}/")), TargetRefusal::PrivateName);
}

#[rstest]
fn c9_impossible_dns_names_are_refused(
    #[values(
        "example..com",
        ".example.com",
        "example.com..",
        ".",
        "a*b.example.com",
        "a,b.example"
    )]
    host: &str,
) {
    assert_eq!(refusal(&format!("https://{host}/")), TargetRefusal::NotAUrl);
}

#[test]
fn c9_labels_and_names_have_limits() {
    let label = "a".repeat(63);
    assert!(parse(&format!("https://{label}.example/")).is_ok());
    assert_eq!(refusal(&format!("https://{label}a.example/")), TargetRefusal::NotAUrl);
    let four = [label.as_str(); 4].join(".");
    assert_eq!(refusal(&format!("https://{four}/")), TargetRefusal::NotAUrl);
}

/// The text stays as sent.
#[test]
fn c9_a_hosts_trailing_dot_is_removed() {
    let target = target("https://Example.COM./hook");
    assert_eq!(target.as_str(), "https://Example.COM./hook");
    assert_eq!(target.url().as_str(), "https://example.com/hook");
    assert_eq!(target.host(), name("example.com"));
}

#[test]
fn c9_names_resembling_private_are_accepted() {
    for host in ["mylocalhost.com", "local.example", "internal.example.com", "notlocal.xonion"] {
        assert!(parse(&format!("https://{host}/")).is_ok(), "{host}");
    }
}

#[rstest]
#[case("https://1.1.1.1/", "1.1.1.1")]
#[case("https://134744072/", "8.8.8.8")]
#[case("https://[2606:4700:4700::1111]/", "2606:4700:4700::1111")]
fn c9_public_literals_are_accepted(#[case] text: &str, #[case] ip: &str) {
    assert_eq!(target(text).host(), TargetHost::Ip(ip.parse().unwrap()));
}

#[rstest]
#[case("https://a.example", 443)]
#[case("https://a.example:443/", 443)]
#[case("https://a.example:8443/", 8443)]
#[case("https://[2606:4700:4700::1111]:65535/", 65535)]
fn c10_the_port_defaults_to_443(#[case] text: &str, #[case] port: u16) {
    assert_eq!(target(text).port(), port);
}

#[rstest]
fn c10_other_protocols_ports_are_refused(
    #[values(
        0, 1, 19, 20, 21, 22, 23, 25, 53, 69, 79, 110, 111, 119, 123, 135, 139, 143, 161, 179, 389,
        465, 514, 587, 636, 989, 990, 993, 995, 1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060,
        5061, 6000, 6566, 6665, 6669, 6679, 6697, 10080
    )]
    port: u16,
) {
    assert_eq!(refusal(&format!("https://a.example:{port}/")), TargetRefusal::BadPort(port));
}

#[test]
fn c10_an_impossible_port_is_no_url() {
    assert_eq!(refusal("https://a.example:65536/"), TargetRefusal::NotAUrl);
    assert_eq!(refusal("https://a.example:-1/"), TargetRefusal::NotAUrl);
}

#[test]
fn c11_a_fragment_is_echoed_not_sent() {
    let target = target("https://a.example/p?q#frag");
    assert_eq!(target.as_str(), "https://a.example/p?q#frag");
    assert_eq!(target.url().as_str(), "https://a.example/p?q");
    assert_eq!(shown_target(target.as_str()), "https://a.example/…");
    assert_eq!(shown_with_path(target.as_str()), "https://a.example/p?…");
}

#[test]
fn c11_encoded_line_breaks_stay_encoded() {
    assert_eq!(target("https://a.example/%0d%0aX").url().path(), "/%0d%0aX");
}

#[test]
fn c11_look_alikes_are_shown_as_punycode() {
    let target = target("https://аpple.com/h");
    assert_eq!(target.as_str(), "https://аpple.com/h");
    assert_eq!(target.host(), name("xn--pple-43d.com"));
    assert_eq!(shown_target(target.as_str()), "https://xn--pple-43d.com/…");
    assert_eq!(target.origin(), "https://xn--pple-43d.com");
}

#[rstest]
#[case("z", "https://a.example/x/z")]
#[case("/z?1", "https://a.example/z?1")]
#[case("?2", "https://a.example/x/y?2")]
#[case("//b.example/z", "https://b.example/z")]
#[case(r"\\b.example", "https://b.example/")]
#[case("https://b.example:8443/z#f", "https://b.example:8443/z")]
#[case("HTTPS://B.example./z", "https://b.example/z")]
#[case("", "https://a.example/x/y?q")]
fn c17_a_location_is_joined(#[case] location: &str, #[case] leads_to: &str) {
    assert_eq!(join(location).unwrap().url().as_str(), leads_to);
}

#[rstest]
#[case("//h/", TargetRefusal::PrivateName)]
#[case(r"\\h", TargetRefusal::PrivateName)]
#[case("file:///etc/passwd", TargetRefusal::NotHttps)]
#[case("http://a.example/", TargetRefusal::NotHttps)]
#[case("data:,x", TargetRefusal::NotHttps)]
#[case("https://u:p@b.example/", TargetRefusal::UserInfo)]
#[case("https://@b.example/", TargetRefusal::UserInfo)]
#[case("//@b.example/", TargetRefusal::UserInfo)]
#[case(r"\\@b.example/", TargetRefusal::UserInfo)]
#[case("/a\r\nX: y", TargetRefusal::ForbiddenCharacter)]
#[case("/a b", TargetRefusal::ForbiddenCharacter)]
#[case("/é", TargetRefusal::ForbiddenCharacter)]
#[case("https://127.0.0.1/", TargetRefusal::PrivateAddress([127, 0, 0, 1].into()))]
#[case("https://2130706433/", TargetRefusal::PrivateAddress([127, 0, 0, 1].into()))]
#[case("//b.example:22/", TargetRefusal::BadPort(22))]
#[case("https://[::1", TargetRefusal::NotAUrl)]
fn c17_a_forbidden_location_is_refused(#[case] location: &str, #[case] why: TargetRefusal) {
    assert_eq!(join(location).unwrap_err(), why);
}

#[test]
fn c17_a_location_has_a_greatest_length() {
    assert_eq!(join(&"a".repeat(5_000)).unwrap_err(), TargetRefusal::TooLong);
    assert_eq!(join(&"a".repeat(1_999)).unwrap_err(), TargetRefusal::TooLong);
    let base = target("https://a.example/");
    assert_eq!(
        base.join(b"/\xff\xfe", &AllowedTargets::default()),
        Err(TargetRefusal::ForbiddenCharacter)
    );
}

#[test]
fn c19_an_origin_is_scheme_host_port() {
    let allowed = loopback();
    let of = |text: &str| Target::parse(text, &allowed).unwrap();
    let base = of("https://a.example/x");
    assert!(!base.origin_differs(&of("https://A.example.:443/y?z")));
    assert!(base.origin_differs(&of("http://a.example:443/x")));
    assert!(base.origin_differs(&of("https://a.example:8443/x")));
    assert!(base.origin_differs(&of("https://b.a.example/x")));
}

#[test]
fn ruling_20_opens_only_the_named_ranges() {
    let allowed = loopback();
    for text in ["http://localhost:3000/", "https://x.localhost/", "http://127.0.0.1:9/x"] {
        let refused = Target::parse(text, &allowed).err();
        assert_eq!(refused, text.contains(":9/").then_some(TargetRefusal::BadPort(9)), "{text}");
    }
    for text in ["https://10.0.0.1/", "https://intranet/", "https://x.local/", "https://[::1]/"] {
        assert!(Target::parse(text, &allowed).is_err(), "{text}");
    }
    let no_http = AllowedTargets::new(vec!["::1/128".parse().unwrap()]);
    assert!(Target::parse("https://localhost/", &no_http).is_ok());
    assert_eq!(Target::parse("http://localhost/", &no_http), Err(TargetRefusal::NotHttps));
}

/// The port is shown.
#[test]
fn a_shown_target_hides_path_and_query() {
    assert_eq!(shown_target("https://1.1.1.1:8443/p?k=s"), "https://1.1.1.1:8443/…");
    assert_eq!(shown_target("https://a.example"), "https://a.example/…");
    assert_eq!(
        shown_target("https://[2606:4700:4700:0::1111]/?"),
        "https://[2606:4700:4700::1111]/…"
    );
    assert_eq!(shown_target("not a url"), "?");
}

/// Entries of the audit log from before ruling 44 are hashed with these texts.
#[test]
fn an_older_entry_shows_the_targets_path() {
    assert_eq!(shown_with_path("https://1.1.1.1:8443/p?k=s"), "https://1.1.1.1:8443/p?…");
    assert_eq!(shown_with_path("https://a.example"), "https://a.example/");
    assert_eq!(
        shown_with_path("https://[2606:4700:4700:0::1111]/?"),
        "https://[2606:4700:4700::1111]/?…"
    );
}

fn name(host: &str) -> TargetHost {
    TargetHost::Name(host.to_owned())
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 5_000, failure_persistence: None, ..ProptestConfig::default()
    })]

    #[test]
    fn every_accepted_text_is_public_https(text in "(https://)?[\\PC\\x00-\\x20]{0,60}") {
        if let Ok(target) = parse(&text) {
            assert_public(&target);
            prop_assert_eq!(target.as_str(), text);
        }
    }

    #[test]
    fn every_accepted_location_is_public_https(
        location in proptest::collection::vec(any::<u8>(), 0..60),
    ) {
        let base = target("https://a.example/x");
        if let Ok(target) = base.join(&location, &AllowedTargets::default()) {
            assert_public(&target);
        }
    }

    #[test]
    fn a_decimal_host_counts_as_its_address(bits: u32) {
        let ip = std::net::Ipv4Addr::from_bits(bits);
        let expected = domain::subscription::is_public_address(ip.into());
        prop_assert_eq!(parse(&format!("https://{bits}/")).is_ok(), expected);
        prop_assert_eq!(parse(&format!("https://{ip}/")).is_ok(), expected);
    }
}

/// Asserts that an accepted target is public, by the URL parser alone.
fn assert_public(target: &Target) {
    let url = target.url();
    assert_eq!(url.scheme(), "https");
    assert_eq!((url.username(), url.password(), url.fragment()), ("", None, None));
    match target.host() {
        TargetHost::Ip(ip) => assert!(domain::subscription::is_public_address(ip)),
        TargetHost::Name(name) => {
            assert!(name.contains('.') && !name.ends_with('.') && name.is_ascii());
        }
    }
}
