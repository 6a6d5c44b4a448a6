//! The invites that the tests write.

use std::time::Duration;

use domain::values::{EmailAddress, Lang, Timestamp};
use mailer::{InviteContent, Mail, MailOutcome, Mailer, SenderAddress, compose_invite};
use uuid::Uuid;

/// The values that an invite points into.
pub(crate) struct Desk {
    pub(crate) from: SenderAddress,
    pub(crate) to: EmailAddress,
    pub(crate) date: Timestamp,
}

impl Default for Desk {
    fn default() -> Self {
        Self {
            from: "forms@mail.firmforms.test".parse().unwrap(),
            to: "Ann.Lee+tax@example.com".parse().unwrap(),
            date: "2026-01-31T09:30:00.125Z".parse().unwrap(),
        }
    }
}

impl Desk {
    /// An invite with everything that can be in one.
    pub(crate) fn invite(&self, lang: Lang) -> InviteContent<'_> {
        InviteContent {
            email_id: Uuid::from_u128(0x0195_0000_0000_7000_8000_0000_0000_0001),
            date: self.date,
            from: &self.from,
            to: &self.to,
            lang,
            firm_name: "Müller & Søn “Tax”",
            color: Some("#0a7"),
            logo_url: Some("https://cdn.example.com/logo.png?a=1&b=2"),
            reply_to: Some("office@muller.example"),
            form_title: "Intake <2026>",
            form_url: "https://forms.example.com/f/intake?lang=en&case=A%26B&utm_source=api",
            greeting: Some("Ann"),
            message: Some(".Dear Ann,\r\n\r\nsee <b>https://evil.example</b> & reply.\n.\n-- \nBo"),
            unsubscribe_url: "https://forms.example.com/u/5f1c0a",
        }
    }

    /// An invite with nothing that can be left out.
    pub(crate) fn bare(&self, lang: Lang) -> InviteContent<'_> {
        let nothing = None;
        InviteContent {
            firm_name: "Acme Ltd",
            form_title: "Intake",
            color: nothing,
            logo_url: nothing,
            reply_to: nothing,
            greeting: nothing,
            message: nothing,
            ..self.invite(lang)
        }
    }
}

/// A mail to hand over.
pub(crate) fn mail(number: u128) -> Mail {
    let desk = Desk::default();
    compose_invite(&InviteContent { email_id: Uuid::from_u128(number), ..desk.invite(Lang::En) })
}

/// A mail to this address, whatever it is.
pub(crate) fn mail_to(address: &str) -> Mail {
    let desk = Desk { to: address.parse().unwrap(), ..Desk::default() };
    compose_invite(&desk.invite(Lang::En))
}

/// Hands a mail over. Each mail is of a firm of its own.
pub(crate) async fn send(mailer: &Mailer, mail: &Mail) -> MailOutcome {
    mailer.take_turn(mail.email_id, Duration::from_secs(5)).await.unwrap().send_mail(mail).await
}
