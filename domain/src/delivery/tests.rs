//! Given, when, then.

use super::workflow::{StepMethod, StepName, StepTarget};
use super::*;
use crate::subscription::Trigger;
use crate::values::Timestamp;
use cqrs_es::test::{AggregateTestExecutor, TestFramework};
use uuid::Uuid;

fn consignment() -> Consignment {
    Consignment {
        occurrence_id: Uuid::from_u128(1),
        hook_id: Uuid::from_u128(2),
        trigger: Trigger::FormSubmitted,
        form_id: Uuid::from_u128(3),
        response_id: Uuid::from_u128(4),
    }
}

fn queue() -> DeliveryCommand {
    DeliveryCommand::Queue(consignment())
}

fn queued() -> DeliveryEvent {
    Delivery::default().decide(&queue()).unwrap().remove(0)
}

fn attempt(number: u32, outcome: Outcome) -> Attempt {
    let at: Timestamp = "2026-11-01T00:00:00.000Z".parse().unwrap();
    Attempt {
        number,
        started_at: at,
        finished_at: at,
        outcome,
        status: None,
        error: None,
        retry_after_seconds: None,
        next_try_at: (outcome == Outcome::Retry).then_some(at),
        hops: vec![],
        body_id: None,
        body_sha256: None,
        answer_sha256: None,
        cancelled: None,
        late: None,
        of: None,
        replay_id: None,
    }
}

fn try_of(attempt: Attempt) -> DeliveryCommand {
    DeliveryCommand::Record { attempt, withdrawn: None }
}

fn attempted(number: u32, outcome: Outcome) -> DeliveryEvent {
    DeliveryEvent::DeliveryAttempted(attempt(number, outcome))
}

fn given(events: Vec<DeliveryEvent>) -> AggregateTestExecutor<Delivery> {
    TestFramework::with(()).given(events)
}

#[test]
fn a_delivery_is_queued_once() {
    given(vec![]).when(queue()).then_expect_events(vec![queued()]);
    given(vec![queued()]).when(queue()).then_expect_events(vec![]);
}

/// Tries are recorded in their order.
#[test]
fn a_delivery_records_tries_until_its_end() {
    given(vec![queued()])
        .when(try_of(attempt(1, Outcome::Retry)))
        .then_expect_events(vec![attempted(1, Outcome::Retry)]);
    for number in [1, 3] {
        given(vec![queued(), attempted(1, Outcome::Retry)])
            .when(try_of(attempt(number, Outcome::Delivered)))
            .then_expect_error(DeliveryRejection::OutOfOrder);
    }
    for end in [Outcome::Delivered, Outcome::Failed, Outcome::Interrupted] {
        given(vec![queued(), attempted(1, end)])
            .when(try_of(attempt(2, Outcome::Delivered)))
            .then_expect_error(DeliveryRejection::NotPending);
    }
}

/// The first event is an attempt or a cancellation.
#[test]
fn listed_deliveries_begin_with_their_first_event() {
    let of = Some(consignment().delivery_of());
    let first = Attempt { of, ..attempt(1, Outcome::Retry) };
    let tried = DeliveryEvent::DeliveryAttempted(first.clone());
    given(vec![]).when(try_of(first)).then_expect_events(vec![tried.clone()]);
    let cause = CancelCause::KeyRevoked;
    let cancelled = DeliveryEvent::DeliveryCancelled { cause, of };
    let cancel = DeliveryCommand::Cancel { cause, of };
    given(vec![]).when(cancel).then_expect_events(vec![cancelled.clone()]);
    for first in [tried, cancelled] {
        let mut delivery = Delivery::default();
        delivery.absorb(&first);
        assert!(delivery.state().is_some());
        delivery.absorb(&attempted(2, Outcome::Failed));
        assert_eq!(delivery.reissue(), Ok(consignment().delivery_of()), "what it is of stays");
    }
    given(vec![])
        .when(try_of(attempt(1, Outcome::Retry)))
        .then_expect_error(DeliveryRejection::NotPending);
}

/// The outbox has the delivery, though no event of it is recorded.
#[test]
fn a_late_success_arrives_while_queued() {
    let never_recorded = Delivery::default();
    let late = |outbox| {
        let attempt = attempt(1, Outcome::Delivered);
        never_recorded.record_late(attempt, outbox).map(|(late, _)| late)
    };
    assert_eq!(late(OutboxPresence::Queued), Some(LateEffect::Arrived));
    assert_eq!(late(OutboxPresence::Absent), Some(LateEffect::Noted));
}

/// The subscription is removed while the try is under way.
#[test]
fn an_open_try_arrives_or_is_cancelled() {
    let after = |outcome| {
        let withdrawn = Some(CancelCause::SubscriptionDeleted);
        let mut delivery = Delivery::default();
        delivery.absorb(&queued());
        let command = DeliveryCommand::Record { attempt: attempt(1, outcome), withdrawn };
        for event in delivery.decide(&command).unwrap() {
            delivery.absorb(&event);
        }
        delivery.state()
    };
    assert_eq!(after(Outcome::Delivered), Some(DeliveryState::Delivered));
    for outcome in [Outcome::Retry, Outcome::Failed, Outcome::Interrupted] {
        assert_eq!(after(outcome), Some(DeliveryState::Cancelled), "{outcome:?}");
    }
}

#[test]
fn only_a_pending_delivery_is_cancelled() {
    let cancel = DeliveryCommand::Cancel { cause: CancelCause::KeyRevoked, of: None };
    let cancelled = DeliveryEvent::DeliveryCancelled { cause: CancelCause::KeyRevoked, of: None };
    given(vec![queued()]).when(cancel.clone()).then_expect_events(vec![cancelled.clone()]);
    for end in [attempted(1, Outcome::Delivered), attempted(1, Outcome::Failed), cancelled] {
        given(vec![queued(), end])
            .when(cancel.clone())
            .then_expect_error(DeliveryRejection::NotPending);
    }
    given(vec![]).when(cancel).then_expect_error(DeliveryRejection::NotPending);
}

#[test]
fn d7_the_eighth_failure_is_the_end() {
    let busy = AttemptAnswer::Status(503);
    let waits: Vec<_> = (1..=8)
        .map(|number| conclude_attempt(RetrySchedule::RestHook, number, &busy, None, 0.0))
        .map(|end| (end.outcome, end.wait.map(|wait| wait.as_secs() / 60)))
        .collect();
    let retry = |minutes| (Outcome::Retry, Some(minutes));
    assert_eq!(waits[..7], [1, 2, 4, 8, 16, 32, 60].map(retry));
    assert_eq!(waits[7], (Outcome::Failed, None));
}

#[test]
fn d6_2xx_and_final_answers_end_deliveries() {
    let outcome = |status| {
        conclude_attempt(RetrySchedule::RestHook, 1, &AttemptAnswer::Status(status), None, 0.0)
            .outcome
    };
    assert_eq!(outcome(204), Outcome::Delivered);
    assert_eq!(outcome(404), Outcome::Failed);
    assert_eq!(outcome(410), Outcome::Failed);
}

/// A late success counts while the delivery is pending.
#[test]
fn e21_only_a_late_success_counts() {
    let cut_off = |number| {
        let at = attempt(number, Outcome::Interrupted);
        DeliveryEvent::DeliveryAttempted(Attempt { next_try_at: Some(at.finished_at), ..at })
    };
    let mut delivery = Delivery::default();
    delivery.absorb(&queued());
    delivery.absorb(&cut_off(1));
    let late = |delivery: &Delivery, number, outcome| {
        delivery.record_late(attempt(number, outcome), OutboxPresence::Queued)
    };
    let (busy, event) = late(&delivery, 1, Outcome::Retry).unwrap();
    assert_eq!(busy, LateEffect::Noted);
    let mut noted = delivery.clone();
    noted.absorb(&event);
    assert_eq!(noted.state(), Some(DeliveryState::Pending));
    assert!(
        noted.record_late(attempt(1, Outcome::Retry), OutboxPresence::Queued).is_none(),
        "recorded once"
    );

    let (arrived, event) = late(&delivery, 1, Outcome::Delivered).unwrap();
    assert_eq!(arrived, LateEffect::Arrived);
    delivery.absorb(&event);
    assert_eq!(delivery.state(), Some(DeliveryState::Delivered));
    let (second, event) =
        delivery.record_late(attempt(2, Outcome::Failed), OutboxPresence::Absent).unwrap();
    assert_eq!(second, LateEffect::Noted);
    delivery.absorb(&event);
    assert_eq!(delivery.state(), Some(DeliveryState::Delivered));
}

fn order() -> StepOrder {
    StepOrder {
        step: StepName { run_id: Uuid::from_u128(1), step_id: Uuid::from_u128(2) },
        trigger: Trigger::FormSubmitted,
        form_id: Uuid::from_u128(3),
        response_id: Uuid::from_u128(4),
        method: StepMethod::Put,
        target: StepTarget::InLog { url: "https://a.example/".into() },
        extra_headers: 0,
        test: false,
    }
}

/// The retry has the bytes of the first try.
#[test]
fn only_a_failed_step_is_retried() {
    let step = DeliveryEvent::StepQueued(order());
    given(vec![]).when(DeliveryCommand::QueueStep(order())).then_expect_events(vec![step.clone()]);
    given(vec![step.clone()]).when(DeliveryCommand::QueueStep(order())).then_expect_events(vec![]);
    let sent = SentBody { id: Uuid::from_u128(9), sha256: "ab".into() };
    let mut first = attempt(1, Outcome::Retry);
    first.body_id = Some(sent.id);
    first.body_sha256 = Some(sent.sha256.clone());
    let first = DeliveryEvent::DeliveryAttempted(first);
    let failed = vec![step.clone(), first.clone(), attempted(2, Outcome::Failed)];
    let anew = RetriedStep { order: order(), tries: 2, body: Some(sent) };
    given(failed)
        .when(DeliveryCommand::RetryStep)
        .then_expect_events(vec![DeliveryEvent::StepRetried(anew)]);
    for not_failed in [
        vec![step.clone()],
        vec![step.clone(), first],
        vec![step.clone(), attempted(1, Outcome::Delivered)],
        vec![step, DeliveryEvent::DeliveryCancelled { cause: CancelCause::FirmClosed, of: None }],
    ] {
        given(not_failed)
            .when(DeliveryCommand::RetryStep)
            .then_expect_error(DeliveryRejection::NotFailed);
    }
    for no_step in [vec![], vec![queued(), attempted(1, Outcome::Failed)]] {
        given(no_step)
            .when(DeliveryCommand::RetryStep)
            .then_expect_error(DeliveryRejection::NotAStep);
    }
}

/// A pending delivery and a workflow step are not reissued.
#[test]
fn a_request_reissues_an_ended_delivery_once() {
    let ended = |end: DeliveryEvent| {
        let mut delivery = Delivery::default();
        delivery.absorb(&queued());
        delivery.absorb(&end);
        delivery
    };
    let cancelled =
        DeliveryEvent::DeliveryCancelled { cause: CancelCause::FirmSuspended, of: None };
    for end in [attempted(1, Outcome::Delivered), attempted(1, Outcome::Failed), cancelled] {
        assert_eq!(ended(end).reissue(), Ok(consignment().delivery_of()));
        let reissued = ReissuedDelivery {
            reissue_of: Uuid::from_u128(5),
            request_id: Uuid::from_u128(6),
            reason: "the form was mended".into(),
            consignment: consignment(),
            report_id: None,
            booking_id: None,
        };
        let anew = DeliveryEvent::DeliveryReissued(reissued.clone());
        let again = DeliveryCommand::Reissue(reissued);
        given(vec![]).when(again.clone()).then_expect_events(vec![anew.clone()]);
        given(vec![anew.clone()]).when(again).then_expect_events(vec![]);
        given(vec![anew])
            .when(try_of(attempt(1, Outcome::Delivered)))
            .then_expect_events(vec![attempted(1, Outcome::Delivered)]);
    }
    assert_eq!(ended(attempted(1, Outcome::Retry)).reissue(), Err(NotReissued::Pending));
    let mut step = Delivery::default();
    assert_eq!(step.reissue(), Err(NotReissued::NoHook));
    step.absorb(&DeliveryEvent::StepQueued(order()));
    step.absorb(&attempted(1, Outcome::Failed));
    assert_eq!(step.reissue(), Err(NotReissued::NoHook));
}

#[test]
fn of_a_replay_only_a_success_counts() {
    let replayed = |outcome| {
        let replay_id = Some(Uuid::from_u128(7));
        DeliveryEvent::DeliveryAttempted(Attempt { replay_id, ..attempt(2, outcome) })
    };
    for end in [Outcome::Failed, Outcome::Delivered] {
        let mut delivery = Delivery::default();
        delivery.absorb(&queued());
        delivery.absorb(&attempted(1, end));
        let ended = delivery.state();
        for outcome in [Outcome::Failed, Outcome::Interrupted] {
            delivery.absorb(&replayed(outcome));
            assert_eq!(delivery.state(), ended, "{outcome:?}");
        }
        delivery.absorb(&replayed(Outcome::Delivered));
        assert_eq!(delivery.state(), Some(DeliveryState::Delivered));
    }
}

#[test]
fn a_pending_delivery_has_a_next_attempt() {
    let next = |events: &[DeliveryEvent]| {
        let mut delivery = Delivery::default();
        events.iter().for_each(|event| delivery.absorb(event));
        delivery.next_attempt()
    };
    let at = attempt(1, Outcome::Retry).next_try_at;
    let own = |due_at, tries_max| Some(NextAttempt { due_at, tries_max, replay_id: None });
    assert_eq!(next(&[]), None);
    assert_eq!(next(&[queued()]), own(None, 8));
    assert_eq!(next(&[queued(), attempted(1, Outcome::Retry)]), own(at, 8));
    let interrupted = Attempt { next_try_at: at, ..attempt(1, Outcome::Interrupted) };
    let interrupted = DeliveryEvent::DeliveryAttempted(interrupted);
    assert_eq!(next(&[queued(), interrupted]), own(at, 8));
    let noted =
        Attempt { late: Some(LateEffect::Noted), next_try_at: None, ..attempt(1, Outcome::Retry) };
    let noted = DeliveryEvent::DeliveryAttempted(noted);
    assert_eq!(next(&[queued(), attempted(1, Outcome::Retry), noted]), own(at, 8));
    let listed = Attempt { of: Some(consignment().delivery_of()), ..attempt(1, Outcome::Retry) };
    assert_eq!(next(&[DeliveryEvent::DeliveryAttempted(listed)]), own(at, 8));
    for end in [Outcome::Delivered, Outcome::Failed, Outcome::Interrupted] {
        assert_eq!(next(&[queued(), attempted(1, end)]), None, "{end:?}");
    }

    let step = DeliveryEvent::StepQueued(order());
    assert_eq!(next(std::slice::from_ref(&step)), own(None, 5));
    let again = RetriedStep { order: order(), tries: 1, body: None };
    let again = [step, attempted(1, Outcome::Failed), DeliveryEvent::StepRetried(again)];
    assert_eq!(next(&again), own(None, 6));
}

#[test]
fn an_ended_delivery_waits_for_a_replay() {
    let replay_id = Uuid::from_u128(7);
    let body = SentBody { id: Uuid::from_u128(8), sha256: String::new() };
    let replayed = DeliveryEvent::DeliveryReplayed(ReplayedDelivery { replay_id, tries: 1, body });
    let mut delivery = Delivery::default();
    for event in [queued(), attempted(1, Outcome::Failed), replayed] {
        delivery.absorb(&event);
    }
    let next = NextAttempt { due_at: None, tries_max: 2, replay_id: Some(replay_id) };
    assert_eq!(delivery.next_attempt(), Some(next));
    let made = Attempt { replay_id: Some(replay_id), ..attempt(2, Outcome::Failed) };
    delivery.absorb(&DeliveryEvent::DeliveryAttempted(made));
    assert_eq!(delivery.next_attempt(), None);
}
