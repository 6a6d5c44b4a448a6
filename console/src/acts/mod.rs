//! Commands, each sent by a form of a page. The API decides whether the holder may give one.

pub(crate) mod deliveries;
pub(crate) mod hooks;
pub(crate) mod keys;
pub(crate) mod pauses;
pub(crate) mod replay;
pub(crate) mod reveal;
