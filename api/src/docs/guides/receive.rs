//! The rules for receivers, in short. Waits come from the schedule that the service follows.

use std::net::IpAddr;
use std::time::Duration;

use domain::delivery::RetrySchedule;
use maud::{Markup, html};

use super::super::EGRESS_PATH;
use super::super::frame::DocsPlace;
use super::super::markup::{
    PageSection, facts_table, inline_markup, sentence_list, table_row, two_columns,
};

pub(super) fn sections(egress: &[IpAddr]) -> Vec<PageSection> {
    let section = |anchor, title, content| PageSection { anchor, title, content };
    let mut sections = vec![
        section("steps", "Five steps, in this order", receiving_steps()),
        section("answers", "Your answer", answer_rules()),
        section("retries", "Retries", retry_rules()),
        section("repeats", "Drop repeats", repeat_rules()),
        section("gone", "End a subscription", removal_rules()),
        section("rotation", "Rotate the secret", secret_rotation()),
        section("live", "Before you go live", before_live()),
    ];
    if !egress.is_empty() {
        sections.push(section(
            "addresses",
            "Addresses for your firewall",
            egress_addresses(egress),
        ));
    }
    sections
}

fn egress_addresses(egress: &[IpAddr]) -> Markup {
    html! {
        p {
            "Deliveries come from these addresses only, also listed "
            a href=(EGRESS_PATH) { "for machines" } "."
        }
        ul { @for address in egress { li { code { (address) } } } }
    }
}

fn receiving_steps() -> Markup {
    html! {
        ol {
            li { "Read the raw body, before anything parses it." }
            li {
                a href=(DocsPlace::Verify.path()) { "Verify the signature" }
                ". Refuse a request that does not verify with 401."
            }
            li { (inline_markup("Look up `X-Service-Delivery`. If it is known, answer 204 and do nothing.")) }
            li { "Store the id and the work to do, in one transaction." }
            li { "Answer 204. Do the work afterwards." }
        }
        p { (inline_markup("Take the event from the body. Only `t` and the body are signed: the other headers \
            are not, and neither is your path.")) }
    }
}

fn answer_rules() -> Markup {
    html! {
        (facts_table("Your answer and its result", ["You answer", "Result"], &[
            ["2xx", "Delivered, if the headers arrive within 10 seconds. Nothing comes again."],
            ["408, 425, 429, 5xx", "Retried. So are timeouts and network errors."],
            ["410", "Failed at once. The second 410 since a success removes the subscription."],
            ["other 4xx", "Failed at once, also 400, 401, 404 and 413."],
            ["3xx", "Followed, without the signature to another host. Do not use it."],
        ]))
        p { (inline_markup("The 10 seconds start with the look-up of your name. Answer 503 for a fault that \
            will pass, such as a database that is away: a 4xx is final.")) }
    }
}

fn retry_rules() -> Markup {
    let schedule = RetrySchedule::RestHook;
    let mut since_first = Duration::ZERO;
    let waits = (1..schedule.tries()).filter_map(|tries| schedule.wait_after(tries, None, 0.0));
    let rows = waits.zip(2..).map(|(wait, number): (Duration, u32)| {
        since_first += wait;
        let about =
            format!("{} later, {} after the first", minutes_text(wait), minutes_text(since_first));
        table_row(&number.to_string(), "", &html! { (about) })
    });
    let rows = html! { @for row in rows.collect::<Vec<_>>() { (row) } };
    html! {
        (two_columns("Attempts after the first", ["Attempt", "When"], &rows))
        p { (inline_markup("A wait runs from the end of the attempt before. `Retry-After` can lengthen a wait, \
            up to 6 hours, and never shorten it. After the last attempt the delivery has failed.")) }
        p {
            (inline_markup("All attempts have the same body. Only `t` and `v1` are new. Workflow steps have "))
            a href={ (DocsPlace::Reference.path()) "#webhooks" } { "other waits" } "."
        }
    }
}

fn minutes_text(wait: Duration) -> String {
    let minutes = wait.as_secs() / 60;
    if minutes == 1 { "1 minute".to_owned() } else { format!("{minutes} minutes") }
}

fn repeat_rules() -> Markup {
    html! {
        p { (inline_markup("A delivery can arrive twice. All its attempts have one `X-Service-Delivery`.")) }
        (sentence_list(&[
            "Keep the ids in a table with a unique column, not in memory.",
            "Insert the id in the transaction that stores the work.",
            "Keep ids for 30 days: an operator can replay a delivery weeks later.",
            "Two subscriptions are two deliveries, each with an id of its own.",
            "A workflow step has `<run id>:<step id>` in `Idempotency-Key`, and no `X-Service-Hook`.",
        ]))
        p { (inline_markup("Order is not promised. Use the times in the payload, not the order of arrival.")) }
    }
}

fn removal_rules() -> Markup {
    html! {
        p {
            (inline_markup("The best way is `DELETE /hooks/{id}`, with the key that made the subscription. \
                Without that key, answer 410 to two deliveries in a row. A success in between starts \
                the count again."))
        }
        (sentence_list(&[
            "Give each subscription a path of its own, so that you know which one to end.",
            "Verify before you answer 410, too.",
            "Never answer 410 by accident. Some frameworks do for unknown paths.",
        ]))
        p { (inline_markup("You are not told that a subscription is gone. Compare `GET /hooks` with your own \
            list, once an hour for example.")) }
    }
}

fn secret_rotation() -> Markup {
    html! {
        p { (inline_markup("All receivers of a firm share one secret. From the rotation the new secret signs. \
            Requests signed with the old one can come for another minute.")) }
        ol {
            li { "Let the receiver answer 503, not 401, to a wrong signature." }
            li { "An owner or admin rotates the secret." }
            li { "Give the receiver both secrets. Refused requests come again after a minute." }
            li { "After a minute, take the old one out and answer 401 again." }
        }
    }
}

fn before_live() -> Markup {
    sentence_list(&[
        "The raw body is read before any JSON middleware.",
        "A missing, malformed, stale or wrong signature gets 401, and nothing else happens.",
        "Signatures are compared in constant time, and the clock is synchronised.",
        "Id and work are stored in one transaction, before the 2xx.",
        "The receiver answers in well under 10 seconds, and 503 when it cannot store.",
        "There is no redirect, no 410 by accident and no login page in front of the path.",
        "Ordinary roots vouch for the certificate, with TLS 1.2 or 1.3.",
        "Bodies of a megabyte are accepted. Answers have up to 512 KiB and are there twice.",
        "Somebody is told of 401 and 5xx answers. The API lists no failed deliveries.",
        "Secret, key and bodies are in no log.",
    ])
}
