//! Leads the pools of a process from one primary to the next.

use std::time::Duration;

use sqlx::postgres::PgConnectOptions;
use sqlx::{Connection, PgConnection, PgPool};
use tokio::time::{Instant, sleep, timeout};

use super::choice::{HostState, ServerKind, choose};
use super::{DatabaseHosts, NoPrimary, ask_all, place, reports};
use crate::life::{LifeWatch, ServerLife};
use crate::nudge::Nudge;
use crate::outage::Outage;
use crate::pool::{APPLICATION_NAME, FirmAtStart, session_options};

/// The wait between two checks of the server in use.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);

/// The wait between two looks for a primary.
const LOOK_INTERVAL: Duration = Duration::from_millis(250);

/// A server that takes longer to answer counts as away. A wrong guess costs a look at all hosts,
/// which finds the same primary.
const CHECK_TIMEOUT: Duration = Duration::from_secs(1);

/// The pools of one database in this process, and the hosts that may be its primary.
pub struct PrimaryFollower {
    hosts: DatabaseHosts,
    life: LifeWatch,
    pools: Vec<FollowingPool>,
}

/// A pool, and its options for each of the hosts.
struct FollowingPool {
    pool: PgPool,
    options: Vec<PgConnectOptions>,
}

impl PrimaryFollower {
    /// Follows the primary of this database. `name` stands for it in the log.
    #[must_use]
    pub fn of(hosts: DatabaseHosts, name: &'static str) -> Self {
        Self { hosts, life: LifeWatch::of_primary(name), pools: Vec::new() }
    }

    /// Returns the watch that all pools tell of new connections.
    #[must_use]
    pub const fn life(&self) -> &LifeWatch {
        &self.life
    }

    /// Makes a pool like [`crate::connect`] with these planner settings.
    #[must_use]
    pub fn pool(&mut self, settings: &[(&str, &str)], connections: u32) -> PgPool {
        let options = self.hosts.options().clone().options(settings.iter().copied());
        let pool = self.life.connect(options, connections);
        self.lead(pool, settings, FirmAtStart::All)
    }

    /// Makes a pool like [`crate::connect_guarded`] with these planner settings.
    #[must_use]
    pub fn guarded_pool(&mut self, settings: &[(&str, &str)], connections: u32) -> PgPool {
        let options = self.hosts.options().clone().options(settings.iter().copied());
        let pool = self.life.connect_guarded(options, connections);
        self.lead(pool, settings, FirmAtStart::None)
    }

    fn lead(&mut self, pool: PgPool, settings: &[(&str, &str)], firm: FirmAtStart) -> PgPool {
        let options = |host: &PgConnectOptions| {
            session_options(host.clone().options(settings.iter().copied()), firm)
        };
        let options = self.hosts.hosts.iter().map(options).collect();
        self.pools.push(FollowingPool { pool: pool.clone(), options });
        pool
    }

    /// Follows the primary until dropped. After a change, the nudge tells the workers of this
    /// process, whose steps under way may wait for a server that is cut off.
    pub async fn follow(mut self, nudge: Nudge) {
        loop {
            let server = self.until_found(&nudge).await;
            until_lost(server).await;
        }
    }

    /// Looks for the primary until one is there, and leads the pools to it.
    async fn until_found(&mut self, nudge: &Nudge) -> PgConnection {
        let hosts = self.hosts.clone().with(|host| host.application_name(APPLICATION_NAME)).hosts;
        let mut outage = Outage::of(self.life.name());
        loop {
            let mut answers = ask_all(&hosts, CHECK_TIMEOUT).await;
            let states: Vec<&HostState> = answers.iter().map(|answer| &answer.state).collect();
            // With one host there is no newer primary that an old one could stand beside.
            let newest = self.life.life().filter(|_| hosts.len() > 1);
            if let Some(host) = choose(&states, newest.as_ref(), ServerKind::Primary) {
                let chosen = answers.swap_remove(host);
                if let (HostState::Primary(life), Some(server)) = (chosen.state, chosen.connection)
                {
                    self.move_to(host, life, nudge);
                    outage.end();
                    return server;
                }
            }
            outage.tell(NoPrimary(reports(&hosts, answers)).to_string(), Instant::now());
            sleep(LOOK_INTERVAL).await;
        }
    }

    /// Leads all pools to this host. The new life makes them drop their older connections.
    fn move_to(&mut self, host: usize, life: ServerLife, nudge: &Nudge) {
        let moves = host != self.hosts.in_use;
        self.hosts.in_use = host;
        if moves {
            for one in &self.pools {
                one.pool.set_connect_options(one.options[host].clone());
            }
        }
        self.life.note(life);
        if moves {
            nudge.server_moved();
            tracing::warn!("{} is served by {} now", self.life.name(), place(self.hosts.options()));
        }
    }
}

/// Returns when the server has ended or does not answer. A primary becomes a standby only by a
/// restart.
async fn until_lost(mut server: PgConnection) {
    while let Ok(Ok(())) = timeout(CHECK_TIMEOUT, server.ping()).await {
        sleep(CHECK_INTERVAL).await;
    }
}
