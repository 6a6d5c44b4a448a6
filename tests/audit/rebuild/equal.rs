//! Read models that are made anew are equal to the live ones, each time, and nothing is sent.

use projector::rebuild::{ReadModel, RebuildOutcome, list_statuses};

use super::{assert_equal, digests, rebuild, verify};
use tests::whole_story;

/// I7 and G12: after everything that can happen, each read model agrees with the log. Two rebuilds
/// make equal rows, no work queue changes, and nothing is sent.
#[tokio::test]
async fn g12_a_rebuild_repeats_every_read_model() {
    let (world, firm) = whole_story::told().await;
    let kinds = "select count(distinct aggregate_type) from events";
    assert_eq!(world.ask_number(kinds).await, 12, "every kind of stream");
    let queues = queues(&world).await;
    let compared = verify(&world).await;
    assert_equal(&compared);
    for (model, rows, _) in digests(&compared) {
        assert!(rows > 0, "nothing of {model} was compared");
    }
    let first = rebuild(&world).await;
    let second = rebuild(&world).await;
    assert!(first.iter().all(|report| report.outcome == RebuildOutcome::Replaced));
    assert_eq!(digests(&compared), digests(&first));
    assert_eq!(digests(&first), digests(&second));
    assert_equal(&verify(&world).await);
    assert_eq!(self::queues(&world).await, queues, "a work queue was touched");
    for path in ["/me", "/forms", "/hooks"] {
        assert_eq!(world.get(&firm, path).await.status, 200, "{path}");
    }
    world.submit(&firm).await;
    world.deliver().await;
    assert_equal(&verify(&world).await);
}

/// Sums over the work queues, and over the columns that a rebuild takes from the live table.
async fn queues(world: &tests::World) -> Vec<i64> {
    let mut counts = Vec::new();
    for asked in [
        "select coalesce(sum(hashtext(t::text)), 0) from outbox t",
        "select coalesce(sum(hashtext(t::text)), 0) from lanes t",
        "select coalesce(sum(hashtext(t::text)), 0) from replay_items t",
        "select coalesce(sum(hashtext(t::text)), 0) from subjects t",
        "select coalesce(sum(hashtext(t::text)), 0) from checkpoints t",
        "select count(*) from replays where fed_until is not null",
        "select count(*) from events",
    ] {
        counts.push(world.ask_number(asked).await);
    }
    assert!(counts[5] > 0, "nothing was replayed: {counts:?}");
    counts
}

/// Errors are told apart by the names of indexes and constraints, and a trigger refuses changes.
#[tokio::test]
async fn a_swap_keeps_each_table_definition() {
    let world = tests::World::new().await;
    let role = format!("reader_{}", world.id().simple());
    let granted = format!(
        "create role {role}; grant select on hooks, audit_log to {role};
         grant select (name), update (name) on firms to {role};
         alter table forms enable row level security;
         create policy mine on forms for select to {role} using (firm_id is not null);
         alter table people set (fillfactor = 70)"
    );
    world.change_database(&granted).await;
    let before = definitions(&world).await;
    assert!(before.len() > 60);
    rebuild(&world).await;
    assert_eq!(definitions(&world).await, before);
    assert_eq!(world.count("pg_namespace where nspname = 'shadow'").await, 0);
    world.change_database(&format!("drop owned by {role}; drop role {role}")).await;
}

/// Everything that defines the tables of the schema.
async fn definitions(world: &tests::World) -> Vec<String> {
    sqlx::query_scalar(
        "select indexdef from pg_indexes where schemaname = 'public'
         union all
         select conrelid::regclass || ' ' || conname || ' ' || pg_get_constraintdef(oid)
           from pg_constraint where connamespace = 'public'::regnamespace
         union all
         select pg_get_triggerdef(oid) from pg_trigger where not tgisinternal
         union all
         select attrelid::regclass || ' ' || attnum || ' ' || attname || ' ' || atttypid::regtype
                || attnotnull || coalesce(pg_get_expr(adbin, adrelid), '')
                || coalesce(col_description(attrelid, attnum), '') || coalesce(attacl::text, '')
                || coalesce(attstattarget, -1)
           from pg_attribute join pg_class c on c.oid = attrelid
           left join pg_attrdef on adrelid = attrelid and adnum = attnum
          where relnamespace = 'public'::regnamespace and attnum > 0 and not attisdropped
         union all
         select relname || relowner::regrole || relpersistence::text || relrowsecurity
                || coalesce(reloptions::text, '') || coalesce(obj_description(oid), '')
                || coalesce((select string_agg(grantee::regrole || privilege_type, ' '
                                               order by grantee::regrole::text, privilege_type)
                               from aclexplode(coalesce(relacl, acldefault('r', relowner)))), '')
           from pg_class where relnamespace = 'public'::regnamespace and relkind in ('r', 'p')
         union all
         select tablename || policyname || roles::text || cmd || coalesce(qual, '') from pg_policies
         order by 1",
    )
    .fetch_all(world.pool())
    .await
    .unwrap()
}

/// A follower's read model has a checkpoint and a lag. Each model has the time of its last rebuild.
#[tokio::test]
async fn the_status_tells_rows_lag_and_rebuild() {
    let world = tests::World::new().await;
    let firm = world.firm().await;
    world.submit(&firm).await;
    let all = list_statuses(world.pool()).await.unwrap();
    let of = |model: ReadModel| all.iter().find(|one| one.model == model).unwrap();
    assert_eq!(of(ReadModel::Firms).rows, [("firms", 1)]);
    assert_eq!((of(ReadModel::Firms).checkpoint, of(ReadModel::Firms).lag), (None, None));
    assert_eq!(of(ReadModel::Deliveries).checkpoint, Some(0));
    assert!(of(ReadModel::Deliveries).lag.unwrap() >= 5);
    assert!(all.iter().all(|one| one.rebuilt.is_none()));
    world.project().await;
    rebuild(&world).await;
    for one in list_statuses(world.pool()).await.unwrap() {
        let rebuilt = one.rebuilt.unwrap();
        assert_eq!((rebuilt.at, rebuilt.digest.len()), (world.clock.now().get(), 32));
    }
}
