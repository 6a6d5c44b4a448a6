//! Writes a notice to a firm (ruling 49): the same bytes for the same notice.
//!
//! `words` holds all sentences in each language. This page lays them out as text and as HTML.

mod words;

use domain::notice::{Notice, NoticeAnswer, NoticeChannel, NoticeKind};
use domain::values::{EmailAddress, Lang, Timestamp};
use maud::{Markup, html};

use self::words::NoticeWords;
use crate::compose::accent::AccentColor;
use crate::compose::headers::{HeaderSection, MailHead};
use crate::compose::html::{FOOT_TEXT, MailPage, SOFT, TEXT, TITLE, link_button};
use crate::compose::mail_body;
use crate::mail::{Mail, SenderAddress};
use crate::names::{clean_link, one_line};

/// The name beside the sender's address. A notice is by the service, and not by the firm.
const SENDER_NAME: &str = "Firm Forms";

/// The most subscriptions that a mail lists.
const HOOKS_LISTED_MAX: usize = 20;

/// The content of a notice to a firm.
#[derive(Clone, Copy)]
pub struct NoticeContent<'a> {
    /// The notice.
    pub notice: &'a Notice,
    /// The firm's name.
    pub firm_name: &'a str,
    /// The sender.
    pub from: &'a SenderAddress,
    /// The firm's address.
    pub to: &'a EmailAddress,
    /// The language.
    pub lang: Lang,
}

/// Writes the mail of a notice.
#[must_use]
pub fn compose_notice(content: &NoticeContent<'_>) -> Mail {
    let letter = NoticeLetter::new(content);
    let email_id = NoticeChannel::Mail.sending_id(content.notice.facts.notice_id());
    let head = MailHead {
        email_id,
        date: content.notice.facts.happened_at,
        from: content.from,
        from_name: SENDER_NAME,
        to: content.to,
        reply_to: None,
        subject: &letter.words.subject,
        language: letter.words.code,
    };
    let mut bytes = HeaderSection::without_unsubscribe(&head).into_bytes();
    bytes.extend(mail_body(email_id, letter.plain_text(), letter.html_text()));
    Mail { email_id, from: content.from.address().to_string(), to: content.to.to_string(), bytes }
}

/// The sentences, and the lines of facts below them.
struct NoticeLetter {
    words: NoticeWords,
    lines: Vec<(&'static str, String)>,
    link: Option<String>,
}

impl NoticeLetter {
    fn new(content: &NoticeContent<'_>) -> Self {
        let Notice { facts, hooks, key, link, .. } = content.notice;
        let firm = one_line(content.firm_name).unwrap_or_else(|| SENDER_NAME.to_owned());
        let words = NoticeWords::new(content.lang, facts, &firm);
        let labels = &words.labels;
        let mut lines = Vec::new();
        if let Some(key) = key {
            let name = one_line(&key.name).unwrap_or_default();
            lines.push((labels.key, format!("{name} ({}…)", key.prefix)));
        }
        for hook in hooks.iter().take(HOOKS_LISTED_MAX) {
            let target = one_line(&hook.target).unwrap_or_default();
            lines.push((
                labels.subscription,
                format!("{} → {target} ({})", hook.trigger, hook.hook_id),
            ));
        }
        let rest = hooks.len().saturating_sub(HOOKS_LISTED_MAX);
        if rest > 0 {
            lines.push((labels.more, rest.to_string()));
        }
        lines.push((labels.when, time_text(facts.happened_at)));
        // Past failures of a subscription that works again would read like present ones.
        let is_over = facts.kind == NoticeKind::Recovered;
        if let Some(since) = facts.failing_since.filter(|_| !is_over) {
            lines.push((labels.since, time_text(since)));
            lines.push((labels.failures, facts.failures.to_string()));
        }
        let answers = facts.answers.iter().filter(|_| !is_over);
        lines.extend(answers.map(|answer| (labels.answer, answer_text(answer))));
        Self { words, lines, link: link.as_deref().map(clean_link) }
    }

    fn plain_text(&self) -> String {
        let words = &self.words;
        let lines: Vec<String> = self
            .lines
            .iter()
            .map(|(label, value)| format!("{label}{} {value}", words.colon))
            .collect();
        let mut parts = vec![
            words.hello.to_owned(),
            words.happened.clone(),
            lines.join("\n"),
            words.advice.to_owned(),
        ];
        if let Some(link) = &self.link {
            parts.push(format!("{}{}\n{link}", words.button, words.colon));
        }
        parts.push(format!("-- \n{}\n", words.why));
        parts.join("\n\n")
    }

    fn html_text(&self) -> String {
        let accent = AccentColor::default();
        MailPage {
            language: self.words.code,
            title: &self.words.subject,
            bar: &accent.background,
            card: self.letter_card(&accent),
            foot: html! { p.soft style=(FOOT_TEXT) { (self.words.why) } },
        }
        .to_html()
    }

    fn letter_card(&self, accent: &AccentColor) -> Markup {
        let words = &self.words;
        html! {
            h1.text style=(TITLE) { (words.title) }
            p.text style=(TEXT) { (words.hello) }
            p.text style=(TEXT) { (words.happened) }
            @for (label, value) in &self.lines {
                p.soft style=(SOFT) { (label) (words.colon) " " (value) }
            }
            p.text style=(TEXT) { (words.advice) }
            @if let Some(link) = &self.link { (link_button(accent, link, words.button)) }
        }
    }
}

/// A time to the second, in UTC.
fn time_text(at: Timestamp) -> String {
    at.get().format("%Y-%m-%d %H:%M:%S UTC").to_string()
}

fn answer_text(answer: &NoticeAnswer) -> String {
    let NoticeAnswer { delivery_id, status, error, finished_at } = answer;
    let said = match (status, error) {
        (Some(status), _) => status.to_string(),
        (None, Some(error)) => error.clone(),
        (None, None) => "—".to_owned(),
    };
    format!("{said}, {} ({delivery_id})", time_text(*finished_at))
}
