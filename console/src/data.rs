//! Data in place of a page: the URL of a page with `.json`, `.ndjson` or `.csv`.

use std::str::FromStr;

use auditor::lines::csv_line;
use axum::extract::Request;
use axum::http::Uri;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::http::request::Parts;
use axum::http::uri::PathAndQuery;
use axum::response::{IntoResponse, Response};
use domain::values::printable_json;
use serde_json::{Map, Value};

use crate::ask;
use crate::refusal::Refusal;

/// The form of data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DataFormat {
    Json,
    Ndjson,
    Csv,
}

impl DataFormat {
    pub(crate) const ALL: [Self; 3] = [Self::Json, Self::Ndjson, Self::Csv];

    /// The end of a path.
    pub(crate) const fn path_suffix(self) -> &'static str {
        match self {
            Self::Json => ".json",
            Self::Ndjson => ".ndjson",
            Self::Csv => ".csv",
        }
    }

    const fn content_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Ndjson => "application/x-ndjson",
            Self::Csv => "text/csv; charset=utf-8",
        }
    }
}

/// The whole path of a page, which a route shortens.
#[derive(Debug, Clone)]
pub(crate) struct PagePath(pub(crate) String);

/// Takes the end off the path, so that a page and its data have one route.
pub(crate) async fn take_suffix(mut request: Request) -> Request {
    if let Some((format, uri)) = without_suffix(request.uri()) {
        *request.uri_mut() = uri;
        request.extensions_mut().insert(format);
    }
    let path = PagePath(request.uri().path().to_owned());
    request.extensions_mut().insert(path);
    request
}

/// The whole path of a page.
pub(crate) fn path_of(parts: &Parts) -> &str {
    parts.extensions.get::<PagePath>().map_or("/console", |path| &path.0)
}

fn without_suffix(uri: &Uri) -> Option<(DataFormat, Uri)> {
    let named = |format: &DataFormat| uri.path().strip_suffix(format.path_suffix());
    let format = DataFormat::ALL.into_iter().find(|format| named(format).is_some())?;
    let path = named(&format)?;
    let query = uri.query().map(|query| format!("?{query}")).unwrap_or_default();
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = PathAndQuery::from_str(&format!("{path}{query}")).ok();
    Some((format, Uri::from_parts(parts).ok()?))
}

/// The answer of the API in this form. A list becomes its items, a line each.
pub(crate) fn data_answer(format: DataFormat, json: &[u8]) -> Result<Response, Refusal> {
    let kind = [(CONTENT_TYPE, format.content_type())];
    if format == DataFormat::Json {
        return Ok((kind, json.to_vec()).into_response());
    }
    let items = answer_items(ask::parse_json(json)?);
    let text = if format == DataFormat::Csv { csv_text(&items) } else { json_lines(&items) };
    let name = format!("attachment; filename=\"firmforms{}\"", format.path_suffix());
    Ok((kind, [(CONTENT_DISPOSITION, name)], text).into_response())
}

/// The items of a list, or the one thing that is shown.
fn answer_items(answer: Value) -> Vec<Map<String, Value>> {
    let items = match answer {
        Value::Object(mut answer) => match answer.remove("items") {
            Some(Value::Array(items)) => items,
            _ => vec![Value::Object(answer)],
        },
        other => vec![other],
    };
    let object = |item| match item {
        Value::Object(item) => item,
        other => Map::from_iter([("value".to_owned(), other)]),
    };
    items.into_iter().map(object).collect()
}

fn json_lines(items: &[Map<String, Value>]) -> String {
    let line = |item: &Map<String, Value>| {
        let line = Value::Object(item.clone()).to_string();
        format!("{}\n", printable_json(&line))
    };
    items.iter().map(line).collect()
}

/// A column for each field of any item. A field within a field is JSON.
fn csv_text(items: &[Map<String, Value>]) -> String {
    let mut columns: Vec<&str> = Vec::new();
    for name in items.iter().flat_map(Map::keys) {
        if !columns.contains(&name.as_str()) {
            columns.push(name);
        }
    }
    if columns.is_empty() {
        return String::new();
    }
    let row = |item: &Map<String, Value>| {
        let fields: Vec<String> = columns.iter().map(|name| csv_field(item.get(*name))).collect();
        csv_line(&fields)
    };
    csv_line(&columns) + &items.iter().map(row).collect::<String>()
}

fn csv_field(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;
    use serde_json::json;

    #[rstest]
    #[case("/console/firms.json?limit=1", Some(("/console/firms?limit=1", DataFormat::Json)))]
    #[case("/console/log/7.csv", Some(("/console/log/7", DataFormat::Csv)))]
    #[case("/console/firms.ndjson", Some(("/console/firms", DataFormat::Ndjson)))]
    #[case("/console/firms?q=a.json", None)]
    #[case("/console/style.css", None)]
    fn a_paths_end_names_the_data_format(
        #[case] asked: &str,
        #[case] expected: Option<(&str, DataFormat)>,
    ) {
        let found = without_suffix(&asked.parse().unwrap());
        let expected = expected.map(|(path, format)| (format, path.parse().unwrap()));
        assert_eq!(found, expected);
    }

    #[test]
    fn a_list_becomes_one_line_per_item() {
        let answer = json!({"items": [
            {"id": 1, "name": "=1+1", "hops": [{"status": 200}]},
            {"id": 2, "name": null, "late": true},
        ], "next": "2"});
        let items = answer_items(answer);
        let expected = "hops,id,name,late\r\n\"[{\"\"status\"\":200}]\",1,'=1+1,\r\n,2,,true\r\n";
        assert_eq!(csv_text(&items), expected);
        assert_eq!(json_lines(&items).lines().count(), 2);
        assert_eq!(csv_text(&answer_items(json!({"items": []}))), "");
    }

    #[test]
    fn one_thing_becomes_one_line() {
        assert_eq!(csv_text(&answer_items(json!({"id": "a"}))), "id\r\na\r\n");
        assert_eq!(json_lines(&answer_items(json!(7))), "{\"value\":7}\n");
    }
}
