//! The vault: everything personal, and every secret that must be read again, as ciphertext.
//!
//! What belongs to a response (its answers, the bodies made from it) is sealed under a data key of
//! its own. Data keys are wrapped by the [`WrappingKey`], which no database holds, and live in the
//! keyring, a database of its own: dropping one row there makes every copy undecipherable, in
//! backups of the main database too. This crate alone reads and writes the vault's tables.

pub mod answers;
pub mod bodies;
pub mod bookings;
mod entropy;
pub mod erasure;
mod identity;
mod keyring;
pub mod mails;
pub mod people;
pub mod reports;
pub mod responses;
pub mod rewrap;
mod seal;
pub mod secrets;
pub mod step_headers;

pub use entropy::{Entropy, SystemEntropy};
pub use identity::{IdentityKey, MailRecipient};
pub use keyring::{DataKeys, KEYRING_MIGRATIONS, KeySubject, Keyring, WrongKey};
pub use seal::{BrokenSeal, DataKey, WrappingKey};
