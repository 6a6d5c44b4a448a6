//! Callers and their proofs: keys of firms, tokens of the internal API, sign-ins by the provider
//! and sessions of the portal.
//!
//! [`Key`], [`AccessToken`] and [`sign_in::SignIn`] are aggregates. [`ApiKey`] is the secret of a
//! key, [`Cell`] marks secrets with their installation, and [`IdempotencyKey`] is the caller's name
//! for a request. [`rate`] counts a caller's requests. [`portal`] bounds the sessions of members,
//! and [`FrameOrigin`] is a page that may show them in a frame.

pub mod portal;
pub mod rate;
pub mod sign_in;

mod access_token;
mod api_key;
mod cell;
mod frame_origin;
mod idempotency;
mod key;

pub use access_token::{
    AccessToken, AccessTokenCommand, AccessTokenEvent, AccessTokenRejection, HolderRole, NotARole,
    TOKEN_PREFIX, TokenScope,
};
pub use api_key::{API_KEY_PREFIX, ApiKey, KEYS_PER_FIRM, NotAKey};
pub use cell::{CELLS_MAX, Cell, NoCell};
pub use frame_origin::{FrameOrigin, NotAnOrigin};
pub use idempotency::{BadIdempotencyKey, IdempotencyKey};
pub use key::{Key, KeyCommand, KeyEvent, KeyRejection, RevocationReason};
