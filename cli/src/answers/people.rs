//! `people show`: everything that was sent about a person, without its content.

use std::io::{self, BufRead};

use anyhow::Context;
use api::Service;
use api::commands::readings;
use api::queries::people;
use clap::{Args, Subcommand};
use domain::operations::{ReadAs, ReadingDetails, ReadingSubject};
use serde_json::{Value, json};
use service::StorageSettings;

use super::{list_field, text_field};
use crate::archive::note_archived;
use crate::databases;
use crate::failure::terminal_error;
use crate::names::{self, NamedKind};
use crate::output::{Column, ListTable, OutputArgs, print_json};
use crate::shared_args::reason;

const TRAIL: ListTable = ListTable::new(
    &[Column::text("kind"), Column::id("id"), Column::time("at"), Column::prose("says")],
    "nothing is known",
);

/// The commands of people.
#[derive(Debug, Subcommand)]
pub(crate) enum PeopleCommand {
    /// Show everything that was sent about a person, without its content.
    Show(PersonArgs),
}

#[derive(Debug, Args)]
pub(crate) struct PersonArgs {
    /// The person's mail address; - reads it from standard input. It is stored nowhere.
    address: String,
    /// The firm: its id, the beginning of its id, or its name.
    #[arg(long)]
    firm: String,
    /// The reason; kept in the audit log.
    #[arg(long, value_parser = reason)]
    reason: String,
    #[command(flatten)]
    json: OutputArgs,
}

pub(crate) async fn run(
    storage: &StorageSettings,
    PeopleCommand::Show(asked): PeopleCommand,
) -> anyhow::Result<()> {
    let how = asked.json;
    let asked = PersonArgs { address: read_address(asked.address)?, ..asked };
    let system = databases::open(storage).await?;
    let found = read_trail(&system.service, asked).await?;
    if how.json {
        print_json(&found);
    } else {
        TRAIL.print(how, trail_rows(&found));
        let border = found["archived_before"].as_str().and_then(|text| text.parse().ok());
        note_archived(None, border);
    }
    system.stop().await
}

/// The address. Other users of the machine see arguments, so it may come from standard input.
fn read_address(given: String) -> anyhow::Result<String> {
    if given != "-" {
        return Ok(given);
    }
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line).context("reading the address")?;
    Ok(line.trim().to_owned())
}

/// Reads the trail of the person. The reading is recorded first.
async fn read_trail(service: &Service, asked: PersonArgs) -> anyhow::Result<Value> {
    let firm = names::find_id(service.store.pool(), NamedKind::Firm, &asked.firm).await?;
    let person_id = people::person_id(service, firm, &asked.address);
    let look = ReadingDetails {
        person_id: Some(person_id),
        reason: Some(asked.reason),
        ..ReadingDetails::at(ReadingSubject::Person, ReadAs::Page)
    };
    readings::record(service, firm, service.operator(), look).await.map_err(terminal_error)?;
    let found = people::trail(service, firm, person_id).await.map_err(terminal_error)?;
    Ok(json!(found))
}

/// One row for the person, and one for each trace.
fn trail_rows(found: &Value) -> Vec<Value> {
    let mail = match text_field(found, "mail") {
        "allowed" => "mail may go to the address",
        "bounced" => "mail to the address bounced",
        _ => "the person unsubscribed from mail",
    };
    let erased = found["erased_at"].as_str().map(|_| "; the data were erased at this time");
    let says = format!("{mail}{}", erased.unwrap_or_default());
    let person = json!({
        "kind": "person", "id": found["person_id"], "at": found["erased_at"], "says": says,
    });
    let responses = list_field(found, "responses").map(response_row);
    let deliveries = list_field(found, "deliveries").map(delivery_row);
    let hooks = list_field(found, "subscriptions").map(hook_row);
    let invites = list_field(found, "invites").map(|one| step_row("invite", one));
    let events = list_field(found, "events").map(|one| step_row("event", one));
    let traces = responses.chain(deliveries).chain(hooks).chain(invites).chain(events);
    [person].into_iter().chain(traces).collect()
}

fn response_row(one: &Value) -> Value {
    let (word, at) = match &one["submitted_at"] {
        Value::Null => ("saved", &one["saved_at"]),
        at => ("submitted", at),
    };
    let says = format!("{word} to form {}", text_field(one, "form_id"));
    json!({"kind": "response", "id": one["id"], "at": at, "says": says})
}

fn delivery_row(one: &Value) -> Value {
    let hook = one["hook_id"].as_str().map(|id| format!(" to subscription {id}"));
    let part = |name| text_field(one, name);
    let what = format!("{} about response {}", part("trigger"), part("response_id"));
    let says = format!("{what}{}: {}", hook.unwrap_or_default(), part("state"));
    json!({"kind": "delivery", "id": one["id"], "at": one["created_at"], "says": says})
}

fn hook_row(one: &Value) -> Value {
    let says = format!("{} deliveries to {}", one["deliveries"], text_field(one, "target"));
    json!({"kind": "subscription", "id": one["id"], "says": says})
}

fn step_row(kind: &str, one: &Value) -> Value {
    json!({"kind": kind, "id": one["id"], "at": one["at"], "says": one["sentence"]})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_persons_traces_are_rows() {
        let found = json!({
            "person_id": "p", "mail": "bounced", "erased_at": "t",
            "responses": [{"id": "r", "form_id": "f", "saved_at": "s", "submitted_at": null}],
            "deliveries": [{"id": "d", "hook_id": null, "trigger": "lead_hot", "response_id": "r",
                            "state": "delivered", "created_at": "t"}],
            "subscriptions": [{"id": "h", "target": "https://x/…", "deliveries": 1}],
            "invites": [{"id": "i", "at": "t", "sentence": "an invite was sent"}],
            "events": [],
        });
        let rows = trail_rows(&found);
        let of = |field: &str| rows.iter().map(|row| text_field(row, field)).collect::<Vec<_>>();
        assert_eq!(of("kind"), ["person", "response", "delivery", "subscription", "invite"]);
        assert_eq!(of("says")[0], "mail to the address bounced; the data were erased at this time");
        assert_eq!(of("says")[1], "saved to form f");
        assert_eq!(of("says")[2], "lead_hot about response r: delivered");
    }
}
