//! Form invites: writing the mail, and handing it to a mail server (contract, section
//! POST /forms/{id}/send; ruling 11).
//!
//! The cast: [`compose()`] is a pure function from an [`InviteContent`] to a [`Mail`], the same bytes for
//! the same invite; [`greeting`] says by what name a person is greeted; a [`Mailer`] hands a mail
//! to a server ([`SmtpUrl`]) or into a folder, and says what became of it ([`MailOutcome`]).
//!
//! This crate is the only place in the workspace that opens SMTP. It must not decide whether a
//! mail is sent, try again later, or keep anything: that is the caller's.

mod compose;
mod files;
mod mail;
mod mailer;
mod names;
mod smtp;
mod smtp_url;

pub use compose::compose;
pub use mail::{InviteContent, Mail, NotASender, SenderAddress};
pub use mailer::{MailOutcome, Mailer, MailerError, SmtpSettings};
pub use names::greeting;
pub use smtp_url::{NotAnSmtpUrl, SmtpUrl};
