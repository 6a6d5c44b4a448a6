//! History in ranges of a month (migration 0052).

use std::time::Duration;

use projector::deliveries::{DeliveryFilter, list};
use tests::{Receiver, World, history_ranges};

use super::{assert_equal, rebuild, verify};

const MONTH: Duration = Duration::from_secs(31 * 86_400);

/// A swap moves the ranges, too.
#[tokio::test]
async fn each_month_of_history_is_a_range() {
    let world = World::new().await;
    let firm = world.firm().await;
    let receiver = Receiver::start().await;
    world.subscribe(&firm, &receiver.url("/hook")).await;
    for _ in 0..3 {
        world.submit(&firm).await;
        assert_eq!(world.deliver().await, 1);
        world.pass(MONTH);
    }
    let made = history_ranges(world.pool()).await;
    assert_eq!(made.len(), 3, "{made:?}");
    let newest = DeliveryFilter { limit: 2, ..DeliveryFilter::default() };
    let listed = list(world.pool(), firm.id, &newest).await.unwrap();
    let ids: Vec<_> = listed.iter().map(|row| row.delivery_id).collect();
    let mut of_all = world.delivery_ids().await;
    of_all.reverse();
    assert_eq!(ids, of_all[..2]);

    assert_equal(&rebuild(&world).await);
    assert_eq!(history_ranges(world.pool()).await, made);
    world.submit(&firm).await;
    assert_eq!(world.deliver().await, 1);
    assert_eq!(history_ranges(world.pool()).await.len(), 4, "the next month has a range too");
    assert_equal(&verify(&world).await);
}

/// A role that may make ranges of history could otherwise make tables of any kind.
#[tokio::test]
async fn only_history_has_ranges() {
    let world = World::new().await;
    let refused = sqlx::query("select make_history_range('events', now())")
        .execute(world.pool())
        .await
        .unwrap_err();
    assert!(refused.to_string().contains("events has no ranges"), "{refused}");
}
