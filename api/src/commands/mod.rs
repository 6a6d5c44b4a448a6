//! Commands: what a call changes, by appending to the log. Handlers of both doors come here.

pub(crate) mod hooks;
pub mod keys;
pub mod secrets;
pub mod tokens;
