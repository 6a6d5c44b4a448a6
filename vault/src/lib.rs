//! The vault: all personal data, and every secret that must be read again, as ciphertext.
//!
//! - [`responses`], [`reports`], [`bookings`], [`bodies`], [`answers`] and [`step_headers`] hold
//!   the data of one response, encrypted under the response's own data key. [`parts`] tells the
//!   effects of a write on reports and bookings.
//! - [`mails`] holds the mail of an invite, under a data key of that invite.
//! - [`secrets`] holds signing secrets and reply addresses of firms, under the [`WrappingKey`].
//! - [`people`] finds the responses that name a person, by keyed hash ([`IdentityKey`]).
//! - [`Keyring`] holds the data keys, wrapped by the [`WrappingKey`], in a second database.
//!   Deleting one row there makes all data of a subject unreadable, backups of the main database
//!   included.
//! - [`erasure`] deletes all rows of a response, [`FIRM_TABLES`] names those of a firm.
//! - [`rewrap`] changes the wrapping key.
//!
//! [`installation`] tells whether the two databases belong together. Several installations can
//! serve one public address, and [`cell`] tells the number of this one.
//!
//! No database holds the wrapping key. No other crate reads or writes the vault's tables. The vault
//! decides nothing: callers say when data is stored, read and deleted.

pub mod answers;
pub mod bodies;
pub mod bookings;
pub mod cell;
mod entropy;
pub mod erasure;
mod error;
pub mod expiry;
mod identity;
pub mod installation;
mod keyring;
pub mod mails;
pub mod parts;
pub mod people;
pub mod reports;
pub mod responses;
pub mod rewrap;
mod seal;
pub mod secrets;
pub mod step_headers;

use eventstore::firm_rows::FirmTable;

pub use entropy::{Entropy, SystemEntropy};
pub use error::VaultError;
pub use identity::{IdentityKey, MailRecipient, UNROUTED_LINK_CHARS};
pub use keyring::{
    DataKeys, ErasedUpTo, KEYRING_MIGRATIONS, KeySubject, Keyring, KeyringHosts, WrongKey,
    ask_keyring, is_in_use, sealed_check, try_keyring_write,
};
pub use seal::{BrokenSeal, DataKey, WrappingKey};

/// The tables with data of a firm, which go once the data of a closed firm are dropped. The firm's
/// data keys go first.
pub const FIRM_TABLES: &[FirmTable] = &[
    FirmTable { name: "responses", key: "response_id" },
    FirmTable { name: "response_people", key: "person_id" },
    FirmTable { name: "reports", key: "report_id" },
    FirmTable { name: "bookings", key: "booking_id" },
    FirmTable { name: "bodies", key: "response_id" },
    FirmTable { name: "answers", key: "response_id" },
    FirmTable { name: "step_headers", key: "response_id" },
    FirmTable { name: "mails", key: "invite_id" },
    FirmTable { name: "webhook_secrets", key: "firm_id" },
    FirmTable { name: "firm_contacts", key: "firm_id" },
];
