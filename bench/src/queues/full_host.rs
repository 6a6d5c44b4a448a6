//! A full host with many due lanes: what a claim costs that finds another host's delivery behind them.

use std::time::Duration;

use anyhow::ensure;
use deliverer::SendLimits;
use deliverer::claim::{ScanFloors, claim_beyond, next_due};
use domain::pressure::HostCaps;
use sqlx::Executor;
use tests::Templates;

use super::{Queues, Row, Scene, timed};

/// Attempts in flight to a host.
const CAPS: HostCaps = HostCaps { per_firm_and_host: 4, per_host: 4 };

pub(super) async fn measure(cluster: &Templates, command: &Queues) -> anyhow::Result<Vec<Row>> {
    let scene = Scene::on(cluster).await;
    let other = scene.world.firm().await;
    scene.world.subscribe(&other, "http://127.0.0.2:7777/hook").await;
    let mut deliverer = scene.world.deliverer().clone();
    deliverer.settings.caps = CAPS;
    let limits = SendLimits::alone(deliverer.settings);
    let mut floors = ScanFloors::default();
    for _ in 0..2 * CAPS.per_host {
        scene.world.submit(&scene.firm).await;
    }
    let in_flight = claim_beyond(&deliverer, &limits, &mut floors).await?;
    ensure!(in_flight.len() == CAPS.per_host, "the host is not full");
    let mut measured = Vec::new();
    for lanes in [0, command.lanes] {
        // Some milliseconds apart, and all before what comes.
        sqlx::query(
            "insert into lanes (lane_id, firm_id, kind, host, due_at)
             select gen_random_uuid(), gen_random_uuid(), 'hook', '127.0.0.1',
                    $2 - interval '1 minute' + n * interval '1 microsecond'
               from generate_series(1, $1) as n",
        )
        .bind(lanes)
        .bind(scene.world.clock.now().get())
        .execute(scene.world.pool())
        .await?;
        scene.world.pool().execute("vacuum analyze lanes").await?;
        let mut claims = Vec::new();
        let mut looks = Vec::new();
        for _ in 0..command.rounds {
            scene.world.pass(Duration::from_secs(1));
            scene.world.submit(&other).await;
            let (claimed, took) = timed(claim_beyond(&deliverer, &limits, &mut floors)).await?;
            ensure!(claimed.len() == 1, "{} were claimed", claimed.len());
            claims.push(took);
            looks.push(timed(next_due(&deliverer, &limits)).await?.1);
        }
        measured.push((claims, looks));
    }
    let (with, without) = (measured.remove(1), measured.remove(0));
    Ok(vec![
        Row::new(
            &format!("claim behind {} lanes of a full host", command.lanes),
            without.0,
            with.0,
        ),
        Row::new("look for the next due time there", without.1, with.1),
    ])
}
