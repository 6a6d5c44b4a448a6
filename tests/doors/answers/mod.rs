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
        let operator = world.new_token(HolderRole::Operator).await;
        let auditor = world.new_token(HolderRole::Auditor).await;
        Self { world, firm, operator, auditor }
    }

    /// A token of this role for all firms.
    async fn token(&self, role: HolderRole) -> String {
        self.world.new_token(role).await
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
        self.world.call_internally(token, method, path, body).await
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
        let last = self.world.audit_entries(self.firm.id).await.pop().unwrap();
        (last.action, last.reason, last.evidence)
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
