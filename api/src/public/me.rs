//! `GET /me`: the caller's firm and key.

use axum::Json;
use serde::Serialize;
use uuid::Uuid;

use super::Caller;

/// The contract's Me.
#[derive(Debug, Serialize)]
pub(super) struct Me {
    firm: MeFirm,
    key: MeKey,
}

#[derive(Debug, Serialize)]
struct MeFirm {
    id: Uuid,
    name: String,
}

#[derive(Debug, Serialize)]
struct MeKey {
    id: Uuid,
    name: String,
    prefix: String,
}

/// Answers from the caller alone, without another statement.
pub(super) async fn show(caller: Caller) -> Json<Me> {
    Json(caller.into())
}

impl From<Caller> for Me {
    fn from(caller: Caller) -> Self {
        Self {
            firm: MeFirm { id: caller.firm_id, name: caller.firm_name },
            key: MeKey { id: caller.key_id, name: caller.key_name, prefix: caller.key_prefix },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::public::caller::tests::caller;

    #[test]
    fn me_is_the_contracts() {
        assert_eq!(
            serde_json::to_string(&Me::from(caller())).unwrap(),
            concat!(
                r#"{"firm":{"id":"00000000-0000-0000-0000-000000000002","name":"Müller & Co"},"#,
                r#""key":{"id":"00000000-0000-0000-0000-000000000001","name":"Zapier","#,
                r#""prefix":"ffk_AAAAAAAA"}}"#,
            )
        );
    }
}
