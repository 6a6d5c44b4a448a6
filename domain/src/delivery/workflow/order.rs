//! The order of a workflow step, also as an older build wrote it.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use uuid::Uuid;

use super::target::StepTarget;
use crate::aggregate::id_of_rule;
use crate::subscription::Trigger;

/// Run and step, the name of one delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepName {
    /// The run of the workflow.
    pub run_id: Uuid,
    /// The step of the run.
    pub step_id: Uuid,
}

/// Method of a step's webhook.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum StepMethod {
    /// POST
    Post,
    /// PUT
    Put,
    /// PATCH
    Patch,
}

/// Order of a workflow step. Its extra headers may be secrets, so the log holds only their number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepOrder {
    /// Run and step.
    pub step: StepName,
    /// The trigger that the step names and whose payload it sends.
    pub trigger: Trigger,
    /// The form of the response.
    pub form_id: Uuid,
    /// The response.
    pub response_id: Uuid,
    /// The method.
    pub method: StepMethod,
    /// The target.
    pub target: StepTarget,
    /// Number of extra headers.
    pub extra_headers: usize,
    /// Whether the run is a test.
    pub test: bool,
}

impl StepName {
    /// Id of the step's delivery, equal for every attempt and after every retry.
    #[must_use]
    pub fn delivery_id(self) -> Uuid {
        id_of_rule(&format!("step|{}|{}", self.run_id, self.step_id))
    }

    /// The key on which receivers dedupe (contract, section Request sent to the target).
    #[must_use]
    pub fn idempotency_key(self) -> String {
        format!("{}:{}", self.run_id, self.step_id)
    }
}

impl StepMethod {
    /// Name of the method.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Patch => "PATCH",
        }
    }
}

impl std::str::FromStr for StepMethod {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        [Self::Post, Self::Put, Self::Patch].into_iter().find(|one| one.name() == text).ok_or(())
    }
}

/// Version of the events of workflow steps, and of the rows that hold a [`StepOrder`]. In version 1
/// the order held the URL as `url`.
pub const STEP_VERSION: &str = "2.0";

/// Rewrites an order of version 1 as [`StepOrder`]. Leaves a newer order as it is.
pub fn upcast_order(order: &mut Value) {
    let url = order.as_object_mut().and_then(|order| order.remove("url"));
    if let Some(url) = url {
        order["target"] = json!({"in_log": {"url": url}});
    }
}

/// An order as a row or an event holds it, which an older build may have written.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Value")]
pub struct StoredStepOrder(pub StepOrder);

impl TryFrom<Value> for StoredStepOrder {
    type Error = serde_json::Error;

    fn try_from(mut order: Value) -> Result<Self, serde_json::Error> {
        upcast_order(&mut order);
        serde_json::from_value(order).map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The log holds the URL of an order of version 1. A newer order reads back as itself.
    #[test]
    fn orders_of_both_versions_are_read() {
        let id = |n: u128| Uuid::from_u128(n);
        let first = json!({
            "step": {"run_id": id(1), "step_id": id(2)}, "trigger": "form_submitted",
            "form_id": id(3), "response_id": id(4), "method": "POST",
            "url": "https://hooks.example.com/in?email=a%40b.c", "extra_headers": 1, "test": false,
        });
        let StoredStepOrder(order) = serde_json::from_value(first).unwrap();
        let url = "https://hooks.example.com/in?email=a%40b.c".to_owned();
        assert_eq!(order.target, StepTarget::InLog { url });
        assert_eq!(order.target.shown(), "https://hooks.example.com/…");
        assert_eq!(order.target.origin(), "https://hooks.example.com");

        let (digest, origin) = ("ab".to_owned(), "https://hooks.example.com:8443".to_owned());
        let newer = StepOrder { target: StepTarget::InVault { digest, origin }, ..order };
        let stored = serde_json::to_value(&newer).unwrap();
        let target = json!({"digest": "ab", "origin": "https://hooks.example.com:8443"});
        assert_eq!(stored["target"], json!({"in_vault": target}));
        let StoredStepOrder(read) = serde_json::from_value(stored).unwrap();
        assert_eq!(read, newer);
        assert_eq!(newer.target.host(), "hooks.example.com");
        assert_eq!(newer.target.shown(), "https://hooks.example.com:8443/…");
    }

    /// Reading such an order does not panic.
    #[test]
    fn an_order_without_a_target_is_refused() {
        for order in [json!({}), json!(null), json!([]), json!("url"), json!({"url": 5})] {
            assert!(serde_json::from_value::<StoredStepOrder>(order.clone()).is_err(), "{order}");
        }
    }
}
