//! An invite in a copy from before its end (case H3).

use eventstore::connect;
use sqlx::PgPool;
use tests::Copies;
use tests::smtp_server::Turn;
use uuid::Uuid;
use vault::mails;

use super::*;

/// The mail of the one invite that is under way, as far as it can be read.
async fn mail(world: &World, pool: &PgPool) -> Option<Vec<u8>> {
    let invite_id: Uuid =
        sqlx::query_scalar("select invite_id from mails").fetch_one(pool).await.unwrap();
    let mut connection = pool.acquire().await.unwrap();
    mails::read(&mut connection, &world.service().keyring, invite_id).await.unwrap()
}

/// The key of a reservation goes with it: a dump from its time holds a mail that nobody can open.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h3_a_dump_reveals_no_open_invite() {
    let Some(copies) = Copies::of_this_machine() else { return };
    let (world, server) = world().await;
    let firm = world.firm().await;
    server.turn("CONTENT", Turn::Silence);
    let dumping = async {
        while server.contents_heard() == 0 {
            tokio::task::yield_now().await;
        }
        copies.dump_without("canary", &world.database.main).await
    };
    let dump = tokio::select! {
        answer = invite(&world, &firm, "canary@example.com") => panic!("{}", answer.body),
        dump = dumping => dump,
    };
    assert!(mail(&world, world.pool()).await.is_some());
    server.relent("CONTENT");
    world.pass(Duration::from_secs(130));
    world.take_over().await;
    assert_eq!((server.mails().len(), under_way(&world).await), (1, (0, 0)));
    let restored = connect(copies.restore(&dump, &world.database.main).await, 2);
    assert_eq!(mail(&world, &restored).await, None);
}
