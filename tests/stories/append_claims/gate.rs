//! A gate: inserts wait before it, so that a test decides the events in between.

use sqlx::{Connection, Executor, PgConnection};
use tests::World;

/// Tables and event types whose inserts wait for the gate.
pub(super) const OCCURRENCES: (&str, &str) = ("events", "'OccurrenceRecorded'");
pub(super) const REMOVALS: (&str, &str) = ("events", "'SubscriptionRemoved'");
/// The rows of an append, which has leased them by then.
pub(super) const ROWS: (&str, &str) = ("outbox", "");

/// A gate that is shut.
pub(super) struct Gate(PgConnection);

impl Gate {
    /// Shuts a gate before inserts into a table. Of events, only inserts of one type wait.
    pub(super) async fn before(world: &World, (table, event_type): (&str, &str)) -> Self {
        let of_type = match event_type {
            "" => String::new(),
            one => format!("when (new.event_type = {one})"),
        };
        let gate = format!(
            "create function wait_at_gate() returns trigger language plpgsql as $$ begin
                 perform pg_advisory_xact_lock_shared(7);
                 return new;
             end $$;
             create trigger gate before insert on {table} for each row {of_type}
                 execute function wait_at_gate();
             select pg_advisory_lock(7);"
        );
        let mut holder = PgConnection::connect_with(&world.database.main).await.unwrap();
        holder.execute(gate.as_str()).await.unwrap();
        Self(holder)
    }

    pub(super) async fn open(self) {
        self.0.close().await.unwrap();
    }
}
