//! The operators' commands on firms, keys, tokens and secrets. They work on the databases directly,
//! also beside a running service.

use api::Service;
use api::commands::{keys, secrets, tokens};
use deliverer::inspect::lane_list;
use domain::access::TokenScope;
use domain::values::Timestamp;
use projector::{firms, hooks};
use serde_json::json;
use service::StorageSettings;
use uuid::Uuid;

use crate::answers::why;
use crate::args::{FirmsCommand, KeysCommand, SecretsCommand, TokenRole, TokensCommand};
use crate::confirm::{self, ConsentArgs};
use crate::databases;
use crate::failure::terminal_error;
use crate::names::{self, NamedKind};
use crate::output::{Column, ListTable, OutputArgs, RecordView, print_note};

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
    RecordView::new(&[Column::id("id"), Column::text("name"), Column::id("key")])
        .quiet_field("key");

const NEW_TOKEN: RecordView =
    RecordView::new(&[Column::id("id"), Column::text("name"), Column::id("token")])
        .quiet_field("token");

const SECRET: RecordView =
    RecordView::new(&[Column::id("secret"), Column::time("rotated_at")]).quiet_field("secret");

const REVOKED: RecordView =
    RecordView::new(&[Column::id("id"), Column::number("subscriptions_removed")]);

pub(crate) async fn list_firms(
    storage: &StorageSettings,
    FirmsCommand::List(how): &FirmsCommand,
) -> anyhow::Result<()> {
    let system = databases::open(storage).await?;
    let firms = firms::list(system.main_pool()).await?;
    let items = firms
        .iter()
        .map(|firm| json!({"id": firm.firm_id, "name": firm.name, "status": firm.status}))
        .collect();
    FIRMS.print(*how, items);
    system.stop().await
}

pub(crate) async fn keys_command(
    storage: &StorageSettings,
    command: KeysCommand,
) -> anyhow::Result<()> {
    let system = databases::open(storage).await?;
    run_keys(&system.service, command).await?;
    system.stop().await
}

async fn run_keys(service: &Service, command: KeysCommand) -> anyhow::Result<()> {
    let pool = service.store.pool();
    match command {
        KeysCommand::Create { firm, member, name, json } => {
            let firm = names::find_id(pool, NamedKind::Firm, &firm).await?;
            let member = names::find_id(pool, NamedKind::Member(firm), &member).await?;
            let made = keys::create_by(service, firm, member, service.operator(), &name).await;
            let made = made.map_err(terminal_error)?;
            let shown = json!({"id": made.id, "key": made.key.as_str(), "name": made.name});
            NEW_KEY.print(json, &shown);
            tell_once(json);
        }
        KeysCommand::List { firm, json } => {
            let firm = names::find_id(pool, NamedKind::Firm, &firm).await?;
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
        KeysCommand::Why(asked) => why::explain_key(service, asked).await?,
        KeysCommand::Revoke { firm, key, reason, consent, json } => {
            let firm = names::find_id(pool, NamedKind::Firm, &firm).await?;
            let key = names::find_id(pool, NamedKind::Key(firm), &key).await?;
            consent_to_revocation(service, firm, key, consent).await?;
            let actor = service.operator();
            if let Some(why) = reason {
                let noted = keys::note_reason(service, firm, key, actor, &why).await;
                noted.map_err(terminal_error)?;
            }
            let removed = keys::revoke(service, firm, key, actor).await;
            let removed = removed.map_err(terminal_error)?;
            REVOKED.print(json, &json!({"id": key, "subscriptions_removed": removed}));
        }
    }
    Ok(())
}

/// Asks before a key and its subscriptions go. A key that is not there is for the command to tell.
async fn consent_to_revocation(
    service: &Service,
    firm_id: Uuid,
    key_id: Uuid,
    consent: ConsentArgs,
) -> anyhow::Result<()> {
    let pool = service.store.pool();
    let keys = keys::list(service, firm_id).await.map_err(terminal_error)?;
    let Some(key) = keys.iter().find(|key| key.key_id == key_id && key.revoked_at.is_none()) else {
        return Ok(());
    };
    let hooks = hooks::live_of_keys(&mut *pool.acquire().await?, &[key_id]).await?;
    let lanes: Vec<Uuid> = hooks.iter().map(|hook| hook.hook_id).collect();
    let waiting = lane_list::waiting_in(pool, &lanes).await?;
    let consequences = format!(
        "the key {} ({}) is revoked for good; {} subscriptions go along, and {waiting} queued \
         deliveries are cancelled",
        key.prefix,
        key.name,
        hooks.len()
    );
    Ok(confirm::require_consent(consent, &consequences, &key.prefix)?)
}

async fn consent_to_token_revocation(
    service: &Service,
    token_id: Uuid,
    consent: ConsentArgs,
) -> anyhow::Result<()> {
    let tokens = tokens::list(service).await.map_err(terminal_error)?;
    let active = tokens.iter().find(|one| one.token_id == token_id && one.revoked_at.is_none());
    let Some(token) = active else { return Ok(()) };
    let used = token.last_used_at.map(|at| format!("last used {}", Timestamp::from(at)));
    let used = used.unwrap_or_else(|| "never used".to_owned());
    let consequences =
        format!("the {} token {} is refused from now on ({used})", token.role, token.name);
    Ok(confirm::require_consent(consent, &consequences, &token.name)?)
}

async fn consent_to_rotation(
    service: &Service,
    firm_id: Uuid,
    consent: ConsentArgs,
) -> anyhow::Result<()> {
    let pool = service.store.pool();
    let Some(firm) = firms::mail_sender(pool, firm_id).await? else { return Ok(()) };
    let hooks = hooks::list_live(pool, firm_id).await?.len();
    let consequences = format!(
        "the old secret of {} signs nothing claimed from now on; subscriptions that need the new \
         one within a minute: {hooks}",
        firm.name
    );
    Ok(confirm::require_consent(consent, &consequences, &firm.name)?)
}

/// Tells a person that a new secret is not shown again.
fn tell_once(how: OutputArgs) {
    if how.is_text() {
        print_note("shown once: keep it now");
    }
}

pub(crate) async fn tokens_command(
    storage: &StorageSettings,
    command: TokensCommand,
) -> anyhow::Result<()> {
    let system = databases::open(storage).await?;
    run_tokens(&system.service, command).await?;
    system.stop().await
}

async fn run_tokens(service: &Service, command: TokensCommand) -> anyhow::Result<()> {
    let pool = service.store.pool();
    match command {
        TokensCommand::Create { role, name, expires, firm, json } => {
            let role = match role {
                TokenRole::Product => tokens::HolderRole::Product,
                TokenRole::Operator => tokens::HolderRole::Operator,
                TokenRole::Auditor => tokens::HolderRole::Auditor,
            };
            let firms = names::find_ids(pool, NamedKind::Firm, &firm).await?;
            let firm_ids = (!firms.is_empty()).then_some(firms);
            let expires_at = expires.map(|when| when.instant_after(service.clock.now()));
            let scope = TokenScope { name, role, expires_at, firm_ids };
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
        TokensCommand::Revoke { token, consent, json } => {
            let token = names::find_id(pool, NamedKind::Token, &token).await?;
            consent_to_token_revocation(service, token, consent).await?;
            tokens::revoke(service, token).await.map_err(terminal_error)?;
            REVOKED.print(json, &json!({"id": token}));
        }
    }
    Ok(())
}

pub(crate) async fn secrets_command(
    storage: &StorageSettings,
    command: SecretsCommand,
) -> anyhow::Result<()> {
    let system = databases::open(storage).await?;
    let service = &system.service;
    let (shown, how) = match command {
        SecretsCommand::Reveal { firm, json } => {
            let firm = names::find_id(system.main_pool(), NamedKind::Firm, &firm).await?;
            (secrets::reveal(service, firm, service.operator()).await, json)
        }
        SecretsCommand::Rotate { firm, reason, consent, json } => {
            let firm = names::find_id(system.main_pool(), NamedKind::Firm, &firm).await?;
            consent_to_rotation(service, firm, consent).await?;
            (secrets::rotate(service, firm, service.operator(), reason.as_deref()).await, json)
        }
    };
    let shown = shown.map_err(terminal_error)?;
    let item = json!({"secret": shown.secret.as_str(), "rotated_at": shown.rotated_at});
    SECRET.print(how, &item);
    system.stop().await
}
