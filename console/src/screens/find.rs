//! Finds anything by a piece of it. An address of a person goes into no URL.

use axum::extract::State;
use axum::response::{IntoResponse, Redirect};
use maud::html;
use serde::Deserialize;
use url::form_urlencoded;
use uuid::Uuid;

use crate::SharedState;
use crate::act::SentForm;
use crate::ask::ListAnswer;
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

/// Begins a search. A single finding is shown at once.
pub(crate) async fn begin(State(state): State<SharedState>, form: SentForm) -> PageAnswer {
    let Some(text) = form.fields.optional("q") else {
        return Ok(Redirect::to("/console").into_response());
    };
    if text.contains('@') {
        return Ok(form.visit.plain("Find", person()));
    }
    let query = [("q".to_owned(), text.to_owned())];
    let api = form.visit.api_with("/find", &query);
    let found: ListAnswer<FoundThing> = state.asked(&form.visit.session, &api).await?;
    let to = match &found.items[..] {
        [one] => one.page(),
        _ => {
            let query =
                form_urlencoded::Serializer::new(String::new()).extend_pairs(&query).finish();
            format!("/console/find?{query}")
        }
    };
    Ok(Redirect::to(&to).into_response())
}

/// Shows the findings.
pub(crate) async fn show(State(state): State<SharedState>, visit: PageVisit) -> PageAnswer {
    match visit.asked("q") {
        None => Ok(visit.plain("Find", html! { p { "Write into the box above." } })),
        Some(text) if text.contains('@') => Ok(visit.plain("Find", person())),
        Some(_) => {
            let api = visit.api("/find");
            visit.shown(&state, &api, |found: &ListAnswer<FoundThing>| content(found)).await
        }
    }
}

fn person() -> maud::Markup {
    html! {
        p { "People are found within a firm, for a reason. Choose the "
            a href="/console/firms" { "firm" } ", then Person." }
    }
}

fn content(found: &ListAnswer<FoundThing>) -> PageContent {
    let rows = html! {
        @for one in &found.items {
            tr {
                td { (parts::id(&one.page(), &one.id)) }
                td { (one.kind) }
                td { (parts::foreign(&one.label)) }
                td { @if let Some(firm) = &one.firm { (parts::foreign(firm)) } }
            }
        }
    };
    let content = html! {
        (parts::table("Found", &["Id", "Kind", "Name", "Firm"], &rows))
        (parts::empty(&EmptyList(found.items.is_empty())))
    };
    PageContent::of("Find", content).with_data()
}

impl FoundThing {
    /// The page of the thing.
    fn page(&self) -> String {
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
                let query = form_urlencoded::Serializer::new(String::new())
                    .append_pair("host", id)
                    .finish();
                format!("/console/receivers?{query}")
            }
            // Both are named by the position of the event, which leads to the entry.
            "event" | "entry" => format!("/console/log/{id}"),
            _ => format!("/console/log?stream={id}"),
        }
    }
}
