//! Leads the pools of a process from one primary to the next.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::future::join_all;
use sqlx::postgres::PgConnectOptions;
use sqlx::{Connection, PgConnection, PgPool};
use tokio::time::{Instant, sleep, timeout};

use super::choice::{HostState, ServerKind, choose_host};
use super::{DatabaseHosts, HostAnswer, NoPrimary, ask_all, ask_host, host_reports, server_place};
use crate::life::{LifeWatch, OlderTimelines, ServerLife};
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

/// The wait between two looks at the hosts beside the one in use (ruling 55). With the time limit
/// of a look, a process leaves an old primary within 5 s.
const SURVEY_INTERVAL: Duration = Duration::from_secs(2);

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

/// A host beside the one in use, and the connection of the last look at it.
struct OtherHost {
    options: PgConnectOptions,
    connection: Option<PgConnection>,
}

/// The end of the use of a server.
enum ServerLoss {
    /// The connection ended.
    Closed,
    /// The server did not answer on this connection, which may be the connection's fault alone.
    Silent(PgConnection),
    /// Another host is the primary now, in this life.
    Superseded(ServerLife),
}

/// A primary that was found.
struct FoundPrimary {
    host: usize,
    life: ServerLife,
    connection: PgConnection,
}

impl PrimaryFollower {
    /// Follows the primary of this database. `name` stands for it in the log.
    #[must_use]
    pub fn new(hosts: DatabaseHosts, name: &'static str) -> Self {
        // With one host there is no newer primary that an old one could stand beside.
        let older_timelines = match hosts.hosts.len() {
            ..=1 => OlderTimelines::Used,
            _ => OlderTimelines::Refused,
        };
        Self { hosts, life: LifeWatch::of_primary(name, older_timelines), pools: Vec::new() }
    }

    /// Returns the watch that all pools tell of new connections.
    #[must_use]
    pub const fn life(&self) -> &LifeWatch {
        &self.life
    }

    /// Whether another follower has the same hosts.
    #[must_use]
    pub fn has_hosts_of(&self, other: &Self) -> bool {
        let places =
            |hosts: &DatabaseHosts| hosts.hosts.iter().map(server_place).collect::<BTreeSet<_>>();
        places(&self.hosts) == places(&other.hosts)
    }

    /// Makes a pool like [`crate::connect`] with these planner settings.
    #[must_use]
    pub fn make_pool(&mut self, settings: &[(&str, &str)], connections: u32) -> PgPool {
        let options = self.hosts.options().clone().options(settings.iter().copied());
        let pool = self.life.connect(options, connections);
        self.lead_pool(pool, settings, FirmAtStart::All)
    }

    /// Makes a pool like [`crate::connect_guarded`] with these planner settings.
    #[must_use]
    pub fn guarded_pool(&mut self, settings: &[(&str, &str)], connections: u32) -> PgPool {
        let options = self.hosts.options().clone().options(settings.iter().copied());
        let pool = self.life.connect_guarded(options, connections);
        self.lead_pool(pool, settings, FirmAtStart::None)
    }

    fn lead_pool(&mut self, pool: PgPool, settings: &[(&str, &str)], firm: FirmAtStart) -> PgPool {
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
        self.hosts =
            self.hosts.clone().with_options(|host| host.application_name(APPLICATION_NAME));
        let mut loss = ServerLoss::Closed;
        loop {
            let server = self.until_found(loss, &nudge).await;
            loss = self.until_lost(server).await;
        }
    }

    /// Looks for the primary until one is there, and leads the pools to it.
    async fn until_found(&mut self, loss: ServerLoss, nudge: &Nudge) -> PgConnection {
        let mut silent = match loss {
            ServerLoss::Closed => None,
            ServerLoss::Silent(connection) => Some(connection),
            ServerLoss::Superseded(newest) => {
                // From here on no commit on the old primary is believed, and no connection to it
                // is used.
                self.life.note_life(newest);
                None
            }
        };
        let mut outage = Outage::new(self.life.database_name());
        loop {
            let mut answers = ask_all(&self.hosts.hosts, CHECK_TIMEOUT).await;
            if let Some(found) = self.choose_primary(&mut answers) {
                let is_same = found.host == self.hosts.in_use
                    && self.life.present_life().as_ref() == Some(&found.life);
                match silent.take() {
                    Some(mut earlier) if is_same => {
                        if does_answer(&mut earlier).await {
                            outage.log_return();
                            return earlier;
                        }
                        // The same server answers on a new connection and not on an older one.
                        self.life.renew_life();
                        self.lead_pools(nudge);
                    }
                    _ => self.move_to(found.host, found.life, nudge),
                }
                outage.log_return();
                return found.connection;
            }
            outage.log_reason(
                NoPrimary(host_reports(&self.hosts.hosts, answers)).to_string(),
                Instant::now(),
            );
            sleep(LOOK_INTERVAL).await;
        }
    }

    /// Chooses among the answers of all hosts.
    fn choose_primary(&self, answers: &mut [HostAnswer]) -> Option<FoundPrimary> {
        let states: Vec<&HostState> = answers.iter().map(|answer| &answer.state).collect();
        let newest = self.life.present_life().filter(|_| self.hosts.hosts.len() > 1);
        let host = choose_host(&states, newest.as_ref(), ServerKind::Primary)?;
        let HostState::Primary(life) = &answers[host].state else { return None };
        let life = life.clone();
        Some(FoundPrimary { host, life, connection: answers[host].connection.take()? })
    }

    /// Leads all pools to this host. The new life makes them drop their older connections.
    fn move_to(&mut self, host: usize, life: ServerLife, nudge: &Nudge) {
        let moves = host != self.hosts.in_use;
        self.hosts.in_use = host;
        self.life.note_life(life);
        if moves {
            self.lead_pools(nudge);
            tracing::warn!(
                "{} is served by {} now",
                self.life.database_name(),
                server_place(self.hosts.options())
            );
        }
    }

    /// Gives all pools new options of the host in use, so that connections beside them are made
    /// anew, too. Ends the steps under way.
    fn lead_pools(&self, nudge: &Nudge) {
        for one in &self.pools {
            one.pool.set_connect_options(one.options[self.hosts.in_use].clone());
        }
        nudge.server_moved();
    }

    /// Returns when the server has ended, does not answer, or is no longer the newest primary. A
    /// primary becomes a standby only by a restart.
    async fn until_lost(&self, mut server: PgConnection) -> ServerLoss {
        let lost = tokio::select! {
            loss = until_unanswered(&mut server) => loss,
            newest = self.until_superseded() => return ServerLoss::Superseded(newest),
        };
        match lost {
            PingFailure::Closed => ServerLoss::Closed,
            PingFailure::Silent => ServerLoss::Silent(server),
        }
    }

    /// Asks the other hosts until one of them is a newer primary, and returns its life.
    async fn until_superseded(&self) -> ServerLife {
        let in_use = self.hosts.in_use;
        let hosts = self.hosts.hosts.iter().enumerate().filter(|(host, _)| *host != in_use);
        let mut others: Vec<OtherHost> = hosts.map(|(_, host)| OtherHost::new(host)).collect();
        loop {
            sleep(SURVEY_INTERVAL).await;
            let states = join_all(others.iter_mut().map(OtherHost::ask_state)).await;
            let lives = states.iter().filter_map(|state| match state {
                HostState::Primary(life) => Some(life),
                HostState::Standby(_) | HostState::Away(_) => None,
            });
            let is_newer = |life: &&ServerLife| {
                self.life.present_life().is_some_and(|in_use| in_use.is_older_than(life))
            };
            let newest = lives.filter(is_newer).max_by(|a, b| a.timeline.cmp(&b.timeline));
            if let Some(newest) = newest {
                return newest.clone();
            }
            self.tell_other_primaries(&others, &states);
        }
    }

    /// Keeps the list of other primaries, and logs each once.
    fn tell_other_primaries(&self, others: &[OtherHost], states: &[HostState]) {
        let takes_writes = states.iter().map(|state| matches!(state, HostState::Primary(_)));
        let places = others
            .iter()
            .zip(takes_writes)
            .filter(|(_, takes_writes)| *takes_writes)
            .map(|(other, _)| server_place(&other.options));
        for place in self.life.note_other_primaries(places.collect()) {
            tracing::error!(
                "{place} takes writes, too, as a primary of {}: stop all but the newest primary",
                self.life.database_name()
            );
        }
    }
}

/// The reason why a server gave no answer.
enum PingFailure {
    Closed,
    Silent,
}

async fn until_unanswered(server: &mut PgConnection) -> PingFailure {
    loop {
        match timeout(CHECK_TIMEOUT, server.ping()).await {
            Ok(Ok(())) => sleep(CHECK_INTERVAL).await,
            Ok(Err(_)) => return PingFailure::Closed,
            Err(_) => return PingFailure::Silent,
        }
    }
}

async fn does_answer(server: &mut PgConnection) -> bool {
    matches!(timeout(CHECK_TIMEOUT, server.ping()).await, Ok(Ok(())))
}

impl OtherHost {
    fn new(options: &PgConnectOptions) -> Self {
        Self { options: options.clone(), connection: None }
    }

    /// Asks the host on the connection of the last look, if there is one.
    async fn ask_state(&mut self) -> HostState {
        if let Some(mut kept) = self.connection.take()
            && let Ok(Ok(life)) = timeout(CHECK_TIMEOUT, ServerLife::new(&mut kept)).await
        {
            self.connection = Some(kept);
            return HostState::new(life);
        }
        let answer = ask_host(&self.options, CHECK_TIMEOUT).await;
        self.connection = answer.connection;
        answer.state
    }
}
