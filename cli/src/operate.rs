//! The operators' commands on firms, keys, tokens, secrets and deliveries. They work on the
//! databases directly, also beside a running service.

use std::collections::HashMap;

use api::Service;
use api::commands::targets::{self, TargetReveal};
use api::commands::{self, keys, readings, secrets, tokens};
use api::queries::as_of;
use domain::access_token::TokenScope;
use domain::as_of::AsOf;
use domain::delivery::Attempt;
use domain::reading::{ReadAs, ReadingDetails, ReadingSubject};
use domain::time::Timestamp;
use projector::as_of::DeliveryThen;
use projector::{deliveries, firms};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::args::{
    DeliveriesCommand, DeliveryShowArgs, FirmsCommand, KeysCommand, SecretsCommand, TokenRole,
    TokensCommand,
};
use crate::output::{print, print_json, print_line};
use crate::pauses;
use crate::wiring::{self, StorageArgs, System};

pub(crate) async fn firms(
    storage: &StorageArgs,
    FirmsCommand::List(how): &FirmsCommand,
) -> anyhow::Result<()> {
    let system = wiring::open(storage).await?;
    let firms = firms::list(system.pool()).await?;
    let items = firms
        .iter()
        .map(|firm| json!({"id": firm.firm_id, "name": firm.name, "status": firm.status}))
        .collect();
    print(*how, items, &["id", "status", "name"]);
    system.stop().await
}

pub(crate) async fn keys(storage: &StorageArgs, command: KeysCommand) -> anyhow::Result<()> {
    let system = wiring::open(storage).await?;
    run_keys(&system.service, command).await?;
    system.stop().await
}

async fn run_keys(service: &Service, command: KeysCommand) -> anyhow::Result<()> {
    match command {
        KeysCommand::Create { firm, member, name, json } => {
            let made = keys::create_by(service, firm, member, service.operator(), &name).await;
            let made = made.map_err(terminal_error)?;
            let shown = json!({"id": made.id, "key": made.key.as_str(), "name": made.name});
            print(json, vec![shown], &["id", "key"]);
        }
        KeysCommand::List { firm, json } => {
            let keys = keys::list(service, firm).await.map_err(terminal_error)?;
            let items = keys
                .into_iter()
                .map(|key| {
                    json!({"id": key.key_id, "prefix": key.prefix, "name": key.name,
                           "member_id": key.member_id, "created_at": Timestamp::from(key.created_at),
                           "last_used_at": key.last_used_at.map(Timestamp::from),
                           "revoked_at": key.revoked_at.map(Timestamp::from)})
                })
                .collect();
            print(
                json,
                items,
                &["id", "prefix", "created_at", "last_used_at", "revoked_at", "name"],
            );
        }
        KeysCommand::Revoke { firm, key } => {
            keys::revoke(service, firm, key, service.operator()).await.map_err(terminal_error)?;
            print_line("revoked; its subscriptions are removed");
        }
    }
    Ok(())
}

pub(crate) async fn tokens(storage: &StorageArgs, command: TokensCommand) -> anyhow::Result<()> {
    let system = wiring::open(storage).await?;
    run_tokens(&system.service, command).await?;
    system.stop().await
}

async fn run_tokens(service: &Service, command: TokensCommand) -> anyhow::Result<()> {
    match command {
        TokensCommand::Create { role, name, expires, firm, json } => {
            let role = match role {
                TokenRole::Product => tokens::HolderRole::Product,
                TokenRole::Operator => tokens::HolderRole::Operator,
                TokenRole::Auditor => tokens::HolderRole::Auditor,
            };
            let firm_ids = (!firm.is_empty()).then_some(firm);
            let scope = TokenScope { name, role, expires_at: expires, firm_ids };
            let made = tokens::create_limited(service, scope).await.map_err(terminal_error)?;
            let shown = json!({"id": made.id, "token": made.token, "name": made.name});
            print(json, vec![shown], &["id", "token"]);
        }
        TokensCommand::List(json) => {
            let tokens = tokens::list(service).await.map_err(terminal_error)?;
            let items = tokens
                .into_iter()
                .map(|token| {
                    json!({"id": token.token_id, "role": token.role, "name": token.name,
                           "created_at": Timestamp::from(token.created_at),
                           "expires_at": token.expires_at.map(Timestamp::from),
                           "firm_ids": token.firm_ids,
                           "last_used_at": token.last_used_at.map(Timestamp::from),
                           "revoked_at": token.revoked_at.map(Timestamp::from)})
                })
                .collect();
            let fields = [
                "id",
                "role",
                "created_at",
                "expires_at",
                "last_used_at",
                "revoked_at",
                "firm_ids",
                "name",
            ];
            print(json, items, &fields);
        }
        TokensCommand::Revoke { token } => {
            tokens::revoke(service, token).await.map_err(terminal_error)?;
            print_line("revoked");
        }
    }
    Ok(())
}

pub(crate) async fn secrets(storage: &StorageArgs, command: SecretsCommand) -> anyhow::Result<()> {
    let system = wiring::open(storage).await?;
    let service = &system.service;
    let (shown, how) = match command {
        SecretsCommand::Reveal { firm, json } => {
            (secrets::reveal(service, firm, service.operator()).await, json)
        }
        SecretsCommand::Rotate { firm, reason, json } => {
            (secrets::rotate(service, firm, service.operator(), reason.as_deref()).await, json)
        }
    };
    let shown = shown.map_err(terminal_error)?;
    let item = json!({"secret": shown.secret.as_str(), "rotated_at": shown.rotated_at});
    print(how, vec![item], &["secret", "rotated_at"]);
    system.stop().await
}

pub(crate) async fn deliveries(
    storage: &StorageArgs,
    command: DeliveriesCommand,
) -> anyhow::Result<()> {
    let system = wiring::open(storage).await?;
    run_deliveries(&system, command).await?;
    system.stop().await
}

async fn run_deliveries(system: &System, command: DeliveriesCommand) -> anyhow::Result<()> {
    match command {
        DeliveriesCommand::List(asked) => crate::deliveries::list(system, asked).await?,
        DeliveriesCommand::Pause(asked) => pauses::pause(&system.service, asked).await?,
        DeliveriesCommand::Resume(asked) => pauses::resume(&system.service, asked).await?,
        DeliveriesCommand::Paused(json) => pauses::list(&system.service, json).await?,
        DeliveriesCommand::Show(asked) => show(&system.service, asked).await?,
    }
    Ok(())
}

/// Shows a delivery with its attempts, now or in the past. The reading is recorded first.
async fn show(service: &Service, asked: DeliveryShowArgs) -> anyhow::Result<()> {
    let DeliveryShowArgs { firm: firm_id, delivery: delivery_id, as_of, reveal, json } = asked;
    let until = match as_of {
        Some(as_of) => as_of::check(service, as_of).await.map_err(terminal_error)?,
        None => AsOf::NOW,
    };
    let found = as_of::delivery(service, firm_id, delivery_id, until).await;
    let (mut found, erased) = found.map_err(terminal_error)?;
    let erasure = if erased { BodyErasure::Erased } else { BodyErasure::Kept };
    let look = ReadingDetails {
        delivery_id: Some(delivery_id),
        ..ReadingDetails::at(ReadingSubject::Delivery, ReadAs::Page)
    };
    readings::record(service, firm_id, service.operator(), look).await.map_err(terminal_error)?;
    if let Some(reason) = &reveal.show_target {
        let reveal = TargetReveal { firm_id, actor: service.operator(), reason };
        let target = targets::of_delivery(service, reveal, &found.row).await;
        found.show_target(&target.map_err(terminal_error)?);
    }
    let DeliveryThen { row, attempts } = found;
    let mut shown = if as_of.is_some() {
        delivery_then(&row, erasure)
    } else {
        delivery_json(&row, &pause_by_delivery(service, firm_id, std::slice::from_ref(&row)).await?)
    };
    let attempts: Vec<Value> = attempts.iter().map(attempt).collect();
    if json.json {
        shown["attempts"] = attempts.into();
        print_json(&shown);
    } else {
        print(json, vec![shown], &["id", "state", "cause", "next_try_at"]);
        print(json, attempts, &["number", "outcome", "status", "error", "late", "started_at"]);
    }
    Ok(())
}

/// Whether the body of a delivery is erased by now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BodyErasure {
    Kept,
    Erased,
}

/// A past state of a delivery. A body that is erased by now shows as erased in every past state.
pub(crate) fn delivery_then(row: &deliveries::DeliveryRow, erasure: BodyErasure) -> Value {
    let mut shown = delivery_json(row, &HashMap::new());
    shown["erased"] = (erasure == BodyErasure::Erased).into();
    shown
}

/// The pause that holds each of these deliveries, if one does.
pub(crate) async fn pause_by_delivery(
    service: &Service,
    firm_id: Uuid,
    rows: &[deliveries::DeliveryRow],
) -> anyhow::Result<HashMap<Uuid, Uuid>> {
    commands::pauses::holding(service, firm_id, rows).await.map_err(terminal_error)
}

pub(crate) fn delivery_json(row: &deliveries::DeliveryRow, holding: &HashMap<Uuid, Uuid>) -> Value {
    json!({
        "id": row.delivery_id, "hook_id": row.hook_id, "run_id": row.run_id,
        "step_id": row.step_id, "trigger": row.trigger,
        "form_id": row.form_id, "response_id": row.response_id, "state": row.state,
        "cause": row.cause, "created_at": Timestamp::from(row.created_at),
        "next_try_at": row.next_try_at.map(Timestamp::from), "body_sha256": row.body_sha256,
        "reissue_of": row.reissue_of, "paused": holding.get(&row.delivery_id),
    })
}

fn attempt(one: &Attempt) -> Value {
    json!({
        "number": one.number, "started_at": one.started_at, "finished_at": one.finished_at,
        "outcome": one.outcome, "status": one.status, "error": one.error,
        "retry_after_seconds": one.retry_after_seconds, "hops": one.hops,
        "late": one.late.is_some(),
    })
}

/// The API's error as one line, with the cause that the API would only log.
pub(crate) fn terminal_error(error: api::Error) -> anyhow::Error {
    let said = error.to_string();
    match error {
        api::Error::Internal(detail) | api::Error::Unavailable(detail) => {
            anyhow::anyhow!("{said}: {detail}")
        }
        _ => anyhow::anyhow!(said),
    }
}
