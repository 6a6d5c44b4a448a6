//! Activities of the product, their strict reader, and the occurrences that follow from them.
//!
//! Every kind of activity has a closed shape. A missing field, an unknown field or a field of
//! another type is an error, and so is a name by the product that nobody could use (ruling 37). The
//! error names the field and never shows its value. The log may hold older texts that are refused
//! today. A text of a respondent or invitee is cleaned and never refused (ruling 53).

mod checks;
mod document;
mod fact;
mod object;
mod occurrence;
mod read;
mod response;
mod shapes;
mod strangers;

pub use document::{
    AnsweredQuestion, Booking, DOCUMENT_MAX_BYTES, FormVariables, Invitee, ReportDocument,
    Respondent, ResponseDocument,
};
pub use fact::Fact;
pub use object::{NotADocument, Properties, readable_json};
pub use occurrence::{
    Happening, Occurrence, OccurrenceCommand, OccurrenceEvent, delivery_id, occurrence_id,
    reissue_id,
};
pub use read::NotAnActivity;
pub use response::{
    PartRejection, Response, ResponseCommand, ResponseEvent, kept_since, midnight, response_stream,
};
pub use shapes::{
    Activity, BookingMove, LeadBand, LeadScore, Payment, ReportMoment, ResponseReport,
};

/// Largest number of activities in one batch.
pub const BATCH_MAX_EVENTS: usize = 1_000;

/// Largest size of one batch, in bytes.
pub const BATCH_MAX_BYTES: usize = 8 * 1024 * 1024;

#[cfg(test)]
mod tests;
