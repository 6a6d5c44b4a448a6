//! The target of a workflow step's webhook, and orders whose target an older build wrote.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::StepOrder;
use crate::target::{host_of, origin_of, shown_target};

/// Target of a step's webhook. Workflow builders put answers of people into URLs, so the vault
/// holds the URL (ruling 44).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum StepTarget {
    /// The vault holds the URL.
    InVault {
        /// Keyed digest of the URL, lower-case hex. It tells whether two URLs are equal, and cannot
        /// be guessed.
        digest: String,
        /// Scheme, host and port of the URL.
        origin: String,
    },
    /// An older build wrote the URL into the log.
    InLog {
        /// The URL.
        url: String,
    },
}

impl StepTarget {
    /// Host of the target, as a key for counting.
    #[must_use]
    pub fn host(&self) -> String {
        match self {
            Self::InVault { origin, .. } => host_of(origin),
            Self::InLog { url } => host_of(url),
        }
    }

    /// Scheme, host and port of the target.
    #[must_use]
    pub fn origin(&self) -> String {
        match self {
            Self::InVault { origin, .. } => origin.clone(),
            Self::InLog { url } => origin_of(url).unwrap_or_default(),
        }
    }

    /// The target for display, with its path and query masked.
    #[must_use]
    pub fn shown(&self) -> String {
        match self {
            Self::InVault { origin, .. } => shown_target(origin),
            Self::InLog { url } => shown_target(url),
        }
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
    use uuid::Uuid;

    use super::*;

    #[test]
    fn an_order_of_version_1_has_its_url_in_the_log_and_a_newer_one_stays() {
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

    #[test]
    fn an_order_without_a_target_is_refused_and_not_a_panic() {
        for order in [json!({}), json!(null), json!([]), json!("url"), json!({"url": 5})] {
            assert!(serde_json::from_value::<StoredStepOrder>(order.clone()).is_err(), "{order}");
        }
    }
}
