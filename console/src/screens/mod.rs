//! The pages, one a file. A page reads an answer of the API and shows it.

pub(crate) mod access;
pub(crate) mod audit;
pub(crate) mod deliveries;
pub(crate) mod delivery;
pub(crate) mod entry;
pub(crate) mod event;
pub(crate) mod find;
pub(crate) mod firm;
pub(crate) mod firms;
pub(crate) mod home;
pub(crate) mod hook;
pub(crate) mod hooks;
pub(crate) mod key;
pub(crate) mod keys;
pub(crate) mod log;
pub(crate) mod pauses;
pub(crate) mod person;
pub(crate) mod proof;
pub(crate) mod receivers;
pub(crate) mod replay;
pub(crate) mod replays;
pub(crate) mod sizes;
pub(crate) mod steps;
pub(crate) mod tokens;
