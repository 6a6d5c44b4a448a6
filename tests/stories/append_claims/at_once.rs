//! Submissions that one statement takes in. It was decided from what was read or remembered before,
//! so a change in between must count as it does in a transaction of many statements.

use std::time::Instant;

use api::commands::secrets;
use api::intake::{EventFormat, accept, parse_events};
use domain::delivery::signature::{SignedRequest, verify_request};
use domain::event::Actor;

use super::*;
use tests::{counting_statements, until_blocked};

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

/// A crash of the server loses a key that is not flushed, and another life refuses the statement.
/// Data under the lost key could never be read again (E28).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_lost_meanwhile_is_made_again() {
    let scene = Scene::new().await;
    let process = scene.process(|_| {});
    let lose_key = async {
        assert_eq!(scene.world.count_in_keyring("data_keys").await, 1);
        scene.world.change_keyring("delete from data_keys").await;
        scene.world.subscribe(&scene.firm, &scene.receiver.url("/second")).await;
    };
    scene.submit_around(lose_key).await;
    process.answered(2).await;
    process.ends(&scene.world).await;
    assert_eq!(scene.world.count_in_keyring("data_keys").await, 1);
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

/// The statement sees that the response is known. The match is forgotten then, and its next read
/// sees it too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repeated_submission_is_a_duplicate() {
    let scene = Scene::new().await;
    let process = scene.process(|_| {});
    let event = submitted(&scene.firm, scene.world.id());
    let first = scene.world.report(std::slice::from_ref(&event)).await.ok();
    assert_eq!(first.body["accepted"], 1);
    for _ in 0..2 {
        let again = scene.world.report(std::slice::from_ref(&event)).await.ok();
        assert_eq!(again.body["duplicates"], 1);
        assert!(!scene.remembers_match());
    }
    process.answered(1).await;
    process.ends(&scene.world).await;
    assert_eq!(scene.receiver.received().len(), 1);
}

impl Scene {
    /// Submits a response, so that the process remembers its match and its lane.
    async fn submit_first(&self) -> Sending {
        let process = self.process(|_| {});
        self.submit(1).await;
        process.answered(1).await;
        assert!(self.remembers_match());
        process
    }

    fn remembers_match(&self) -> bool {
        let service = self.world.service();
        let life = service.store.life().life_number();
        let form = (self.firm.id, self.firm.form);
        service.admission.matches.get(life, Instant::now(), &[form]).len() == 1
    }

    /// Submits a response, and returns the number of statements that this took.
    async fn count_statements(&self) -> usize {
        let event = submitted(&self.firm, self.world.id());
        let batch = parse_events(EventFormat::Batch, &serde_json::to_vec(&[event]).unwrap());
        let accepting = accept(self.world.service(), batch.unwrap(), Actor::Product(Uuid::nil()));
        let (accepted, statements) = counting_statements(accepting).await;
        assert_eq!(accepted.unwrap().accepted, 1);
        statements
    }
}

/// The first reads its match and its lane. Both make a key, and one statement does the rest.
#[tokio::test]
async fn a_later_submission_reads_nothing() {
    let scene = Scene::new().await;
    let process = scene.process(|_| {});
    let statements = [scene.count_statements().await, scene.count_statements().await];
    assert_eq!(statements, [4, 2]);
    process.answered(2).await;
    process.ends(&scene.world).await;
    scene.assert_all_arrived_once(2).await;
}

/// A refused statement forgets the match that it was decided from.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_later_subscription_gets_the_next_submission() {
    let scene = Scene::new().await;
    let process = scene.submit_first().await;
    scene.world.subscribe(&scene.firm, &scene.receiver.url("/second")).await;
    scene.submit(1).await;
    process.answered(3).await;
    assert!(!scene.remembers_match());
    process.ends(&scene.world).await;
    assert_eq!(scene.receiver.received().len(), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_removed_subscription_gets_no_later_submission() {
    let scene = Scene::new().await;
    let process = scene.submit_first().await;
    scene.remove(scene.hook).await;
    scene.submit(1).await;
    process.ends(&scene.world).await;
    assert_eq!(scene.queue().await, (0, 0));
    assert_eq!(scene.receiver.received().len(), 1);
}

/// The lane is remembered with the secret of its firm, which has changed since.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rotated_secret_signs_the_next_submission() {
    let scene = Scene::new().await;
    let process = scene.submit_first().await;
    let service = scene.world.service();
    let firm = scene.firm.id;
    secrets::rotate(service, firm, Actor::System, Some("a test")).await.unwrap();
    scene.submit(1).await;
    process.answered(2).await;
    process.ends(&scene.world).await;
    let secret = secrets::reveal(service, firm, Actor::System).await.unwrap().secret;
    let now = scene.world.clock.now().get().timestamp();
    let is_signed = |request: &Received| {
        let header = request.header("x-service-signature");
        let signed = SignedRequest { header, body: &request.body };
        verify_request(signed, secret.as_str(), now).is_ok()
    };
    let received = scene.receiver.received();
    assert_eq!(received.iter().map(is_signed).collect::<Vec<_>>(), [false, true]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_later_pause_keeps_the_next_submission() {
    let scene = Scene::new().await;
    let process = scene.submit_first().await;
    for (earlier, scope) in [
        json!({"all": true}),
        json!({"firm_id": scene.firm.id}),
        json!({"hook_id": scene.hook}),
        json!({"host": "127.0.0.1"}),
    ]
    .into_iter()
    .enumerate()
    {
        assert!(scene.remembers_match(), "{scope}");
        let pause = scene.pause(scope.clone()).await;
        assert_eq!(scene.queue_after_another().await.1, 1, "{scope}");
        scene.operate("DELETE", &pause, Value::Null).await;
        assert_eq!(scene.world.deliver().await, 1, "{scope}");
        // Reads the match and the lane again.
        scene.submit(1).await;
        process.answered(earlier + 2).await;
    }
    process.ends(&scene.world).await;
    scene.assert_all_arrived_once(9).await;
}
