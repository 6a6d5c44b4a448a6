//! Operations on the page: request, answers and a call to try.

use std::collections::{BTreeMap, BTreeSet};

use maud::{Markup, html};
use serde_json::Value;

use super::super::operations;
use super::fields;
use super::words::{entries, items, json, prose, resolved, text};
use crate::docs::markup::{line, row, table};

/// An operation of the document.
pub(super) struct DocumentedCall<'a> {
    document: &'a Value,
    path: &'a str,
    method: String,
    operation: &'a Value,
}

/// The operations of a tag, by path and method.
pub(super) fn of_tag<'a>(document: &'a Value, tag: &str) -> Vec<DocumentedCall<'a>> {
    let all = entries(&document["paths"]).flat_map(|(path, methods)| {
        entries(methods).map(move |(method, operation)| DocumentedCall {
            document,
            path,
            method: method.to_uppercase(),
            operation,
        })
    });
    all.filter(|call| items(&call.operation["tags"]).any(|name| name == tag)).collect()
}

/// The anchor of a tag on the page. An operation's anchor is its id.
pub(super) fn anchor(tag: &str) -> String {
    format!("about-{}", tag.to_lowercase())
}

impl<'a> DocumentedCall<'a> {
    pub(super) fn id(&self) -> &'a str {
        text(&self.operation["operationId"])
    }

    pub(super) fn title(&self) -> Markup {
        html! { code { (self.method) " " (self.path) } }
    }

    pub(super) fn show(&self) -> Markup {
        html! {
            article aria-labelledby=(self.id()) {
                h3 id=(self.id()) { (self.title()) " " (text(&self.operation["summary"])) }
                (prose(&self.operation["description"]))
                (fields::parameters(&self.parameters()))
                (self.body())
                pre { code { (self.curl()) } }
                (self.answers())
                (self.examples())
            }
        }
    }

    /// The parameters, without the one that every call takes: the overview tells of it.
    fn parameters(&self) -> Vec<&'a Value> {
        let all = items(&self.operation["parameters"]);
        let all = all.map(|parameter| resolved(self.document, parameter));
        all.filter(|parameter| parameter["name"] != "X-Request-Id").collect()
    }

    fn sent(&self) -> &'a Value {
        &self.operation["requestBody"]["content"]["application/json"]
    }

    fn body(&self) -> Markup {
        let body = &self.operation["requestBody"];
        let schema = resolved(self.document, &self.sent()["schema"]);
        html! {
            @if !body.is_null() {
                (fields::of_object(
                    if body["required"] == true { "Body" } else { "Body, may be left out" },
                    schema,
                ))
            }
        }
    }

    /// A `curl` call with the values of the examples.
    fn curl(&self) -> String {
        let server = text(&self.document["servers"][0]["url"]);
        let mut path = self.path.to_owned();
        for parameter in self.parameters() {
            let name = format!("{{{}}}", text(&parameter["name"]));
            path = path.replace(&name, text(&parameter["example"]));
        }
        let mut lines = vec![format!("curl -X {} '{server}{path}'", self.method)];
        if items(&self.operation["security"]).next().is_some() {
            lines.push(r#"-H "X-API-Key: $KEY""#.to_owned());
        }
        if !self.sent().is_null() {
            lines.push("-H 'Content-Type: application/json'".to_owned());
            lines.push(format!("-d '{}'", json(&self.sent()["example"])));
        }
        lines.join(" \\\n  ")
    }

    fn answers(&self) -> Markup {
        let responses = entries(&self.operation["responses"]);
        let rows = html! {
            @for (status, answer) in responses {
                (answer_rows(status, resolved(self.document, answer)))
            }
        };
        html! {
            (table("Answers", ["Status and code", "When"], &rows))
            p { a href="#errors" { "Errors of every call" } }
        }
    }

    fn examples(&self) -> Markup {
        let answers = entries(&self.operation["responses"]);
        let done = answers.filter(|(_, answer)| answer["$ref"].is_null());
        html! {
            @for (status, answer) in done {
                @for (_, example) in entries(&answer["content"]["application/json"]["examples"]) {
                    p.note { "Answer " (status) }
                    pre { code { (json(&example["value"])) } }
                }
            }
        }
    }
}

/// One row per code, without the errors of every call. A success has one row.
fn answer_rows(status: &str, answer: &Value) -> Markup {
    let examples = &answer["content"]["application/json"]["examples"];
    let codes = entries(examples).filter(|(_, example)| example["summary"].is_string());
    let codes: Vec<_> =
        codes.map(|(code, example)| (format!("{status} {code}"), &example["summary"])).collect();
    let common = common_errors();
    html! {
        @if codes.is_empty() { (row(status, "", &prose(&answer["description"]))) }
        @for (answer, when) in codes.iter().filter(|(answer, _)| !common.contains(answer)) {
            (row(answer, "", &prose(when)))
        }
    }
}

/// Statuses and codes that every call of its kind can have.
fn common_errors() -> BTreeSet<String> {
    let refusals = operations::all().into_iter().flat_map(|of| of.common_refusals());
    let told = refusals.map(|error| error.status_and_code());
    told.map(|(status, code)| format!("{} {code}", status.as_u16())).collect()
}

/// All answers that operations refer to, once per status and code.
pub(super) fn errors(document: &Value) -> Markup {
    let responses = entries(&document["components"]["responses"]);
    let told = responses.flat_map(|(name, response)| {
        let status: String = name.chars().filter(char::is_ascii_digit).collect();
        let examples = entries(&response["content"]["application/json"]["examples"]);
        examples.map(move |(code, example)| (format!("{status} {code}"), &example["summary"]))
    });
    let common = common_errors();
    let told: BTreeMap<_, _> = told.collect();
    let (of_all, of_some): (Vec<_>, Vec<_>) =
        told.iter().partition(|(answer, _)| common.contains(*answer));
    let rows = |told: &[(&String, &&Value)]| html! { @for (answer, when) in told { (row(answer, "", &prose(when))) } };
    html! {
        p { (line("Every error is `{\"error\": \"a sentence\", \"code\": \"stable\"}`.")) }
        (table("Errors of every call", ["Status and code", "When"], &rows(&of_all)))
        (table("Errors of some calls", ["Status and code", "When"], &rows(&of_some)))
    }
}
