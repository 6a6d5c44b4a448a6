//! Everything that was sent about a person, for a reason. The address is in no URL and in no log.

use axum::extract::State;
use axum::http::Method;
use domain::values::Timestamp;
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::json;
use uuid::Uuid;

use super::steps::{self, ToldStep};
use crate::SharedState;
use crate::act::SentForm;
use crate::ask::ApiCommand;
use crate::frame::{self, PageContent};
use crate::parts;
use crate::refusal::Refusal;
use crate::visit::{self, FirmVisit, PageAnswer};

/// Everything that was sent about a person.
#[derive(Debug, Deserialize)]
struct PersonTrail {
    person_id: Uuid,
    mail: String,
    erased_at: Option<Timestamp>,
    responses: Vec<TrailResponse>,
    deliveries: Vec<TrailDelivery>,
    archived_before: Option<Timestamp>,
    subscriptions: Vec<TrailHook>,
    invites: Vec<ToldStep>,
    events: Vec<ToldStep>,
}

/// A response that names the person.
#[derive(Debug, Deserialize)]
struct TrailResponse {
    id: Uuid,
    form_id: Uuid,
    saved_at: Timestamp,
    submitted_at: Option<Timestamp>,
}

/// A delivery about the person.
#[derive(Debug, Deserialize)]
struct TrailDelivery {
    id: Uuid,
    hook_id: Option<Uuid>,
    trigger: String,
    state: String,
    created_at: Timestamp,
}

/// A subscription that got such deliveries.
#[derive(Debug, Deserialize)]
struct TrailHook {
    id: Uuid,
    target: String,
    deliveries: usize,
}

/// Asks for an address and a reason.
pub(crate) async fn ask(visit: FirmVisit) -> PageAnswer {
    let content = html! {
        p { "Shows everything that was sent about a person. The look is an entry of the audit log." }
        form.stacked method="post" action=(visit.firm_page("/person")) {
            (frame::form_fields(&visit.visit))
            label { "E-mail address "
                input type="email" name="address" required autocomplete="off"; }
            (parts::reason_field())
            button { "Show" }
        }
    };
    Ok(visit.page(PageContent::new("Person", content)))
}

/// Shows the trail of a person.
pub(crate) async fn show(State(state): State<SharedState>, form: SentForm) -> PageAnswer {
    let firm_id = form.visit.path_part("firm").ok().and_then(domain::values::parse_id);
    let firm = visit::find_firm(&state, &form.visit.session, firm_id).await?;
    let address = form.fields.required_text("address")?;
    let reason = form.fields.reason()?;
    let path = format!("/internal/v1/firms/{}/people", firm.id);
    let body = json!({ "address": address, "reason": reason });
    let command = ApiCommand { method: Method::POST, path: &path, body };
    let found = state.send_command(&form.visit.session, command).await?;
    let found: PersonTrail =
        serde_json::from_value(found).map_err(|error| Refusal::broken(&error.to_string()))?;
    let at = FirmVisit { visit: form.visit, firm };
    let content = trail_content(&at, &found);
    Ok(at.page(PageContent::new("Person", content)))
}

fn trail_content(at: &FirmVisit, found: &PersonTrail) -> Markup {
    let now = at.visit.now;
    html! {
        (parts::fact_list(&[
            ("Person", parts::plain_id(&found.person_id)),
            ("Mail", html! { (found.mail) }),
            ("Erased", parts::time_or_none(found.erased_at, now)),
        ]))
        (parts::section("responses", "Responses", &response_table(at, &found.responses)))
        (parts::section("deliveries", "Deliveries", &delivery_table(at, &found.deliveries)))
        (parts::archived_note(found.archived_before))
        (parts::section("hooks", "Subscriptions that got them", &hook_table(at, &found.subscriptions)))
        (parts::section("invites", "Invites of 90 days", &steps::step_list(&found.invites, now)))
        (parts::section("events", "Events about the person", &steps::step_list(&found.events, now)))
    }
}

fn response_table(at: &FirmVisit, responses: &[TrailResponse]) -> Markup {
    let rows = html! {
        @for one in responses {
            tr {
                td { (parts::plain_id(&one.id)) }
                td { (parts::plain_id(&one.form_id)) }
                td { (parts::time(one.saved_at, at.visit.now)) }
                td { (parts::time_or_none(one.submitted_at, at.visit.now)) }
            }
        }
    };
    parts::table("Responses", &["Response", "Form", "Saved", "Submitted"], &rows)
}

fn delivery_table(at: &FirmVisit, deliveries: &[TrailDelivery]) -> Markup {
    let rows = html! {
        @for one in deliveries {
            tr {
                td { (parts::id_link(&at.firm_page(&format!("/deliveries/{}", one.id)), &one.id)) }
                td { (parts::state(&one.state)) }
                td { (one.trigger) }
                td { @if let Some(id) = one.hook_id {
                    (parts::id_link(&at.firm_page(&format!("/hooks/{id}")), &id))
                } }
                td { (parts::time(one.created_at, at.visit.now)) }
            }
        }
    };
    parts::table("Deliveries", &["Delivery", "State", "Trigger", "Subscription", "Created"], &rows)
}

fn hook_table(at: &FirmVisit, hooks: &[TrailHook]) -> Markup {
    let rows = html! {
        @for one in hooks {
            tr {
                td { (parts::id_link(&at.firm_page(&format!("/hooks/{}", one.id)), &one.id)) }
                td { (parts::foreign_text(&one.target)) }
                td { (one.deliveries) }
            }
        }
    };
    parts::table("Subscriptions", &["Subscription", "Target", "Deliveries"], &rows)
}
