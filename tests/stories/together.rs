//! Calls that are taken in together: each gets its own answer, whatever becomes of the others.
//!
//! Two calls hold the two turns, because somebody has locked the rows that they report. All other
//! calls come meanwhile, and are taken in together when these rows are free.

mod tokens;

use std::collections::BTreeSet;
use std::pin::Pin;
use std::time::Duration;

use api::CallBatchers;
use eventstore::Clock;
use futures::future::join_all;
use serde_json::{Value, json};
use service::SystemSetup;
use sqlx::{Postgres, Transaction};
use tests::{Answer, Firm, TestDatabase, World, activity, later, submitted, until_blocked};
use uuid::Uuid;

/// A world where turns last until they are freed.
async fn patient() -> World {
    let clock = Clock::standing_at("2026-11-01T12:00:00.000Z".parse().unwrap());
    let batchers = CallBatchers::with_turn_max(Duration::from_secs(60));
    World::with(TestDatabase::new().await, clock, |setup| SystemSetup { batchers, ..setup }).await
}

type Call<'a> = Pin<Box<dyn Future<Output = Answer> + 'a>>;

/// Both turns, held.
struct Held<'a> {
    world: &'a World,
    firm: &'a Firm,
    responses: [Uuid; 2],
    holder: Transaction<'static, Postgres>,
}

impl<'a> Held<'a> {
    async fn both(world: &'a World, firm: &'a Firm) -> Self {
        let responses = [world.id(), world.id()];
        let holder = world.hold_responses(firm, &responses).await;
        Self { world, firm, responses, holder }
    }

    /// Lets the calls come while both turns are held, then frees the turns. Returns the answers of
    /// the calls.
    async fn meanwhile(self, calls: Vec<Call<'_>>) -> Vec<Answer> {
        let Self { world, firm, responses, holder } = self;
        let firsts = responses.map(|response| async move {
            assert_eq!(counts(&world.report(&[submitted(firm, response)]).await), (1, 0));
        });
        let waiting = calls.len();
        let calls = async {
            until_blocked(world.pool(), 2).await;
            join_all(calls).await
        };
        let free = async {
            until_blocked(world.pool(), 2).await;
            while world.service().admission.batchers.calls_waiting() < waiting {
                tokio::task::yield_now().await;
            }
            holder.rollback().await.unwrap();
        };
        let (_, answers, ()) = tokio::join!(join_all(firsts), calls, free);
        answers
    }
}

fn counts(answer: &Answer) -> (u64, u64) {
    assert_eq!(answer.status, 202, "{}", answer.text());
    let count = |name| answer.body[name].as_u64().unwrap();
    (count("accepted"), count("duplicates"))
}

fn opened(firm_id: Uuid) -> Value {
    activity(firm_id, "firm.opened", json!({"name": "F", "plan": {"leads_in_full": true}}))
}

fn call(world: &World, events: Vec<Value>) -> Call<'_> {
    Box::pin(async move { world.report(&events).await })
}

/// The transactions by which occurrences of these responses came into the log.
async fn transactions(world: &World, responses: &[Uuid]) -> Vec<(i64, i64)> {
    sqlx::query_as(
        "select min(position), count(*) from events
          where event_type = 'OccurrenceRecorded'
            and (payload -> 'OccurrenceRecorded' ->> 'response_id')::uuid = any($1)
          group by xmin::text order by 1",
    )
    .bind(responses)
    .fetch_all(world.pool())
    .await
    .unwrap()
}

/// Breaks an insert of several events, as long as it is there.
async fn break_together(world: &World, how: &str) {
    let broken = format!(
        "create function break_together() returns trigger language plpgsql as $$ begin
             if (select count(*) from added) > 1 then {how} end if;
             return null;
         end $$;
         create trigger break_together after insert on events
             referencing new table as added for each statement execute function break_together()"
    );
    world.change_database(&broken).await;
}

/// Each call gets the answer about its own activities.
#[tokio::test]
async fn concurrent_calls_share_one_transaction() {
    let world = patient().await;
    let firm = world.firm().await;
    let held = Held::both(&world, &firm).await;
    let responses: Vec<Uuid> = (0..20).map(|_| world.id()).collect();
    let suspended = later(activity(firm.id, "firm.suspended", json!({})), 9);
    let mut calls: Vec<Call<'_>> =
        responses.iter().map(|response| call(&world, vec![submitted(&firm, *response)])).collect();
    calls.push(call(&world, vec![submitted(&firm, responses[0]), submitted(&firm, world.id())]));
    calls.push(call(&world, vec![suspended.clone()]));
    calls.push(call(&world, vec![suspended]));
    let answers = held.meanwhile(calls).await;
    let told: Vec<_> = answers.iter().map(counts).collect();
    assert_eq!(told[1..20], [(1, 0); 19]);
    // Of two that report the same the first counts, and either may be the first.
    assert!([[(1, 0), (1, 1)], [(0, 1), (2, 0)]].contains(&[told[0], told[20]]), "{told:?}");
    assert!([[(1, 0), (0, 1)], [(0, 1), (1, 0)]].contains(&[told[21], told[22]]), "{told:?}");
    assert_eq!(transactions(&world, &responses).await.len(), 1);
    let occurrences = world.events_of_type("OccurrenceRecorded").await.into_iter();
    let causes: BTreeSet<_> =
        occurrences.map(|event| event.metadata["correlation_id"].to_string()).collect();
    // The first call has none if another call reported its response before.
    assert_eq!(causes.len(), if told[0] == (1, 0) { 23 } else { 22 }, "each call has its own");
}

/// The tables have forgotten a response that the log or the vault knows. Calls that come together
/// believe the tables, and a call by itself asks.
#[tokio::test]
async fn a_forgotten_response_is_recorded_once() {
    let world = patient().await;
    let firm = world.firm().await;
    let in_vault = |response| {
        let mut event = submitted(&firm, response);
        event["type"] = json!("response.saved");
        let data = event["data"].as_object_mut().unwrap();
        let saved_at = data.remove("submitted_at").unwrap();
        data.remove("ending");
        data.remove("variables");
        data.insert("saved_at".to_owned(), saved_at);
        event
    };
    let in_log = |response| submitted(&firm, response);
    for (known, again) in [(in_vault(world.id()), (1, 0)), (in_log(world.id()), (0, 1))] {
        let response = known["data"]["response_id"].as_str().unwrap().parse().unwrap();
        assert_eq!(counts(&world.report(&[known]).await), (1, 0));
        world.change_database("delete from subjects").await;
        let held = Held::both(&world, &firm).await;
        let responses = [response, world.id(), world.id()];
        let calls = responses.map(|response| call(&world, vec![submitted(&firm, response)]));
        let told: Vec<_> = held.meanwhile(calls.into()).await.iter().map(counts).collect();
        assert_eq!(told, [again, (1, 0), (1, 0)]);
        assert_eq!(transactions(&world, &responses).await.len(), 3);
        let submitted = format!("response_id = '{response}' and submitted_at is not null");
        assert_eq!(world.count(&format!("responses where {submitted}")).await, 1);
    }
}

/// The error names the index within the bad call, and the others are taken in.
#[tokio::test]
async fn a_bad_call_is_refused_alone() {
    let world = patient().await;
    let firm = world.firm().await;
    for bad in [1, 2, 8] {
        let held = Held::both(&world, &firm).await;
        let responses: Vec<Uuid> = (0..8).map(|_| world.id()).collect();
        let unknown = Firm { form: world.id(), ..firm.clone() };
        let reports: Vec<Vec<Value>> =
            (0..bad).map(|_| vec![opened(world.id()), submitted(&unknown, world.id())]).collect();
        let good = responses.iter().map(|response| call(&world, vec![submitted(&firm, *response)]));
        let bad_ones = reports.iter().map(|reports| call(&world, reports.clone()));
        let mut calls: Vec<Call<'_>> = good.collect();
        calls.splice(3..3, bad_ones);
        let answers = held.meanwhile(calls).await;
        for (place, answer) in answers.iter().enumerate() {
            if (3..3 + bad).contains(&place) {
                assert_eq!(answer.code(), (400, "invalid_request"), "{}", answer.text());
                assert_eq!(answer.body["index"], 1, "within its own call");
            } else {
                assert_eq!(counts(answer), (1, 0));
            }
        }
        for mut reports in reports {
            reports.pop();
            assert_eq!(counts(&world.report(&reports).await), (1, 0), "nothing was remembered");
        }
    }
}

/// After a conflict, or a failure that may be one call's fault, each call is tried by itself.
#[tokio::test]
async fn a_failed_batch_is_retried_singly() {
    let broken = [
        "raise exception 'a lost race' using errcode = '40001';",
        "raise exception 'a defect';",
        "raise exception 'a lock' using errcode = '55P03';",
        "perform pg_terminate_backend(pg_backend_pid());",
    ];
    for how in broken {
        let world = patient().await;
        let firm = world.firm().await;
        let held = Held::both(&world, &firm).await;
        break_together(&world, how).await;
        let responses: Vec<Uuid> = (0..6).map(|_| world.id()).collect();
        let calls =
            responses.iter().map(|response| call(&world, vec![submitted(&firm, *response)]));
        let answers = held.meanwhile(calls.collect()).await;
        assert!(answers.iter().all(|answer| counts(answer) == (1, 0)), "{how}");
        let each: Vec<_> = transactions(&world, &responses).await;
        assert_eq!(each.iter().map(|(_, events)| *events).collect::<Vec<_>>(), [1; 6], "{how}");
    }
}

#[tokio::test]
async fn an_untakeable_call_fails_alone() {
    let world = patient().await;
    let firm = world.firm().await;
    let held = Held::both(&world, &firm).await;
    let responses: Vec<Uuid> = (0..6).map(|_| world.id()).collect();
    let refuses = format!(
        "alter table responses add constraint refuses check (response_id <> '{}')",
        responses[2]
    );
    world.change_database(&refuses).await;
    let calls = responses.iter().map(|response| call(&world, vec![submitted(&firm, *response)]));
    let answers = held.meanwhile(calls.collect()).await;
    for (answer, response) in answers.iter().zip(&responses) {
        let refused = *response == responses[2];
        assert_eq!(answer.status, if refused { 500 } else { 202 }, "{}", answer.text());
        assert_eq!(transactions(&world, &[*response]).await.len(), usize::from(!refused));
    }
}

/// No call waits for a connection by itself after the wait that all shared.
#[tokio::test]
async fn without_a_database_all_calls_fail() {
    let world = patient().await;
    let firm = world.firm().await;
    let held = Held::both(&world, &firm).await;
    let reports: Vec<_> = (0..6).map(|_| submitted(&firm, world.id())).collect();
    let calls = reports.iter().map(|report| call(&world, vec![report.clone()]));
    let closing = async {
        while world.service().admission.batchers.calls_waiting() < reports.len() {
            tokio::task::yield_now().await;
        }
        world.service().store.connections().close().await;
    };
    // The holder of the rows has a connection already, and so have the first two calls.
    let (answers, ()) = tokio::join!(held.meanwhile(calls.collect()), closing);
    for answer in answers {
        assert_eq!(answer.code(), (503, "unavailable"), "{}", answer.text());
    }
}

#[tokio::test]
async fn a_keyring_that_is_away_leaves_nothing() {
    let world = patient().await;
    let firm = world.firm().await;
    world.service().keyring.close().await;
    let response = world.id();
    let answer = world.report(&[submitted(&firm, response)]).await;
    assert_eq!(answer.code(), (503, "unavailable"), "{}", answer.text());
    assert!(transactions(&world, &[response]).await.is_empty());
    assert_eq!((world.count("responses").await, world.count("subjects").await), (0, 0));
}

/// A23: the call is in its own task, and its place among the others is kept.
#[tokio::test]
async fn a23_a_hung_up_call_is_recorded() {
    let world = patient().await;
    let firm = world.firm().await;
    let held = Held::both(&world, &firm).await;
    let responses: Vec<Uuid> = (0..6).map(|_| world.id()).collect();
    let mut calls: Vec<Call<'_>> = Vec::new();
    for (place, response) in responses.iter().enumerate() {
        let reported = call(&world, vec![submitted(&firm, *response)]);
        calls.push(if place == 2 { hanging_up(&world, reported) } else { reported });
    }
    let answers = held.meanwhile(calls).await;
    assert_eq!(answers.iter().filter(|answer| answer.status == 202).count(), 5);
    let all = async {
        while transactions(&world, &responses).await.iter().map(|(_, events)| events).sum::<i64>()
            < 6
        {}
    };
    tokio::time::timeout(Duration::from_secs(10), all).await.unwrap();
}

/// Goes away as soon as its call waits; it is told nothing.
fn hanging_up<'a>(world: &'a World, mut call: Call<'a>) -> Call<'a> {
    Box::pin(async move {
        let waits = async {
            while world.service().admission.batchers.calls_waiting() < 3 {
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            answer = &mut call => return answer,
            () = waits => drop(call),
        }
        world.get_internally(world.token(), "/nothing").await
    })
}

/// Eight callers each report the next name of a firm when the last is taken in.
#[tokio::test]
async fn a_callers_calls_stay_in_order() {
    let world = patient().await;
    let firms: Vec<Firm> = join_all((0..8).map(|_| world.firm())).await;
    let named = |second: u32| json!(second.to_string());
    let caller = async |firm: &Firm| {
        for second in 1..10 {
            let change = activity(firm.id, "firm.changed", json!({"name": named(second)}));
            assert_eq!(counts(&world.report(&[later(change, second)]).await), (1, 0));
        }
    };
    join_all(firms.iter().map(caller)).await;
    for firm in firms {
        let changes = world.events_of_type("FirmChanged").await.into_iter();
        let changes = changes.filter(|event| event.firm_id == firm.id);
        assert!(changes.map(|event| event.field("name").clone()).eq((1..10).map(named)));
    }
}

/// An erased response keeps no key, also if it is reported again together with others.
#[tokio::test]
async fn h1_concurrent_reports_leave_no_key() {
    let world = patient().await;
    let firm = world.firm().await;
    let response = world.submit(&firm).await;
    let erased = activity(firm.id, "response.erased", json!({"response_id": response}));
    assert_eq!(counts(&world.report(&[erased]).await), (1, 0));
    world.erase().await;
    let held = Held::both(&world, &firm).await;
    let calls = vec![
        call(&world, vec![submitted(&firm, response)]),
        call(&world, vec![submitted(&firm, world.id())]),
    ];
    let told: Vec<_> = held.meanwhile(calls).await.iter().map(counts).collect();
    assert_eq!(told, [(0, 1), (1, 0)]);
    let subject = vault::KeySubject { firm_id: firm.id, subject_id: response };
    assert!(world.service().keyring.find_keys(&[subject]).await.unwrap().is_empty());
}

/// A call that waits for locked rows holds up no other call.
#[tokio::test]
async fn a_locked_firm_delays_no_other_firm() {
    let world = World::new().await;
    let (firm, other) = (world.firm().await, world.firm().await);
    let Held { responses, holder, .. } = Held::both(&world, &firm).await;
    let waiting = responses.map(|response| call(&world, vec![submitted(&firm, response)]));
    let meanwhile = async {
        until_blocked(world.pool(), 2).await;
        for _ in 0..3 {
            world.submit(&other).await;
        }
        until_blocked(world.pool(), 2).await;
        holder.rollback().await.unwrap();
    };
    let (answers, ()) = tokio::join!(join_all(waiting), meanwhile);
    assert!(answers.iter().all(|answer| counts(answer) == (1, 0)));
}
