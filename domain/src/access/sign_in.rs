//! Sign-ins at the console by a provider of OpenID Connect: the role of a user, and the events of a
//! sign-in. They are in the chain of the installation. The id of a user is the actor of the user's
//! commands, in the place of a token's.

use std::str::FromStr;

use chrono::TimeDelta;
use percent_encoding::percent_decode_str;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use super::access_token::HolderRole;
use crate::aggregate::{aggregate, domain_event};
use crate::values::{Timestamp, check_label, trimmed_label};

/// Longest subject of a provider, in characters (OpenID Connect Core, section 2).
const SUBJECT_MAX: usize = 255;

/// Longest name of a user, in characters.
const USER_NAME_MAX: usize = 100;

/// The longest time from the start of a sign-in to the answer of the provider.
pub const FLOW_TIME: TimeDelta = TimeDelta::minutes(10);

/// The longest time of a session (ruling 62).
pub const SESSION_TIME: TimeDelta = TimeDelta::hours(8);

/// The longest time without use of a session (ruling 62).
pub const SESSION_IDLE_MAX: TimeDelta = TimeDelta::minutes(30);

/// The age of a proof of the person, up to which acts that cut off ask for no other (ruling 62).
pub const PROOF_TIME: TimeDelta = TimeDelta::minutes(15);

/// Namespace of the ids of users.
const USERS: Uuid = Uuid::from_u128(0x3d0c_5b0e_8a41_4c7e_9d6f_52a7_1be0_94c3);

/// Aggregate of one sign-in.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignIn {
    state: SignInState,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum SignInState {
    #[default]
    Unknown,
    Open,
    Ended,
}

/// Command on a sign-in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SignInCommand {
    /// Begins the session.
    Begin(SignInScope),
    /// Ends the session before its time.
    End {
        /// The operator's reason. `None` if the user signed out.
        reason: Option<String>,
    },
}

/// Event of a sign-in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum SignInEvent {
    /// A user of the provider signed in.
    UserSignedIn(SignInScope),
    /// The session was ended before its time.
    UserSignedOut {
        /// The operator's reason. `None` if the user signed out.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
}

/// The user, the rights and the end of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SignInScope {
    /// The user, as actors name it.
    pub user_id: Uuid,
    /// The provider.
    pub issuer: String,
    /// The user, as the provider names it.
    pub subject: String,
    /// The name that the provider told.
    pub name: String,
    /// The role.
    pub role: HolderRole,
    /// The firms that the user may reach. `None` for all.
    pub firm_ids: Option<Vec<Uuid>>,
    /// End of the session.
    pub ends_at: Timestamp,
}

/// Why a command on a sign-in was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SignInRejection {
    /// The session has begun.
    #[error("the session has begun")]
    Begun,
    /// The session has not begun, or has ended.
    #[error("the session is not open")]
    NotOpen,
}

domain_event!(SignInEvent { UserSignedIn, UserSignedOut });
aggregate!(SignIn, SignInCommand, SignInEvent, SignInRejection);

impl SignIn {
    /// Decides on the events that follow from a command.
    ///
    /// # Errors
    /// [`SignInRejection`].
    pub fn decide(&self, command: &SignInCommand) -> Result<Vec<SignInEvent>, SignInRejection> {
        match (command, self.state) {
            (SignInCommand::Begin(scope), SignInState::Unknown) => {
                Ok(vec![SignInEvent::UserSignedIn(scope.clone())])
            }
            (SignInCommand::Begin(_), _) => Err(SignInRejection::Begun),
            (SignInCommand::End { reason }, SignInState::Open) => {
                Ok(vec![SignInEvent::UserSignedOut { reason: reason.clone() }])
            }
            (SignInCommand::End { .. }, _) => Err(SignInRejection::NotOpen),
        }
    }

    fn absorb(&mut self, event: &SignInEvent) {
        self.state = match event {
            SignInEvent::UserSignedIn(_) => SignInState::Open,
            SignInEvent::UserSignedOut { .. } => SignInState::Ended,
        };
    }
}

/// A user as the provider vouches for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderUser {
    issuer: String,
    subject: String,
    name: String,
}

impl ProviderUser {
    /// The user with this subject. The first of the names that is a label is the name, and the
    /// subject if none is. `None` for a subject that no provider may give.
    #[must_use]
    pub fn new(issuer: &str, subject: &str, names: &[Option<&str>]) -> Option<Self> {
        if subject.is_empty() || check_label(subject, SUBJECT_MAX).is_err() {
            return None;
        }
        let name = names.iter().flatten().find_map(|name| trimmed_label(name, USER_NAME_MAX));
        Some(Self {
            issuer: issuer.to_owned(),
            subject: subject.to_owned(),
            name: name.unwrap_or(subject).to_owned(),
        })
    }

    /// The id: equal for equal issuer and subject, whatever the name.
    #[must_use]
    pub fn id(&self) -> Uuid {
        // No URL has a line feed, so no two pairs give one text.
        Uuid::new_v5(&USERS, format!("{}\n{}", self.issuer, self.subject).as_bytes())
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The scope of a session.
    #[must_use]
    pub fn session_scope(self, role: GrantedRole, ends_at: Timestamp) -> SignInScope {
        SignInScope {
            user_id: self.id(),
            issuer: self.issuer,
            subject: self.subject,
            name: self.name,
            role: role.role,
            firm_ids: role.firm_ids,
            ends_at,
        }
    }
}

/// The role that a value of the claim grants: `VALUE=auditor` or `VALUE=operator:FIRM+FIRM`. The
/// value may have percent-encoded characters (RFC 3986, section 2.1), as settings end a grant at a
/// comma.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoleGrant {
    value: String,
    granted: GrantedRole,
}

/// A role, and the firms that it reaches; `None` for all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrantedRole {
    /// Operator or auditor.
    pub role: HolderRole,
    /// The firms.
    pub firm_ids: Option<Vec<Uuid>>,
}

/// The text is no grant of a role.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "write VALUE=operator or VALUE=auditor, for some firms VALUE=auditor:FIRM+FIRM; a comma in VALUE \
     is %2C, a percent sign %25"
)]
pub struct NotARoleGrant;

impl FromStr for RoleGrant {
    type Err = NotARoleGrant;

    fn from_str(text: &str) -> Result<Self, NotARoleGrant> {
        // The value may have an equals sign, as in cn=operators.
        let (value, granted) = text.rsplit_once('=').ok_or(NotARoleGrant)?;
        let (role, firms) = match granted.split_once(':') {
            Some((role, firms)) => (role, Some(firms)),
            None => (granted, None),
        };
        let role = match role {
            "operator" => HolderRole::Operator,
            "auditor" => HolderRole::Auditor,
            _ => return Err(NotARoleGrant),
        };
        let firm_ids = firms.map(|firms| firms.split('+').map(Uuid::parse_str).collect());
        let firm_ids = firm_ids.transpose().map_err(|_| NotARoleGrant)?;
        let value = percent_decode_str(value.trim()).decode_utf8().map_err(|_| NotARoleGrant)?;
        if value.is_empty() {
            return Err(NotARoleGrant);
        }
        Ok(Self { value: value.into_owned(), granted: GrantedRole { role, firm_ids } })
    }
}

impl GrantedRole {
    /// The role of a user with these values of the claim. An operator's grant comes before an
    /// auditor's. Firms of several grants of one role are added up. Nobody has a role by default.
    #[must_use]
    pub fn new(grants: &[RoleGrant], values: &[String]) -> Option<Self> {
        let held = |role| {
            let of_role = grants
                .iter()
                .filter(move |grant| grant.granted.role == role && values.contains(&grant.value));
            of_role.map(|grant| grant.granted.clone()).reduce(Self::merged_with)
        };
        held(HolderRole::Operator).or_else(|| held(HolderRole::Auditor))
    }

    fn merged_with(mut self, other: Self) -> Self {
        self.firm_ids = match (self.firm_ids, other.firm_ids) {
            (Some(mut firms), Some(others)) => {
                firms.extend(others);
                firms.sort_unstable();
                firms.dedup();
                Some(firms)
            }
            _ => None,
        };
        self
    }
}

fn claim_value<'a>(claims: &'a Value, name: &str) -> Option<&'a Value> {
    let inside = || name.split('.').try_fold(claims, |object, part| object.get(part));
    claims.get(name).or_else(inside)
}

/// The values of a claim: a text, or the texts of a list. A name with dots leads into objects, if
/// no claim has the whole name.
#[must_use]
pub fn claim_values(claims: &Value, name: &str) -> Vec<String> {
    match claim_value(claims, name) {
        Some(Value::String(text)) => vec![text.clone()],
        Some(Value::Array(list)) => {
            list.iter().filter_map(|value| value.as_str().map(str::to_owned)).collect()
        }
        _ => Vec::new(),
    }
}

/// The values of a claim that may grant a role: all but addresses that the provider did not verify,
/// because at many providers users enter any address.
///
/// An address needs `email_verified: true`. A text of another claim than `email`, such as
/// `preferred_username`, must also be that address. A list names groups, which the provider keeps.
#[must_use]
pub fn proven_values(claims: &Value, name: &str) -> Vec<String> {
    let is_verified = claims.get("email_verified") == Some(&Value::Bool(true));
    let email = claims.get("email").and_then(Value::as_str);
    let is_list = claim_value(claims, name).is_some_and(Value::is_array);
    let is_proven = |value: &String| {
        let is_address = name == "email" || value.contains('@');
        !is_address || (is_verified && (is_list || email == Some(value)))
    };
    claim_values(claims, name).into_iter().filter(is_proven).collect()
}

/// Whether a person proved who it is a short time ago.
#[must_use]
pub fn is_fresh_proof(proven_at: Option<Timestamp>, now: Timestamp) -> bool {
    proven_at.is_some_and(|at| now.get() - at.get() <= PROOF_TIME)
}

#[cfg(test)]
mod tests {
    use super::*;
    use cqrs_es::test::TestFramework;
    use rstest::rstest;
    use serde_json::json;

    const FIRM: &str = "00000000-0000-0000-0000-000000000001";
    const OTHER: &str = "00000000-0000-0000-0000-000000000002";

    fn ann() -> ProviderUser {
        ProviderUser::new("https://id.example", "ann", &[None, Some(" Ann Lee ")]).unwrap()
    }

    #[test]
    fn a_session_begins_once_and_ends_once() {
        let role = GrantedRole { role: HolderRole::Auditor, firm_ids: None };
        let scope = ann().session_scope(role, "2026-11-01T20:00:00.000Z".parse().unwrap());
        let given = |events| TestFramework::<SignIn>::with(()).given(events);
        let begun = SignInEvent::UserSignedIn(scope.clone());
        let reason = Some("left the company".to_owned());
        let (end, ended) =
            (SignInCommand::End { reason: reason.clone() }, SignInEvent::UserSignedOut { reason });
        let begin = SignInCommand::Begin(scope);
        given(vec![]).when(begin.clone()).then_expect_events(vec![begun.clone()]);
        given(vec![begun.clone()]).when(begin).then_expect_error(SignInRejection::Begun);
        given(vec![]).when(end.clone()).then_expect_error(SignInRejection::NotOpen);
        let open = vec![begun.clone()];
        given(open).when(end.clone()).then_expect_events(vec![ended.clone()]);
        let over = vec![begun, ended];
        given(over).when(end).then_expect_error(SignInRejection::NotOpen);
    }

    #[test]
    fn a_stored_session_reads_back_as_itself() {
        let stored = json!({"UserSignedIn": {
            "user_id": FIRM, "issuer": "https://id.example", "subject": "ann", "name": "Ann Lee",
            "role": "operator", "firm_ids": [OTHER], "ends_at": "2026-11-01T20:00:00.000Z",
        }});
        let out = json!({"UserSignedOut": {}});
        let ended = json!({"UserSignedOut": {"reason": "left the company"}});
        for stored in [stored, out, ended] {
            let event: SignInEvent = serde_json::from_value(stored.clone()).unwrap();
            assert_eq!(serde_json::to_value(event).unwrap(), stored);
        }
    }

    /// The name is the first one that people can read.
    #[test]
    fn issuer_and_subject_make_the_user() {
        assert_eq!(ann().name(), "Ann Lee");
        let named = |names: &[Option<&str>]| ProviderUser::new("https://id.example", "ann", names);
        assert_eq!(named(&[]).unwrap().id(), ann().id());
        assert_eq!(
            named(&[Some("a\nb"), Some("ann@example.com")]).unwrap().name(),
            "ann@example.com"
        );
        assert_eq!(named(&[Some("")]).unwrap().name(), "ann");
        assert_ne!(ProviderUser::new("https://id2.example", "ann", &[]).unwrap().id(), ann().id());
        for subject in ["", "a\0b", &"a".repeat(256)] {
            assert_eq!(ProviderUser::new("https://id.example", subject, &[]), None);
        }
    }

    #[rstest]
    #[case("staff", "")]
    #[case("staff=", "")]
    #[case("=operator", "")]
    #[case("staff=product", "the console has no pages for the product")]
    #[case("staff=operator:", "")]
    #[case("staff=operator:harrow", "")]
    #[case("%FF=operator", "no UTF-8")]
    fn a_malformed_grant_is_refused(#[case] text: &str, #[case] why: &str) {
        assert_eq!(text.parse::<RoleGrant>(), Err(NotARoleGrant), "{why}");
    }

    #[rstest]
    #[case(&[], None)]
    #[case(&["guest"], None)]
    #[case(&["Ops"], None)]
    #[case(&["audit"], Some((HolderRole::Auditor, None)))]
    #[case(&["guest", "audit", "ops"], Some((HolderRole::Operator, None)))]
    #[case(&["one"], Some((HolderRole::Auditor, Some(&[FIRM][..]))))]
    #[case(&["two", "one"], Some((HolderRole::Auditor, Some(&[FIRM, OTHER][..]))))]
    #[case(&["one", "audit"], Some((HolderRole::Auditor, None)))]
    #[case(&["cn=x,o=y"], Some((HolderRole::Operator, Some(&[OTHER][..]))))]
    #[case(&["cn=x%2Co=y"], None)]
    #[case(&["100%"], Some((HolderRole::Auditor, None)))]
    fn only_a_known_value_grants_a_role(
        #[case] values: &[&str],
        #[case] expected: Option<(HolderRole, Option<&[&str]>)>,
    ) {
        let texts = [
            "ops=operator".to_owned(),
            "audit=auditor".to_owned(),
            format!("one=auditor:{FIRM}"),
            format!("two=auditor:{OTHER}+{FIRM}"),
            format!("cn=x%2Co=y=operator:{OTHER}"),
            "100%25=auditor".to_owned(),
        ];
        let grants: Vec<RoleGrant> = texts.iter().map(|text| text.parse().unwrap()).collect();
        let values: Vec<String> = values.iter().map(|value| (*value).to_owned()).collect();
        let expected = expected.map(|(role, firms)| GrantedRole {
            role,
            firm_ids: firms.map(|firms| firms.iter().map(|id| id.parse().unwrap()).collect()),
        });
        assert_eq!(GrantedRole::new(&grants, &values), expected);
    }

    #[rstest]
    #[case("groups", &["a", "b"])]
    #[case("role", &["ops"])]
    #[case("realm.roles", &["c"])]
    #[case("https://example.com/roles", &["d"])]
    #[case("number", &[])]
    #[case("nothing", &[])]
    #[case("role.ops", &[])]
    fn a_claim_is_one_text_or_several(#[case] name: &str, #[case] expected: &[&str]) {
        let claims = json!({
            "groups": ["a", 1, "b"], "role": "ops", "realm": {"roles": ["c"]}, "number": 3,
            "https://example.com/roles": "d",
        });
        assert_eq!(claim_values(&claims, name), expected);
    }

    /// An address that nobody had verified made an operator.
    #[rstest]
    #[case("email", json!({"email": "a@b.example", "email_verified": true}), 1)]
    #[case("email", json!({"email": "a@b.example", "email_verified": false}), 0)]
    #[case("email", json!({"email": "a@b.example", "email_verified": "true"}), 0)]
    #[case("email", json!({"email": "a@b.example"}), 0)]
    #[case("email", json!({"email": "ops"}), 0)]
    #[case("upn", json!({"upn": "ops"}), 1)]
    #[case("upn", json!({"upn": "a@b.example"}), 0)]
    #[case("upn", json!({"upn": "a@b.example", "email": "c@d.example", "email_verified": true}), 0)]
    #[case("upn", json!({"upn": "a@b.example", "email": "a@b.example", "email_verified": true}), 1)]
    #[case("groups", json!({"groups": ["ops", "ops@b.example"]}), 1)]
    #[case("groups", json!({"groups": ["ops", "ops@b.example"], "email_verified": true}), 2)]
    #[case("a.b", json!({"a": {"b": ["ops@b.example"]}, "email_verified": true}), 1)]
    fn an_unverified_address_grants_nothing(
        #[case] name: &str,
        #[case] claims: Value,
        #[case] proven: usize,
    ) {
        assert_eq!(proven_values(&claims, name).len(), proven, "{claims}");
    }

    #[test]
    fn a_proof_counts_for_15_minutes() {
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        let proven = Some(at("2026-11-01T12:00:00.000Z"));
        assert!(is_fresh_proof(proven, at("2026-11-01T12:15:00.000Z")));
        assert!(!is_fresh_proof(proven, at("2026-11-01T12:15:00.001Z")));
        assert!(!is_fresh_proof(None, at("2026-11-01T12:00:00.000Z")));
    }
}
