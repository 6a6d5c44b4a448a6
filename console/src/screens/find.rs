//! Finds anything by a piece of it. The search box posts its text ([`begin`]), so that no text of
//! the box goes into a URL. A program or a link may ask with the text in the URL ([`show`]).
//! Then a secret is never looked up, and a whole key is cut first.

use axum::extract::State;
use axum::response::{IntoResponse, Redirect};
use domain::operations::search::harmless_text;
use maud::{Markup, html};
use serde::Deserialize;
use uuid::Uuid;

use crate::SharedState;
use crate::act::SentForm;
use crate::ask::ListAnswer;
use crate::data::DataFormat;
use crate::frame::PageContent;
use crate::parts::{self, EmptyList};
use crate::visit::{PageAnswer, PageVisit};

/// Something that was found.
#[derive(Debug, Deserialize)]
struct FoundThing {
    kind: String,
    id: String,
    firm_id: Option<Uuid>,
    firm: Option<String>,
    label: String,
}

/// Answers the search box with a page of findings. Leads to the page of a single finding.
pub(crate) async fn begin(State(state): State<SharedState>, form: SentForm) -> PageAnswer {
    let Some(text) = form.fields.optional_text("q") else {
        return Ok(Redirect::to("/console").into_response());
    };
    if text.contains('@') {
        return Ok(form.visit.plain_page("Find", person_note()));
    }
    let Some(text) = harmless_text(text) else {
        return Ok(form.visit.plain_page("Find", secret_note()));
    };
    let query = [("q".to_owned(), text.to_owned())];
    let api = form.visit.api_with("/find", &query);
    let found: ListAnswer<FoundThing> = state.ask_json(&form.visit.session, &api).await?;
    match &found.items[..] {
        [one] => Ok(Redirect::to(&one.page_path()).into_response()),
        _ => Ok(form.visit.page(&findings_content(&found))),
    }
}

/// Shows the findings for the text in the URL. A text with a whole key leads to the URL with the
/// cut key, so that the key does not stay in the address bar.
pub(crate) async fn show(State(state): State<SharedState>, visit: PageVisit) -> PageAnswer {
    let Some(text) = visit.query_value("q") else {
        return Ok(visit.plain_page("Find", html! { p { "Write into the box above." } }));
    };
    if text.contains('@') {
        return Ok(visit.plain_page("Find", person_note()));
    }
    match harmless_text(text) {
        None => Ok(visit.plain_page("Find", secret_note())),
        Some(cut) if cut != text => {
            let end = visit.format.map_or("", DataFormat::path_suffix);
            let to = format!("{}{end}?q={}", visit.path, parts::encode_query(cut));
            Ok(Redirect::to(&to).into_response())
        }
        Some(_) => {
            let api = visit.api_path("/find");
            let content = |found: &ListAnswer<FoundThing>| findings_content(found).with_data();
            visit.show_answer(&state, &api, content).await
        }
    }
}

fn secret_note() -> Markup {
    html! {
        p { "Nobody looks for a token or a webhook secret by its text. Look for its id or its firm." }
    }
}

fn person_note() -> Markup {
    html! {
        p { "People are found within a firm, for a reason. Choose the "
            a href="/console/firms" { "firm" } ", then Person." }
    }
}

fn findings_content(found: &ListAnswer<FoundThing>) -> PageContent {
    let rows = html! {
        @for one in &found.items {
            tr {
                td { (parts::id_link(&one.page_path(), &one.id)) }
                td { (one.kind) }
                td { (parts::foreign_text(&one.label)) }
                td { @if let Some(firm) = &one.firm { (parts::foreign_text(firm)) } }
            }
        }
    };
    let content = html! {
        (parts::table("Found", &["Id", "Kind", "Name", "Firm"], &rows))
        (parts::empty_note(&EmptyList(found.items.is_empty())))
        (parts::archived_note(found.archived_before))
    };
    PageContent::new("Find", content)
}

impl FoundThing {
    /// The page of the thing.
    fn page_path(&self) -> String {
        let id = &self.id;
        let of_firm = |path: String| match self.firm_id.filter(|firm_id| !firm_id.is_nil()) {
            Some(firm_id) => format!("/console/firms/{firm_id}{path}"),
            None => format!("/console/log?stream={id}"),
        };
        match self.kind.as_str() {
            "firm" => format!("/console/firms/{id}"),
            "key" => of_firm(format!("/keys/{id}")),
            "hook" => of_firm(format!("/hooks/{id}")),
            "delivery" => of_firm(format!("/deliveries/{id}")),
            "member" => of_firm("/access".to_owned()),
            "replay" => format!("/console/replays/{id}"),
            "pause" => "/console/pauses".to_owned(),
            "token" => "/console/tokens".to_owned(),
            "receiver" => {
                format!("/console/receivers?host={}", parts::encode_query(id))
            }
            // Both are named by the position of the event, which leads to the entry.
            "event" | "entry" => format!("/console/log/{id}"),
            _ => format!("/console/log?stream={id}"),
        }
    }
}
