//! The doors: the API, the console and the portal, and their limits.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

mod answers;
mod cells;
mod connections;
mod console;
mod hangups;
mod http;
mod internal;
mod open_door;
mod openapi;
mod patience;
mod plans;
mod portal;
mod privacy;
mod public;
mod rates;
mod secrets;
mod servers;
mod turnstile;
