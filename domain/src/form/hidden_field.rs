//! A hidden field of a form.

use serde::{Deserialize, Serialize};

/// A hidden field that the form's link accepts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HiddenField {
    /// Name of the field in the link.
    pub key: String,
    /// Label of the field for people.
    pub label: String,
}
