//! `demo`: the whole service on real input. Firms, forms and responses come from a file or are made
//! up. The demo subscribes to every trigger that occurs, then receives, verifies and counts every
//! delivery. It shows one delivery with its history.

mod activity;
mod calls;
mod databases;
mod receiver;
mod story;
mod trouble;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

use activity::DemoActivity;
use anyhow::{Context, bail};
use api::commands::{keys, secrets};
use domain::event::Actor;
use domain::subscription::{AllowedTargets, Trigger};
use door::{Door, DoorSettings};
use mailer::Mailer;
use service::telemetry::ProcessMetrics;
use service::{
    BoundDoors, DoorAddresses, DoorPair, Installation, InternalAddr, ProcessRole, StorageSettings,
    System, SystemSetup, ingest, start_workers,
};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::args::DemoArgs;
use calls::{DemoSubscriber, subscribe_at};
use databases::open_empty;
use receiver::DemoReceiver;
use story::DEMO_TIMEOUT;

/// The demo after its story.
struct PlayedDemo {
    subscribers: Vec<DemoSubscriber>,
    receiver: SocketAddr,
}

pub(crate) async fn run(storage: &StorageSettings, demo: &DemoArgs) -> anyhow::Result<()> {
    let started = Instant::now();
    let activity = DemoActivity::new(demo)?;
    let doors = BoundDoors::bind(&demo_addresses(demo)).await?;
    let public = doors.public_addr().context("the public door's address")?;
    let console = doors.console_url();
    let metrics = Arc::new(ProcessMetrics::install_recorder()?);
    let base_url = format!("http://{public}/api/v1");
    let system = start_system(storage, base_url).await?;
    let stop = CancellationToken::new();
    let mut tasks = start_workers(&system, ProcessRole::All, &stop);
    tasks.spawn(Arc::clone(&metrics).run_upkeep(stop.clone()));
    metrics.watch_system(&system);
    doors
        .serve(
            DoorPair::without_certificates(&system.service.settings.base_url),
            metrics,
            &stop,
            &mut tasks,
        )
        .route_to(&system.service);
    story::print_opening(&system, started);
    let told = play_story(&system, &activity, &mut tasks, &stop, started).await;
    if let (Ok(played), false) = (&told, demo.once) {
        story::try_it(&system.service.settings.base_url, &played.subscribers);
        let token = trouble::make_token(&system).await?;
        let api = console.replace("/console", "/internal/v1");
        trouble::failed_step(&system, &activity, &api, &token, played.receiver).await?;
        story::print_console_link(&console, &token);
        let portal = trouble::make_portal_link(&system, &activity).await?;
        story::print_portal_link(&portal, &api, &token);
        tokio::signal::ctrl_c().await?;
    }
    stop.cancel();
    while tasks.join_next().await.is_some() {}
    system.stop().await?;
    told.map(drop)
}

/// With `--once` the demo takes free ports, so that it may run beside a service.
fn demo_addresses(demo: &DemoArgs) -> DoorAddresses {
    let port = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, if demo.once { 0 } else { port }));
    DoorAddresses { public: Some(port(8080)), internal: Some(InternalAddr::Tcp(port(8081))) }
}

async fn start_system(storage: &StorageSettings, base_url: String) -> anyhow::Result<System> {
    let databases = open_empty(storage).await?;
    let loopback = "127.0.0.0/8".parse().context("the loopback network")?;
    let setup = SystemSetup {
        allowed: AllowedTargets::new(vec![loopback]).with_http(),
        mailer: Mailer::into_folder(storage.data_dir().join("mails")),
        ..SystemSetup::for_commands(&base_url)?
    };
    System::start(databases, storage.wrapping_key(Installation::MayBegin)?, setup).await
}

/// Plays the story in its order. An error names the step that failed.
async fn play_story(
    system: &System,
    activity: &DemoActivity,
    tasks: &mut JoinSet<()>,
    stop: &CancellationToken,
    started: Instant,
) -> anyhow::Result<PlayedDemo> {
    let known = ingest::take_in_lines(&system.service, activity.founding.as_bytes()).await?;
    story::print_reported("firms, members and forms", &known);
    let subscribers = make_subscribers(system, activity).await?;
    let secrets = subscribers.iter().map(|s| (s.firm_id, s.secret.clone())).collect();
    let receiver = DemoReceiver::new(secrets, system.service.clock.clone());
    let door = Door::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await?;
    let address = door.local_addr()?;
    tasks.spawn(door.serve(receiver.router(), DoorSettings::default(), stop.clone()));
    for subscriber in &subscribers {
        for trigger in activity.triggers_of(subscriber.firm_id) {
            subscribe_over_http(system, subscriber, trigger, address).await?;
        }
    }
    let reported = Instant::now();
    let taken = ingest::take_in_lines(&system.service, activity.responses.as_bytes()).await?;
    story::print_reported("responses, and what comes of them", &taken);
    let expected = activity.delivery_count();
    if tokio::time::timeout(DEMO_TIMEOUT, receiver.wait_for(expected)).await.is_err() {
        bail!("{} of {expected} deliveries arrived", receiver.arrived_deliveries().len());
    }
    story::wait_until_settled(system, expected).await?;
    let arrived = receiver.arrived_deliveries();
    story::require_arrivals(&arrived, &subscribers, started, reported).await?;
    story::one_delivery(system, &arrived).await?;
    story::one_entry(system, &arrived).await?;
    if !activity.once {
        trouble::make_troubles(system, activity, &subscribers, address).await?;
    }
    Ok(PlayedDemo { subscribers, receiver: address })
}

async fn make_subscribers(
    system: &System,
    activity: &DemoActivity,
) -> anyhow::Result<Vec<DemoSubscriber>> {
    let mut subscribers = Vec::new();
    for (&firm_id, firm) in &activity.expected.firms {
        let service = &system.service;
        let created = keys::create(service, firm_id, firm.owner, "Demo integration")
            .await
            .map_err(|error| anyhow::anyhow!("making a key: {error}"))?;
        let revealed = secrets::reveal(service, firm_id, Actor::Operator(Uuid::nil()))
            .await
            .map_err(|error| anyhow::anyhow!("the signing secret: {error}"))?;
        subscribers.push(DemoSubscriber {
            firm_id,
            name: firm.name.clone(),
            key: created.key.as_str().to_owned(),
            secret: revealed.secret.as_str().to_owned(),
        });
    }
    Ok(subscribers)
}

/// Subscribes by `POST /hooks` over HTTP, as an integrator does.
async fn subscribe_over_http(
    system: &System,
    subscriber: &DemoSubscriber,
    trigger: Trigger,
    receiver: SocketAddr,
) -> anyhow::Result<()> {
    let target = format!("http://{receiver}/hooks/{}", subscriber.firm_id);
    let hook = subscribe_at(system, subscriber, trigger, &target).await?;
    story::print_subscription(subscriber, trigger, &hook);
    Ok(())
}
