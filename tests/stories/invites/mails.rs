//! The mail of an invite, its recipient, and the answer of the call.

use mailer::SmtpSettings;
use serde_json::{Value, json};
use tests::World;
use tests::smtp_server::{Setup, SmtpServer, Tls, Turn};

use super::*;

/// The mail has the link, the greeting and the note.
#[tokio::test]
async fn an_invite_is_one_complete_mail() {
    let (world, server) = world().await;
    let firm = world.firm().await;
    let body = json!({
        "email": "Ann.Smith@Example.com", "name": "Ann Smith", "lang": "fr",
        "hidden": {"partner": "p&q", "x": 1}, "message": "Bonjour,\nà bientôt <b>",
    });
    let answer = send(&world, &firm, body).await;
    let url = "https://forms.test/f/enquiry?lang=fr&partner=p%26q";
    let email_id = answer.body["email_id"].clone();
    let expected =
        json!({"ok": true, "status": "sent", "email_id": email_id, "url": url, "ignored": ["x"]});
    assert_eq!((answer.status.as_u16(), &answer.body), (202, &expected));
    let mails = server.mails();
    let [mail] = &mails[..] else { panic!("{} mails", mails.len()) };
    assert_eq!(mail.to, ["Ann.Smith@example.com"]);
    let id = email_id.as_str().unwrap();
    assert!(header(mail, "Message-ID").starts_with(&format!("<{id}@")));
    assert!(header(mail, "From").contains("Harrow Lane"));
    assert_eq!(header(mail, "Content-Language"), "fr");
    let text = text(mail);
    for part in ["Ann", url, "Bonjour,", "à bientôt", "New client enquiry", "&lt;b&gt;"] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    assert!(!text.contains("Smith,"), "greeted by the first word of the name");
    assert_eq!(under_way(&world).await, (0, 0), "the mail is not kept");
}

#[tokio::test]
async fn mail_uses_starttls_and_a_login() {
    let setup = Setup { tls: Tls::Start, login: Some(("user", "p@ss")), ..Setup::default() };
    let server = SmtpServer::start(setup).await;
    let settings =
        SmtpSettings { extra_roots: Some(server.root.clone().into()), ..SmtpSettings::default() };
    let world = world_with(&format!("smtp://user:p%40ss@{}", server.at), settings).await;
    let firm = world.firm().await;
    assert_eq!(outcome(&invite(&world, &firm, "ann@example.com").await), SENT);
    let mails = server.mails();
    assert!(mails[0].is_encrypted);
    assert_eq!(mails[0].user.as_deref(), Some("user"));
}

#[tokio::test]
async fn without_a_server_mails_are_files() {
    let world = World::new().await;
    let firm = world.firm().await;
    let answer = invite(&world, &firm, "ann@example.com").await;
    assert_eq!(outcome(&answer), SENT);
    let name = format!("{}.eml", answer.body["email_id"].as_str().unwrap());
    let mail = std::fs::read_to_string(world.mails.path().join(name)).unwrap();
    assert!(mail.contains("To: ann@example.com\r\n"), "{mail}");
}

/// The firm's reply address comes out of the vault.
#[tokio::test]
async fn answers_go_to_the_firm() {
    let (world, server) = world().await;
    let firm = world.firm().await;
    let brand = json!({"brand": {"color": "#123456", "reply_to": "office@harrow.example"}});
    world.report_one(tests::later(tests::activity(firm.id, "firm.changed", brand), 1)).await;
    invite(&world, &firm, "ann@example.com").await;
    let mail = &server.mails()[0];
    assert_eq!(header(mail, "Reply-To"), "office@harrow.example");
    assert!(text(mail).contains("#123456"));
}

/// A15: nothing is sent, and the error does not quote the address.
#[tokio::test]
async fn a15_an_invalid_address_is_refused() {
    let (world, server) = world().await;
    let firm = world.firm().await;
    for email in [
        "a@b.c\r\nBcc:x@y.z",
        "a@b.c, d@e.f",
        "a b@c.d",
        "a@localhost",
        "a@[127.0.0.1]",
        "a@b",
        "",
        &format!("{}@example.com", "a".repeat(309)),
    ] {
        let refused = invite(&world, &firm, email).await;
        assert_eq!(refused.code(), (400, "invalid_request"), "{email}");
        assert!(!refused.text().contains("b.c"), "{}", refused.text());
    }
    assert!(server.mails().is_empty());
}

/// A16
#[tokio::test]
async fn a16_names_cannot_write_headers() {
    let (world, server) = world().await;
    let firm = world.firm().await;
    let hostile = "Ann\r\nBcc: x@y.example\u{2028}\u{202e}";
    let body = json!({"email": "ann@example.com", "first_name": hostile, "message": hostile});
    assert_eq!(outcome(&send(&world, &firm, body).await), SENT);
    let mail = &server.mails()[0];
    assert_eq!(mail.to, ["ann@example.com"]);
    assert_eq!(header(mail, "Bcc"), "");
    assert_eq!(header(mail, "To"), "ann@example.com");
}

/// A bad body is refused first, then another firm's form, then a draft.
#[tokio::test]
async fn invite_refusals_come_in_order() {
    let (world, server) = world().await;
    let (firm, other) = (world.firm().await, world.firm().await);
    let draft = json!({"form_id": firm.form});
    world.report_one(tests::later(tests::activity(firm.id, "form.unpublished", draft), 1)).await;
    let to = async |form: String, body: Value| {
        world.call(&firm.key, "POST", &format!("/forms/{form}/send"), body).await
    };
    let good = json!({"email": "ann@example.com"});
    let (own, missing) = (firm.form.to_string(), world.id().to_string());
    to(own.clone(), good.clone()).await.refused(409, "form_not_published");
    for form in [missing, other.form.to_string(), "abc".to_owned()] {
        to(form.clone(), good.clone()).await.refused(404, "form_not_found");
        to(form, json!({})).await.refused(400, "invalid_request");
    }
    for bad in [Value::Null, json!({"email": "ann@example.com", "x": 1}), json!([])] {
        to(own.clone(), bad).await.refused(400, "invalid_request");
    }
    assert!(server.mails().is_empty());
    assert_eq!(used(&world, &firm).await, 0);
}

/// The log and the tables know a person by a keyed hash alone. Everything that is kept is
/// encrypted, also while the mail is on its way.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_table_holds_address_name_or_note() {
    let (world, server) = world().await;
    let firm = world.firm().await;
    let brand = json!({"brand": {"reply_to": "canary@harrow.example"}});
    world.report_one(tests::later(tests::activity(firm.id, "firm.changed", brand), 1)).await;
    let canary = json!({"email": "canary.person@example.com", "name": "Canary Name",
                        "message": "canary note", "hidden": {"partner": "canary value"}});
    server.turn("CONTENT", Turn::After(Duration::from_secs(1)));
    let look = async {
        while under_way(&world).await == (0, 0) {
            tokio::task::yield_now().await;
        }
        assert_eq!(world.columns_holding("canary").await, Vec::<String>::new());
        assert_eq!(under_way(&world).await, (1, 1), "it was looked at in the middle");
    };
    let (answer, ()) = tokio::join!(send(&world, &firm, canary), look);
    assert_eq!(outcome(&answer), SENT);
    server.turn("RCPT", Turn::Say("550 5.1.1 no such user"));
    assert_eq!(outcome(&invite(&world, &firm, "canary@example.com").await), skipped("bounced"));
    assert_eq!(world.columns_holding("canary").await, Vec::<String>::new());
}
