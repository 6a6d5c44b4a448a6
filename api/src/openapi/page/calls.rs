//! Operations on the page: request, answers and a call to try.

use std::collections::{BTreeMap, BTreeSet};

use maud::{Markup, html};
use serde_json::Value;

use super::super::operations;
use super::fields;
use super::words::{
    array_items, formatted_json, object_entries, prose_markup, resolve_reference, text_or_empty,
};
use crate::docs::markup::{inline_markup, table_row, two_columns};

/// An operation of the document.
pub(super) struct DocumentedCall<'a> {
    document: &'a Value,
    path: &'a str,
    method: String,
    operation: &'a Value,
}

/// The operations of a tag, by path and method.
pub(super) fn of_tag<'a>(document: &'a Value, tag: &str) -> Vec<DocumentedCall<'a>> {
    let all = object_entries(&document["paths"]).flat_map(|(path, methods)| {
        object_entries(methods).map(move |(method, operation)| DocumentedCall {
            document,
            path,
            method: method.to_uppercase(),
            operation,
        })
    });
    all.filter(|call| array_items(&call.operation["tags"]).any(|name| name == tag)).collect()
}

/// The anchor of a tag on the page. An operation's anchor is its id.
pub(super) fn tag_anchor(tag: &str) -> String {
    format!("about-{}", tag.to_lowercase())
}

impl<'a> DocumentedCall<'a> {
    pub(super) fn id(&self) -> &'a str {
        text_or_empty(&self.operation["operationId"])
    }

    pub(super) fn title(&self) -> Markup {
        html! { code { (self.method) " " (self.path) } }
    }

    pub(super) fn show(&self) -> Markup {
        html! {
            article aria-labelledby=(self.id()) {
                h3 id=(self.id()) { (self.title()) " " (text_or_empty(&self.operation["summary"])) }
                (prose_markup(&self.operation["description"]))
                (fields::parameters(&self.own_parameters()))
                (self.body_section())
                pre { code { (self.curl_example()) } }
                (self.answers_table())
                (self.example_blocks())
            }
        }
    }

    /// The parameters, without the one that every call takes: the overview tells of it.
    fn own_parameters(&self) -> Vec<&'a Value> {
        let all = array_items(&self.operation["parameters"]);
        let all = all.map(|parameter| resolve_reference(self.document, parameter));
        all.filter(|parameter| parameter["name"] != "X-Request-Id").collect()
    }

    fn request_content(&self) -> &'a Value {
        &self.operation["requestBody"]["content"]["application/json"]
    }

    fn body_section(&self) -> Markup {
        let body = &self.operation["requestBody"];
        let schema = resolve_reference(self.document, &self.request_content()["schema"]);
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
    fn curl_example(&self) -> String {
        let server = text_or_empty(&self.document["servers"][0]["url"]);
        let mut path = self.path.to_owned();
        for parameter in self.own_parameters() {
            let name = format!("{{{}}}", text_or_empty(&parameter["name"]));
            path = path.replace(&name, text_or_empty(&parameter["example"]));
        }
        let mut lines = vec![format!("curl -X {} '{server}{path}'", self.method)];
        if array_items(&self.operation["security"]).next().is_some() {
            lines.push(r#"-H "X-API-Key: $KEY""#.to_owned());
        }
        if !self.request_content().is_null() {
            lines.push("-H 'Content-Type: application/json'".to_owned());
            lines.push(format!("-d '{}'", formatted_json(&self.request_content()["example"])));
        }
        lines.join(" \\\n  ")
    }

    fn answers_table(&self) -> Markup {
        let responses = object_entries(&self.operation["responses"]);
        let rows = html! {
            @for (status, answer) in responses {
                (answer_rows(status, resolve_reference(self.document, answer)))
            }
        };
        html! {
            (two_columns("Answers", ["Status and code", "When"], &rows))
            p { a href="#errors" { "Errors of every call" } }
        }
    }

    fn example_blocks(&self) -> Markup {
        let answers = object_entries(&self.operation["responses"]);
        let done = answers.filter(|(_, answer)| answer["$ref"].is_null());
        html! {
            @for (status, answer) in done {
                @for (_, example) in object_entries(&answer["content"]["application/json"]["examples"]) {
                    p.note { "Answer " (status) }
                    pre { code { (formatted_json(&example["value"])) } }
                }
            }
        }
    }
}

/// One row per code, without the errors of every call. A success has one row.
fn answer_rows(status: &str, answer: &Value) -> Markup {
    let examples = &answer["content"]["application/json"]["examples"];
    let codes = object_entries(examples).filter(|(_, example)| example["summary"].is_string());
    let codes: Vec<_> =
        codes.map(|(code, example)| (format!("{status} {code}"), &example["summary"])).collect();
    let common = common_errors();
    html! {
        @if codes.is_empty() { (table_row(status, "", &prose_markup(&answer["description"]))) }
        @for (answer, when) in codes.iter().filter(|(answer, _)| !common.contains(answer)) {
            (table_row(answer, "", &prose_markup(when)))
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
pub(super) fn errors_table(document: &Value) -> Markup {
    let responses = object_entries(&document["components"]["responses"]);
    let told = responses.flat_map(|(name, response)| {
        let status: String = name.chars().filter(char::is_ascii_digit).collect();
        let examples = object_entries(&response["content"]["application/json"]["examples"]);
        examples.map(move |(code, example)| (format!("{status} {code}"), &example["summary"]))
    });
    let common = common_errors();
    let told: BTreeMap<_, _> = told.collect();
    let (of_all, of_some): (Vec<_>, Vec<_>) =
        told.iter().partition(|(answer, _)| common.contains(*answer));
    let rows = |told: &[(&String, &&Value)]| html! { @for (answer, when) in told { (table_row(answer, "", &prose_markup(when))) } };
    html! {
        p { (inline_markup("Every error is `{\"error\": \"a sentence\", \"code\": \"stable\"}`.")) }
        (two_columns("Errors of every call", ["Status and code", "When"], &rows(&of_all)))
        (two_columns("Errors of some calls", ["Status and code", "When"], &rows(&of_some)))
    }
}
