//! Values: formats of texts, ids and times, without a rule of any aggregate.
//!
//! A [`Timestamp`] is every time of the log. [`When`], [`AccessMoment`] and [`AsOf`] bound
//! questions about the past. [`IdRange`] reads an id that a person shortened. [`printable_text`]
//! makes foreign text safe to print.

mod access_moment;
mod as_of;
mod email;
mod id_range;
mod ids;
mod label;
mod lang;
mod printable;
pub(crate) mod text;
mod time;
mod when;

pub use access_moment::{AccessMoment, NeitherDayNorInstant};
pub use as_of::{AsOf, NeitherPositionNorInstant};
pub use email::{EMAIL_MAX, EmailAddress, NotAnAddress, bare_address};
pub use id_range::IdRange;
pub use ids::{Id, NotAnId, parse_id};
pub use label::{FIRM_NAME_MAX, NotALabel, TITLE_MAX, check_label, shown_property, trimmed_label};
pub use lang::{LANG_MAX, Lang};
pub use printable::{is_unprintable, printable_json, printable_text};
pub use text::is_bare_secret;
pub use time::{NotATimestamp, Timestamp};
pub use when::{NoTime, When};
