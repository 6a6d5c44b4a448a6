//! A firm with many deliveries and a long audit log, and the screens that show them.

use sqlx::{Executor, PgPool};
use tests::{Firm, Receiver, World};
use uuid::Uuid;

use crate::audit::{BATCH, readings};

/// The rows that the screens are about.
pub(super) struct Populated {
    pub(super) firm: Firm,
    hook: Uuid,
    delivery: Uuid,
}

/// Makes the firm, its deliveries and its entries.
pub(super) async fn populate(
    world: &World,
    deliveries: u32,
    entries: u32,
) -> anyhow::Result<Populated> {
    let (firm, receiver) = (world.firm().await, Receiver::start().await);
    let hook = world.subscribe(&firm, &receiver.url("/hook")).await;
    world.submit(&firm).await;
    world.deliver().await;
    world.project().await;
    let delivery: Uuid = sqlx::query_scalar("select delivery_id from deliveries limit 1")
        .fetch_one(world.pool())
        .await?;
    copy(world.pool(), delivery, deliveries).await?;
    for _ in 0..u64::from(entries).div_ceil(BATCH) {
        world.service().store.append(readings(world, firm.id)).await?;
    }
    world.pool().execute("vacuum (analyze)").await?;
    Ok(Populated { firm, hook, delivery })
}

/// Copies a delivery: ten seconds apart, one in a hundred failed and as many pending or cancelled.
async fn copy(pool: &PgPool, delivery: Uuid, copies: u32) -> Result<(), sqlx::Error> {
    sqlx::query(
        "select make_history_range('deliveries', created_at - n * interval '1 day')
           from deliveries, generate_series(0, 1 + $2 / 8640) n where delivery_id = $1",
    )
    .bind(delivery)
    .bind(i64::from(copies))
    .execute(pool)
    .await?;
    sqlx::query(
        "insert into deliveries
            (delivery_id, firm_id, hook_id, occurrence_id, trigger, form_id, response_id, state,
             cause, created_at, next_try_at, body_sha256, ended_at)
         select gen_random_uuid(), firm_id, hook_id, gen_random_uuid(), trigger, form_id,
                gen_random_uuid(),
                case n % 100 when 1 then 'failed' when 2 then 'pending' when 3 then 'cancelled'
                             else 'delivered' end,
                case n % 100 when 3 then 'subscription_deleted' end,
                created_at - n * interval '10 seconds',
                case n % 100 when 2 then created_at + interval '1 day' end, body_sha256,
                case n % 100 when 2 then null
                             else created_at - n * interval '10 seconds' end
           from deliveries, generate_series(1, $2) n
          where delivery_id = $1",
    )
    .bind(delivery)
    .bind(i64::from(copies))
    .execute(pool)
    .await?;
    Ok(())
}

impl Populated {
    /// All screens of the console, each with its filters.
    pub(super) fn console(&self) -> Vec<String> {
        let Self { firm, hook, delivery } = self;
        let stream = format!("/log?stream={hook}");
        let all = [
            "",
            "/firms",
            "/receivers",
            "/receivers?host=127.0.0.1",
            "/pauses",
            "/replays",
            "/log",
            &stream,
            "/log/1",
            "/proof",
            "/tokens",
            "/sizes",
            "/find?q=Harrow",
        ];
        let of_firm = [
            String::new(),
            "/deliveries".into(),
            "/deliveries?limit=200".into(),
            "/deliveries?state=delivered".into(),
            "/deliveries?state=failed".into(),
            "/deliveries?state=pending".into(),
            "/deliveries?state=cancelled".into(),
            "/deliveries?trigger=form_submitted".into(),
            "/deliveries?since=2026-01-01&until=2026-11-01".into(),
            format!("/deliveries?hook_id={hook}"),
            format!("/deliveries?state=failed&trigger=form_submitted&hook_id={hook}"),
            format!("/deliveries/{delivery}"),
            "/hooks".into(),
            "/hooks?removed=true".into(),
            "/hooks?warned=true".into(),
            format!("/hooks/{hook}"),
            "/audit".into(),
            "/audit?limit=200".into(),
            "/audit?action=audit_read".into(),
            "/audit?action=hook_created".into(),
            "/audit?actor=operator".into(),
            "/audit?actor=system".into(),
            format!("/audit?actor={}", firm.owner),
            "/audit?subject=member".into(),
            format!("/audit?subject={hook}"),
            "/audit?no_reads=true".into(),
            "/audit?since=2026-01-01&until=2026-11-01".into(),
            format!("/audit?no_reads=true&subject={hook}&until=2026-12-31"),
            "/audit/1".into(),
            "/keys".into(),
            format!("/keys/{}", firm.key_id),
            "/access".into(),
            "/person".into(),
            "/replay".into(),
        ];
        let all = all.into_iter().map(|path| format!("/console{path}"));
        let base = format!("/console/firms/{}", firm.id);
        all.chain(of_firm.into_iter().map(|path| format!("{base}{path}"))).collect()
    }

    /// All screens of the portal, each with its filters.
    pub(super) fn portal(&self) -> Vec<String> {
        let Self { firm, hook, delivery } = self;
        let paths = [
            String::new(),
            "/keys".into(),
            format!("/keys/{}", firm.key_id),
            "/secret".into(),
            "/hooks".into(),
            "/hooks?removed=true".into(),
            format!("/hooks/{hook}"),
            "/deliveries".into(),
            "/deliveries?state=failed".into(),
            "/deliveries?state=pending&trigger=form_submitted&since=2026-01-01".into(),
            format!("/deliveries/{delivery}"),
            "/steps".into(),
            "/audit".into(),
        ];
        paths.map(|path| format!("/portal{path}")).into()
    }
}
