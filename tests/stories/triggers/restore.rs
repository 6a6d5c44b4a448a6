//! Ids after a restore (ruling 41).

use std::collections::BTreeSet;

use tests::Copies;

use super::*;

/// The ids of the deliveries that arrive when everything is reported, an unfinished response first.
async fn ids(story: &Story, unfinished: &[Value], finished: &[Value]) -> BTreeSet<String> {
    let before = story.receiver.received().len();
    story.report(unfinished).await;
    story.report(finished).await;
    story.world.pass(HOUR);
    story.world.time_out().await;
    let arrived = story.arrived().await.split_off(before);
    arrived.iter().map(|one| one.header("x-service-delivery").to_owned()).collect()
}

/// G14: deliveries of every trigger are made after a dump. The dump is restored, and everything is
/// reported again later.
#[tokio::test]
async fn deliveries_after_a_restore_keep_their_ids() {
    let Some(copies) = Copies::of_this_machine() else { return };
    let mut story = Story::begin(FirstClaim::FromOutbox).await;
    let main = copies.dump_without("canary", &story.world.database.main).await;
    let unfinished = story.all_unfinished();
    story.renew();
    let finished = story.all("zoe@example.com");
    let had = ids(&story, &unfinished, &finished).await;
    let events: BTreeSet<String> =
        story.receiver.received().iter().map(|one| one.header("x-service-event").into()).collect();
    assert_eq!((had.len(), events.len()), (11, Trigger::ALL.len()));

    let restored = copies.restore(&main, &story.world.database.main).await;
    let keyring = story.world.database.keyring.clone();
    let later = story.world.clock.now();
    let database = tests::TestDatabase::from_main(restored, keyring);
    story.world = World::at(database, eventstore::Clock::standing_at(later)).await;
    assert_eq!(ids(&story, &unfinished, &finished).await, had);
}
