//! Sessions and users of a provider, compared with the log. A session without a sign-in in the log
//! lets one person act in the name of another.

use chrono::TimeDelta;
use domain::access::HolderRole;
use domain::access::sign_in::{SignInEvent, SignInScope};
use domain::delivery::INSTALLATION_FIRM_ID;
use domain::event::Actor;
use eventstore::NewEvent;
use projector::sign_ins::{self, NewSignIn};
use rstest::rstest;
use tests::World;
use uuid::Uuid;

use super::audit;
use super::tampering::{VERIFY, tamper};

/// A world whose user has signed in, under a signed checkpoint.
async fn world() -> (World, SignInScope) {
    let world = World::new().await;
    world.firm().await;
    let scope = SignInScope {
        user_id: world.id(),
        issuer: "https://id.example".into(),
        subject: "ann".into(),
        name: "Ann Lee".into(),
        role: HolderRole::Auditor,
        firm_ids: Some(vec![world.id()]),
        ends_at: (world.clock.now().get() + TimeDelta::hours(8)).into(),
    };
    let sign_in_id = world.id();
    let new = NewSignIn {
        cookie_sha256: [1; 32],
        flow_sha256: [2; 32],
        sign_in_id,
        grants_sha256: [3; 32],
        scope: &scope,
        proven_at: None,
    };
    let mut appending = world.service().store.begin().await.unwrap();
    let now = world.clock.now().get();
    assert!(sign_ins::begin(appending.connection(), new, now).await.unwrap());
    sign_ins::name_user(appending.connection(), new).await.unwrap();
    let context = world.service().context(INSTALLATION_FIRM_ID, Actor::Auditor(scope.user_id));
    let event = SignInEvent::UserSignedIn(scope.clone());
    let events = NewEvent::number_after(0, &sign_in_id.to_string(), &context, [event]);
    appending.append(events).await.unwrap();
    appending.commit().await.unwrap();
    world.project().await;
    assert_eq!(audit(&world, &["audit", "checkpoint"]).await.0, 0);
    (world, scope)
}

#[rstest]
#[case::a_session_by_hand(
    "insert into sign_ins select sha256('x'), sha256('y'), gen_random_uuid(), user_id, role,
            firm_ids, grants_sha256, ends_at from sign_ins",
    "it is there, and the log does not know it"
)]
#[case::a_second_cookie(
    "insert into sign_ins select sha256('x'), sha256('y'), sign_in_id, user_id, role, firm_ids,
            grants_sha256, ends_at from sign_ins",
    "two rows have this id"
)]
#[case::a_role("update sign_ins set role = 'operator'", "its role is not what the log says")]
#[case::all_firms("update sign_ins set firm_ids = null", "its firm_ids is not what the log says")]
#[case::another_user(
    "update sign_ins set user_id = gen_random_uuid()",
    "its user_id is not what the log says"
)]
#[case::a_later_end(
    "update sign_ins set ends_at = ends_at + interval '1 second'",
    "its ends_at is not what the log says"
)]
#[case::a_name("update users set name = 'Bob'", "its name is not what the log says")]
#[case::a_user_by_hand(
    "insert into users values (gen_random_uuid(), 'Bob', gen_random_uuid())",
    "it is there, and the log does not know it"
)]
#[tokio::test]
async fn a_forged_session_or_user_is_found(#[case] statement: &str, #[case] says: &str) {
    let (world, _) = world().await;
    tamper(&world, &[statement]).await;
    let (code, text) = audit(&world, &VERIFY).await;
    assert!(code == 1 && text.contains(says), "{code}: {text}");
}

#[tokio::test]
async fn a_session_that_ended_early_is_intact() {
    let (world, scope) = world().await;
    let (code, text) = audit(&world, &VERIFY).await;
    assert!(code == 0 && text.contains("1 sign-ins, 1 users and 0 portal sessions"), "{text}");
    let ended = api::sessions::end_of_user(world.service(), scope.user_id, "left").await.unwrap();
    assert_eq!(ended, 1);
    assert_eq!(audit(&world, &VERIFY).await.0, 0);
    tamper(&world, &["update sign_ins set ends_at = ends_at + interval '1 hour'"]).await;
    let (code, text) = audit(&world, &VERIFY).await;
    assert!(code == 1 && text.contains("its ends_at is not what the log says"), "{text}");
}

/// An update of the table showed another person behind all acts of a user.
#[tokio::test]
async fn names_of_acts_come_from_events() {
    let (world, scope) = world().await;
    tamper(&world, &["update users set name = 'Bob'"]).await;
    let mut connection = world.pool().acquire().await.unwrap();
    let names = sign_ins::user_names(&mut connection, &[scope.user_id, Uuid::nil()]).await.unwrap();
    assert_eq!(names, [(scope.user_id, "Ann Lee".to_owned())]);
}
