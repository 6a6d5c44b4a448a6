//! The frame of every page of a session: its menus, its search and its foot.

use axum::http::StatusCode;
use axum::response::Response;
use domain::values::printable_text;
use maud::{Markup, html};

use crate::data::DataFormat;
use crate::document::html_document;
use crate::form::{BACK, FORM_TOKEN};
use crate::visit::{FirmHead, PageVisit};

/// Pages of the menu: address, name, and the letter that leads there after `g`.
const MENU: [[&str; 3]; 9] = [
    ["/console", "Home", "h"],
    ["/console/firms", "Firms", "f"],
    ["/console/receivers", "Receivers", "r"],
    ["/console/pauses", "Pauses", "p"],
    ["/console/replays", "Replays", "y"],
    ["/console/log", "Log", "l"],
    ["/console/proof", "Proof", "o"],
    ["/console/tokens", "Tokens", "t"],
    ["/console/sizes", "Sizes", "z"],
];

/// Pages of a firm: address below the firm, name, letter.
const FIRM_MENU: [[&str; 3]; 7] = [
    ["", "Firm", "i"],
    ["/deliveries", "Deliveries", "d"],
    ["/hooks", "Subscriptions", "s"],
    ["/audit", "Audit log", "a"],
    ["/keys", "Keys", "k"],
    ["/access", "Access", "c"],
    ["/person", "Person", "n"],
];

/// Keys of the script, for the help.
const KEYS: [[&str; 2]; 9] = [
    ["/", "search"],
    ["j k", "next and previous row"],
    ["Enter, o", "open the row, here or in a new tab"],
    ["l h", "next page, back"],
    ["c", "copy the id of the row"],
    ["y", "copy the link of this page"],
    ["e", "the data of this page as CSV"],
    ["g and a letter", "go to a page of the menu"],
    ["Esc", "leave a field, close this"],
];

/// The words for commands that have been carried out.
const DONE: [[&str; 2]; 8] = [
    ["paused", "The pause has begun."],
    ["resumed", "The pause has ended."],
    ["revoked", "The key is revoked, and its subscriptions are removed."],
    ["ordered", "The replay has begun."],
    ["replay-paused", "The replay is paused."],
    ["replay-resumed", "The replay goes on."],
    ["replay-stopped", "The replay is stopped."],
    ["reissued", "This is the new delivery."],
];

/// The content of a page.
pub(crate) struct PageContent {
    title: String,
    content: Markup,
    firm: Option<FirmHead>,
    has_data: bool,
}

impl PageContent {
    /// A page that is not about a firm.
    pub(crate) fn new(title: &str, content: Markup) -> Self {
        Self { title: printable_text(title).into_owned(), content, firm: None, has_data: false }
    }

    /// A page whose data can be had.
    pub(crate) fn with_data(self) -> Self {
        Self { has_data: true, ..self }
    }

    /// A page about a firm.
    pub(crate) fn of_firm(self, firm: &FirmHead) -> Self {
        Self { firm: Some(firm.clone()), ..self }
    }
}

/// A whole page.
pub(crate) fn full_page(visit: &PageVisit, page: &PageContent) -> Response {
    let body = html! {
        a.skip href="#content" { "Skip to the content" }
        (page_top(visit))
        @if let Some(firm) = &page.firm { (firm_menu(visit, firm)) }
        main #content tabindex="-1" {
            h1 { (page.title) }
            (done_message(visit))
            (as_of(visit))
            (page.content)
        }
        (page_foot(visit, page))
        (help_dialog())
    };
    html_document(StatusCode::OK, &page.title, &body, &html! {})
}

fn page_top(visit: &PageVisit) -> Markup {
    let role = if visit.may_act() { "operator" } else { "auditor" };
    let reach = if visit.session.holder().reaches_all() { "" } else { ", some firms" };
    html! {
        header.top {
            a.brand href="/console" { "firmforms" }
            nav aria-label="Console" { ul { @for place in MENU { (menu_item(visit, "", place)) } } }
            form.search role="search" method="post" action="/console/find" {
                input type="hidden" name=(FORM_TOKEN) value=(visit.form_token);
                label.unseen for="search" { "Find an id, a name, a host, a hash or a position" }
                input #search type="search" name="q" maxlength="300" autocomplete="off"
                    placeholder="id, name, host, hash, address";
                button { "Find" }
            }
            div.holder {
                @if let Some(name) = visit.session.user() { span { bdi { (printable_text(name)) } } " " }
                span { (role) (reach) } (sign_out_button(&visit.form_token))
            }
        }
    }
}

/// A button that ends the session.
fn sign_out_button(form_token: &str) -> Markup {
    html! {
        form method="post" action="/console/sign-out" {
            input type="hidden" name=(FORM_TOKEN) value=(form_token);
            button.quiet { "Sign out" }
        }
    }
}

fn firm_menu(visit: &PageVisit, firm: &FirmHead) -> Markup {
    let base = format!("/console/firms/{}", firm.id);
    html! {
        nav.firm aria-label="Firm" {
            p { bdi { (printable_text(&firm.name)) } " " small { (firm.status) } }
            ul { @for place in FIRM_MENU { (menu_item(visit, &base, place)) } }
        }
    }
}

fn menu_item(visit: &PageVisit, base: &str, [path, name, letter]: [&str; 3]) -> Markup {
    let address = format!("{base}{path}");
    let here = (visit.path == address).then_some("page");
    html! { li { a href=(address) aria-current=[here] data-go=(letter) { (name) } } }
}

fn done_message(visit: &PageVisit) -> Markup {
    let word = visit.done.as_deref();
    let known = DONE.iter().find(|[known, _]| word == Some(*known));
    html! { @if let Some([_, sentence]) = known { p.done role="status" { (sentence) } } }
}

fn as_of(visit: &PageVisit) -> Markup {
    html! {
        @if let Some(moment) = visit.query_value("as_of") {
            p.then role="note" {
                "As of " strong { (moment) } ". "
                a href=(visit.link_with("as_of", None)) { "Back to now" }
            }
        }
    }
}

fn page_foot(visit: &PageVisit, page: &PageContent) -> Markup {
    html! {
        footer {
            @if page.has_data {
                p { "This page as data: "
                    @for format in DataFormat::ALL {
                        a href=(visit.data_link(format)) data-form=(format.path_suffix()) {
                            (format.path_suffix())
                        } " "
                    }
                }
            }
            p { "Times are UTC. Now " time datetime=(visit.now) { (visit.now) }
                ". Press " kbd { "?" } " for keys." }
        }
    }
}

fn help_dialog() -> Markup {
    html! {
        dialog #help aria-labelledby="help-title" {
            h2 #help-title { "Keys" }
            dl { @for [key, meaning] in KEYS { dt { kbd { (key) } } dd { (meaning) } } }
            form method="dialog" { button { "Close" } }
        }
    }
}

/// The hidden fields of a form: its proof of origin, and the page to go back to.
pub(crate) fn form_fields(visit: &PageVisit) -> Markup {
    html! {
        input type="hidden" name=(FORM_TOKEN) value=(visit.form_token);
        input type="hidden" name=(BACK) value=(visit.link_with("", None));
    }
}
