//! The events of a stream, in order.

use axum::extract::State;
use maud::html;

use super::steps::{self, ToldStep};
use crate::SharedState;
use crate::ask::ListAnswer;
use crate::frame::PageContent;
use crate::parts::{self, ListFilter};
use crate::visit::{PageAnswer, PageVisit};

/// Lists the events of a stream, or asks for one.
pub(crate) async fn list(State(state): State<SharedState>, visit: PageVisit) -> PageAnswer {
    if visit.query_value("stream").is_none() {
        let content = html! {
            (filter_fields(&visit))
            p { "A stream is named by an id: of a firm, key, subscription, delivery, replay." }
            p { a href=(steps::event_page(1)) { "The first event of the log" } }
        };
        return Ok(visit.plain_page("Log", content));
    }
    let api = visit.api_path("/events");
    visit
        .show_answer(&state, &api, |found: &ListAnswer<ToldStep>| steps_content(&visit, found))
        .await
}

fn filter_fields(visit: &PageVisit) -> maud::Markup {
    let fields =
        [ListFilter::Text("stream", "id of a stream"), ListFilter::Text("kind", "Delivery")];
    parts::filter_form(visit, &fields)
}

fn steps_content(visit: &PageVisit, found: &ListAnswer<ToldStep>) -> PageContent {
    let content = html! {
        (filter_fields(visit))
        (steps::step_list(&found.items, visit.now))
        (parts::page_links(visit, found.next.as_deref()))
    };
    PageContent::new("Log", content).with_data()
}
