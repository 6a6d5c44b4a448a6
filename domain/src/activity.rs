//! Product activity: what the product reports, read strictly.
//!
//! Every kind has a closed shape: an unknown field, a missing one or one of another type is an
//! error that names the field and never its value.

use serde_json::{Map, Value};
use uuid::Uuid;

use crate::document::{NotADocument, Object, ResponseDocument};
use crate::email::EmailAddress;
use crate::firm::{Brand, FirmChange, MemberChange, Role};
use crate::form::{FormChange, FormDetails, FormEdit, HiddenField};
use crate::ids::Id;
use crate::person::AddressChange;
use crate::time::Timestamp;
use crate::trigger::Plan;

/// The most events in one report.
pub const BATCH_MAX_EVENTS: usize = 1_000;

/// The most bytes in one report.
pub const BATCH_MAX_BYTES: usize = 8 * 1024 * 1024;

/// One report of the product.
#[derive(Debug, Clone, PartialEq)]
pub enum Activity {
    /// `firm.*`
    Firm {
        /// What was reported.
        change: FirmChange,
        /// The firm's reply address, if the report speaks of its brand.
        reply_to: Option<Option<String>>,
    },
    /// `member.*`
    Member {
        /// Who.
        member_id: Uuid,
        /// What was reported.
        change: MemberChange,
    },
    /// `form.*`
    Form {
        /// The form.
        form_id: Uuid,
        /// What was reported.
        change: FormChange,
    },
    /// `address.*`
    Address {
        /// Whose: it goes no further than to a keyed hash. None for one that no invite could go to:
        /// then nothing follows.
        email: Option<EmailAddress>,
        /// What was reported.
        change: AddressChange,
    },
    /// `response.saved`
    ResponseSaved(ResponseReport),
    /// `response.submitted`
    ResponseSubmitted(ResponseReport),
}

/// A response, saved on the way or submitted.
#[derive(Debug, Clone, PartialEq)]
pub struct ResponseReport {
    /// The response.
    pub response_id: Uuid,
    /// The form it answers.
    pub form_id: Uuid,
    /// When it was saved or submitted.
    pub at: Timestamp,
    /// What was answered.
    pub document: ResponseDocument,
}

/// Why a report is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotAnActivity {
    /// No such type of activity.
    #[error("type: `{0}` is not a type of activity")]
    UnknownType(String),
    /// The data does not fit the type.
    #[error("{}", in_data(.0))]
    Data(#[from] NotADocument),
}

/// What is wrong, and with which part of `data` if with one.
fn in_data(wrong: &NotADocument) -> String {
    match wrong {
        NotADocument::Missing(_) | NotADocument::Malformed { .. } | NotADocument::Unknown(_) => {
            format!("data.{wrong}")
        }
        NotADocument::TooLarge(_) => format!("data: {wrong}"),
    }
}

impl Activity {
    /// Reads a report: its CloudEvents `type` and `data`.
    ///
    /// # Errors
    /// [`NotAnActivity`] names what is wrong.
    pub fn read(kind: &str, data: Map<String, Value>) -> Result<Self, NotAnActivity> {
        let data = Object(data);
        Ok(match kind {
            "firm.opened" => firm_opened(data)?,
            "firm.changed" => firm_changed(data)?,
            "firm.suspended" => data.end(firm(FirmChange::Suspended))?,
            "firm.resumed" => data.end(firm(FirmChange::Resumed))?,
            "firm.closed" => data.end(firm(FirmChange::Closed))?,
            "member.joined" => member_with_role(data, MemberChange::Joined)?,
            "member.role_changed" => member_with_role(data, MemberChange::RoleChanged)?,
            "member.disabled" => member(data, MemberChange::Disabled)?,
            "member.enabled" => member(data, MemberChange::Enabled)?,
            "member.left" => member(data, MemberChange::Left)?,
            "form.created" => form_created(data)?,
            "form.changed" => form_changed(data)?,
            "form.published" => form(data, FormChange::Published)?,
            "form.unpublished" => form(data, FormChange::Unpublished)?,
            "form.deleted" => form(data, FormChange::Deleted)?,
            "address.unsubscribed" => address(data, AddressChange::Unsubscribed)?,
            "address.bounced" => address(data, AddressChange::Bounced)?,
            "address.restored" => address(data, AddressChange::Restored)?,
            "response.saved" => Self::ResponseSaved(response(data, "saved_at")?),
            "response.submitted" => Self::ResponseSubmitted(response(data, "submitted_at")?),
            other => return Err(NotAnActivity::UnknownType(other.to_owned())),
        })
    }
}

const fn firm(change: FirmChange) -> Activity {
    Activity::Firm { change, reply_to: None }
}

fn firm_opened(mut data: Object) -> Result<Activity, NotADocument> {
    let (brand, reply_to) = brand(Object(data.optional("brand")?))?;
    let change = FirmChange::Opened {
        name: data.required("name")?,
        plan: plan(Object(data.required("plan")?))?,
        brand,
    };
    data.end(Activity::Firm { change, reply_to: Some(reply_to) })
}

fn firm_changed(mut data: Object) -> Result<Activity, NotADocument> {
    let branded =
        data.optional::<Option<Map<_, _>>>("brand")?.map(Object).map(brand).transpose()?;
    let (brand, reply_to) = branded.unzip();
    let change = FirmChange::Changed {
        name: data.optional("name")?,
        plan: data.optional::<Option<Map<_, _>>>("plan")?.map(Object).map(plan).transpose()?,
        brand,
        invites_enabled: data.optional("invites_enabled")?,
    };
    data.end(Activity::Firm { change, reply_to })
}

fn plan(mut data: Object) -> Result<Plan, NotADocument> {
    let plan = Plan { leads_in_full: data.required("leads_in_full")? };
    data.end(plan)
}

fn brand(mut data: Object) -> Result<(Brand, Option<String>), NotADocument> {
    let brand = Brand { color: data.optional("color")?, logo_url: data.optional("logo_url")? };
    let reply_to = data.optional("reply_to")?;
    data.end((brand, reply_to))
}

fn member_with_role(
    mut data: Object,
    change: fn(Role) -> MemberChange,
) -> Result<Activity, NotADocument> {
    let role = data.required("role")?;
    member(data, change(role))
}

fn member(mut data: Object, change: MemberChange) -> Result<Activity, NotADocument> {
    let Id(member_id) = data.required("member_id")?;
    data.end(Activity::Member { member_id, change })
}

fn form(mut data: Object, change: FormChange) -> Result<Activity, NotADocument> {
    let Id(form_id) = data.required("form_id")?;
    data.end(Activity::Form { form_id, change })
}

fn form_created(mut data: Object) -> Result<Activity, NotADocument> {
    let details = FormDetails {
        title: data.required("title")?,
        slug: data.required("slug")?,
        url: data.required("url")?,
        status: data.required("status")?,
        hidden_fields: data.required::<Vec<HiddenField>>("hidden_fields")?,
        created_at: data.required("created_at")?,
    };
    form(data, FormChange::Created(details))
}

fn form_changed(mut data: Object) -> Result<Activity, NotADocument> {
    let edit = FormEdit {
        title: data.optional("title")?,
        slug: data.optional("slug")?,
        url: data.optional("url")?,
        status: data.optional("status")?,
        hidden_fields: data.optional("hidden_fields")?,
        created_at: data.optional("created_at")?,
    };
    form(data, FormChange::Changed(edit))
}

fn address(mut data: Object, change: AddressChange) -> Result<Activity, NotADocument> {
    let email: String = data.required("email")?;
    data.end(Activity::Address { email: email.parse().ok(), change })
}

fn response(mut data: Object, time: &'static str) -> Result<ResponseReport, NotADocument> {
    let Id(response_id) = data.required("response_id")?;
    let Id(form_id) = data.required("form_id")?;
    let at = data.required(time)?;
    let document = ResponseDocument::read(data.0)?;
    Ok(ResponseReport { response_id, form_id, at, document })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const ID: &str = "00000000-0000-4000-8000-000000000001";

    fn read(kind: &str, data: Value) -> Result<Activity, String> {
        let Value::Object(data) = data else { panic!("an object") };
        Activity::read(kind, data).map_err(|error| error.to_string())
    }

    #[test]
    fn each_kind_is_read() {
        let member = json!({"member_id": ID, "role": "admin"});
        assert!(read("firm.opened", json!({"name": "A", "plan": {"leads_in_full": true}})).is_ok());
        assert!(read("firm.changed", json!({"invites_enabled": false})).is_ok());
        assert!(read("firm.closed", json!({})).is_ok());
        assert!(read("member.joined", member).is_ok());
        assert!(read("member.left", json!({"member_id": ID})).is_ok());
        assert!(read("form.published", json!({"form_id": ID})).is_ok());
        assert!(read("address.bounced", json!({"email": "ann@example.com"})).is_ok());
        let saved = json!({"response_id": ID, "form_id": ID, "saved_at": "2026-11-01T00:00:00Z"});
        assert!(read("response.saved", saved).is_ok());
    }

    #[test]
    fn an_address_that_no_invite_could_go_to_stops_no_batch() {
        for email in ["jos\u{e9}@example.com", "\"a b\"@example.com", "ann", ""] {
            let read = read("address.bounced", json!({"email": email}));
            assert!(matches!(read, Ok(Activity::Address { email: None, .. })), "{email}");
        }
    }

    #[test]
    fn the_reply_address_is_kept_apart_from_the_brand() {
        let data = json!({"name": "A", "plan": {"leads_in_full": false},
                          "brand": {"color": "#123456", "reply_to": "hello@example.com"}});
        let Ok(Activity::Firm { change: FirmChange::Opened { brand, .. }, reply_to }) =
            read("firm.opened", data)
        else {
            panic!("a firm")
        };
        assert_eq!(brand.color.as_deref(), Some("#123456"));
        assert_eq!(reply_to, Some(Some("hello@example.com".into())));
    }

    #[test]
    fn what_is_wrong_is_named_and_not_quoted() {
        let wrong = |kind, data| read(kind, data).unwrap_err();
        assert_eq!(wrong("firm.sold", json!({})), "type: `firm.sold` is not a type of activity");
        assert_eq!(wrong("member.left", json!({})), "data.member_id: missing");
        assert_eq!(
            wrong("member.left", json!({"member_id": ID, "age": 3})),
            "data.age: unknown field"
        );
        assert_eq!(wrong("firm.closed", json!({"why": "x"})), "data.why: unknown field");
        let secret = wrong("member.left", json!({"member_id": "ann@example.com"}));
        assert!(secret.starts_with("data.member_id: ") && !secret.contains("ann@"), "{secret}");
        let address = wrong("address.bounced", json!({"email": ["ann@example.com"]}));
        assert_eq!(address, "data.email: expected a string");
        let saved = json!({"response_id": ID, "form_id": ID, "saved_at": "yesterday"});
        assert!(wrong("response.saved", saved).starts_with("data.saved_at: "));
    }
}
