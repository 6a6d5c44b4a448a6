//! `receivers`: hosts over all firms, and how they answer.

use api::queries::receivers::{self, Receiver, ReceiverListQuery};
use clap::Args;
use serde_json::{Value, json};
use service::StorageSettings;

use crate::databases;
use crate::failure::terminal_error;
use crate::output::{Column, ListTable, OutputArgs};

const RECEIVERS: ListTable = ListTable::new(
    &[
        Column::id("host"),
        Column::state("state"),
        Column::number("subscriptions"),
        Column::number("attempts"),
        Column::id("delivered_share"),
        Column::id("last_answer"),
        Column::age("failing_since"),
        Column::number("waiting"),
        Column::age("oldest_due_at"),
        Column::text("paused_because"),
    ],
    "no receiver was called yet",
);

/// The arguments of `receivers`.
#[derive(Debug, Args)]
pub(crate) struct ReceiversArgs {
    /// Only this host.
    #[arg(long)]
    host: Option<String>,
    /// Only hosts after this one: the last one of the page before.
    #[arg(long)]
    after: Option<String>,
    /// The most hosts to list, up to 500.
    #[arg(long, default_value_t = receivers::RECEIVERS_LIMIT_DEFAULT)]
    limit: i64,
    #[command(flatten)]
    json: OutputArgs,
}

pub(crate) async fn run(storage: &StorageSettings, asked: ReceiversArgs) -> anyhow::Result<()> {
    let ReceiversArgs { host, after, limit, json } = asked;
    let system = databases::open(storage).await?;
    let query = ReceiverListQuery { host, after, limit: Some(limit) };
    let found = receivers::list(&system.service, &query).await.map_err(terminal_error)?;
    let items = found.iter().map(receiver_item).collect::<Result<_, _>>()?;
    RECEIVERS.print(json, items);
    system.stop().await
}

/// The receiver with its state and its share of successes, in words.
fn receiver_item(receiver: &Receiver) -> Result<Value, serde_json::Error> {
    let mut item = serde_json::to_value(receiver)?;
    item["state"] = receiver_state(receiver).into();
    item["delivered_share"] = success_share(receiver.delivered, receiver.attempts);
    item["last_answer"] = match (receiver.last_status, &receiver.last_error) {
        (Some(status), _) => status.to_string().into(),
        (None, error) => json!(error),
    };
    item["paused_because"] = json!(receiver.paused.as_ref().map(|pause| &pause.reason));
    Ok(item)
}

/// The strongest reason why a receiver needs a look.
const fn receiver_state(receiver: &Receiver) -> &'static str {
    match (receiver.failing, &receiver.paused, receiver.failing_since) {
        (true, _, _) => "failing",
        (_, Some(_), _) => "paused",
        (_, None, Some(_)) => "failed",
        (_, None, None) => "ok",
    }
}

/// The share of successes: a whole percentage, rounded down, so that 100 % means all.
fn success_share(delivered: i64, attempts: i64) -> Value {
    match attempts {
        0 => Value::Null,
        _ => format!("{} %", delivered.saturating_mul(100) / attempts).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hundred_percent_means_all_taken() {
        assert_eq!(success_share(999, 1_000), "99 %");
        assert_eq!(success_share(3, 3), "100 %");
        assert_eq!(success_share(0, 0), Value::Null);
    }
}
