//! Pauses: an operator holds deliveries of all firms, one firm, one subscription or one host.
//!
//! Queued deliveries wait and do not age. Deliveries that were claimed before the pause are still
//! sent. Each scope has one stream, so that a scope is paused once and resumed once.

use std::fmt;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::aggregate::{aggregate, domain_event, id_of_rule};
use crate::subscription::host_of;

/// Id of the audit chain for events that concern all firms. No firm has this id.
pub const INSTALLATION_FIRM_ID: Uuid = Uuid::nil();

/// Scope of a pause.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum PauseScope {
    /// All deliveries.
    All,
    /// All deliveries of a firm, workflow steps too.
    Firm {
        /// The firm.
        firm_id: Uuid,
    },
    /// All deliveries of a subscription.
    Hook {
        /// The firm of the subscription.
        firm_id: Uuid,
        /// The subscription.
        hook_id: Uuid,
    },
    /// All deliveries to a host, of all firms.
    Host {
        /// The host, as [`host_of`] writes it.
        host: String,
    },
}

/// The properties of a delivery that a pause can match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeliveryRoute<'a> {
    /// The firm of the delivery.
    pub firm_id: Uuid,
    /// The subscription. `None` for a workflow step.
    pub hook_id: Option<Uuid>,
    /// The host of the target, if known.
    pub host: Option<&'a str>,
}

impl PauseScope {
    /// The scope of a host, for any spelling of its name. `None` if the text is no host.
    #[must_use]
    pub fn of_host(name: &str) -> Option<Self> {
        let url = url::Url::parse(&format!("https://{name}/")).ok()?;
        let plain = url.username().is_empty() && url.password().is_none() && url.port().is_none();
        let whole = url.path() == "/" && url.query().is_none() && url.fragment().is_none();
        (plain && whole).then(|| Self::Host { host: host_of(url.as_str()) })
    }

    /// Id of the pause. A scope that is paused again has the id of before.
    #[must_use]
    pub fn pause_id(&self) -> Uuid {
        id_of_rule(&match self {
            Self::All => "pause|all".to_owned(),
            Self::Firm { firm_id } => format!("pause|firm|{firm_id}"),
            Self::Hook { hook_id, .. } => format!("pause|hook|{hook_id}"),
            Self::Host { host } => format!("pause|host|{host}"),
        })
    }

    /// The firm in whose audit chain the pause is recorded.
    #[must_use]
    pub const fn chain_firm_id(&self) -> Uuid {
        match self {
            Self::Firm { firm_id } | Self::Hook { firm_id, .. } => *firm_id,
            Self::All | Self::Host { .. } => INSTALLATION_FIRM_ID,
        }
    }

    /// The scope's word in the output.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Firm { .. } => "firm",
            Self::Hook { .. } => "hook",
            Self::Host { .. } => "host",
        }
    }

    /// Whether the pause holds this delivery.
    #[must_use]
    pub fn holds(&self, held: DeliveryRoute<'_>) -> bool {
        match self {
            Self::All => true,
            Self::Firm { firm_id } => held.firm_id == *firm_id,
            Self::Hook { hook_id, .. } => held.hook_id == Some(*hook_id),
            Self::Host { host } => held.host == Some(host),
        }
    }
}

impl fmt::Display for PauseScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("everything"),
            Self::Firm { firm_id } => write!(f, "firm {firm_id}"),
            Self::Hook { hook_id, .. } => write!(f, "subscription {hook_id}"),
            Self::Host { host } => write!(f, "host {host}"),
        }
    }
}

/// Aggregate of one pause. Each scope has one stream.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pause {
    held: Option<PauseScope>,
}

/// Command on a pause.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PauseCommand {
    /// Pauses a scope.
    Pause {
        /// The scope.
        scope: PauseScope,
        /// The operator's reason.
        reason: String,
    },
    /// Resumes the scope.
    Resume {
        /// The operator's reason, if one was given.
        reason: Option<String>,
    },
}

/// Event of a pause.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum PauseEvent {
    /// Deliveries are held.
    DeliveriesPaused {
        /// The scope.
        scope: PauseScope,
        /// The operator's reason.
        reason: String,
    },
    /// Deliveries go on.
    DeliveriesResumed {
        /// The scope.
        scope: PauseScope,
        /// The operator's reason, if one was given.
        reason: Option<String>,
    },
}

domain_event!(PauseEvent { DeliveriesPaused, DeliveriesResumed });
aggregate!(Pause, PauseCommand, PauseEvent, PauseRejection);

/// Why a command on a pause was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PauseRejection {
    /// The scope is not paused.
    #[error("nothing is paused by this")]
    NotPaused,
}

impl Pause {
    /// Decides on the events that follow from a command. A scope that is already paused has no new
    /// event.
    ///
    /// # Errors
    /// [`PauseRejection`] says that nothing is paused.
    pub fn decide(&self, command: &PauseCommand) -> Result<Vec<PauseEvent>, PauseRejection> {
        match (command, &self.held) {
            (PauseCommand::Pause { .. }, Some(_)) => Ok(Vec::new()),
            (PauseCommand::Pause { scope, reason }, None) => {
                let scope = scope.clone();
                let reason = reason.clone();
                Ok(vec![PauseEvent::DeliveriesPaused { scope, reason }])
            }
            (PauseCommand::Resume { .. }, None) => Err(PauseRejection::NotPaused),
            (PauseCommand::Resume { reason }, Some(scope)) => {
                let scope = scope.clone();
                let reason = reason.clone();
                Ok(vec![PauseEvent::DeliveriesResumed { scope, reason }])
            }
        }
    }

    fn absorb(&mut self, event: &PauseEvent) {
        self.held = match event {
            PauseEvent::DeliveriesPaused { scope, .. } => Some(scope.clone()),
            PauseEvent::DeliveriesResumed { .. } => None,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cqrs_es::test::TestFramework;
    use serde_json::json;

    const FIRM: Uuid = Uuid::from_u128(1);
    const HOOK: Uuid = Uuid::from_u128(2);

    fn scopes() -> [PauseScope; 4] {
        let host = PauseScope::of_host("hooks.example").unwrap();
        [
            PauseScope::All,
            PauseScope::Firm { firm_id: FIRM },
            PauseScope::Hook { firm_id: FIRM, hook_id: HOOK },
            host,
        ]
    }

    /// A pause that has ended can begin again.
    #[test]
    fn a_pause_begins_and_ends_once() {
        let given = |events: Vec<PauseEvent>| TestFramework::<Pause>::with(()).given(events);
        for scope in scopes() {
            let reason = || "the receiver asked for it".to_owned();
            let pause = PauseCommand::Pause { scope: scope.clone(), reason: reason() };
            let paused = PauseEvent::DeliveriesPaused { scope: scope.clone(), reason: reason() };
            let resume = PauseCommand::Resume { reason: None };
            let resumed = PauseEvent::DeliveriesResumed { scope, reason: None };
            given(vec![]).when(resume.clone()).then_expect_error(PauseRejection::NotPaused);
            given(vec![]).when(pause.clone()).then_expect_events(vec![paused.clone()]);
            given(vec![paused.clone()]).when(pause.clone()).then_expect_events(vec![]);
            given(vec![paused.clone()])
                .when(resume.clone())
                .then_expect_events(vec![resumed.clone()]);
            let over = vec![paused.clone(), resumed];
            given(over.clone()).when(resume).then_expect_error(PauseRejection::NotPaused);
            given(over).when(pause).then_expect_events(vec![paused]);
        }
    }

    #[test]
    fn a_scope_holds_only_its_own_deliveries() {
        let of = |firm, hook, host| DeliveryRoute {
            firm_id: Uuid::from_u128(firm),
            hook_id: hook,
            host,
        };
        let inside = of(1, Some(HOOK), Some("hooks.example"));
        let step = of(1, None, Some("hooks.example"));
        let stranger = of(9, Some(Uuid::from_u128(3)), Some("other.example"));
        let held = |one| scopes().map(|scope| scope.holds(one));
        assert_eq!(held(inside), [true; 4]);
        assert_eq!(held(step), [true, true, false, true]);
        assert_eq!(held(stranger), [true, false, false, false]);
        assert_eq!(held(of(9, None, None)), [true, false, false, false]);
    }

    #[test]
    fn a_hosts_spellings_are_one_host() {
        let host = |name| PauseScope::of_host(name).map(|scope| scope.to_string());
        for name in ["hooks.example", "HOOKS.example", "hooks.example."] {
            assert_eq!(host(name).as_deref(), Some("host hooks.example"));
        }
        assert_eq!(host("bücher.example").as_deref(), Some("host xn--bcher-kva.example"));
        assert_eq!(host("[::1]").as_deref(), Some("host [::1]"));
        for wrong in ["", "a/b", "a:8443", "a@b", "a b", "a?b", "a#b", "https://a"] {
            assert_eq!(host(wrong), None, "{wrong}");
        }
    }

    /// A pause of all firms or of a host concerns all firms.
    #[test]
    fn no_firms_chain_has_a_general_pause() {
        assert_eq!(
            scopes().map(|scope| scope.chain_firm_id()),
            [INSTALLATION_FIRM_ID, FIRM, FIRM, INSTALLATION_FIRM_ID]
        );
    }

    /// The shape is a promise.
    #[test]
    fn a_stored_pause_keeps_its_shape() {
        let stored = serde_json::to_value(PauseEvent::DeliveriesPaused {
            scope: PauseScope::Hook { firm_id: FIRM, hook_id: HOOK },
            reason: "why".into(),
        });
        assert_eq!(
            stored.unwrap(),
            json!({"DeliveriesPaused": {
                "scope": {"kind": "hook", "firm_id": FIRM, "hook_id": HOOK}, "reason": "why"}})
        );
        let everything = serde_json::to_value(PauseScope::All).unwrap();
        assert_eq!(everything, json!({"kind": "all"}));
    }
}
