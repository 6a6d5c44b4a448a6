//! Questions stay quick in a large installation.

use std::time::{Duration, Instant};

use tests::Receiver;

use super::Desk;

/// A tenth of a second, and what a machine with other work needs.
const QUICK: Duration = Duration::from_millis(300);

/// A million deliveries of one firm, most of them of one subscription, and a thousand hosts.
async fn large() -> (Desk, String) {
    let desk = Desk::new().await;
    let receiver = Receiver::start().await;
    let hook = desk.world.subscribe(&desk.firm, &receiver.url("/")).await;
    desk.world.submit(&desk.firm).await;
    desk.world.deliver().await;
    let many = "
        begin;
        set local statement_timeout = 0;
        insert into deliveries (delivery_id, firm_id, hook_id, occurrence_id, trigger, form_id,
                                response_id, state, created_at)
        select gen_random_uuid(), firm_id, hook_id, occurrence_id, trigger, form_id, response_id,
               state, created_at - n * interval '1 second'
          from (select * from deliveries limit 1) d, generate_series(1, 1000000) n;
        insert into receivers (host, attempted_at, last_status, failing_since, failures)
        select n || '.example', '2026-11-01 12:00Z', 200,
               case when n % 10 = 0 then '2026-11-01 11:00Z' else 'infinity'::timestamptz end, n % 10
          from generate_series(1, 1000) n;
        insert into receiver_hours (host, hour, attempts, delivered)
        select n || '.example', timestamptz '2026-11-01 12:00Z' - h * interval '1 hour', 20, 19
          from generate_series(1, 1000) n, generate_series(0, 47) h;
        analyze deliveries, receivers, receiver_hours;
        commit";
    sqlx::raw_sql(many).execute(desk.world.pool()).await.unwrap();
    (desk, hook.to_string())
}

#[tokio::test]
async fn receivers_searches_and_lists_take_a_tenth_of_a_second_beside_a_million_deliveries() {
    let (desk, hook) = large().await;
    let of = format!("/firms/{}/deliveries", desk.firm.id);
    let mut asked: Vec<String> = vec![
        "/receivers?limit=500".into(),
        "/receivers?after=500.example".into(),
        "/receivers?host=7.example".into(),
        "/find?q=Harrow".into(),
        format!("/find?q={hook}"),
        format!("/find?q={}", &hook[..8]),
        format!("/find?q={}", desk.firm.key),
        "/find?q=127.0.0.1".into(),
        "/find?q=3".into(),
        of.clone(),
    ];
    for filter in [
        "state=pending",
        "state=failed",
        "state=cancelled",
        "state=delivered",
        "trigger=form_submitted",
        "trigger=lead_hot",
        "trigger=lead_hot&state=failed",
        "since=2026-11-01T11:59:00Z",
        "until=2026-10-30T00:00:00Z",
        "since=2026-10-25T00:00:00Z&until=2026-10-25T01:00:00Z",
    ] {
        asked.push(format!("{of}?{filter}"));
        asked.push(format!("{of}?{filter}&hook_id={hook}"));
    }
    let mut slow = Vec::new();
    for path in &asked {
        let mut best = Duration::MAX;
        for _ in 0..3 {
            let begun = Instant::now();
            desk.ask(path).await;
            best = best.min(begun.elapsed());
        }
        println!("{best:?} {path}");
        if best > QUICK {
            slow.push((best, path));
        }
    }
    assert!(slow.is_empty(), "{slow:?}");
}
