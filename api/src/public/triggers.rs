//! `GET /triggers`: triggers that the firm can subscribe to.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use domain::subscription::{FirmPlan, Trigger};
use serde::Serialize;

use super::Caller;
use crate::Service;

/// The contract's Trigger.
#[derive(Debug, Serialize)]
pub(super) struct OfferedTrigger {
    key: &'static str,
    label: &'static str,
    hint: &'static str,
    sample_url: String,
}

/// Lists the triggers of the firm's plan (ruling 14).
pub(super) async fn list(
    caller: Caller,
    State(service): State<Arc<Service>>,
) -> Json<Vec<OfferedTrigger>> {
    Json(offered_triggers(caller.plan, &service.settings.base_url))
}

fn offered_triggers(plan: FirmPlan, base_url: &str) -> Vec<OfferedTrigger> {
    Trigger::ALL
        .into_iter()
        .filter(|trigger| trigger.offered_to(plan))
        .map(|trigger| OfferedTrigger {
            key: trigger.key(),
            label: trigger.label(),
            hint: trigger.hint(),
            sample_url: format!("{base_url}/triggers/{trigger}/sample"),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(leads_in_full: bool) -> Vec<&'static str> {
        let plan = FirmPlan { leads_in_full };
        offered_triggers(plan, "https://forms.example/api/v1")
            .iter()
            .map(|offer| offer.key)
            .collect()
    }

    #[test]
    fn the_list_follows_the_plan() {
        assert_eq!(keys(true), Trigger::ALL.map(Trigger::key));
        assert_eq!(keys(false), Trigger::ALL[..9].iter().map(|t| t.key()).collect::<Vec<_>>());
    }

    #[test]
    fn an_offer_is_the_contracts_trigger() {
        let offers = offered_triggers(FirmPlan::default(), "https://forms.example/api/v1");
        assert_eq!(
            serde_json::to_string(&offers[0]).unwrap(),
            concat!(
                r#"{"key":"form_submitted","label":"Form is submitted","#,
                r#""hint":"someone finishes the form","#,
                r#""sample_url":"https://forms.example/api/v1/triggers/form_submitted/sample"}"#,
            )
        );
    }
}
