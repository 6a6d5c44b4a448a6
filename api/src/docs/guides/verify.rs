//! Verification: the scheme, Stripe's libraries, and the receivers in five languages.

use maud::{Markup, html};

use super::super::code::CodeFile;
use super::super::frame::DocsPlace;
use super::super::markup::{PageSection, code_block, inline_markup, sentence_list};
use super::languages::{
    GO, JAVA, NODE, PHP, PYTHON, PickedLanguage, language_block, language_picker,
};

pub(super) fn sections() -> Vec<PageSection> {
    let section = |anchor, title, content| PageSection { anchor, title, content };
    vec![
        section("scheme", "The scheme", signature_scheme()),
        section("stripe", "With Stripe's libraries", stripe_libraries()),
        section("languages", "In your language", language_receivers()),
        section("wrong", "If nothing verifies", failure_causes()),
    ]
}

fn signature_scheme() -> Markup {
    html! {
        (code_block("X-Service-Signature: t=<unix seconds>,v1=<hex>"))
        p { (inline_markup("`v1` is the HMAC-SHA256 of `<t>.<raw body>`, in lower-case hexadecimal. The key is \
            the firm's webhook secret: the bytes of the whole text, `whsec_` included.")) }
        (sentence_list(&[
            "Use the bytes as they arrived. A body that was parsed and written again has others.",
            "Compare in constant time, with the function of your language.",
            "Reject a `t` that is more than 5 minutes from your clock, in either direction.",
            "Accept two secrets: for a minute after a rotation, requests can carry the old one.",
        ]))
    }
}

fn stripe_libraries() -> Markup {
    html! {
        p { strong { "Stripe's official libraries verify our header unchanged." } " "
            (inline_markup("Pass them `X-Service-Signature`, the raw body and the webhook secret. No account \
                and no key of Stripe is needed.")) }
        p.note { "Python: " code { "stripe.WebhookSignature.verify_header" } }
        (code_block(CodeFile::STRIPE_PYTHON.text))
        p.note { "Node.js: " code { "stripe.webhooks.constructEvent" } }
        (code_block(CodeFile::STRIPE_NODE.text))
        p { (inline_markup("These libraries refuse a `t` that is too old, and accept one in the future.")) }
    }
}

struct ReceiverInLanguage {
    language: PickedLanguage,
    file: CodeFile,
    needs: &'static str,
    run: &'static str,
}

const RECEIVERS: [ReceiverInLanguage; 5] = [
    ReceiverInLanguage {
        language: PYTHON,
        file: CodeFile::PYTHON,
        needs: "Python 3.8",
        run: "PORT=9000 WEBHOOK_SECRETS=$SECRET python3 receiver.py",
    },
    ReceiverInLanguage {
        language: NODE,
        file: CodeFile::NODE,
        needs: "Node.js 18",
        run: "PORT=9000 WEBHOOK_SECRETS=$SECRET node receiver.mjs",
    },
    ReceiverInLanguage {
        language: JAVA,
        file: CodeFile::JAVA,
        needs: "JDK 17",
        run: "PORT=9000 WEBHOOK_SECRETS=$SECRET java Receiver.java",
    },
    ReceiverInLanguage {
        language: PHP,
        file: CodeFile::PHP,
        needs: "PHP 8.1",
        run: "WEBHOOK_SECRETS=$SECRET php -S 127.0.0.1:9000 receiver.php",
    },
    ReceiverInLanguage {
        language: GO,
        file: CodeFile::GO,
        needs: "Go 1.19",
        run: "PORT=9000 WEBHOOK_SECRETS=$SECRET go run receiver.go",
    },
];

fn language_receivers() -> Markup {
    html! {
        p { (inline_markup("`verify` is the part to copy. It needs no library. Each file is a whole receiver \
            with this part in it.")) }
        (language_picker(&RECEIVERS.each_ref().map(|receiver| receiver.language)))
        @for receiver in &RECEIVERS { (language_block(receiver.language, &show_receiver(receiver))) }
        p { (inline_markup("A receiver prints `accepted <delivery> <event>`, `duplicate <delivery>` or \
            `refused <why>`. It remembers ids until it ends, which is enough for a trial only.")) }
        p {
            "Whole receivers for "
            a href=(DocsPlace::Frameworks.path()) { "Express, FastAPI and Rails" }
            " read the raw body where the framework would parse it."
        }
    }
}

fn show_receiver(receiver: &ReceiverInLanguage) -> Markup {
    let ReceiverInLanguage { file, needs, run, .. } = receiver;
    html! {
        (code_block(file.verify_function()))
        p { a href=(file.path()) { (file.name) } " needs " (needs) ":" }
        (code_block(run))
    }
}

fn failure_causes() -> Markup {
    html! {
        p {
            a href=(DocsPlace::Signature.path()) { "Check a signature" }
            " names the likely mistake. By hand, with the raw body in the file "
            code { "body" } " and " code { "t" } " in " code { "$T" } ":"
        }
        (code_block("{ printf '%s.' \"$T\"; cat body; } | openssl dgst -sha256 -hmac \"$SECRET\""))
        p { (inline_markup("Check the secret first: whole, with `whsec_`, of the right firm. Then check that \
            the body is raw, then the clock.")) }
    }
}
