//! The connections of a process: one pool for each kind of work, so that no kind takes another's
//! connections.

use std::sync::Arc;

use eventstore::{PrimaryFollower, Store};
use sqlx::PgPool;
use vault::{Keyring, KeyringHosts, WrappingKey};

/// Connections to the main database for callers.
const CALLER_CONNECTIONS: u32 = 10;

/// Connections to the main database for the product, which reports all day.
const INTAKE_CONNECTIONS: u32 = 6;

/// Connections to the main database that see one firm at a time, for callers with a key.
const READER_CONNECTIONS: u32 = 12;

/// Connections to the main database for workers. Callers never take them.
const WORKER_CONNECTIONS: u32 = 10;

/// Connections to the main database for health and the clock. Neither waits for other pools.
const HEALTH_CONNECTIONS: u32 = 2;

/// Connections to the keyring.
const KEYRING_CONNECTIONS: u32 = 8;

/// Planner settings for statements of workers and of intake: planned once, row by row over an
/// index. A new plan each time took a ninth of PostgreSQL's time. A kept plan must not be one for
/// empty queues. Statistics of empty tables favour a full read, even of an index, so these settings
/// make full reads dearest. A table without an index is still read in full. No setting prevents a
/// join from doing so; a join with a list therefore repeats the list's ids for the index. No
/// setting prevents a full read of an index that seems empty; the migration 0055 says what does.
/// Compilation (JIT) never pays here.
pub const WORKER_PLAN_SETTINGS: [(&str, &str); 6] = [
    ("jit", "off"),
    ("plan_cache_mode", "force_generic_plan"),
    ("enable_seqscan", "off"),
    ("enable_bitmapscan", "off"),
    ("enable_hashjoin", "off"),
    ("enable_mergejoin", "off"),
];

/// Planner settings for callers' statements: plans are kept, so they are made as for full tables. A
/// row-by-row count over an index looks dear to the planner, and JIT would compile it for 50 ms.
pub const CALLER_PLAN_SETTINGS: [(&str, &str); 3] =
    [("jit", "off"), ("enable_seqscan", "off"), ("enable_bitmapscan", "off")];

/// The connections that the parts of a process work on.
pub struct Pools {
    /// The log for callers and for commands.
    pub callers: Store,
    /// Connections that see no firm's rows, or the rows of one caller's firm.
    pub readers: PgPool,
    /// The log for the product's reports.
    pub intake: Store,
    /// The log for workers.
    pub workers: Store,
    /// Connections for health and the clock.
    pub health: PgPool,
    /// The keyring for callers and for mail.
    pub keyring: Keyring,
    /// The keyring for deliveries.
    pub worker_keyring: Keyring,
    /// A connection to the keyring for health.
    pub keyring_health: PgPool,
}

impl Pools {
    /// Makes the pools of a service, led to the primaries of both databases.
    #[must_use]
    pub fn open(
        main: &mut PrimaryFollower,
        keys: &mut PrimaryFollower,
        wrapping: WrappingKey,
    ) -> Self {
        let callers = main.make_pool(&CALLER_PLAN_SETTINGS, CALLER_CONNECTIONS);
        let callers = assemble_store(callers).watched_by(main.life().clone());
        let keyring = keys.make_pool(&WORKER_PLAN_SETTINGS, KEYRING_CONNECTIONS);
        let keyring = Keyring::new(keyring, wrapping).watched_by(keys.life().clone());
        let hosts = if keys.has_hosts_of(main) { KeyringHosts::OfMain } else { KeyringHosts::Own };
        let keyring = keyring
            .tied_to_main(main.life().clone(), hosts)
            .with_formats(callers.nudge().new_formats().clone());
        Self {
            readers: main.guarded_pool(&CALLER_PLAN_SETTINGS, READER_CONNECTIONS),
            intake: callers.with_pool(main.make_pool(&WORKER_PLAN_SETTINGS, INTAKE_CONNECTIONS)),
            workers: callers.with_pool(main.make_pool(&WORKER_PLAN_SETTINGS, WORKER_CONNECTIONS)),
            health: main.make_pool(&[], HEALTH_CONNECTIONS),
            worker_keyring: keyring.clone(),
            keyring_health: keys.make_pool(&[], 1),
            callers,
            keyring,
        }
    }
}

/// The log with every `WithAppend`, in the order of locks (architecture, section 2).
#[must_use]
pub fn assemble_store(pool: PgPool) -> Store {
    let mut with_append = projector::append_guards();
    with_append.push(Box::new(deliverer::LaneWriter));
    with_append.extend(projector::table_writers());
    Store::new(pool, with_append).queueing_in(Arc::new(deliverer::AppendQueuer))
}
