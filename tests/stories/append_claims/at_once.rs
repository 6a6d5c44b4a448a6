//! Submissions that one statement takes in. It was decided from what was read before, so a change
//! in between must count as it does in a transaction of many statements.

use super::*;
use tests::until_blocked;

impl Scene {
    /// Submits a response, with a change after the reads and before the statement.
    async fn submit_around(&self, change: impl Future<Output = ()>) {
        let mut holder = self.world.pool().begin().await.unwrap();
        sqlx::query("lock table responses").execute(&mut *holder).await.unwrap();
        let change = async {
            until_blocked(self.world.pool(), 1).await;
            let statements = "pg_stat_activity where wait_event_type = 'Lock'
                                 and datname = current_database()
                                 and query like 'with recursive reported as%'";
            assert_eq!(self.world.count(statements).await, 1);
            change.await;
            holder.rollback().await.unwrap();
        };
        tokio::join!(self.submit(1), change);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_subscription_made_meanwhile_gets_the_submission() {
    let scene = Scene::new().await;
    let process = scene.process(|_| {});
    let subscribe = async {
        scene.world.subscribe(&scene.firm, &scene.receiver.url("/second")).await;
    };
    scene.submit_around(subscribe).await;
    process.answered(2).await;
    process.ends(&scene.world).await;
    assert_eq!(scene.receiver.received().len(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_subscription_removed_meanwhile_gets_nothing() {
    let scene = Scene::new().await;
    let process = scene.process(|_| {});
    scene.submit_around(scene.remove(scene.hook)).await;
    assert_eq!(scene.queue().await, (0, 0));
    process.ends(&scene.world).await;
    assert!(scene.receiver.received().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_renamed_form_has_its_new_title() {
    let scene = Scene::new().await;
    let process = scene.process(|_| {});
    let rename = async {
        let change = json!({"form_id": scene.firm.form, "title": "Another title"});
        scene.report(&[later(activity(scene.firm.id, "form.changed", change), 1)]).await;
    };
    scene.submit_around(rename).await;
    process.answered(1).await;
    process.ends(&scene.world).await;
    let body = scene.receiver.received()[0].json();
    assert_eq!(body["form"]["title"], "Another title");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_firm_paused_meanwhile_gets_nothing_yet() {
    let scene = Scene::new().await;
    let process = scene.process(|_| {});
    let pause = async {
        scene.world.report(&[activity(scene.firm.id, "firm.suspended", json!({}))]).await.ok();
    };
    scene.submit_around(pause).await;
    assert_eq!(scene.queue().await, (0, 1));
    process.ends(&scene.world).await;
    assert!(scene.receiver.received().is_empty());
}

/// A rival of the same response makes the statement wait, and is rolled back. What the statement
/// had read is old by then.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_wait_decides_again() {
    let scene = Scene::new().await;
    let process = scene.process(|_| {});
    let response = scene.world.id();
    let mut rival = scene.world.pool().begin().await.unwrap();
    sqlx::query("insert into subjects (firm_id, subject_id) values ($1, $2)")
        .bind(scene.firm.id)
        .bind(response)
        .execute(&mut *rival)
        .await
        .unwrap();
    let late = async {
        until_blocked(scene.world.pool(), 1).await;
        scene.world.subscribe(&scene.firm, &scene.receiver.url("/second")).await;
        sqlx::query("select pg_sleep(0.3)").execute(&mut *rival).await.unwrap();
        rival.rollback().await.unwrap();
    };
    let batch = [submitted(&scene.firm, response)];
    tokio::join!(scene.report(&batch), late);
    process.answered(2).await;
    process.ends(&scene.world).await;
    assert_eq!(scene.receiver.received().len(), 2);
}

/// A known response is seen before a statement is made.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repeated_submission_is_a_duplicate() {
    let scene = Scene::new().await;
    let process = scene.process(|_| {});
    let event = submitted(&scene.firm, scene.world.id());
    let first = scene.world.report(std::slice::from_ref(&event)).await.ok();
    let second = scene.world.report(&[event]).await.ok();
    assert_eq!((&first.body["accepted"], &second.body["duplicates"]), (&json!(1), &json!(1)));
    process.answered(1).await;
    process.ends(&scene.world).await;
    assert_eq!(scene.receiver.received().len(), 1);
}
