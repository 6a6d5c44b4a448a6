//! Form invites and notices: writes the mail, and hands it to a mail server (contract, section POST
//! /forms/{id}/send; ruling 11, invites).
//!
//! - [`compose_invite`] is a pure function from an [`InviteContent`] to a [`Mail`]: the same bytes
//!   for the same invite.
//! - [`compose_notice`] writes a notice to a firm (ruling 49).
//! - [`greeting_name`] chooses the name in the greeting.
//! - [`Mailer`] gives turns: to a server ([`SmtpUrl`]), or to a folder. No firm takes all turns.
//! - [`MailTurn`] hands one mail over. It reports the result ([`MailOutcome`]).
//!
//! No other crate opens SMTP. This crate does not decide whether a mail is sent, does not retry,
//! and stores nothing. The caller does all three.

mod compose;
mod files;
mod mail;
mod mailer;
mod names;
mod notice;
mod outcome;
mod smtp;
mod smtp_url;

pub use compose::compose_invite;
pub use mail::{InviteContent, Mail, NotASender, SenderAddress};
pub use mailer::{MailTurn, Mailer, NoTurn};
pub use names::greeting_name;
pub use notice::{NoticeContent, compose_notice};
pub use outcome::MailOutcome;
pub use smtp::{MailerError, SmtpSettings};
pub use smtp_url::{NotAnSmtpUrl, SmtpUrl};
