//! Rows of a firm, as doors and auditors see them.

use domain::access::ApiKey;
use eventstore::connect_guarded;
use projector::calls::{self, KeyHash};
use projector::hooks::{self, KeyHookList};
use sqlx::{Executor, PgConnection};
use tests::{Firm, World};
use uuid::Uuid;

use super::{DENIED, Scene, refused};

async fn seen(connection: &mut PgConnection, table: &str) -> i64 {
    let count = format!("select count(*) from {table}");
    sqlx::query_scalar(&count).fetch_one(connection).await.unwrap()
}

async fn is_for(connection: &mut PgConnection, firm: &str) {
    let set = format!("set firmforms.firm = '{firm}'");
    connection.execute(set.as_str()).await.unwrap();
}

/// A connection without a firm, or with a wrong one, sees no rows.
#[tokio::test]
async fn b16_rows_show_only_to_their_firm() {
    let scene = Scene::new().await;
    let world = &scene.world;
    let (firm, other) = (world.firm().await, world.firm().await);
    for of in [&firm, &other] {
        world.subscribe(of, "https://hooks.example.com/").await;
        world.submit(of).await;
    }
    world.project().await;
    let guarded: Vec<String> = sqlx::query_scalar(
        "select table_name::text from information_schema.columns
          where table_schema = 'public' and column_name = 'firm_id'",
    )
    .fetch_all(world.pool())
    .await
    .unwrap();
    assert!(guarded.len() > 20, "{guarded:?}");
    for group in ["api", "auditor", "service"] {
        let mut connection = scene.connection(group).await;
        for table in &guarded {
            let may: bool = sqlx::query_scalar("select has_table_privilege($1, 'select')")
                .bind(table)
                .fetch_one(&mut connection)
                .await
                .unwrap();
            if !may {
                continue;
            }
            is_for(&mut connection, "*").await;
            let all = seen(&mut connection, table).await;
            connection.execute("reset firmforms.firm").await.unwrap();
            assert_eq!(seen(&mut connection, table).await, 0, "{group} {table}: no firm");
            for nobody in ["", &Uuid::from_u128(7).to_string(), "' or true --"] {
                let set = format!("set firmforms.firm = '{}'", nobody.replace('\'', "''"));
                connection.execute(set.as_str()).await.unwrap();
                assert_eq!(seen(&mut connection, table).await, 0, "{group} {table}: {nobody}");
            }
            is_for(&mut connection, &firm.id.to_string()).await;
            let own = seen(&mut connection, table).await;
            is_for(&mut connection, &other.id.to_string()).await;
            let others = seen(&mut connection, table).await;
            // The roles were ordered in the installation's name.
            is_for(&mut connection, &Uuid::nil().to_string()).await;
            let installations = seen(&mut connection, table).await;
            assert_eq!(own + others + installations, all, "{group} {table}");
        }
    }
    for group in ["projector", "deliverer"] {
        let mut connection = scene.connection(group).await;
        is_for(&mut connection, "*").await;
        assert_eq!(seen(&mut connection, "hooks").await, 2, "{group}");
        is_for(&mut connection, &firm.id.to_string()).await;
        assert_eq!(seen(&mut connection, "hooks").await, 0, "{group}: it is for all firms or none");
    }
    let mut api = scene.connection("api").await;
    is_for(&mut api, &firm.id.to_string()).await;
    assert_eq!(seen(&mut api, "hooks").await, 1);
    let elsewhere = format!("insert into activity_seen values ('{}', 's', 'i', now())", other.id);
    assert_eq!(refused(&mut api, &elsewhere).await.unwrap().0, DENIED);
    let moved = format!("update hooks set firm_id = '{}'", other.id);
    assert_eq!(refused(&mut api, &moved).await.unwrap().0, DENIED);
}

#[tokio::test]
async fn b16_a_reused_connection_forgets_its_firm() {
    let scene = Scene::new().await;
    let world = &scene.world;
    let (one, two) = (world.firm().await, world.firm().await);
    for _ in 0..2 {
        world.subscribe(&one, "https://hooks.example.com/").await;
    }
    world.subscribe(&two, "https://hooks.example.com/").await;
    for group in ["api", "service"] {
        let pool = connect_guarded(scene.as_login(group).main, 1);
        for (firm, hooks) in [(&one, 2), (&two, 1), (&one, 2)] {
            let mut connection = pool.acquire().await.unwrap();
            let before = seen(&mut connection, "hooks").await;
            assert_eq!(before, 0, "before anybody has said for whom it is");
            calls::restrict_to_firm(&mut connection, firm.id).await.unwrap();
            assert_eq!(seen(&mut connection, "hooks").await, hooks);
            assert_eq!(seen(&mut connection, "firms").await, 1);
        }
    }
}

/// One statement reads the lists of several firms, each with the guard of its firm. Afterwards the
/// connection sees no rows.
#[tokio::test]
async fn b16_key_batches_leave_a_connection_guarded() {
    let scene = Scene::new().await;
    let world = &scene.world;
    let (one, two) = (world.firm().await, world.firm().await);
    let (first, second) = (hook(world, &one).await, hook(world, &one).await);
    let other = hook(world, &two).await;
    let now = world.clock.now().get();
    for group in ["api", "service"] {
        let mut connection =
            connect_guarded(scene.as_login(group).main, 1).acquire().await.unwrap();
        let keys = [hash(&two), [0; 32], hash(&one)];
        let listed = hooks::list_for_keys(&mut connection, &keys, now).await.unwrap();
        let ids = |of: KeyHookList| of.hooks.iter().map(|hook| hook.hook_id).collect::<Vec<_>>();
        let listed: Vec<_> = listed.into_iter().map(|of| of.map(ids)).collect();
        assert_eq!(listed, [Some(vec![other]), None, Some(vec![second, first])], "{group}");
        assert_eq!(seen(&mut connection, "hooks").await, 0, "{group}");
        let callers = calls::authenticate(&mut connection, &keys, now).await.unwrap();
        let firms: Vec<_> = callers.into_iter().map(|of| of.map(|row| row.firm_id)).collect();
        assert_eq!(firms, [Some(two.id), None, Some(one.id)], "{group}");
        assert_eq!(seen(&mut connection, "hooks").await, 0, "{group}");
        for (firm, hooks) in [(&one, 2), (&two, 0)] {
            let of_key = format!("hooks_of_key('{}', '{}')", one.key_id, firm.id);
            let asked = seen(&mut connection, &of_key).await;
            assert_eq!(asked, hooks, "{group}: a key with another firm's guard has nothing");
        }
    }
}

async fn hook(world: &World, firm: &Firm) -> Uuid {
    world.subscribe(firm, "https://hooks.example.com/").await
}

/// A policy that hides an event from the auditor's login would hide the event from `audit verify`.
#[tokio::test]
async fn b16_verification_finds_policies_that_hide_rows() {
    let scene = Scene::new().await;
    scene.world.firm().await;
    scene.world.project().await;
    let checkpoint = scene.command("service", &["audit", "checkpoint"]).await;
    assert!(checkpoint.0, "{}", checkpoint.1);
    let (done, text) = scene.command("auditor", &["audit", "verify"]).await;
    assert!(
        done && text.contains("not compared, since this login may not read it: webhook_secrets"),
        "{text}"
    );
    for policy in [
        "create policy hidden on events as restrictive for select using (position <> 2)",
        "alter policy hidden on events using (true)",
        "drop policy hidden on events; alter policy firm_guard on events using (position <> 2)",
    ] {
        scene.world.change_database(policy).await;
        let (done, text) = scene.command("auditor", &["audit", "verify"]).await;
        assert!(!done && text.contains("table events: it has a row policy"), "{policy}: {text}");
    }
}

fn hash(firm: &Firm) -> KeyHash {
    ApiKey::parse(&firm.key).unwrap().hash()
}
