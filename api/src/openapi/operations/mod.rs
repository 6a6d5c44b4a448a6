//! The operations of the public API, by subject (contract, section Endpoints).

mod forms;
mod hooks;
mod service;
mod triggers;

use serde_json::{Value, json};

use super::operation::{
    Operation, OperationAccess, OperationCaching, RequestBody, SuccessAnswer, array_of,
    only_example, schema_reference,
};
use super::schemas::examples;

/// All operations.
pub(super) fn all() -> Vec<Operation> {
    [service::all(), triggers::all(), forms::all(), hooks::all()].into_iter().flatten().collect()
}

/// An id in the path. A malformed id gets the same answer as an unknown one (ruling 6).
fn path_id(description: &str, example: &str) -> Value {
    json!({
        "name": "id",
        "in": "path",
        "required": true,
        "description": description,
        "schema": schema_reference("Id"),
        "example": example,
    })
}

/// A link from an answer's id to another operation.
fn answer_link(operation: &str, parameter: &str, pointer: &str, description: &str) -> Value {
    json!({
        "operationId": operation,
        "parameters": {parameter: format!("$response.body#{pointer}")},
        "description": description,
    })
}
