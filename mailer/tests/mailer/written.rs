//! Whole mails, byte for byte, beside their files in `written/`. `UPDATE=1` writes the files anew.

use std::fs;
use std::path::Path;

use domain::notice::{Notice, NoticeAnswer, NoticeFacts, NoticeHook, NoticeKey, NoticeKind};
use domain::values::Lang;
use mailer::{InviteContent, Mail, NoticeContent, compose_invite, compose_notice};
use rstest::rstest;
use uuid::Uuid;

use crate::letters::Desk;
use crate::mime::Message;

fn is_as_written(name: &str, mail: &Mail) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/mailer/written")
        .join(name)
        .with_extension("eml");
    if std::env::var_os("UPDATE").is_some_and(|value| value == "1") {
        fs::write(&file, &mail.bytes).unwrap();
    }
    let expected = String::from_utf8(fs::read(&file).unwrap()).unwrap();
    assert_eq!(String::from_utf8(mail.bytes.clone()).unwrap(), expected, "{}", file.display());
}

#[rstest]
fn p15_equal_invites_have_equal_bytes(#[values(Lang::En, Lang::Fr, Lang::Es)] lang: Lang) {
    let desk = Desk::default();
    is_as_written(lang.code(), &compose_invite(&desk.invite(lang)));
    is_as_written(&format!("{}-bare", lang.code()), &compose_invite(&desk.bare(lang)));
}

/// A removal by 410, as its facts are told.
fn removal() -> Notice {
    let answer = |second: u32| NoticeAnswer {
        delivery_id: Uuid::from_u128(second.into()),
        status: Some(410),
        error: None,
        finished_at: format!("2026-11-01T12:00:{second:02}.000Z").parse().unwrap(),
    };
    let (first, second) = (answer(1), answer(2));
    Notice {
        firm_id: Uuid::from_u128(3),
        facts: NoticeFacts {
            kind: NoticeKind::Removed,
            subject_id: Uuid::from_u128(4),
            happened_at: second.finished_at,
            reason: Some("target_gone".to_owned()),
            failing_since: Some(first.finished_at),
            failures: 2,
            answers: vec![first, second],
        },
        hooks: vec![NoticeHook {
            hook_id: Uuid::from_u128(4),
            trigger: "form_submitted".to_owned(),
            target: "https://hooks.example.com/…".to_owned(),
        }],
        key: None,
        link: Some("https://app.example.com/integrations".to_owned()),
    }
}

fn content<'a>(desk: &'a Desk, notice: &'a Notice, lang: Lang) -> NoticeContent<'a> {
    let firm_name = "Müller & Søn <b>";
    NoticeContent { notice, firm_name, from: &desk.from, to: &desk.to, lang }
}

#[rstest]
fn equal_notices_have_equal_bytes(#[values(Lang::En, Lang::Fr, Lang::Es)] lang: Lang) {
    let (desk, notice) = (Desk::default(), removal());
    let mail = compose_notice(&content(&desk, &notice, lang));
    is_as_written(&format!("{}-notice", lang.code()), &mail);
}

#[rstest]
fn every_kind_of_notice_has_own_words(#[values(Lang::En, Lang::Fr, Lang::Es)] lang: Lang) {
    let desk = Desk::default();
    let mut told = std::collections::BTreeSet::new();
    for (kind, reason) in [
        (NoticeKind::Warned, None),
        (NoticeKind::Failing, None),
        (NoticeKind::Recovered, None),
        (NoticeKind::Removed, Some("target_gone")),
        (NoticeKind::Removed, Some("deleted_by_key")),
        (NoticeKind::Removed, Some("firm_closed")),
        (NoticeKind::KeyRevoked, Some("requested")),
        (NoticeKind::KeyRevoked, Some("member_not_manager")),
    ] {
        let usual = removal();
        let reason = reason.map(str::to_owned);
        let notice = Notice {
            facts: NoticeFacts { kind, reason, ..usual.facts },
            key: Some(NoticeKey { name: "Zapier\r\nBcc: x".into(), prefix: "ffk_abcdefgh".into() }),
            link: None,
            ..usual
        };
        let message = Message::read(&compose_notice(&content(&desk, &notice, lang)).bytes);
        assert_eq!(message.header("Bcc"), None);
        assert!(message.header("Subject").unwrap().contains("Müller & Søn"));
        // Past failures of a subscription that works again would read like present ones.
        let shows_failures = message.html.contains("410, 2026-11-01 12:00:02 UTC");
        assert_eq!(shows_failures, kind != NoticeKind::Recovered, "{kind:?}");
        assert!(!message.html.contains("<b>") && !message.html.contains("<a "));
        told.insert(message.html);
    }
    assert_eq!(told.len(), 8, "each has words of its own");
}

#[test]
fn p15_envelope_and_bytes_are_kept() {
    let desk = Desk::default();
    let mail = compose_invite(&desk.invite(Lang::En));
    assert_eq!(mail.from, "forms@mail.firmforms.test");
    assert_eq!(mail.to, "Ann.Lee+tax@example.com");
    let kept = serde_json::to_string(&mail).unwrap();
    assert!(kept.contains("\"bytes\":\"From: "));
    assert_eq!(serde_json::from_str::<Mail>(&kept).unwrap(), mail);
}

#[test]
fn an_invite_has_these_headers() {
    let desk = Desk::default();
    let message = Message::read(&compose_invite(&desk.invite(Lang::Fr)).bytes);
    let headers: Vec<_> =
        message.names().into_iter().map(|name| (name, message.header(name).unwrap())).collect();
    let subject = "Müller & Søn “Tax” vous invite à remplir «\u{A0}Intake <2026>\u{A0}»";
    assert_eq!(
        headers,
        [
            ("From", "Müller & Søn “Tax” <forms@mail.firmforms.test>"),
            ("To", "Ann.Lee+tax@example.com"),
            ("Reply-To", "office@muller.example"),
            ("Subject", subject),
            ("Date", "Sat, 31 Jan 2026 09:30:00 +0000"),
            ("Message-ID", "<01950000-0000-7000-8000-000000000001@mail.firmforms.test>"),
            ("Content-Language", "fr"),
            ("Auto-Submitted", "auto-generated"),
            ("List-Unsubscribe", "<https://forms.example.com/u/5f1c0a>"),
            ("List-Unsubscribe-Post", "List-Unsubscribe=One-Click"),
            ("MIME-Version", "1.0"),
            (
                "Content-Type",
                "multipart/alternative; boundary=\"=_01950000000070008000000000000001\""
            ),
        ]
    );
}

/// RFC 8058 wants https; RFC 2369 does not.
#[rstest]
#[case("https://f.example/u/1", Some("<https://f.example/u/1>"), true)]
#[case("http://127.0.0.1:8080/u/1", Some("<http://127.0.0.1:8080/u/1>"), false)]
#[case("https://f.example/>, <https://e.example/", None, false)]
#[case("https://f.example/é", None, false)]
fn an_invite_lists_its_unsubscribe_ways(
    #[case] url: &str,
    #[case] listed: Option<&str>,
    #[case] by_one_click: bool,
) {
    let desk = Desk::default();
    let invite = InviteContent { unsubscribe_url: url, ..desk.invite(Lang::En) };
    let message = Message::read(&compose_invite(&invite).bytes);
    assert_eq!(message.header("List-Unsubscribe"), listed);
    assert_eq!(message.header("List-Unsubscribe-Post").is_some(), by_one_click);
}

#[test]
fn unusable_parts_of_brands_are_left_out() {
    let desk = Desk::default();
    for logo_url in [
        "http://cdn.example/l.png",
        "data:image/png;base64,AAAA",
        "javascript:alert(1)",
        "//cdn.example/l.png",
        "https://user:word@cdn.example/l.png",
        "cid:logo",
        "",
    ] {
        let invite = InviteContent {
            logo_url: Some(logo_url),
            color: Some("red;}body{display:none"),
            reply_to: Some("a@b, c@d.example"),
            ..desk.invite(Lang::Es)
        };
        let message = Message::read(&compose_invite(&invite).bytes);
        assert!(!message.html.contains("<img"), "{logo_url}");
        assert!(!message.html.contains("display:none"));
        assert!(message.html.contains("background-color:#1f2933;color:#ffffff"));
        assert_eq!(message.header("Reply-To"), None);
    }
}

#[test]
fn a_hidden_logo_names_the_firm() {
    let desk = Desk::default();
    let message = Message::read(&compose_invite(&desk.invite(Lang::En)).bytes);
    assert!(message.html.contains(
        "src=\"https://cdn.example.com/logo.png?a=1&amp;b=2\" alt=\"Müller &amp; Søn “Tax”\""
    ));
}
