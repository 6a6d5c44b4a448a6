//! Whatever the texts of an invite hold: case A16.

use domain::values::{Lang, Timestamp};
use mailer::{InviteContent, compose_invite, greeting_name};
use proptest::prelude::*;

use crate::letters::Desk;
use crate::mime::Message;

/// Case A16 in one text.
const HOSTILE: &str = "A\r\nBcc: x@y.example\0\u{2028}B\u{202E}C\u{2066}\u{85}\u{1b}[2J";

/// The hostile text as one line.
const HARMLESS: &str = "A Bcc: x@y.example B C [2J";

#[test]
fn a16_names_and_titles_are_one_line() {
    let desk = Desk::default();
    let invite = InviteContent {
        firm_name: HOSTILE,
        form_title: HOSTILE,
        greeting: Some(HOSTILE),
        logo_url: None,
        ..desk.invite(Lang::En)
    };
    let message = Message::read(&compose_invite(&invite).bytes);
    let names = message.names();
    assert_eq!(names.iter().filter(|&&name| name == "To").count(), 1);
    assert!(!names.contains(&"Bcc"));
    let from = message.header("From").unwrap();
    assert_eq!(from, format!("\"{HARMLESS}\" <forms@mail.firmforms.test>"));
    let subject = format!("{HARMLESS} invites you to fill in “{HARMLESS}”");
    assert_eq!(message.header("Subject"), Some(subject.as_str()));
    assert!(message.text.starts_with(&format!("Hello {HARMLESS},\n")));
    assert!(message.html.contains(&format!(">{HARMLESS}</p>")));
    assert!(message.html.contains(&format!(">{HARMLESS}</h1>")));
}

/// A note keeps its line breaks, and no text of it becomes a link.
#[test]
fn a16_a_note_never_becomes_markup() {
    let desk = Desk::default();
    let note = "Dear Ann,\r\n\n<b>https://e.example</b>\u{202E}\0 & \u{2028}so\r.";
    let invite = InviteContent { message: Some(note), ..desk.invite(Lang::En) };
    let message = Message::read(&compose_invite(&invite).bytes);
    assert!(message.text.contains("\n\n> Dear Ann,\n> \n> <b>https://e.example</b>   &  so .\n\n"));
    assert!(message.html.contains(
        ">Dear Ann,<br><br>&lt;b&gt;https://e.example&lt;/b&gt;   &amp;  so .</blockquote>"
    ));
    assert_eq!(message.html.matches("<a ").count(), 3);
}

#[test]
fn a16_invisible_text_counts_as_none() {
    let desk = Desk::default();
    for nothing in ["", " \r\n\t", "\u{200B}\u{FEFF}", "\u{202E}\u{2069}", "\0"] {
        let invite = InviteContent {
            firm_name: nothing,
            form_title: nothing,
            greeting: Some(nothing),
            message: Some(nothing),
            ..desk.invite(Lang::Es)
        };
        let message = Message::read(&compose_invite(&invite).bytes);
        let from = message.header("From").unwrap();
        assert_eq!(from, "\"mail.firmforms.test\" <forms@mail.firmforms.test>");
        assert!(message.text.starts_with("Hola:\n\nmail.firmforms.test le invita a completar"));
        assert!(message.text.contains("«Formulario»"));
        assert!(!message.html.contains("<blockquote"));
    }
}

#[test]
fn a16_forged_encoded_words_stay_text() {
    let desk = Desk::default();
    let forged = "=?utf-8?B?QmNjOiB4?= \"x\\\" <a@b.example>";
    let invite = InviteContent { firm_name: forged, form_title: forged, ..desk.invite(Lang::En) };
    let message = Message::read(&compose_invite(&invite).bytes);
    let from = format!("{forged} <forms@mail.firmforms.test>");
    assert_eq!(message.header("From"), Some(from.as_str()));
    assert!(message.header("Subject").unwrap().contains(forged));
}

#[test]
fn a16_quotes_in_a_name_are_escaped() {
    let desk = Desk::default();
    let invite = InviteContent { firm_name: "A \"B\" \\ <c@d.example>", ..desk.bare(Lang::En) };
    let message = Message::read(&compose_invite(&invite).bytes);
    let from = r#""A \"B\" \\ <c@d.example>" <forms@mail.firmforms.test>"#;
    assert_eq!(message.header("From"), Some(from));
}

fn text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        any::<String>(),
        "[ -~]{0,90}",
        "[a-z]{0,1200}",
        Just("\r\n.\r\n".to_owned()),
        Just("=?utf-8?Q?a?=".to_owned()),
        Just(HOSTILE.to_owned()),
        Just("--=_01950000000070008000000000000001--\n".to_owned()),
        Just("😀é🇫🇷\u{200D}".to_owned()),
    ];
    prop::collection::vec(piece, 0..4).prop_map(|pieces| pieces.concat())
}

fn lang() -> impl Strategy<Value = Lang> {
    prop::sample::select(&Lang::ALL[..])
}

fn date() -> impl Strategy<Value = Timestamp> {
    (0..=9999_u32).prop_map(|year| format!("{year:04}-02-28T00:00:00Z").parse().unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a16_every_invite_is_a_sound_mail(
        texts in prop::array::uniform6(text()),
        options in prop::array::uniform3(prop::option::of(text())),
        lang in lang(),
        date in date(),
    ) {
        let desk = Desk { date, ..Desk::default() };
        let [firm_name, form_title, greeting, message, form_url, unsubscribe_url] = &texts;
        let [color, logo_url, reply_to] = &options;
        let invite = InviteContent {
            firm_name,
            form_title,
            greeting: Some(greeting),
            message: Some(message),
            form_url,
            unsubscribe_url,
            color: color.as_deref(),
            logo_url: logo_url.as_deref(),
            reply_to: reply_to.as_deref(),
            ..desk.invite(lang)
        };
        let mail = compose_invite(&invite);
        prop_assert_eq!(&mail, &compose_invite(&invite));
        let read = Message::read(&mail.bytes);
        let mut names = read.names();
        names.retain(|name| *name != "Reply-To" && !name.starts_with("List-"));
        prop_assert_eq!(names, [
            "From", "To", "Subject", "Date", "Message-ID", "Content-Language", "Auto-Submitted",
            "MIME-Version", "Content-Type",
        ]);
        let bad = |at: char| {
            at.is_control() || matches!(at, '\u{2028}'..='\u{202E}' | '\u{2066}'..='\u{2069}')
        };
        prop_assert!(!read.header("Subject").unwrap().contains(bad));
        prop_assert!(!read.header("From").unwrap().contains(bad));
        prop_assert!(read.header("From").unwrap().ends_with(" <forms@mail.firmforms.test>"));
        prop_assert!(!read.text.replace('\n', "").contains(bad));
        prop_assert!(!read.html.replace('\n', "").contains(bad));
        prop_assert_eq!(read.html.matches("<a ").count(), 3);
        prop_assert_eq!(read.html.matches("<script").count(), 0);
    }

    #[test]
    fn a16_a_greeting_is_one_visible_line(
        first_name in prop::option::of(text()),
        name in prop::option::of(text()),
    ) {
        if let Some(greeting) = greeting_name(first_name.as_deref(), name.as_deref()) {
            prop_assert_eq!(greeting.trim(), &greeting);
            prop_assert!(!greeting.is_empty() && !greeting.contains(char::is_control));
        }
    }
}
