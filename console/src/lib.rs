//! A console for operators and auditors: pages of the internal door under `/console`.
//!
//! A page asks the internal API in this process, with a session in place of the token. So roles,
//! lists of firms and recorded readings are those of the API. The data of a page are the API's
//! answer, and the URL of the page with `.json`, `.ndjson` or `.csv` shows them. There is no SQL
//! here, and no rule.
//!
//! - `entrance` is the sign-in, and `provider` the one by OpenID Connect. `visit` is a call with a
//!   session, `cookie` its cookie, and `act` a form that changes something. `reproof` asks for the
//!   person again before acts that cut off.
//! - `ask` calls the API. `data` writes its answers as files.
//! - `frame` and `parts` are the looks of all pages. `screens` are the pages, `acts` the commands.
//!
//! `portal` has the pages of the public door, for a firm's own people.
//!
//! Pages of the console work without the script, which adds keys, copying and the viewer's time
//! zone.

mod act;
mod acts;
mod ask;
mod assets;
mod cookie;
mod data;
mod entrance;
mod frame;
mod parts;
mod portal;
mod provider;
mod refusal;
mod reproof;
mod routes;
mod screens;
mod visit;

use std::sync::Arc;

use api::Service;
use api::internal::InnerDoor;

pub use portal::portal;
pub use routes::router;

/// The data that all pages share.
pub(crate) struct ConsoleState {
    service: Service,
    door: InnerDoor,
}

/// The state as handlers get it.
pub(crate) type SharedState = Arc<ConsoleState>;
