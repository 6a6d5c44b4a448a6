//! Questions of operators and auditors: each has one call of the internal API and one command.

mod access;
mod commands;
mod contents;
mod events;
mod hook_tests;
mod inventory;
mod people;
mod receivers;
mod stats;
mod why;

use api::commands::tokens::{self, HolderRole};
use axum::body::Body;
use axum::http::Request;
use domain::access::TokenScope;
use serde_json::Value;
use tests::{Answer, Firm, World};
use uuid::Uuid;

use tests::process::firmforms;

/// A world with a firm, and tokens of an operator and an auditor.
struct Desk {
    world: World,
    firm: Firm,
    operator: String,
    auditor: String,
}

impl Desk {
    async fn new() -> Self {
        Self::on(World::new().await).await
    }

    async fn on(world: World) -> Self {
        let firm = world.firm().await;
        let token = async |role: HolderRole| {
            tokens::create(world.service(), role.name(), role).await.unwrap().token
        };
        let (operator, auditor) =
            (token(HolderRole::Operator).await, token(HolderRole::Auditor).await);
        Self { world, firm, operator, auditor }
    }

    /// A token of this role for all firms.
    async fn token(&self, role: HolderRole) -> String {
        tokens::create(self.world.service(), role.name(), role).await.unwrap().token
    }

    /// A token of an operator for these firms alone.
    async fn limited(&self, firm_ids: Vec<Uuid>) -> String {
        let (name, role) = ("limited".to_owned(), HolderRole::Operator);
        let scope = TokenScope { name, role, expires_at: None, firm_ids: Some(firm_ids) };
        tokens::create_limited(self.world.service(), scope).await.unwrap().token
    }

    async fn get(&self, token: &str, path: &str) -> Answer {
        self.call("GET", token, path, Value::Null).await
    }

    async fn call(&self, method: &str, token: &str, path: &str, body: Value) -> Answer {
        let body = if body.is_null() { Body::empty() } else { Body::from(body.to_string()) };
        let request = Request::builder()
            .method(method)
            .uri(format!("/internal/v1{path}"))
            .header("authorization", format!("Bearer {token}"))
            .header("content-type", "application/json");
        self.world.internal(request.body(body).unwrap()).await
    }

    /// The answer to an auditor.
    async fn ask(&self, path: &str) -> Value {
        let answer = self.get(&self.auditor, path).await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        answer.body
    }

    /// The answer about the firm to an auditor.
    async fn ask_firm(&self, path: &str) -> Value {
        self.ask(&format!("/firms/{}{path}", self.firm.id)).await
    }

    /// The action and reason of the firm's last audit entry.
    async fn last_entry(&self) -> (String, Option<String>, Value) {
        self.world.project().await;
        sqlx::query_as(
            "select action, reason, evidence from audit_log where firm_id = $1
              order by sequence desc limit 1",
        )
        .bind(self.firm.id)
        .fetch_one(self.world.pool())
        .await
        .unwrap()
    }

    /// The exit code, the output and the errors of a command.
    async fn run(&self, arguments: &[&str]) -> (i32, String, String) {
        let mut command = firmforms(&self.world.database);
        let output = command.args(arguments).output().await.unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
    }
}

/// The ids in a list.
fn ids(list: &Value) -> Vec<Uuid> {
    let items = list["items"].as_array().or_else(|| list.as_array()).unwrap();
    items.iter().map(|item| item["id"].as_str().unwrap().parse().unwrap()).collect()
}
