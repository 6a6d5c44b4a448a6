//! A console for operators and auditors: pages of the internal door under `/console`.
//!
//! A page asks the internal API in this process, with a session in place of the token. So roles,
//! lists of firms and recorded readings are those of the API. The data of a page are the API's
//! answer, and the URL of the page with `.json`, `.ndjson` or `.csv` shows them. There is no SQL
//! here, and no rule.
//!
//! - `entrance` leads to the sign-in: `sign_in` is the one by a token, `provider` the one by OpenID
//!   Connect, and `flow` has the cookie of its way.
//! - `visit` is a call with a session, `cookie` its cookie, `form` the fields of a form, and `act`
//!   a form that changes something. `reproof` asks for the person again before acts that cut off.
//! - `ask` calls the API. `data` writes its answers as files.
//! - `document`, `frame` and `parts` are the looks of all pages. `screens` are the pages, `acts`
//!   the commands.
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
mod document;
mod entrance;
mod flow;
mod form;
mod frame;
mod parts;
mod portal;
mod provider;
mod refusal;
mod reproof;
mod routes;
mod screens;
mod sign_in;
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
