//! The portal of a firm's own people (ruling 48): links, sessions, and all that a member may see
//! and do.
//!
//! The product asks for a [`link`](links::make) for one firm and one member. The link is used once,
//! within a minute, and begins a session of half an hour. A session is looked up at each request,
//! together with the firm and the member as they are now. [`views`] and [`acts`] take the session,
//! so a request can reach no other firm and has no other actor. Looks are recorded, as on the
//! internal door, except at the list of keys. An append refuses a member who manages the firm no
//! more, so no act slips through between the look-up and the append.
//!
//! Wrong codes and cookies count per address like wrong keys. `rates` bounds the requests of a
//! session and the tests of a firm.

pub mod acts;
pub mod links;
mod rates;
pub mod sessions;
pub mod views;

pub use links::{NewPortalLink, PortalLink};
pub use rates::PortalRates;
pub use sessions::{PortalSession, PortalStanding};
