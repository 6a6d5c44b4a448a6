//! The invite as HTML for mail readers. The page is one column of layout tables, with styles on the
//! elements. Dark colours apply where the reader asks for them. maud escapes every text and
//! attribute. Nothing here turns text into a link.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::accent::AccentColor;
use super::letter::Letter;

/// The colours of a reader in dark mode. The button keeps the firm's colours.
const DARK: &str = "@media (prefers-color-scheme:dark){\
.page{background-color:#111417!important}.card{background-color:#1b1f24!important}\
.text{color:#e6e9ec!important}.soft{color:#aab4be!important}}";

/// Asks readers not to make links either.
const NO_LINKS: &str = "telephone=no, date=no, address=no, email=no, url=no";

const PAGE: &str = "margin:0;padding:0;background-color:#f3f4f6";
const CARD: &str = "padding:32px;background-color:#ffffff;color:#1f2933;\
font-family:Arial,Helvetica,sans-serif;font-size:16px;line-height:1.5;text-align:left";
const FIRM: &str = "margin:0 0 24px;font-size:18px;font-weight:bold;color:#1f2933";
const LOGO: &str = "display:block;height:48px;width:auto;max-width:100%;margin:0 0 24px;border:0;\
object-fit:contain;object-position:left";
pub(crate) const TITLE: &str = "margin:0 0 24px;font-size:24px;line-height:1.25;color:#1f2933";
pub(crate) const TEXT: &str = "margin:0 0 16px;color:#1f2933";
pub(crate) const SOFT: &str = "margin:0 0 8px;font-size:14px;color:#52606d";
const LINK: &str = "color:#1f2933;word-break:break-all";
const FOOT: &str = "padding:16px 32px 32px;text-align:left;\
font-family:Arial,Helvetica,sans-serif;font-size:13px;line-height:1.5";
pub(crate) const FOOT_TEXT: &str = "margin:0 0 8px;color:#52606d";
const FOOT_LINK: &str = "color:#52606d";

/// Writes the HTML.
pub(super) fn write(letter: &Letter) -> String {
    MailPage {
        language: letter.words.code,
        title: &letter.words.subject,
        bar: &letter.accent.background,
        card: letter_card(letter),
        foot: letter_foot(letter),
    }
    .to_html()
}

/// A page with a card, and with small print below it.
pub(crate) struct MailPage<'a> {
    pub(crate) language: &'static str,
    pub(crate) title: &'a str,
    /// The colour of the bar above the card.
    pub(crate) bar: &'a str,
    pub(crate) card: Markup,
    pub(crate) foot: Markup,
}

impl MailPage<'_> {
    pub(crate) fn to_html(&self) -> String {
        let page = html! {
            (DOCTYPE)
            html lang=(self.language) {
                (self.html_head())
                body.page style=(PAGE) { (self.outer_tables()) }
            }
        };
        page.into_string()
    }

    fn html_head(&self) -> Markup {
        html! {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="supported-color-schemes" content="light dark";
                meta name="format-detection" content=(NO_LINKS);
                title { (self.title) }
                style { (PreEscaped(DARK)) }
            }
        }
    }

    /// The frame. The language is repeated inside, because some readers drop the outer elements.
    fn outer_tables(&self) -> Markup {
        let bar = format!("{CARD};border-top:4px solid {}", self.bar);
        html! {
            div lang=(self.language) {
                table.page role="presentation" width="100%" cellpadding="0" cellspacing="0"
                    border="0" style=(PAGE) {
                    tr { td align="center" style="padding:24px 12px" {
                        table role="presentation" width="560" cellpadding="0" cellspacing="0"
                            border="0" style="width:100%;max-width:560px" {
                            tr { td.card.text style=(bar) { (self.card) } }
                            tr { td style=(FOOT) { (self.foot) } }
                        }
                    } }
                }
            }
        }
    }
}

fn letter_card(letter: &Letter) -> Markup {
    let words = &letter.words;
    html! {
        (brand_logo(letter))
        h1.text style=(TITLE) { (words.title) }
        p.text style=(TEXT) { (words.hello) }
        p.text style=(TEXT) { (words.invitation) }
        @if let Some(note) = &letter.note { (quoted_note(letter, note)) }
        (form_button(letter))
        p.soft style=(SOFT) { (words.copy) }
        p style="margin:0;font-size:14px" {
            a.text href=(letter.form_url) style=(LINK) { (letter.form_url) }
        }
    }
}

/// The logo. Its replacement text is the firm's name.
fn brand_logo(letter: &Letter) -> Markup {
    html! {
        @match &letter.logo_url {
            Some(url) => img.text src=(url) alt=(letter.firm) height="48" style=(LOGO);,
            None => p.text style=(FIRM) { (letter.firm) },
        }
    }
}

/// The lines of the note. A note may run from right to left.
fn quoted_note(letter: &Letter, note: &str) -> Markup {
    let style = format!(
        "margin:0 0 16px;padding:4px 0 4px 16px;border-left:4px solid {};color:#1f2933",
        letter.accent.background
    );
    html! {
        p.soft style=(SOFT) { (letter.words.note) }
        blockquote.text dir="auto" style=(style) {
            @for (at, line) in note.split('\n').enumerate() {
                @if at > 0 { br; }
                (line)
            }
        }
    }
}

/// The button. Its edge has the ink's colour, so that it also shows on a page of the background's
/// colour.
fn form_button(letter: &Letter) -> Markup {
    link_button(&letter.accent, &letter.form_url, letter.words.button)
}

/// A link that looks like a button.
pub(crate) fn link_button(accent: &AccentColor, url: &str, words: &str) -> Markup {
    let style = format!(
        "display:inline-block;padding:14px 28px;background-color:{};color:{};\
         border:1px solid {};border-radius:6px;font-weight:bold;text-decoration:none",
        accent.background, accent.ink, accent.ink
    );
    html! {
        p style="margin:24px 0" { a href=(url) style=(style) { (words) } }
    }
}

fn letter_foot(letter: &Letter) -> Markup {
    html! {
        p.soft style=(FOOT_TEXT) { (letter.words.why) }
        p style="margin:0" {
            a.soft href=(letter.unsubscribe_url) style=(FOOT_LINK) { (letter.words.leave) }
        }
    }
}
