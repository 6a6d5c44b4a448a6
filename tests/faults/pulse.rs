//! The pulse: work that no nudge told of is found within a second.

use std::convert::Infallible;

use eventstore::presence::count_serving;
use eventstore::worker::{NextStep, WakeOn, Worker, run_on};
use eventstore::{OLDER_APPLICATION_NAME, Pulse, Store};
use sqlx::{ConnectOptions, Connection};
use tests::{Receiver, Reply, World};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// The log as another process of this database sees it. It hears no nudge.
fn other_process(world: &World) -> Store {
    Store::new(world.pool().clone(), Vec::new())
}

fn pulse_of(store: &Store, world: &World) -> Pulse {
    Pulse::new(store.clone(), world.clock.clone())
}

#[tokio::test]
async fn the_pulse_finds_an_append_without_nudge() {
    let world = World::new().await;
    let firm = world.firm().await;
    let there = other_process(&world);
    let mut pulse = pulse_of(&there, &world);
    let mut woken = there.nudge().subscribe();
    pulse.beat().await;
    pulse.beat().await;
    assert!(!woken.has_changed().unwrap(), "nothing was appended");
    world.submit(&firm).await;
    pulse.beat().await;
    assert!(woken.has_changed().unwrap());
    woken.mark_unchanged();
    pulse.beat().await;
    assert!(!woken.has_changed().unwrap(), "nothing more was appended");
}

/// A busy process would otherwise wake all its workers each second.
#[tokio::test]
async fn the_pulse_ignores_appends_of_this_process() {
    let world = World::new().await;
    let firm = world.firm().await;
    let store = world.service().store.clone();
    let mut pulse = pulse_of(&store, &world);
    pulse.beat().await;
    let mut woken = store.nudge().subscribe_to_other_events();
    world.submit(&firm).await;
    pulse.beat().await;
    assert!(!woken.has_changed().unwrap(), "the append has woken its workers");
    world.firm().await;
    assert!(woken.has_changed().unwrap());
    woken.mark_unchanged();
    pulse.beat().await;
    assert!(!woken.has_changed().unwrap());
}

/// The claim slept on, and a first retry after 24 seconds came late.
#[tokio::test]
async fn a_recorded_retry_wakes_the_claim() {
    let world = World::new().await;
    let firm = world.firm().await;
    let receiver = Receiver::start().await;
    world.subscribe(&firm, &receiver.url("/hook")).await;
    let mut woken = world.deliverer().store.nudge().subscribe_to_deliveries();
    for (status, wakes) in [(200, false), (503, true)] {
        receiver.reply([Reply::status(status)]);
        world.submit(&firm).await;
        woken.mark_unchanged();
        assert_eq!(world.deliver().await, 1);
        assert_eq!(woken.has_changed().unwrap(), wakes, "after {status}");
    }
}

/// An older build cannot read what this one may write.
#[tokio::test]
async fn processes_of_older_builds_are_counted() {
    let world = World::new().await;
    let mut connection = world.pool().acquire().await.unwrap();
    assert_eq!(count_serving(&mut connection).await.unwrap().older, 0);
    let older = world.database.main.clone().application_name(OLDER_APPLICATION_NAME);
    let session = older.connect().await.unwrap();
    assert_eq!(count_serving(&mut connection).await.unwrap().older, 1);
    session.close().await.unwrap();
}

/// Counts its steps.
struct Counting {
    steps: watch::Sender<u32>,
}

impl Worker for Counting {
    const NAME: &'static str = "counting";
    const WAKES: WakeOn = WakeOn::Timer;
    const FIRST_DUE: Option<&'static str> = Some("select min(due_at) from partials");
    type Error = Infallible;

    async fn step(&mut self) -> Result<NextStep, Infallible> {
        self.steps.send_modify(|steps| *steps += 1);
        Ok(NextStep::IDLE)
    }
}

#[tokio::test]
async fn the_pulse_wakes_a_worker_when_due() {
    let world = World::new().await;
    let firm = world.firm().await;
    let there = other_process(&world);
    let mut pulse = pulse_of(&there, &world);
    let (steps, mut stepped) = watch::channel(0);
    let stop = CancellationToken::new();
    let running = tokio::spawn(run_on(Counting { steps }, there.nudge(), stop.clone()));
    stepped.wait_for(|steps| *steps == 1).await.unwrap();
    let due_in = async |minutes: i32| {
        sqlx::query(
            "insert into partials (firm_id, response_id, form_id, answered_at, due_at)
             values ($1, gen_random_uuid(), gen_random_uuid(), $2, $2 + make_interval(mins => $3))",
        )
        .bind(firm.id)
        .bind(world.clock.now().get())
        .bind(minutes)
        .execute(world.pool())
        .await
        .unwrap();
    };
    due_in(30).await;
    pulse.beat().await;
    due_in(0).await;
    pulse.beat().await;
    let steps = *stepped.wait_for(|steps| *steps > 1).await.unwrap();
    assert_eq!(steps, 2, "the first beat woke nobody");
    stop.cancel();
    running.await.unwrap();
}

/// Workers would sleep through an outage that they must report.
#[tokio::test]
async fn a_pulse_without_answer_wakes_all() {
    let world = World::new().await;
    let there = other_process(&world);
    let mut pulse = pulse_of(&there, &world);
    let woken = there.nudge().subscribe();
    world.pool().close().await;
    pulse.beat().await;
    assert!(woken.has_changed().unwrap());
}
