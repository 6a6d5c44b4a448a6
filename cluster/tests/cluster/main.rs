//! The private cluster with real servers, real processes and real kills. Runs as root, where the
//! servers run as another user, and as an ordinary user.

#![expect(clippy::unwrap_used, reason = "clippy allows it in tests, and not in their helpers")]

mod crashes;
mod helper;
mod places;
mod sharing;
mod temporary;
