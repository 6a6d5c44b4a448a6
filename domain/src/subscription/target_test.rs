//! Tests of a subscription's target: an operator sends a sample to it. A sample is no delivery, so
//! it is not retried and no answer to it counts. Each test has a stream of its own.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::trigger::Trigger;
use crate::aggregate::{NeverRefused, aggregate, domain_event};

/// Aggregate of one test. Its stream has one event.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TargetTest {
    ordered: bool,
}

/// Command on a test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TargetTestCommand {
    /// Orders the test.
    Order(OrderedTest),
}

/// Event of a test.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum TargetTestEvent {
    /// An operator ordered the test. The sample is sent after this event.
    TargetTestOrdered(OrderedTest),
}

/// Content of an order. The id of its stream is the `X-Service-Delivery` of the sample.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OrderedTest {
    /// The subscription.
    pub hook_id: Uuid,
    /// Its trigger.
    pub trigger: Trigger,
    /// The operator's reason.
    pub reason: String,
}

domain_event!(TargetTestEvent { TargetTestOrdered });
aggregate!(TargetTest, TargetTestCommand, TargetTestEvent, NeverRefused);

impl TargetTest {
    /// Decides on the events that follow from a command. An ordered test has no further event.
    pub fn decide(
        &self,
        TargetTestCommand::Order(test): &TargetTestCommand,
    ) -> Result<Vec<TargetTestEvent>, NeverRefused> {
        let new = (!self.ordered).then(|| TargetTestEvent::TargetTestOrdered(test.clone()));
        Ok(new.into_iter().collect())
    }

    fn absorb(&mut self, TargetTestEvent::TargetTestOrdered(_): &TargetTestEvent) {
        self.ordered = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cqrs_es::test::TestFramework;

    #[test]
    fn a_test_is_ordered_once() {
        let hook_id = Uuid::from_u128(1);
        let test = OrderedTest { hook_id, trigger: Trigger::LeadHot, reason: "a claim".into() };
        let order = TargetTestCommand::Order(test.clone());
        let event = TargetTestEvent::TargetTestOrdered(test);
        let given = |events| TestFramework::<TargetTest>::with(()).given(events);
        given(vec![]).when(order.clone()).then_expect_events(vec![event.clone()]);
        given(vec![event]).when(order).then_expect_events(vec![]);
    }
}
