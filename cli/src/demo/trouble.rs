//! Trouble for the console and the portal to show, after all expected deliveries have arrived: a
//! receiver that is gone, one that fails, and a workflow step that failed. Also a token to sign in.

use std::net::SocketAddr;

use anyhow::{Context, bail};
use api::commands::tokens::{self, HolderRole};
use api::portal::{NewPortalLink, links};
use domain::subscription::Trigger;
use serde_json::{Value, json};
use service::{System, ingest};
use uuid::Uuid;

use super::activity::DemoActivity;
use super::calls::{DemoCall, DemoSubscriber, subscribe_at};

/// Paths of the demo's receiver that answer 410 and 500. Both are subscribed.
const SUBSCRIBED: [(&str, u16); 2] = [("gone", 410), ("broken", 500)];

/// The path that answers a workflow step with 404, which ends it at once.
const MISSING: (&str, u16) = ("missing", 404);

/// All paths that answer with an error.
pub(super) const TROUBLES: [(&str, u16); 3] = [SUBSCRIBED[0], SUBSCRIBED[1], MISSING];

/// The number of responses that are reported again as new ones. Two 410s in a row remove a
/// subscription.
const NEW_RESPONSES: usize = 3;

/// Subscribes both troubles for the first firm, and reports more responses of it.
pub(super) async fn make_troubles(
    system: &System,
    activity: &DemoActivity,
    subscribers: &[DemoSubscriber],
    receiver: SocketAddr,
) -> anyhow::Result<()> {
    let first = subscribers.first().context("a firm")?;
    for (path, _) in SUBSCRIBED {
        let target = format!("http://{receiver}/{path}/{}", first.firm_id);
        subscribe_at(system, first, Trigger::FormSubmitted, &target).await?;
    }
    let lines =
        new_responses(&activity.responses, first.firm_id, || system.service.entropy.new_id())?;
    ingest::take_in_lines(&system.service, lines.as_bytes()).await?;
    Ok(())
}

/// Orders the webhook of a workflow step by the internal API, as the product does with its token.
/// The step fails.
pub(super) async fn failed_step(
    system: &System,
    activity: &DemoActivity,
    api: &str,
    token: &str,
    receiver: SocketAddr,
) -> anyhow::Result<()> {
    let (&firm_id, _) = activity.expected.firms.first_key_value().context("a firm")?;
    let new_id = || system.service.entropy.new_id();
    let body = json!({
        "firm_id": firm_id, "run_id": new_id(), "step_id": new_id(), "method": "POST",
        "url": format!("http://{receiver}/{}/{firm_id}", MISSING.0), "headers": {},
        "trigger": Trigger::FormSubmitted.key(),
        "response_id": first_submitted(&activity.responses, firm_id)?,
    });
    let url = format!("{api}/workflow-steps");
    let credential = ("authorization", format!("Bearer {token}"));
    DemoCall { url, credential, body, status: 202 }.post_to(system).await.map(drop)
}

/// The id of the first submitted response of the firm.
fn first_submitted(lines: &str, firm_id: Uuid) -> anyhow::Result<Value> {
    let events = lines.lines().map(serde_json::from_str::<Value>);
    let is_meant =
        |event: &Value| event["type"] == "response.submitted" && event["firmid"] == json!(firm_id);
    let first = events.filter_map(Result::ok).find(is_meant);
    Ok(first.context("the first firm has no submitted response")?["data"]["response_id"].take())
}

/// Reports of the firm's first submitted responses, each with a new id, so that they count as new.
fn new_responses(lines: &str, firm_id: Uuid, id: impl Fn() -> Uuid) -> anyhow::Result<String> {
    let mut new = String::new();
    let mut count = 0;
    for line in lines.lines() {
        let mut event: Value = serde_json::from_str(line)?;
        let is_meant = event["type"] == "response.submitted" && event["firmid"] == json!(firm_id);
        if is_meant && count < NEW_RESPONSES {
            event["id"] = json!(id());
            event["data"]["response_id"] = json!(id());
            new.push_str(&event.to_string());
            new.push('\n');
            count += 1;
        }
    }
    if count == 0 {
        bail!("the first firm has no submitted response");
    }
    Ok(new)
}

/// A token of an operator, for the sign-in.
pub(super) async fn make_token(system: &System) -> anyhow::Result<String> {
    let made = tokens::create(&system.service, "Demo operator", HolderRole::Operator).await;
    made.map(|made| made.token).map_err(|error| anyhow::anyhow!("making a token: {error}"))
}

/// The portal of the first firm.
pub(super) struct DemoPortal {
    pub(super) firm_id: Uuid,
    pub(super) owner: Uuid,
    /// A link for the owner.
    pub(super) link: String,
}

/// A link to the portal for the owner of the first firm.
pub(super) async fn make_portal_link(
    system: &System,
    activity: &DemoActivity,
) -> anyhow::Result<DemoPortal> {
    let (&firm_id, firm) = activity.expected.firms.first_key_value().context("a firm")?;
    let owner = firm.owner;
    let new = NewPortalLink { firm_id, member_id: owner, lang: None, frame_origin: None };
    let made = links::make(&system.service, &new).await;
    let made = made.map_err(|error| anyhow::anyhow!("making a link: {error}"))?;
    Ok(DemoPortal { firm_id, owner, link: made.url })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_firms_submitted_responses_become_new() {
        let (ours, other) = (Uuid::from_u128(1), Uuid::from_u128(2));
        let line = |kind: &str, firm: Uuid| {
            let data = json!({"response_id": Uuid::nil(), "form_id": Uuid::nil()});
            json!({"id": "a", "type": kind, "firmid": firm, "data": data}).to_string() + "\n"
        };
        let lines = [
            line("response.saved", ours),
            line("response.submitted", other),
            line("response.submitted", ours),
        ];
        let new = new_responses(&lines.concat(), ours, || Uuid::from_u128(7)).unwrap();
        let event: Value = serde_json::from_str(new.trim_end()).unwrap();
        assert_eq!(event["data"]["response_id"], json!(Uuid::from_u128(7)));
        assert_eq!(event["id"], json!(Uuid::from_u128(7)));
        assert!(new_responses(&lines[0], ours, Uuid::nil).is_err());
        assert_eq!(first_submitted(&lines.concat(), ours).unwrap(), json!(Uuid::nil()));
        assert!(first_submitted(&lines[0], ours).is_err());
    }
}
