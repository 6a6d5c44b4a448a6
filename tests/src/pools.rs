//! The connections of a world: one login for all its parts, or one for each of its processes.

use eventstore::{LifeWatch, NewFormats, Store, connect};
use service::{CALLER_PLAN_SETTINGS, Pools, WORKER_PLAN_SETTINGS, assemble_store};
use sqlx::PgPool;
use vault::Keyring;

use crate::database::{Connections, TestDatabase, wrapping_key};

/// Statements of a test are no statements of the service: nobody writes down their plans.
const UNSEEN: [(&str, &str); 1] = [("auto_explain.log_min_duration", "-1")];

/// The connections of a world.
pub(crate) struct WorldPools {
    /// The connections of its parts.
    pub(crate) parts: Pools,
    /// The log, as projectors meet it.
    pub(crate) projector: Store,
    /// The main database, as a superuser meets it.
    pub(crate) superuser: PgPool,
}

impl WorldPools {
    /// The pools of these connections.
    pub(crate) fn new(database: &TestDatabase, connections: Connections) -> Self {
        match connections {
            Connections::Shared => Self::shared(database),
            Connections::Apart | Connections::ByRoles => Self::apart(database, connections),
        }
    }

    /// All parts work on one pool of each database.
    fn shared(database: &TestDatabase) -> Self {
        let life = LifeWatch::default();
        let pool = life.connect(database.main.clone().options(CALLER_PLAN_SETTINGS), 10);
        let store = assemble_store(pool.clone()).watched_by(life);
        let keyring = keyring(database, Connections::Shared, "api");
        let parts = Pools {
            readers: pool.clone(),
            intake: store.clone(),
            workers: store.clone(),
            health: pool.clone(),
            worker_keyring: keyring.clone(),
            keyring_health: keyring.pool().clone(),
            callers: store.clone(),
            keyring,
        };
        Self { parts, projector: store, superuser: pool }
    }

    /// Doors, projector and deliverer work on pools of their own, planned as the service's are.
    fn apart(database: &TestDatabase, connections: Connections) -> Self {
        let life = LifeWatch::default();
        let login = |role| connections.to(&database.main, role);
        let workers = |role| life.connect(login(role).options(WORKER_PLAN_SETTINGS), 10);
        let callers = login("api").options(CALLER_PLAN_SETTINGS);
        let intake = life.connect(login("api").options(WORKER_PLAN_SETTINGS), 4);
        let store = assemble_store(life.connect(callers.clone(), 10)).watched_by(life.clone());
        let keyring = |role| keyring(database, connections, role);
        let api_keyring = keyring("api");
        let parts = Pools {
            readers: life.connect_guarded(callers, 4),
            intake: store.with_pool(intake),
            workers: store.with_pool(workers("deliverer")),
            health: store.pool().clone(),
            worker_keyring: keyring("deliverer"),
            keyring_health: api_keyring.pool().clone(),
            callers: store.clone(),
            keyring: api_keyring,
        };
        let superuser = connect(database.main.clone().options(UNSEEN), 4);
        Self { parts, projector: store.with_pool(workers("projector")), superuser }
    }
}

fn keyring(database: &TestDatabase, connections: Connections, role: &str) -> Keyring {
    let options = connections.to(&database.keyring, role).options(WORKER_PLAN_SETTINGS);
    Keyring::new(connect(options, 4), wrapping_key()).with_formats(NewFormats::allowed())
}
