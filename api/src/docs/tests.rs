//! All documents as the public door serves them, without a key and without a database.

use std::collections::BTreeSet;

use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, Request};
use rstest::rstest;
use tower::ServiceExt;

use super::frame::{DocsPage, DocsPlace, PageScript};
use super::*;
use crate::public::router;
use crate::service::tests::nowhere;

const BASE: &str = "https://forms.example/api/v1";

/// No page is larger when it is compressed. Anybody can ask for any of them.
const COMPRESSED_MAX: usize = 16 << 10;

fn pages() -> Vec<DocsPage> {
    let description = openapi::document(BASE);
    let reference = openapi::page(&description);
    guides::all_guides(&description, &[]).into_iter().chain([reference]).collect()
}

fn paths() -> BTreeSet<String> {
    ServedDocs::for_service(BASE, &[]).0.into_iter().map(|(path, _)| path).collect()
}

/// An answer without a key.
struct OpenAnswer {
    status: u16,
    headers: HeaderMap,
    body: Vec<u8>,
}

async fn ask_for(door: &Router, method: &str, path: &str, encoding: &str) -> OpenAnswer {
    let request = Request::builder().method(method).uri(path);
    let request = request.header("accept-encoding", encoding).body(Body::empty()).unwrap();
    let (parts, body) = door.clone().oneshot(request).await.unwrap().into_parts();
    let body = to_bytes(body, 1 << 20).await.unwrap().to_vec();
    OpenAnswer { status: parts.status.as_u16(), headers: parts.headers, body }
}

async fn ask(door: &Router, method: &str, path: &str) -> OpenAnswer {
    ask_for(door, method, path, "identity").await
}

/// A document needs neither key nor database. Compression makes it small.
#[tokio::test]
async fn every_document_is_open_and_small() {
    let door = router(nowhere());
    for path in paths() {
        let plain = ask(&door, "GET", &path).await;
        assert_eq!(plain.status, 200, "{path}");
        assert_eq!(plain.headers["cache-control"], "public, max-age=600", "{path}");
        assert_eq!(plain.headers["x-content-type-options"], "nosniff", "{path}");
        let packed = ask_for(&door, "GET", &path, "gzip").await;
        assert_eq!(packed.headers["content-encoding"], "gzip", "{path}");
        assert_eq!(packed.headers["etag"], plain.headers["etag"], "{path}");
        assert!(packed.body.len() <= COMPRESSED_MAX, "{path}: {}", packed.body.len());
        let head = ask(&door, "HEAD", &path).await;
        assert_eq!((head.status, head.body.len()), (200, 0), "{path}");
        assert_eq!(head.headers["content-type"], plain.headers["content-type"], "{path}");
    }
}

#[rstest]
#[case("/docs/code/receiver.py", "text/plain; charset=utf-8")]
#[case("/docs/signature.js", "text/javascript; charset=utf-8")]
#[case("/docs/quickstart", "text/html; charset=utf-8")]
#[case("/api/v1/openapi.json", "application/json")]
#[tokio::test]
async fn a_document_has_its_type(#[case] path: &str, #[case] kind: &str) {
    let door = router(nowhere());
    assert_eq!(ask(&door, "GET", path).await.headers["content-type"], kind);
}

#[tokio::test]
async fn served_documents_are_the_made_ones() {
    let door = router(nowhere());
    let json = ask(&door, "GET", "/api/v1/openapi.json").await;
    assert_eq!(json.body, openapi::document_text(BASE).into_bytes());
    for page in pages() {
        let served = ask(&door, "GET", page.path()).await;
        assert_eq!(served.body, page.html().into_bytes(), "{}", page.path());
        assert_eq!(
            served.headers["content-security-policy"],
            page.content_policy(),
            "{}",
            page.path()
        );
        assert_eq!(served.headers["referrer-policy"], "no-referrer", "{}", page.path());
    }
}

#[rstest]
#[case("/", 303)]
#[case("/docs/", 308)]
#[tokio::test]
async fn a_browser_is_led_to_the_pages(#[case] path: &str, #[case] status: u16) {
    let door = router(nowhere());
    for method in ["GET", "HEAD"] {
        let answer = ask(&door, method, path).await;
        assert_eq!(answer.status, status, "{method}");
        assert_eq!(answer.headers["location"], "/docs", "{method}");
    }
}

#[tokio::test]
async fn a20_other_methods_and_paths_need_keys() {
    let door = router(nowhere());
    let fixed = ["/".to_owned(), "/docs/".to_owned()];
    for path in paths().into_iter().chain(fixed) {
        for method in ["POST", "PUT", "DELETE", "OPTIONS"] {
            assert_eq!(ask(&door, method, &path).await.status, 401, "{method} {path}");
        }
    }
    for path in ["/docs/nothing", "/docs/code/", "/docs/code/mod.rs", "/index.html", "/favicon.ico"]
    {
        assert_eq!(ask(&door, "GET", path).await.status, 401, "{path}");
    }
}

#[test]
fn every_link_leads_to_one_place() {
    let pages = pages();
    let paths = paths();
    for page in &pages {
        let html = page.html();
        for link in html.split(" href=\"").skip(1) {
            let link = link.split('"').next().unwrap();
            let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
            let path = if path.is_empty() { page.path() } else { path };
            assert!(paths.contains(path), "{}: {link}", page.path());
            let Some(target) = pages.iter().find(|page| page.path() == path) else { continue };
            if !anchor.is_empty() {
                let place = format!(" id=\"{anchor}\"");
                assert_eq!(target.html().matches(&place).count(), 1, "{}: {link}", page.path());
            }
        }
    }
}

/// A page fetches nothing else.
#[test]
fn only_the_signature_page_runs_a_script() {
    for page in pages() {
        let (html, policy, path) = (page.html(), page.content_policy(), page.path());
        for word in ["<img", "<link", "<iframe", "<form", " style=", " onclick=", "@import", "url("]
        {
            assert!(!html.contains(word), "{path}: {word}");
        }
        assert!(policy.starts_with("default-src 'none'; style-src 'sha256-"), "{path}: {policy}");
        for rule in ["base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'"] {
            assert!(policy.contains(rule), "{path}: {policy}");
        }
        let is_check = page.place == DocsPlace::Signature;
        assert_eq!(matches!(page.script, PageScript::At(_)), is_check, "{path}");
        assert_eq!(policy.contains("script-src 'self'; connect-src 'none';"), is_check, "{path}");
        let script = "<script type=\"module\" src=\"/docs/signature.js\"></script>";
        assert_eq!(html.matches("<script").count(), usize::from(is_check), "{path}");
        assert_eq!(html.contains(script), is_check, "{path}");
        assert_eq!(html.matches(" src=").count(), usize::from(is_check), "{path}");
    }
}

/// Facts about its accessibility that need no browser.
#[test]
fn every_page_has_landmarks_and_headings() {
    for page in pages() {
        let (html, path) = (page.html(), page.path());
        assert!(
            html.contains("<html lang=\"en\">") && html.contains("href=\"#content\""),
            "{path}"
        );
        for landmark in ["<header>", "<nav ", "<main ", "<footer>", "<h1>", "aria-current=\"page\""]
        {
            assert_eq!(html.matches(landmark).count(), 1, "{path}: {landmark}");
        }
        let levels = html.match_indices("<h").filter_map(|(at, _)| html[at + 2..].chars().next());
        let levels: Vec<_> = levels.filter_map(|digit| digit.to_digit(10)).collect();
        assert!(levels.windows(2).all(|pair| pair[1] <= pair[0] + 1), "{path}: {levels:?}");
        let heads = html.matches("<th ").count() + html.matches("<th>").count();
        assert_eq!(html.matches("<th scope=").count(), heads, "{path}");
        let captions = html.matches("<caption>").count();
        assert_eq!(html.matches("<table>").count(), captions, "{path}");
        for field in ["<input type=\"text\" id=\"", "<textarea id=\"", "<input type=\"file\" id=\""]
        {
            for id in html.split(field).skip(1).map(|rest| rest.split('"').next().unwrap()) {
                assert!(html.contains(&format!("<label for=\"{id}\">")), "{path}: {id}");
            }
        }
    }
}

#[test]
fn every_pickable_language_has_a_rule() {
    let style = include_str!("style.css");
    for page in pages() {
        for id in
            page.html().split("id=\"pick-").skip(1).map(|rest| rest.split('"').next().unwrap())
        {
            let rule = format!("body:has(#pick-{id}:checked) .only:not(.{id})");
            assert!(style.contains(&rule), "{}: {id}", page.path());
        }
    }
}

#[test]
fn every_shown_part_of_programs_exists() {
    for file in [
        CodeFile::PYTHON,
        CodeFile::NODE,
        CodeFile::JAVA,
        CodeFile::PHP,
        CodeFile::GO,
        CodeFile::EXPRESS,
        CodeFile::FASTAPI,
    ] {
        let verify = file.verify_function();
        assert!(
            verify.contains("wrong signature") && verify.lines().count() <= 20,
            "{}",
            file.name
        );
    }
    for file in [CodeFile::CALLS_CURL, CodeFile::CALLS_PYTHON, CodeFile::CALLS_NODE] {
        for (number, word) in [
            (1, "/me"),
            (2, "/triggers"),
            (3, "sample"),
            (4, "/hooks"),
            (5, "Enter"),
            (6, "DELETE"),
        ] {
            assert!(file.step_lines(number).contains(word), "{} {number}", file.name);
        }
        assert_eq!(file.step_lines(7), "", "{}", file.name);
    }
    assert!(CodeFile::CALLS_PYTHON.preamble().starts_with("import json"));
    assert!(CodeFile::CALLS_NODE.preamble().starts_with("import { createInterface }"));
}

/// A recipe quotes the receiver of its language, which the tests run.
#[rstest]
#[case(CodeFile::EXPRESS, CodeFile::NODE)]
#[case(CodeFile::FASTAPI, CodeFile::PYTHON)]
fn a_recipe_verifies_as_its_receiver_does(#[case] recipe: CodeFile, #[case] receiver: CodeFile) {
    assert_eq!(recipe.verify_function(), receiver.verify_function());
}

#[test]
fn the_pages_show_the_services_schedule() {
    let pages = pages();
    let html = pages.iter().find(|page| page.place == DocsPlace::Receive).unwrap().html();
    assert!(html.contains("60 minutes later, 123 minutes after the first"), "{html}");
    assert!(html.contains("1 minute later, 1 minute after the first"), "{html}");
}
