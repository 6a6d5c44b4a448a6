//! `/unsubscribe/{link}`: the page behind the link in every invite. It needs no key, because the
//! link itself names the person and only this service can make one.
//!
//! Showing the page changes nothing, because mail scanners open links. The button acts, and so do
//! mail programs that post to the link (RFC 8058).

use std::sync::Arc;

use axum::extract::{RawQuery, State};
use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, REFERRER_POLICY};
use axum::http::{HeaderName, StatusCode};
use axum::response::{IntoResponse, Response};
use domain::values::Lang;
use maud::{DOCTYPE, Markup, html};
use projector::firms;
use url::form_urlencoded;
use vault::MailRecipient;

use super::path::PathText;
use crate::Service;
use crate::commands::invites;
use crate::error::Error;

/// The link is personal, so no cache keeps the page. The page runs no script.
const HEADERS: [(HeaderName, &str); 3] = [
    (CACHE_CONTROL, "no-store"),
    (REFERRER_POLICY, "no-referrer"),
    (
        CONTENT_SECURITY_POLICY,
        "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; frame-ancestors 'none'",
    ),
];

/// Shows the firm whose mails would end, and a button.
pub(super) async fn show(
    link: PathText,
    RawQuery(query): RawQuery,
    State(service): State<Arc<Service>>,
) -> Result<Response, Error> {
    let words = page_words(query.as_deref());
    let Some(firm) = find_firm(&service, &link).await? else {
        return Ok(page_answer(StatusCode::NOT_FOUND, words, &unknown_page(words)));
    };
    Ok(page_answer(StatusCode::OK, words, &question_page(words, &firm.name)))
}

/// Ends the firm's mails to this person.
pub(super) async fn act(
    link: PathText,
    RawQuery(query): RawQuery,
    State(service): State<Arc<Service>>,
) -> Result<Response, Error> {
    let words = page_words(query.as_deref());
    let Some(firm) = find_firm(&service, &link).await? else {
        return Ok(page_answer(StatusCode::NOT_FOUND, words, &unknown_page(words)));
    };
    invites::unsubscribe(&service, firm.recipient).await?;
    Ok(page_answer(StatusCode::OK, words, &done_page(words, &firm.name)))
}

/// The person and the firm of a link.
struct LinkRecipient {
    recipient: MailRecipient,
    name: String,
}

async fn find_firm(
    service: &Service,
    PathText(link): &PathText,
) -> Result<Option<LinkRecipient>, Error> {
    let link = link.as_deref().unwrap_or_default();
    let Some(recipient) = service.inviter.identity.read_link(link, service.settings.cell) else {
        return Ok(None);
    };
    let sender = firms::mail_sender(service.store.pool(), recipient.firm_id).await?;
    Ok(sender.map(|sender| LinkRecipient { recipient, name: sender.name }))
}

fn page_answer(status: StatusCode, words: &PageWords, page: &Markup) -> Response {
    let page = html! {
        (DOCTYPE)
        html lang=(words.lang.code()) {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="robots" content="noindex";
                title { (words.title) }
                style { (STYLE) }
            }
            body { main { (page) } }
        }
    };
    (status, HEADERS, page).into_response()
}

const STYLE: &str = ":root{color-scheme:light dark}\
    body{margin:0;font:1.05rem/1.5 system-ui,sans-serif}\
    main{max-width:34rem;margin:15vh auto;padding:0 1.5rem}\
    button{font:inherit;padding:.6rem 1.2rem;cursor:pointer}";

fn question_page(words: &PageWords, firm: &str) -> Markup {
    html! {
        h1 { (words.title) }
        p { (words.ask) " " strong { (firm) } "." }
        form method="post" { button type="submit" { (words.button) } }
    }
}

fn done_page(words: &PageWords, firm: &str) -> Markup {
    html! {
        h1 { (words.done) }
        p { (words.ended) " " strong { (firm) } "." }
    }
}

fn unknown_page(words: &PageWords) -> Markup {
    html! {
        h1 { (words.unknown) }
        p { (words.copied) }
    }
}

/// The page's words in one language.
struct PageWords {
    lang: Lang,
    title: &'static str,
    ask: &'static str,
    button: &'static str,
    done: &'static str,
    ended: &'static str,
    unknown: &'static str,
    copied: &'static str,
}

const ENGLISH: PageWords = PageWords {
    lang: Lang::En,
    title: "Unsubscribe",
    ask: "You will get no more form invitations from",
    button: "Unsubscribe",
    done: "You are unsubscribed",
    ended: "You will get no more form invitations from",
    unknown: "This link does not work",
    copied: "It may not have been copied as a whole. Please use the link in the email.",
};

const FRENCH: PageWords = PageWords {
    lang: Lang::Fr,
    title: "Se désinscrire",
    ask: "Vous ne recevrez plus d’invitations à des formulaires de la part de",
    button: "Se désinscrire",
    done: "Vous êtes désinscrit",
    ended: "Vous ne recevrez plus d’invitations à des formulaires de la part de",
    unknown: "Ce lien ne fonctionne pas",
    copied: "Il n’a peut-être pas été copié en entier. Veuillez utiliser le lien de l’e-mail.",
};

const SPANISH: PageWords = PageWords {
    lang: Lang::Es,
    title: "Cancelar la suscripción",
    ask: "No recibirá más invitaciones a formularios de",
    button: "Cancelar la suscripción",
    done: "Su suscripción está cancelada",
    ended: "No recibirá más invitaciones a formularios de",
    unknown: "Este enlace no funciona",
    copied: "Puede que no se haya copiado entero. Use el enlace del correo.",
};

/// The words in the mail's language, which the link names.
fn page_words(query: Option<&str>) -> &'static PageWords {
    let lang = form_urlencoded::parse(query.unwrap_or_default().as_bytes())
        .find_map(|(name, code)| (name == "lang").then(|| Lang::read(&code)))
        .flatten()
        .unwrap_or_default();
    match lang {
        Lang::En => &ENGLISH,
        Lang::Fr => &FRENCH,
        Lang::Es => &SPANISH,
    }
}
