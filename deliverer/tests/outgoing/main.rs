//! The outgoing client against receivers, name servers and certificates made by hand: sections C
//! and D of the hard cases. A test's name begins with its case.

#![expect(clippy::unwrap_used, reason = "a receiver that cannot be set up is a failed test")]

mod answers;
mod connections;
mod egress;
mod environment;
mod hostile;
mod names;
mod redirect_places;
mod redirects;
mod support;
mod tls;
