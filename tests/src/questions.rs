//! Questions of a test to the databases of its world, and changes behind the service's back. A
//! question that one test alone asks stays in this test.

use domain::delivery::Attempt;
use domain::values::AsOf;
use projector::as_of::{had_happened, stream_attempts};
use serde_json::Value;
use sqlx::{FromRow, PgPool, Postgres, Transaction};
use uuid::Uuid;

use crate::firm::Firm;
use crate::world::World;

/// An event of the log, as it is stored.
#[derive(Debug, Clone, FromRow)]
pub struct StoredEvent {
    /// Its place in the log.
    pub position: i64,
    /// The stream's id within its kind.
    pub aggregate_id: String,
    /// Its type.
    pub event_type: String,
    /// The version of its shape.
    pub event_version: String,
    /// Its fields, below the name of its type.
    pub payload: Value,
    /// Its context: who caused it, and with what.
    pub metadata: Value,
    /// Its firm.
    pub firm_id: Uuid,
}

impl StoredEvent {
    /// A field of the event.
    #[must_use]
    pub fn field(&self, name: &str) -> &Value {
        &self.payload[self.event_type.as_str()][name]
    }

    /// The actor that caused it.
    #[must_use]
    pub fn actor(&self) -> &str {
        self.metadata["actor"].as_str().unwrap()
    }
}

/// An entry of the audit log.
#[derive(Debug, Clone, FromRow)]
pub struct AuditEntry {
    /// The position of its event.
    pub position: i64,
    /// The action.
    pub action: String,
    /// The kind of its actor.
    pub actor_kind: String,
    /// The id of its actor.
    pub actor_id: Option<String>,
    /// The id of its subject.
    pub subject_id: Option<String>,
    /// The reason that its actor gave.
    pub reason: Option<String>,
    /// Its further facts.
    pub evidence: Value,
}

impl AuditEntry {
    /// Its actor, as the log writes actors: the kind and the id.
    #[must_use]
    pub fn actor(&self) -> String {
        format!("{}:{}", self.actor_kind, self.actor_id.as_deref().unwrap_or_default())
    }

    /// Its further facts, without the terminal of its command.
    #[must_use]
    pub fn evidence_but_terminal(&self) -> Value {
        let mut evidence = self.evidence.clone();
        evidence.as_object_mut().unwrap().remove("terminal");
        evidence
    }
}

impl World {
    /// Number of rows of a table. A condition may follow the table's name.
    pub async fn count(&self, rows: &str) -> i64 {
        count_rows(self.pool(), rows).await
    }

    /// The number that a question answers with.
    pub async fn ask_number(&self, question: &str) -> i64 {
        sqlx::query_scalar(question).fetch_one(self.pool()).await.unwrap()
    }

    /// Number of rows of a table of the keyring. A condition may follow the table's name.
    pub async fn count_in_keyring(&self, rows: &str) -> i64 {
        count_rows(self.keys(), rows).await
    }

    /// Number of data keys of a response or of another subject.
    pub async fn count_data_keys_of(&self, subject_id: Uuid) -> i64 {
        self.count_in_keyring(&format!("data_keys where subject_id = '{subject_id}'")).await
    }

    /// Number of events of this type in the log.
    pub async fn count_events(&self, event_type: &str) -> i64 {
        self.count(&format!("events where event_type = '{event_type}'")).await
    }

    /// The events of this type, in the order of the log.
    pub async fn events_of_type(&self, event_type: &str) -> Vec<StoredEvent> {
        sqlx::query_as(
            "select position, aggregate_id, event_type, event_version, payload, metadata, firm_id
               from events where event_type = $1 order by position",
        )
        .bind(event_type)
        .fetch_all(self.pool())
        .await
        .unwrap()
    }

    /// The types of the events in streams of these kinds, in the order of the log.
    pub async fn event_types_in(&self, stream_kinds: &[&str]) -> Vec<String> {
        sqlx::query_scalar(
            "select event_type from events where aggregate_type = any($1) order by position",
        )
        .bind(stream_kinds)
        .fetch_all(self.pool())
        .await
        .unwrap()
    }

    /// The position of the log's last event.
    pub async fn last_position(&self) -> i64 {
        self.ask_number("select max(position) from events").await
    }

    /// The ids of all deliveries in history, the oldest first.
    pub async fn delivery_ids(&self) -> Vec<Uuid> {
        sqlx::query_scalar("select delivery_id from deliveries order by created_at, delivery_id")
            .fetch_all(self.pool())
            .await
            .unwrap()
    }

    /// The id of the oldest delivery in history, which is the only one in most stories.
    pub async fn first_delivery_id(&self) -> Uuid {
        self.delivery_ids().await[0]
    }

    /// State and cause of each delivery in history, the oldest first.
    pub async fn delivery_states(&self) -> Vec<(String, Option<String>)> {
        sqlx::query_as("select state, cause from deliveries order by created_at, state")
            .fetch_all(self.pool())
            .await
            .unwrap()
    }

    /// The state of a delivery, and the outcomes of its tries.
    pub async fn history(&self, delivery_id: Uuid) -> (String, Vec<String>) {
        let state: String =
            sqlx::query_scalar("select state from deliveries where delivery_id = $1")
                .bind(delivery_id)
                .fetch_one(self.pool())
                .await
                .unwrap();
        let tries = self.attempts(delivery_id).await.into_iter();
        (state, tries.map(|attempt| attempt.outcome.name().to_owned()).collect())
    }

    /// The tries of a delivery, as they are shown.
    pub async fn attempts(&self, delivery_id: Uuid) -> Vec<Attempt> {
        let mut connection = self.pool().acquire().await.unwrap();
        let stream = had_happened(&mut connection, "Delivery", &[delivery_id], AsOf::NOW).await;
        stream.unwrap().first().map(|stream| stream_attempts(stream)).unwrap_or_default()
    }

    /// The entries of a firm's chain in the audit log, in their order.
    pub async fn audit_entries(&self, firm_id: Uuid) -> Vec<AuditEntry> {
        sqlx::query_as(
            "select position, action, actor_kind, actor_id, subject_id, reason, evidence
               from audit_log where firm_id = $1 order by sequence",
        )
        .bind(firm_id)
        .fetch_all(self.pool())
        .await
        .unwrap()
    }

    /// The entries of this action in all chains of the audit log, in the order of the log.
    pub async fn audit_entries_of(&self, action: &str) -> Vec<AuditEntry> {
        sqlx::query_as(
            "select position, action, actor_kind, actor_id, subject_id, reason, evidence
               from audit_log where action = $1 order by position",
        )
        .bind(action)
        .fetch_all(self.pool())
        .await
        .unwrap()
    }

    /// Runs statements in the main database, as a superuser. Returns the number of changed rows.
    pub async fn change_database(&self, statements: &str) -> u64 {
        let done = sqlx::raw_sql(statements).execute(self.pool()).await.unwrap();
        done.rows_affected()
    }

    /// Runs statements in the keyring's database, as a superuser. Returns the number of changed
    /// rows.
    pub async fn change_keyring(&self, statements: &str) -> u64 {
        let done = sqlx::raw_sql(statements).execute(self.keys()).await.unwrap();
        done.rows_affected()
    }

    /// Sets the used part of a firm's quota, such as its `hooks` or the `invites` of a day.
    pub async fn set_quota(&self, firm: &Firm, kind: &str, period: &str, used: i32) {
        let row = format!("values ('{}', '{kind}', '{period}', {used})", firm.id);
        let set = "on conflict (firm_id, kind, period) do update set used = excluded.used";
        let quota = format!("insert into quotas (firm_id, kind, period, used) {row} {set}");
        self.change_database(&quota).await;
    }

    /// Deletes the leased rows of the outbox.
    pub async fn drop_in_flight(&self) {
        self.change_database("delete from outbox where leased_at is not null").await;
    }

    /// Locks a lane, as a worker does that is slow to commit.
    pub async fn hold_lane(&self, lane_id: Uuid) -> Transaction<'static, Postgres> {
        let mut holder = self.pool().begin().await.unwrap();
        let lock = sqlx::query("select 1 from lanes where lane_id = $1 for update").bind(lane_id);
        lock.execute(&mut *holder).await.unwrap();
        holder
    }

    /// Locks responses that are new, so that a report of one of them waits.
    pub async fn hold_responses(
        &self,
        firm: &Firm,
        response_ids: &[Uuid],
    ) -> Transaction<'static, Postgres> {
        let mut holder = self.pool().begin().await.unwrap();
        let subjects = "insert into subjects (firm_id, subject_id) select $1, unnest($2)";
        let held = sqlx::query(subjects).bind(firm.id).bind(response_ids);
        held.execute(&mut *holder).await.unwrap();
        holder
    }
}

/// Number of rows of a table. A condition may follow the table's name.
pub async fn count_rows(pool: &PgPool, rows: &str) -> i64 {
    let count = format!("select count(*) from {rows}");
    sqlx::query_scalar(&count).fetch_one(pool).await.unwrap()
}

/// The names of the tables of a database, in the order of the alphabet.
pub async fn table_names(pool: &PgPool) -> Vec<String> {
    sqlx::query_scalar(
        "select relname::text from pg_class
          where relkind in ('r', 'p') and relnamespace = 'public'::regnamespace order by relname",
    )
    .fetch_all(pool)
    .await
    .unwrap()
}

/// The ranges of history, with their schema, in the order of the alphabet.
pub async fn history_ranges(pool: &PgPool) -> Vec<String> {
    sqlx::query_scalar(
        "select inhrelid::regclass::text from pg_inherits
          where inhparent = 'deliveries'::regclass order by 1",
    )
    .fetch_all(pool)
    .await
    .unwrap()
}

/// Waits until so many transactions of this database wait for a lock.
pub async fn until_blocked(pool: &PgPool, transactions: i64) {
    let waiting = "pg_stat_activity
                   where datname = current_database() and wait_event_type = 'Lock'";
    while count_rows(pool, waiting).await < transactions {
        tokio::task::yield_now().await;
    }
}
