//! The operator at the terminal: `--as`, or the account of the operating system. The machine's name
//! and the login at the database are evidence (ruling 46). Maintenance is recorded before it
//! begins.

use std::sync::Arc;

use anyhow::Context;
use api::OperatorAtTerminal;
use domain::delivery::INSTALLATION_FIRM_ID;
use domain::event::{Actor, EventContext, OperatorName, Terminal};
use domain::operations::MaintenanceEvent;
use eventstore::{AppendError, Clock, NewEvent, Store, connect};
use nix::unistd::{User, gethostname, getuid};
use service::StorageSettings;
use sqlx::postgres::PgConnectOptions;
use sqlx::{Executor, PgPool};
use vault::{Entropy, SystemEntropy};

/// The operator of a command on this database.
pub(crate) async fn at_terminal(
    storage: &StorageSettings,
    main: &PgPool,
) -> anyhow::Result<OperatorAtTerminal> {
    let login: String = sqlx::query_scalar("select session_user::text").fetch_one(main).await?;
    let user = account_name();
    let name = match storage.operator {
        Some(name) => name,
        None => OperatorName::of_account(&user).context("the account has no name: set --as")?,
    };
    let host = gethostname().unwrap_or_default().to_string_lossy().into_owned();
    Ok(OperatorAtTerminal { name, terminal: Arc::new(Terminal { host, login, user }) })
}

/// The account of the operating system, or its number if it has no name.
fn account_name() -> String {
    let user = User::from_uid(getuid()).ok().flatten();
    user.map_or_else(|| format!("uid-{}", getuid()), |user| user.name)
}

/// Records an order of maintenance.
pub(crate) async fn record_order(
    store: &Store,
    context: &EventContext,
    ordered: MaintenanceEvent,
) -> Result<(), AppendError> {
    let stream = SystemEntropy.new_id().to_string();
    store.append(NewEvent::number_after(0, &stream, context, [ordered])).await.map(drop)
}

/// Records an order of maintenance for a command without a system. Its one connection has a name of
/// its own, so that it does not count as a process at work.
pub(crate) async fn record_alone(
    storage: &StorageSettings,
    main: &PgConnectOptions,
    ordered: MaintenanceEvent,
) -> anyhow::Result<()> {
    let pool = connect(main.clone(), 1);
    pool.execute("set application_name = 'firmforms at a terminal'").await?;
    let operator = at_terminal(storage, &pool).await?;
    let context = EventContext {
        firm_id: INSTALLATION_FIRM_ID,
        recorded_at: Clock::of_database(&pool).await?.now(),
        actor: Actor::NamedOperator(operator.name),
        correlation_id: SystemEntropy.new_id(),
        causation_id: None,
        traceparent: None,
        terminal: Some(operator.terminal),
    };
    record_order(&service::assemble_store(pool.clone()), &context, ordered).await?;
    pool.close().await;
    Ok(())
}
