//! Rows of a firm, as doors and auditors see them.

use domain::api_key::ApiKey;
use eventstore::connect_guarded;
use sqlx::{Executor, PgConnection};
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

#[tokio::test]
async fn b16_with_no_firm_or_a_wrong_one_there_are_no_rows() {
    let scene = Scene::new().await;
    let world = &scene.world;
    let (firm, other) = (world.firm().await, world.firm().await);
    for of in [&firm, &other] {
        world.subscribe(of, "https://hooks.example.com/").await;
        world.submit(of).await;
    }
    world.fan_out().await;
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
            for nobody in ["", &Uuid::nil().to_string(), "' or true --"] {
                let set = format!("set firmforms.firm = '{}'", nobody.replace('\'', "''"));
                connection.execute(set.as_str()).await.unwrap();
                assert_eq!(seen(&mut connection, table).await, 0, "{group} {table}: {nobody}");
            }
            is_for(&mut connection, &firm.id.to_string()).await;
            let own = seen(&mut connection, table).await;
            is_for(&mut connection, &other.id.to_string()).await;
            assert_eq!(own + seen(&mut connection, table).await, all, "{group} {table}");
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
async fn b16_a_connection_that_is_used_again_never_sees_the_firm_before() {
    let scene = Scene::new().await;
    let world = &scene.world;
    let (one, two) = (world.firm().await, world.firm().await);
    for _ in 0..2 {
        world.subscribe(&one, "https://hooks.example.com/").await;
    }
    world.subscribe(&two, "https://hooks.example.com/").await;
    for group in ["api", "service"] {
        let pool = connect_guarded(scene.as_login(group).main, 1);
        let now = world.clock.now().get();
        for (firm, hooks) in [(&one, 2), (&two, 1), (&one, 2)] {
            let mut connection = pool.acquire().await.unwrap();
            assert_eq!(
                seen(&mut connection, "hooks").await,
                0,
                "before anybody has said who it is"
            );
            let key = ApiKey::parse(&firm.key).unwrap();
            let caller =
                projector::calls::authenticate(&mut connection, &key.hash(), now).await.unwrap();
            assert_eq!(caller.unwrap().firm_id, firm.id);
            assert_eq!(seen(&mut connection, "hooks").await, hooks);
            assert_eq!(seen(&mut connection, "firms").await, 1);
        }
        let mut connection = pool.acquire().await.unwrap();
        let nobody = projector::calls::authenticate(&mut connection, &[0; 32], now).await.unwrap();
        assert_eq!((nobody, seen(&mut connection, "hooks").await), (None, 0));
    }
}
