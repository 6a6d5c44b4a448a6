//! E24: an append that the database rolls back for a reason that may pass is tried again, and not
//! for ever.

use serde_json::json;
use tests::{TestDatabase, World};

use super::Scene;

/// The first so many appends fail with this SQLSTATE; the count survives their rollback.
fn stumbling(times: u32, sqlstate: &str) -> String {
    format!(
        "drop trigger if exists stumble on events;
         create or replace function stumble() returns trigger language plpgsql as $$ begin
             if nextval('stumbles') <= {times} then
                 raise exception 'made up' using errcode = '{sqlstate}';
             end if;
             return null;
         end $$;
         create trigger stumble before insert on events
             for each statement execute function stumble();
         alter sequence stumbles restart"
    )
}

async fn appends(world: &World) -> i64 {
    world.ask_number("select last_value from stumbles").await
}

/// A lost race runs again five times. Then the caller gets 503 and is told to come back.
#[tokio::test]
async fn e24_a_sixth_lost_race_writes_nothing() {
    let scene = Scene::on(TestDatabase::new().await).await;
    let (world, firm) = (&scene.world, &scene.firm);
    world.change_database("create sequence stumbles").await;
    let hook = json!({"target_url": scene.receiver.url("/"), "trigger": "form_submitted"});
    let response = |id| vec![super::submitted(firm, id)];
    for sqlstate in ["40001", "40P01"] {
        world.change_database(&stumbling(5, sqlstate)).await;
        let made = world.create_hook(firm, hook.clone()).await;
        assert_eq!((made.status.as_u16(), appends(world).await), (201, 6), "{sqlstate}");
        world.change_database(&stumbling(5, sqlstate)).await;
        let taken_in = world.report(&response(world.id())).await;
        assert_eq!((taken_in.status.as_u16(), appends(world).await), (202, 6), "{sqlstate}");

        let before = scene.world.count("events").await;
        world.change_database(&stumbling(6, sqlstate)).await;
        let refused = world.create_hook(firm, hook.clone()).await;
        assert_eq!((refused.code(), appends(world).await), ((503, "unavailable"), 6), "{sqlstate}");
        assert!(refused.headers.contains_key("retry-after"));
        world.change_database(&stumbling(6, sqlstate)).await;
        let refused = world.report(&response(world.id())).await;
        assert_eq!((refused.code(), appends(world).await), ((503, "unavailable"), 6), "{sqlstate}");
        assert_eq!(scene.world.count("events").await, before, "{sqlstate}");
    }
    assert_eq!(world.get(firm, "/hooks").await.body.as_array().map(Vec::len), Some(3));
    // The workers try again by themselves.
    world.change_database(&stumbling(0, "40001")).await;
    assert_ne!(world.deliver().await, 0);
    scene.assert_held().await;
}
