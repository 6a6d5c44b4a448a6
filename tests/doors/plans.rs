//! Plans of the service's statements in PostgreSQL. On grown tables, every statement of a story in
//! which everything happens finds its rows by an index. The server writes the chosen plans to its
//! log. The connections have the service's settings.

use std::collections::BTreeSet;
use std::time::Duration;

use api::commands::tokens::{self, HolderRole};
use deliverer::claim::claim_due;
use deliverer::outbox::release::release_attempts;
use domain::subscription::Trigger;
use eventstore::{Clock, connect};
use projector::audit::{self, ChainSpan};
use projector::{deliveries, firms};
use serde_json::{Value, json};
use service::roles::make_roles;
use sqlx::{Executor, PgPool};
use tests::plans::{Sizes, is_tiny, read, sizes, write_down, wrong};
use tests::{
    Connections, Firm, Receiver, Reply, Sending, Templates, TestDatabase, World, activity,
    cluster_with, later, make_request, multiply, own_cluster,
};

use crate::portal::open_pages;
use crate::privacy::said;
use tests::whole_story::{many, tell};

/// Databases with grown tables, which log the plan of each further statement. Returns their clock,
/// and a firm with many rows.
async fn grown(cluster: &Templates) -> (TestDatabase, Clock, Firm) {
    let world = World::connected(cluster.database().await, Connections::Apart).await;
    let firm = everything(&world).await;
    unfinished(&world).await;
    let keyring = connect(world.database.keyring.clone(), 1);
    for pool in [world.pool(), &keyring] {
        multiply(pool).await;
        write_down(pool).await;
    }
    (world.database, world.clock, firm)
}

/// Work that is under way when the plans are read.
async fn unfinished(world: &World) {
    let (firm, receiver) = (world.firm().await, Receiver::start().await);
    world.subscribe(&firm, &receiver.url("/")).await;
    receiver.reply((0..8).map(|_| Reply::status(503).body(b"busy")));
    many(world, &firm).await;
    let reply_to = json!({"brand": {"reply_to": "ann@firm.example"}});
    let (unknown, at) = (world.id(), "2026-11-01T11:00:00Z");
    let paid = json!({"payment_id": world.id(), "response_id": unknown, "amount": 100,
                      "currency": "EUR", "at": at});
    let saved = json!({
        "response_id": world.id(), "form_id": firm.form, "saved_at": world.clock.now(),
        "answers": [{"id": "q", "question": "Q?", "type": "short_text", "answer": "a"}],
    });
    let of = |kind, data| later(activity(firm.id, kind, data), 1);
    let reported =
        [of("firm.changed", reply_to), of("payment.received", paid), of("response.saved", saved)];
    world.report(&reported).await.ok();
    world.deliver().await;
    world.seal().await;
    world.change_database(A_MAIL).await;
}

/// A mail that is being handed over, and a step's headers.
const A_MAIL: &str = "
    insert into step_headers select delivery_id, firm_id, response_id, 'x' from deliveries limit 9;
    insert into open_invites
    select gen_random_uuid(), firm_id, form_id, gen_random_uuid(), '2026-11-01', created_at,
           created_at + interval '1 year' from forms limit 1;
    insert into mails select invite_id, firm_id, invite_id, 'x' from open_invites";

/// A whole day of the service.
async fn everything(world: &World) -> Firm {
    let firm = tell(world).await;
    let receiver = Receiver::start().await;
    world.subscribe(&firm, &receiver.url("/again")).await;
    busy(world, &firm, &receiver).await;
    asked(world, &firm).await;
    open_pages(world, &firm).await;
    operated(world, &firm).await;
    by_trigger(world, &firm).await;
    closed(world).await;
    firm
}

/// A firm whose data are dropped, and sweeps that find nothing more.
async fn closed(world: &World) {
    let firm = world.firm().await;
    world.submit(&firm).await;
    world.close_firm(&firm).await;
    world.deliver().await;
    world.pass(Duration::from_hours(30 * 24));
    world.drop_closed_firms().await;
    world.expire_after(36_500).await;
}

/// A rare trigger is found by an index of its own.
async fn by_trigger(world: &World, firm: &Firm) {
    let wanted = deliveries::DeliveryFilter {
        trigger: Some(Trigger::LeadHot),
        limit: 50,
        ..deliveries::DeliveryFilter::default()
    };
    deliveries::list(world.service().store.pool(), firm.id, &wanted).await.unwrap();
}

/// Whole and partial responses, and attempts that are released, cut off or still due.
async fn busy(world: &World, firm: &Firm, receiver: &Receiver) {
    for name in ["ann", "bob"] {
        let said = said(world, firm, world.id(), &format!("{name}@example.com"));
        world.report(&said).await.ok();
    }
    world.deliver().await;
    world.pass(Duration::from_secs(3_600));
    world.time_out().await;
    for _ in 0..3 {
        world.submit(firm).await;
    }
    release_attempts(
        world.deliverer(),
        &claim_due(world.deliverer(), &world.limits(16)).await.unwrap(),
    )
    .await
    .unwrap();
    drop(claim_due(world.deliverer(), &world.limits(16)).await.unwrap());
    world.pass(Duration::from_secs(180));
    world.deliver().await;
    receiver.reply((0..4).map(|_| Reply::status(503)));
    for _ in 0..4 {
        world.submit(firm).await;
    }
    world.deliver().await;
    let process = Sending::with(world.deliverer().clone());
    process.claims_in_appends(world);
    world.submit(firm).await;
    process.ends(world).await;
    world.take_over().await;
    world.seal().await;
}

/// Calls of integrators.
async fn asked(world: &World, firm: &Firm) {
    let form = format!("/forms/{}", firm.form);
    for path in ["/me", "/triggers", "/forms", &form, "/hooks"] {
        assert_eq!(world.get(firm, path).await.status, 200, "{path}");
    }
    for trigger in Trigger::ALL {
        let of_form = format!("/triggers/{}/sample?form_id={}", trigger.key(), firm.form);
        for path in [format!("/triggers/{}/sample", trigger.key()), of_form] {
            assert_eq!(world.get(firm, &path).await.status, 200, "{path}");
        }
    }
    subscribed_twice(world, firm).await;
    let links = world.call(&firm.key, "POST", &format!("{form}/links"), Value::Null).await;
    assert_eq!(links.status, 201);
    assert_eq!(world.call("a wrong key", "GET", "/me", Value::Null).await.status, 401);
}

/// A repeated request for a subscription, which is then deleted.
async fn subscribed_twice(world: &World, firm: &Firm) {
    let body = json!({"trigger": "lead_hot", "target_url": "https://hooks.example.com/"});
    let mut made = Value::Null;
    for _ in 0..2 {
        let headers = [("x-api-key", &*firm.key), ("idempotency-key", "setup")];
        let request = make_request("POST", "/api/v1/hooks", &headers, body.to_string());
        made = world.public(request).await.body;
    }
    world.remove_hook(firm, made["id"].as_str().unwrap()).await.ok();
}

/// Statements of a bundle by HTTP. No checkpoint has signed the copied rows. The statements left
/// out read all heads, or the firm's whole chain, because a period may be anywhere in the chain.
async fn proved(world: &World, firm: &Firm) {
    let mut connection = world.service().store.pool().acquire().await.unwrap();
    let last = audit::last_position(&mut connection).await.unwrap();
    audit::grown_after(&mut connection, last - 5).await.unwrap();
    let span = ChainSpan { first: 2, last: 3 };
    audit::list_span(&mut connection, firm.id, span).await.unwrap();
    firms::name(world.service().store.pool(), firm.id).await.unwrap();
}

/// Calls of operators, of the product and of programs that read the feed.
async fn operated(world: &World, firm: &Firm) {
    let service = world.service();
    let operated =
        api::Service { store: service.store.with_pool(world.pool().clone()), ..service.clone() };
    let token = tokens::create(&operated, "operator", HolderRole::Operator).await.unwrap().token;
    let get = async |path: &str| world.get_internally(&token, path).await;
    let ask = async |path: String| {
        let answer = get(&path).await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        answer.body
    };
    let of = format!("/firms/{}", firm.id);
    for list in ["keys", "webhook-secret", "hooks"] {
        ask(format!("{of}/{list}")).await;
    }
    proved(world, firm).await;
    for feed in [format!("feed?firm={}&after=1&limit=5", firm.id), "feed?limit=5".to_owned()] {
        let answer = get(&format!("/audit/{feed}")).await;
        assert_eq!(answer.status, 200, "{feed}: {}", answer.text());
    }
    ask("/audit/verification".to_owned()).await;
    let hooks = world.get(firm, "/hooks").await.body;
    let hook = hooks[0]["id"].as_str().unwrap();
    for filter in audit_filters(firm, hook) {
        ask(format!("{of}/audit?{filter}")).await;
    }
    let mut shown = 0;
    for filter in [
        "",
        "?state=pending",
        "?state=failed",
        "?state=delivered",
        "?state=cancelled",
        "?trigger=lead_hot",
        &format!("?hook_id={hook}"),
        &format!("?hook_id={hook}&state=failed"),
        &format!("?hook_id={hook}&state=cancelled"),
    ] {
        let page = ask(format!("{of}/deliveries{filter}")).await;
        if let Some(id) = page["items"][0]["id"].as_str() {
            ask(format!("{of}/deliveries?limit=1&after={id}")).await;
        }
        for id in page["items"].as_array().unwrap().iter().filter_map(|one| one["id"].as_str()) {
            let status = get(&format!("{of}/deliveries/{id}")).await.status;
            assert!([200, 404].contains(&status.as_u16()), "a copy has no stream: {id}: {status}");
            shown += u32::from(status == 200);
        }
    }
    assert!(shown > 0, "no delivery is shown");
    ask(format!("{of}/hooks/{hook}/history")).await;
    ask("/pauses".to_owned()).await;
    for path in questions(world, firm, hook) {
        ask(path).await;
    }
    let person = json!({"address": "ann@example.com", "reason": "asked for access"});
    world.call_internally(&token, "POST", &format!("{of}/people"), person).await.ok();
}

/// Filters of the audit log.
fn audit_filters(firm: &Firm, hook: &str) -> Vec<String> {
    vec![
        "".to_owned(),
        "action=hook_created".to_owned(),
        "action=hook_created,key_created".to_owned(),
        "no_reads=true".to_owned(),
        "actor=system".to_owned(),
        "actor=sales".to_owned(),
        "action=hook_created&until=2026-11-01T12:30:00Z".to_owned(),
        "action=hook_created&limit=1&after=5".to_owned(),
        "subject=hook&limit=1&after=5".to_owned(),
        format!("actor={}", firm.owner),
        "subject=member".to_owned(),
        format!("subject={hook}"),
        format!("actor=operator&subject={hook}&no_reads=true"),
        "since=2020-01-01&until=2020-02-01".to_owned(),
        "until=2026-11-01T12:30:00Z&limit=1".to_owned(),
        "until=2026-11-01T12:30:00Z&limit=1&after=5".to_owned(),
    ]
}

/// Questions of operators and auditors, each in all its forms.
fn questions(world: &World, firm: &Firm, hook: &str) -> Vec<String> {
    let of = format!("/firms/{}", firm.id);
    let key = firm.key_id;
    let mut asked: Vec<String> = ["members", "forms", "access", "access?as_of=2026-11-01"]
        .iter()
        .map(|question| format!("{of}/{question}"))
        .collect();
    let late = "since=2026-11-01T12:30:00Z&until=2026-11-02";
    let exports = [
        "",
        "?format=csv",
        &format!("?{late}"),
        &format!("?{late}&hook_id={hook}"),
        &format!("?hook_id={hook}"),
        "?host=127.0.0.1",
    ]
    .map(|query| format!("{of}/deliveries/export{query}"));
    let searches = [
        hook,
        &hook[..13],
        &world.id().to_string(),
        &firm.key[..10],
        &"ab".repeat(32),
        "127.0.0.1",
        "Harrow",
        "7",
    ]
    .map(|text| format!("/find?q={text}"));
    asked.push(format!("{of}/keys/{key}/history"));
    asked.extend(exports);
    asked.extend(searches);
    asked.push(format!("/events?stream={hook}"));
    let lists = [
        "/firms",
        "/tokens",
        "/replays",
        "/receivers",
        "/receivers?host=127.0.0.1",
        "/receivers?after=127.0.0.1",
        "/stats",
    ];
    asked.extend(lists.map(str::to_owned));
    asked.push(format!("/replays?firm_id={}", firm.id));
    asked
}

/// Where the server's log ends.
fn end(cluster: &Templates) -> u64 {
    std::fs::metadata(cluster.log()).unwrap().len()
}

/// The check reports each statement without an index, and no statement with one.
async fn refused(cluster: &Templates, world: &World, sizes: &Sizes) {
    let (doors, workers) = (world.service().store.pool(), world.deliverer().store.pool());
    let found = async |pool: &PgPool, statement: &str| {
        let from = end(cluster);
        pool.execute(statement).await.unwrap();
        wrong(&read(&cluster.log(), from), sizes)
    };
    let by_body = "select delivery_id from outbox where body_sha256 = 'x'";
    let in_order = "select delivery_id from outbox where body_sha256 = 'x' order by delivery_id";
    // The condition is on the second column of the index.
    let second =
        "select 1 from response_people where person_id = '00000000-0000-0000-0000-000000000000'";
    let below = "select 1 where exists (select from deliveries where body_sha256 = 'x')";
    for statement in [by_body, in_order, second, below] {
        for pool in [doors, workers] {
            let found = found(pool, statement).await;
            assert!(found.iter().any(|told| told.contains(statement)), "{statement}: {found:?}");
        }
    }
    let by_id = "select 1 from outbox where delivery_id = '00000000-0000-0000-0000-000000000000'";
    for pool in [doors, workers] {
        assert!(found(pool, by_id).await.is_empty());
    }
}

/// Once as a superuser, and once as a role with row security in every condition (case B16).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_statement_scans_a_growing_table() {
    // Autovacuum may run between two statements, and count the rows that the first one deleted.
    let cluster = cluster_with(&[("autovacuum", "off")]).await;
    let (mut database, mut clock, big) = grown(&cluster).await;
    for connections in [Connections::Apart, Connections::ByRoles] {
        if connections == Connections::ByRoles {
            make_roles(&database.main, &database.keyring, "firmforms").await.unwrap();
        }
        let from = end(&cluster);
        let world = World::connected(database, connections).await;
        world.pass((clock.now().get() - world.clock.now().get()).to_std().unwrap());
        // In a real installation autovacuum has run by then.
        world.change_database("vacuum").await;
        everything(&world).await;
        operated(&world, &big).await;
        open_pages(&world, &big).await;
        let sizes = sizes(world.pool()).await;
        let small = sizes.iter().filter(|(table, rows)| !is_tiny(table) && **rows < 5_000.0);
        assert_eq!(small.collect::<Vec<_>>(), [], "these have not grown");
        let plans = read(&cluster.log(), from);
        let statements: BTreeSet<_> = plans.iter().map(|plan| &plan.statement).collect();
        assert!(statements.len() > 150, "{} statements", statements.len());
        let wrong: Vec<String> = wrong(&plans, &sizes).into_iter().collect();
        let of = (wrong.len(), statements.len());
        assert!(wrong.is_empty(), "{connections:?}, {of:?}:\n{}", wrong.join("\n"));
        refused(&cluster, &world, &sizes).await;
        (database, clock) = (world.database, world.clock);
    }
}

/// Deliveries in other lanes, due in a year.
const QUEUED: &str = "
    insert into outbox (delivery_id, lane_id, firm_id, occurrence_id, trigger, form_id, response_id,
                        position, due_at, tries_max)
    select gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), 'x',
           gen_random_uuid(), gen_random_uuid(), n, now() + interval '1 year', 8
      from generate_series(1, 20000) as n";

/// Deliveries that are sent, retried, released, and claimed with their occurrence.
async fn sent(world: &World, firm: &Firm, receiver: &Receiver) {
    receiver.reply((0..3).map(|_| Reply::status(503)));
    for _ in 0..4 {
        world.submit(firm).await;
    }
    world.deliver().await;
    world.pass(Duration::from_secs(60));
    let claimed = claim_due(world.deliverer(), &world.limits(16)).await.unwrap();
    release_attempts(world.deliverer(), &claimed).await.unwrap();
    world.deliver().await;
    let process = Sending::with(world.deliverer().clone());
    process.claims_in_appends(world);
    world.submit(firm).await;
    process.ends(world).await;
}

/// A connection keeps its plans, and the outbox is empty most of the time. Once 10,000 deliveries
/// were stuck, each claim and each record read all of them, for up to 0.4 s.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kept_plans_read_no_long_queue_whole() {
    // The one remaining row is at the end of the table, and so keeps the table large.
    keep_plans_of(&["delete from outbox where position < 20000", "vacuum analyze"]).await;
}

/// A vacuum between two claims finds an index of waiting rows empty, and another not. A plan from
/// then once read the index by response from end to end for each lane. Bursts took twice as long.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_kept_plan_is_for_empty_indexes() {
    for empty in ["(lane_id, due_at", "(firm_id, response_id"] {
        let seems_empty = format!(
            "update pg_class
                set reltuples = case when pg_get_indexdef(oid) like '%{empty}%' then 0 else 30 end
              where oid in (select indexrelid from pg_index
                             where indrelid = 'outbox'::regclass and indpred is not null)",
        );
        let leased = "update outbox set lease = 1, leased_at = now()";
        let emptied = "delete from outbox where position < 19970";
        keep_plans_of(&[leased, emptied, "vacuum analyze", &seems_empty]).await;
    }
}

/// Keeps the plans from when a long queue was made short by these statements. Carries them out with
/// another long queue.
async fn keep_plans_of(shortened: &[&str]) {
    let cluster = own_cluster().await;
    let before = World::connected(cluster.database().await, Connections::Apart).await;
    write_down(before.pool()).await;
    let (firm, receiver) = (before.firm().await, Receiver::start().await);
    before.subscribe(&firm, &receiver.url("/")).await;
    sent(&before, &firm, &receiver).await;
    before.change_database(QUEUED).await;
    for statement in shortened {
        before.change_database(statement).await;
    }
    let clock = before.clock.now().get();
    let world = World::connected(before.database, Connections::Apart).await;
    world.pass((clock - world.clock.now().get()).to_std().unwrap());
    sent(&world, &firm, &receiver).await;
    world.change_database(QUEUED).await;
    let from = end(&cluster);
    sent(&world, &firm, &receiver).await;
    let long = Sizes::from([("outbox".to_owned(), 20_000.0)]);
    let plans = read(&cluster.log(), from);
    assert!(plans.iter().any(|plan| plan.statement.contains("update outbox")));
    let wrong: Vec<String> = wrong(&plans, &long).into_iter().collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A count of 40,000 deliveries by an index seems expensive to the planner. The compilation once
/// took 50 ms, and the count 3 ms.
#[tokio::test]
async fn no_statement_is_compiled_just_in_time() {
    let cluster = own_cluster().await;
    let world = World::connected(cluster.database().await, Connections::Apart).await;
    for pool in [world.service().store.pool(), &world.service().pools.readers] {
        let dear = "explain select count(*) from generate_series(1, 100000000)";
        let plan: Vec<String> = sqlx::query_scalar(dear).fetch_all(pool).await.unwrap();
        assert!(!plan.iter().any(|line| line.contains("JIT")), "{}", plan.join("\n"));
    }
}
