//! Mails as they are written, and as a mail server on a real socket gets them. If a test holds a
//! case, its name begins with it.

#![expect(clippy::unwrap_used, reason = "a mail that cannot be set up is a failed test")]

mod files;
mod letters;
mod mime;
mod refusals;
mod relay;
pub mod smtp_server;
mod texts;
mod trust;
mod written;
