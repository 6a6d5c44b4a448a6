//! One operation, and its form in OpenAPI.

use serde_json::{Value, json};

use super::{either_key, errors, headers};
use crate::Error;

/// Callers that an operation admits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OperationAccess {
    /// The holder of a key of an active firm.
    Keyed,
    /// Any caller.
    Open,
}

/// Whether a caller can ask for content only if it has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OperationCaching {
    /// The content is always sent.
    None,
    /// By `ETag` and `If-None-Match`.
    ByTag,
}

/// An operation of the description.
pub(super) struct Operation {
    pub(super) method: &'static str,
    /// Below `/api/v1`.
    pub(super) path: &'static str,
    pub(super) id: &'static str,
    pub(super) tag: &'static str,
    pub(super) summary: &'static str,
    pub(super) description: &'static str,
    pub(super) access: OperationAccess,
    pub(super) caching: OperationCaching,
    pub(super) parameters: Vec<Value>,
    pub(super) body: Option<RequestBody>,
    pub(super) success: SuccessAnswer,
    /// Refusals of this operation, beside those that every operation has.
    pub(super) refusals: Vec<Error>,
}

/// The body of a request.
pub(super) struct RequestBody {
    pub(super) required: bool,
    /// Name of the body's schema.
    pub(super) schema: &'static str,
    pub(super) example: Value,
}

/// The answer to a successful call.
pub(super) struct SuccessAnswer {
    pub(super) status: u16,
    pub(super) description: &'static str,
    pub(super) schema: Value,
    /// Examples by name.
    pub(super) examples: Value,
    /// Operations that take an id of the answer.
    pub(super) links: Value,
}

impl Operation {
    /// Every refusal of the operation (ruling 1).
    pub(super) fn all_refusals(&self) -> Vec<Error> {
        [self.refusals.clone(), self.common_refusals()].concat()
    }

    /// Refusals that every operation of this kind has.
    pub(super) fn common_refusals(&self) -> Vec<Error> {
        let mut refusals = vec![Error::MethodNotAllowed, Error::HeadTooLarge];
        if self.access == OperationAccess::Keyed {
            refusals.extend([
                Error::Unauthorized,
                Error::FirmInactive,
                Error::RateLimited(17),
                Error::Internal(String::new()),
                Error::Unavailable(String::new()),
            ]);
        }
        if self.body.is_some() {
            refusals.push(Error::BodyTooLarge);
        }
        refusals
    }

    pub(super) fn describe(&self) -> Value {
        let mut described = json!({
            "operationId": self.id,
            "summary": self.summary,
            "description": self.description,
            "tags": [self.tag],
            "security": match self.access {
                OperationAccess::Keyed => either_key(),
                OperationAccess::Open => json!([]),
            },
            "responses": errors::references(&self.all_refusals()),
        });
        let mut success = self.success.describe();
        success["headers"] = json!(headers::of_success(self));
        let mut parameters = self.parameters.clone();
        if self.caching == OperationCaching::ByTag {
            described["responses"]["304"] = json!({
                "description": "The caller has this content already.",
                "headers": success["headers"],
            });
            parameters.push(headers::parameter("IfNoneMatch"));
        }
        parameters.push(headers::parameter("RequestId"));
        described["responses"][self.success.status.to_string()] = success;
        described["parameters"] = json!(parameters);
        if let Some(body) = &self.body {
            described["requestBody"] = body.describe();
        }
        described
    }
}

impl RequestBody {
    fn describe(&self) -> Value {
        json!({
            "required": self.required,
            "content": {"application/json": {
                "schema": schema_reference(self.schema),
                "example": self.example,
            }},
        })
    }
}

impl SuccessAnswer {
    fn describe(&self) -> Value {
        let mut described = json!({
            "description": self.description,
            "content": {"application/json": {"schema": self.schema, "examples": self.examples}},
        });
        if !self.links.is_null() {
            described["links"] = self.links.clone();
        }
        described
    }
}

/// A schema of the components, by name.
pub(super) fn schema_reference(schema: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{schema}")})
}

/// An array of a schema of the components.
pub(super) fn array_of(schema: &str) -> Value {
    json!({"type": "array", "items": schema_reference(schema)})
}

/// The only example.
pub(super) fn only_example(value: &Value) -> Value {
    json!({"example": {"value": value}})
}
