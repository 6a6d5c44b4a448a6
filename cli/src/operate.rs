//! The operators' commands on firms, keys, tokens and secrets. They work on the databases directly,
//! also beside a running service.

use api::Service;
use api::commands::{keys, secrets, tokens};
use domain::access_token::TokenScope;
use domain::time::Timestamp;
use projector::firms;
use serde_json::json;

use crate::args::{FirmsCommand, KeysCommand, SecretsCommand, TokenRole, TokensCommand};
use crate::output::{Column, ListTable, OutputArgs, RecordView, print_note};
use crate::wiring::{self, StorageArgs};

const FIRMS: ListTable = ListTable::new(
    &[Column::id("id"), Column::state("status"), Column::text("name")],
    "no firms yet: the product reports them, `firmforms ingest` too",
);

const KEYS: ListTable = ListTable::new(
    &[
        Column::id("id"),
        Column::id("prefix"),
        Column::time("created_at"),
        Column::age("last_used_at"),
        Column::age("revoked_at"),
        Column::text("name"),
    ],
    "this firm has no keys",
);

const TOKENS: ListTable = ListTable::new(
    &[
        Column::id("id"),
        Column::text("role"),
        Column::time("created_at"),
        Column::age("expires_at"),
        Column::age("last_used_at"),
        Column::age("revoked_at"),
        Column::text("firm_ids"),
        Column::text("name"),
    ],
    "no tokens yet: `firmforms tokens create` makes one",
);

const NEW_KEY: RecordView =
    RecordView::new(&[Column::id("id"), Column::text("name"), Column::id("key")]).quiet("key");

const NEW_TOKEN: RecordView =
    RecordView::new(&[Column::id("id"), Column::text("name"), Column::id("token")]).quiet("token");

const SECRET: RecordView =
    RecordView::new(&[Column::id("secret"), Column::time("rotated_at")]).quiet("secret");

const REVOKED: RecordView =
    RecordView::new(&[Column::id("id"), Column::number("subscriptions_removed")]);

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
    FIRMS.print(*how, items);
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
            NEW_KEY.print(json, &shown);
            tell_once(json);
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
            KEYS.print(json, items);
        }
        KeysCommand::Revoke { firm, key, json } => {
            let removed = keys::revoke(service, firm, key, service.operator()).await;
            let removed = removed.map_err(terminal_error)?;
            REVOKED.print(json, &json!({"id": key, "subscriptions_removed": removed}));
        }
    }
    Ok(())
}

/// Tells a person that a new secret is not shown again.
fn tell_once(how: OutputArgs) {
    if how.is_text() {
        print_note("shown once: keep it now");
    }
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
            NEW_TOKEN.print(json, &shown);
            tell_once(json);
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
            TOKENS.print(json, items);
        }
        TokensCommand::Revoke { token, json } => {
            tokens::revoke(service, token).await.map_err(terminal_error)?;
            REVOKED.print(json, &json!({"id": token}));
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
    SECRET.print(how, &item);
    system.stop().await
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
