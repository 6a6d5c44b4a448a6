//! The page on which one checks a signature. The script computes in the browser; the policy of the
//! page lets nothing out. There is no form, so that a browser without script sends nothing either.

use maud::{Markup, html};

use super::super::frame::DocsPlace;
use super::super::markup::{PageSection, code_block, inline_markup, sentence_list};

pub(super) fn sections() -> Vec<PageSection> {
    vec![
        PageSection {
            anchor: "check",
            title: "A delivery that you received",
            content: check_tool(),
        },
        PageSection { anchor: "about", title: "About this page", content: about_page() },
    ]
}

fn check_tool() -> Markup {
    html! {
        noscript {
            p { (inline_markup("This check needs JavaScript, because it computes in your browser. Without it, \
                use openssl, with the raw body in the file `body` and `t` in `$T`:")) }
            (code_block("{ printf '%s.' \"$T\"; cat body; } | openssl dgst -sha256 -hmac \"$SECRET\""))
        }
        // Shown by the script.
        div.tool id="tool" hidden {
            p { button type="button" id="example" { "Fill in an example" } }
            label for="header" { "Header " code { "X-Service-Signature" } }
            input type="text" id="header" autocomplete="off" spellcheck="false"
                placeholder="t=1764100000,v1=5257a869…";
            label for="body" { "Raw body" }
            textarea id="body" rows="8" autocomplete="off" spellcheck="false" {}
            label for="file" { "or a file with the raw body, byte for byte" }
            input type="file" id="file";
            label for="secret" { "Webhook secret" }
            input type="text" id="secret" autocomplete="off" spellcheck="false"
                placeholder="whsec_…";
            output id="verdict" for="header body file secret" aria-live="polite" {}
        }
    }
}

fn about_page() -> Markup {
    html! {
        p { (inline_markup("Header, body and secret stay in your browser. The page sends and keeps nothing: \
            its content security policy forbids every request. Close it when you are done.")) }
        (sentence_list(&[
            "`t` may be 5 minutes from your clock. The page also says whether an old signature held.",
            "A header may have several `v1`, as during a rotation elsewhere. One has to match.",
            "A text field changes line breaks. Choose a file if the body has any.",
        ]))
        p { a href=(DocsPlace::Verify.path()) { "Verify signatures" } " has the code for your receiver." }
    }
}
