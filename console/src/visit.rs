//! A call with a session: the query as the API takes it, the firm, and the form of the answer.

use std::net::IpAddr;

use api::public::client_address;
use api::queries::inventory::{self, PageRequest};
use api::sessions::{self, Session, TokenUse};
use axum::extract::{FromRequestParts, RawPathParams};
use axum::http::header::COOKIE;
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Redirect, Response};
use domain::values::{Timestamp, When, parse_id};
use maud::Markup;
use serde::de::DeserializeOwned;
use url::form_urlencoded;
use uuid::Uuid;

use crate::cookie::{BrowserChannel, UsedCookie};
use crate::data::{self, DataFormat};
use crate::entrance;
use crate::frame::{self, PageContent};
use crate::refusal::Refusal;
use crate::{ConsoleState, SharedState, ask};

/// Parameters that the API does not get from an address. `done` is the console's own. Contents are
/// shown to a form alone, because a link of anybody could ask for them.
const OWN_PARAMETERS: [&str; 4] = ["done", "show_body", "show_answer", "show_target"];

/// A call with a session.
pub(crate) struct PageVisit {
    pub(crate) session: Session,
    /// The text that each form must carry.
    pub(crate) form_token: String,
    pub(crate) format: Option<DataFormat>,
    pub(crate) path: String,
    pub(crate) query: Vec<(String, String)>,
    pub(crate) now: Timestamp,
    /// The client's address, after trusted proxies.
    pub(crate) address: IpAddr,
    /// Sets the cookie that goes on with the session.
    pub(crate) used_cookie: UsedCookie,
    pub(crate) channel: BrowserChannel,
    /// A new id, for a command that is sent once however often its form is.
    pub(crate) request_id: Uuid,
    /// The word of the command that led here.
    pub(crate) done: Option<String>,
    params: Vec<(String, String)>,
}

/// The answer of a page.
pub(crate) type PageAnswer = Result<Response, Refusal>;

impl FromRequestParts<SharedState> for PageVisit {
    type Rejection = Response;

    async fn from_request_parts(
        parts: &mut Parts,
        state: &SharedState,
    ) -> Result<Self, Self::Rejection> {
        let format = parts.extensions.get::<DataFormat>().copied();
        let token_use = parts.extensions.get().copied().unwrap_or(TokenUse::Noted);
        let FoundSession { session, channel } =
            match find_session(state, &parts.headers, token_use).await {
                Ok(Some(found)) => found,
                Ok(None) if format.is_some() => {
                    return Err(Refusal::new(StatusCode::UNAUTHORIZED, "sign in first").into_data());
                }
                Ok(None) => return Err(entrance::send_to(parts)),
                Err(refusal) => return Err(refusal.into_response()),
            };
        let used_cookie: UsedCookie = parts.extensions.get().cloned().unwrap_or_default();
        if token_use == TokenUse::Noted {
            used_cookie.note_use(&state.service, &session, channel);
        }
        let now = state.service.clock.now();
        let mut query = read_query(parts.uri.query().unwrap_or_default());
        if make_absolute(&mut query, now) {
            let end = format.map_or("", DataFormat::path_suffix);
            let to = format!("{}{end}?{}", data::path_of(parts), query_text(&query));
            return Err(Redirect::to(&to).into_response());
        }
        let done = query.iter().find(|(name, _)| name == "done").map(|(_, word)| word.clone());
        query.retain(|(name, _)| !OWN_PARAMETERS.contains(&name.as_str()));
        let form_token = session.form_token(&state.service);
        let path = data::path_of(parts).to_owned();
        let params = path_params(parts).await;
        Ok(Self {
            session,
            form_token,
            format,
            path,
            query,
            now,
            address: client_address(&state.service, parts),
            used_cookie,
            channel,
            request_id: state.service.entropy.new_id(),
            done,
            params,
        })
    }
}

/// A session, and the channel of its cookie.
pub(crate) struct FoundSession {
    pub(crate) session: Session,
    pub(crate) channel: BrowserChannel,
}

/// The session of a request, if it has one.
pub(crate) async fn find_session(
    state: &ConsoleState,
    headers: &HeaderMap,
    token_use: TokenUse,
) -> Result<Option<FoundSession>, Refusal> {
    for channel in BrowserChannel::new(headers).readable_channels() {
        for cookie in named_cookies(headers, channel.cookie_name()) {
            let found = sessions::resume(&state.service, cookie, token_use).await;
            if let Some(session) = found.map_err(|error| Refusal::unanswered(&error))? {
                return Ok(Some(FoundSession { session, channel: *channel }));
            }
        }
    }
    Ok(None)
}

/// The values of all cookies of this name.
pub(crate) fn named_cookies<'a>(
    headers: &'a HeaderMap,
    wanted: &'a str,
) -> impl Iterator<Item = &'a str> {
    let all = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    let pairs = all.flat_map(|value| value.split(';')).filter_map(|pair| pair.split_once('='));
    pairs.filter(move |(name, _)| name.trim() == wanted).map(|(_, value)| value.trim())
}

/// The parameters that say something. A form sends its empty fields, too.
pub(crate) fn read_query(query: &str) -> Vec<(String, String)> {
    let pairs = form_urlencoded::parse(query.as_bytes());
    let said = pairs.map(|(name, value)| (name.into_owned(), value.trim().to_owned()));
    said.filter(|(_, value)| !value.is_empty()).collect()
}

/// Turns distances such as `24h` into instants, so that a link shows tomorrow the rows of today.
/// Returns whether there were any.
fn make_absolute(query: &mut [(String, String)], now: Timestamp) -> bool {
    let mut changed = false;
    for (name, value) in query.iter_mut() {
        let is_time = matches!(name.as_str(), "since" | "until" | "as_of");
        if let (true, Ok(when @ (When::Distance(_) | When::Day(_)))) = (is_time, value.parse()) {
            *value = when.instant_before(now).to_string();
            changed = true;
        }
    }
    changed
}

/// Names and values as a query.
pub(crate) fn query_text(query: &[(String, String)]) -> String {
    form_urlencoded::Serializer::new(String::new()).extend_pairs(query).finish()
}

pub(crate) async fn path_params(parts: &mut Parts) -> Vec<(String, String)> {
    let found: Result<RawPathParams, _> = RawPathParams::from_request_parts(parts, &()).await;
    let Ok(params) = found else { return Vec::new() };
    params.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

impl PageVisit {
    /// The value of a parameter.
    pub(crate) fn query_value(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// A part of the path that is written with letters, digits and hyphens.
    pub(crate) fn path_part(&self, name: &str) -> Result<&str, Refusal> {
        let part = self.params.iter().find(|(known, _)| known == name);
        let is_plain = |text: &&str| {
            !text.is_empty()
                && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        };
        part.map(|(_, text)| text.as_str()).filter(is_plain).ok_or_else(Refusal::no_page)
    }

    /// The path of the API with the query of this visit.
    pub(crate) fn api_path(&self, path: &str) -> String {
        self.api_with(path, &self.query)
    }

    /// The path of the API with this query.
    pub(crate) fn api_with(&self, path: &str, query: &[(String, String)]) -> String {
        let mark = if query.is_empty() { "" } else { "?" };
        format!("/internal/v1{path}{mark}{}", query_text(query))
    }

    /// This page with a parameter set, or without it.
    pub(crate) fn link_with(&self, name: &str, value: Option<&str>) -> String {
        let others = self.query.iter().filter(|(known, _)| known != name && known != "after");
        let mut query: Vec<(String, String)> = others.cloned().collect();
        query.extend(value.map(|value| (name.to_owned(), value.to_owned())));
        let mark = if query.is_empty() { "" } else { "?" };
        format!("{}{mark}{}", self.path, query_text(&query))
    }

    /// The data of this page.
    pub(crate) fn data_link(&self, format: DataFormat) -> String {
        let mark = if self.query.is_empty() { "" } else { "?" };
        format!("{}{}{mark}{}", self.path, format.path_suffix(), query_text(&self.query))
    }

    /// Whether the holder may act.
    pub(crate) fn may_act(&self) -> bool {
        self.session.may_act()
    }

    /// This page, with an answer of the API as data or as content.
    pub(crate) async fn show_answer<T: DeserializeOwned>(
        &self,
        state: &ConsoleState,
        api: &str,
        content: impl FnOnce(&T) -> PageContent,
    ) -> PageAnswer {
        let answer = state.ask_bytes(&self.session, api).await;
        match (self.format, answer) {
            (Some(format), Ok(json)) => data::data_answer(format, &json),
            (Some(_), Err(refusal)) => Ok(refusal.into_data()),
            (None, answer) => Ok(self.page(&content(&ask::parse_json(&answer?)?))),
        }
    }

    /// A whole page.
    pub(crate) fn page(&self, content: &PageContent) -> Response {
        frame::full_page(self, content)
    }

    /// A whole page that has no data of its own.
    pub(crate) fn plain_page(&self, title: &str, content: Markup) -> Response {
        self.page(&PageContent::new(title, content))
    }
}

/// A call about a firm.
pub(crate) struct FirmVisit {
    pub(crate) visit: PageVisit,
    pub(crate) firm: FirmHead,
}

/// The firm of a page.
#[derive(Debug, Clone)]
pub(crate) struct FirmHead {
    pub(crate) id: Uuid,
    pub(crate) name: String,
    pub(crate) status: String,
}

impl FromRequestParts<SharedState> for FirmVisit {
    type Rejection = Response;

    async fn from_request_parts(
        parts: &mut Parts,
        state: &SharedState,
    ) -> Result<Self, Self::Rejection> {
        let visit = PageVisit::from_request_parts(parts, state).await?;
        let firm_id = visit.path_part("firm").ok().and_then(parse_id);
        match find_firm(state, &visit.session, firm_id).await {
            Ok(firm) => Ok(Self { visit, firm }),
            Err(refusal) if visit.format.is_some() => Err(refusal.into_data()),
            Err(refusal) => Err(refusal.into_response()),
        }
    }
}

/// The firm with this id, if the session reaches it.
pub(crate) async fn find_firm(
    state: &ConsoleState,
    session: &Session,
    firm_id: Option<Uuid>,
) -> Result<FirmHead, Refusal> {
    let firm_id = firm_id.filter(|id| session.holder().reaches(*id)).ok_or_else(no_firm)?;
    let only = PageRequest::default();
    let found = inventory::firms(&state.service, Some(&[firm_id]), only).await;
    let found = found.map_err(|error| Refusal::broken(&error.to_string()))?;
    let row = found.rows.into_iter().next().ok_or_else(no_firm)?;
    Ok(FirmHead { id: row.firm_id, name: row.name, status: row.status })
}

fn no_firm() -> Refusal {
    Refusal::new(StatusCode::NOT_FOUND, "there is no such firm")
}

impl FirmVisit {
    /// The path of the API below the firm, with the query of this visit.
    pub(crate) fn api_path(&self, path: &str) -> String {
        self.visit.api_path(&format!("/firms/{}{path}", self.firm.id))
    }

    /// A page of the console below the firm.
    pub(crate) fn firm_page(&self, path: &str) -> String {
        format!("/console/firms/{}{path}", self.firm.id)
    }

    /// This page, with an answer of the API as data or as content.
    pub(crate) async fn show_answer<T: DeserializeOwned>(
        &self,
        state: &ConsoleState,
        path: &str,
        content: impl FnOnce(&T) -> PageContent,
    ) -> PageAnswer {
        let of_firm = |answer: &T| content(answer).of_firm(&self.firm);
        self.visit.show_answer(state, &self.api_path(path), of_firm).await
    }

    /// A whole page of the firm.
    pub(crate) fn page(&self, content: PageContent) -> Response {
        self.visit.page(&content.of_firm(&self.firm))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_fields_are_no_parameters() {
        let query = read_query("state=&trigger=+form_submitted+&limit=5&x=%20");
        assert_eq!(query_text(&query), "trigger=form_submitted&limit=5");
    }

    #[test]
    fn a_distance_becomes_an_instant_once() {
        let now = "2026-11-01T12:00:00Z".parse().unwrap();
        let mut query = read_query("since=24h&until=yesterday&host=7d");
        assert!(make_absolute(&mut query, now));
        let expected =
            "since=2026-10-31T12%3A00%3A00.000Z&until=2026-10-31T00%3A00%3A00.000Z&host=7d";
        assert_eq!(query_text(&query), expected);
        assert!(!make_absolute(&mut query, now));
    }
}
