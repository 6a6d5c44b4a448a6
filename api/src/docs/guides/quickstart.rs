//! From a key to a verified delivery and back. The code of each step is cut out of whole programs.

use maud::{Markup, html};
use serde_json::Value;

use super::super::code::CodeFile;
use super::super::frame::DocsPlace;
use super::super::markup::{PageSection, code_block, facts_table, inline_markup};
use super::languages::{CURL, NODE, PYTHON, language_block, language_picker};
use crate::openapi;

pub(super) fn sections(description: &Value) -> Vec<PageSection> {
    let base = description["servers"][0]["url"].as_str().unwrap_or_default();
    let section = |anchor, title, content| PageSection { anchor, title, content };
    vec![
        section("key", "1. Get a key", key_setup(base)),
        section("me", "2. Test the key", key_test(description)),
        section("triggers", "3. Choose a trigger", trigger_choice()),
        section("receiver", "4. Start a receiver", receiver_start(base)),
        section("subscribe", "5. Subscribe", subscribe_call(description)),
        section("receive", "6. Receive and verify", receive_and_verify()),
        section("unsubscribe", "7. Unsubscribe", unsubscribe_call(description)),
        section("refused", "If a call is refused", refused_calls()),
    ]
}

fn key_setup(base: &str) -> Markup {
    let settings = format!(
        "export BASE={base}\nexport KEY=ffk_your-key\nexport SECRET=whsec_your-secret\n\
         export TARGET=https://hooks.example.com/"
    );
    html! {
        p { (inline_markup("An owner or admin of the firm makes an API key in the settings screen, and sees \
            the webhook secret in the integrations screen. Keep both on your server only.")) }
        (code_block(&settings))
        p { (inline_markup("`TARGET` is the public https address at which your receiver will be reached.")) }
        (language_picker(&[CURL, PYTHON, NODE]))
        (language_block(PYTHON, &code_block(CodeFile::CALLS_PYTHON.preamble())))
        (language_block(NODE, &code_block(CodeFile::CALLS_NODE.preamble())))
        p {
            "The steps as one program: "
            @for (place, file) in CALLS.into_iter().enumerate() {
                @if place > 0 { ", " }
                a href=(file.path()) { (file.name) }
            }
            "."
        }
    }
}

const CALLS: [CodeFile; 3] = [CodeFile::CALLS_CURL, CodeFile::CALLS_PYTHON, CodeFile::CALLS_NODE];

/// The lines of one step, in each language.
fn step_lines(number: usize) -> Markup {
    html! {
        @for (language, file) in [CURL, PYTHON, NODE].into_iter().zip(CALLS) {
            (language_block(language, &code_block(file.step_lines(number))))
        }
    }
}

fn key_test(description: &Value) -> Markup {
    html! {
        (step_lines(1))
        (example_block(description, "/me", "get"))
        p { (inline_markup("401 `unauthorized` means that the key is wrong or revoked.")) }
    }
}

fn trigger_choice() -> Markup {
    html! {
        (step_lines(2))
        p { (inline_markup("A sample is an array with one event, in the shape of a delivery. It is made of \
            the firm's latest submission. Map your fields with it.")) }
        (step_lines(3))
        p { (inline_markup("Ignore fields and triggers that you do not know. New ones can appear.")) }
    }
}

fn receiver_start(base: &str) -> Markup {
    let site = base.trim_end_matches("/api/v1");
    let run = |file: CodeFile, program: &str| {
        let CodeFile { name, .. } = file;
        code_block(&format!(
            "curl -O {site}{path}\nPORT=9000 WEBHOOK_SECRETS=$SECRET {program} {name}",
            path = file.path()
        ))
    };
    html! {
        p { (inline_markup("The receiver verifies each delivery. It speaks plain HTTP on this machine. Put a \
            proxy with TLS in front, at the address in `TARGET`.")) }
        (language_block(CURL, &run(CodeFile::PYTHON, "python3")))
        (language_block(PYTHON, &run(CodeFile::PYTHON, "python3")))
        (language_block(NODE, &run(CodeFile::NODE, "node")))
        p {
            "There are also receivers in " (page_link(DocsPlace::Verify, "Java, PHP and Go"))
            ", and for " (page_link(DocsPlace::Frameworks, "Express, FastAPI and Rails")) "."
        }
    }
}

fn subscribe_call(description: &Value) -> Markup {
    html! {
        (step_lines(4))
        (example_block(description, "/hooks", "post"))
        p { (inline_markup("Keep the `id`. `form_id` in the body narrows the subscription to one form. With an \
            `Idempotency-Key` header, a repeated call makes no second subscription.")) }
    }
}

fn receive_and_verify() -> Markup {
    html! {
        p { (inline_markup("Submit a form of the firm. Within seconds the receiver prints a line per delivery \
            whose signature holds:")) }
        (code_block("accepted 062d1e5f-6fb9-51ec-bc57-4754b35b7df0 form_submitted"))
        p { (inline_markup("A line such as `refused wrong signature` says why a request was refused.")) }
        p {
            (page_link(DocsPlace::Signature, "Check the signature")) " of such a request in your browser. "
            (page_link(DocsPlace::Receive, "The rules for receivers")) " come before you go live."
        }
    }
}

fn unsubscribe_call(description: &Value) -> Markup {
    html! {
        (step_lines(6))
        (example_block(description, "/hooks/{id}", "delete"))
        p { (inline_markup("The service cancels the queued deliveries. Only the key that made a subscription \
            lists and deletes it.")) }
    }
}

fn refused_calls() -> Markup {
    html! {
        p { (inline_markup("Every error is `{\"error\": \"a sentence\", \"code\": \"stable\"}`. Branch on \
            `code`. Name the `X-Request-Id` of the answer if you report it.")) }
        (facts_table("Errors in short", ["Status", "What to do"], &[
            ["400", "Correct the call: its sentence names the fault."],
            ["401", "The key is missing, wrong or revoked. Get a new one."],
            ["403", "The firm is suspended or closed. Ask its owner."],
            ["404", "The firm has no such object, or this key has no such subscription."],
            ["409", "The limit is reached, or the form is a draft."],
            ["429", "Wait the seconds in `Retry-After`. A key has 120 calls a minute."],
            ["502", "No mail server took the invite. Repeat the call in a few minutes."],
            ["503", "Repeat the call after the seconds in `Retry-After`."],
            ["500", "This is a defect of the service. Report it."],
        ]))
        p { a href={ (DocsPlace::Reference.path()) "#errors" } { "All errors and codes" } }
    }
}

/// The example of an answer, from the description.
fn example_block(description: &Value, path: &str, method: &str) -> Markup {
    html! {
        @if let Some(example) = openapi::example_answer(description, path, method) {
            p.note { "Answer" }
            (code_block(&example))
        }
    }
}

fn page_link(place: DocsPlace, words: &str) -> Markup {
    html! { a href=(place.path()) { (words) } }
}
