//! Operations on subscriptions.

use domain::subscription::TargetRefusal;
use serde_json::{Value, json};

use super::{
    Operation, OperationAccess, OperationCaching, RequestBody, SuccessAnswer, answer_link,
    array_of, examples, only_example, path_id, schema_reference,
};
use crate::Error;
use crate::openapi::headers;

pub(super) fn all() -> Vec<Operation> {
    vec![list_hooks(), create_hook(), delete_hook()]
}

fn list_hooks() -> Operation {
    Operation {
        method: "get",
        path: "/hooks",
        id: "listHooks",
        tag: "Hooks",
        summary: "List subscriptions",
        description: "The subscriptions made with this key, newest first.",
        access: OperationAccess::Keyed,
        caching: OperationCaching::None,
        parameters: vec![],
        body: None,
        success: SuccessAnswer {
            status: 200,
            description: "The subscriptions.",
            schema: array_of("Hook"),
            examples: only_example(&json!([examples::hook()])),
            links: Value::Null,
        },
        refusals: vec![],
    }
}

fn create_hook() -> Operation {
    Operation {
        method: "post",
        path: "/hooks",
        id: "createHook",
        tag: "Hooks",
        summary: "Subscribe a URL to a trigger",
        description: "From now on every matching event is sent to the URL, signed. The address of \
            `target_url` is checked again at every delivery. Two calls make two \
            subscriptions, unless both have one `Idempotency-Key`. A firm has 100 at most.",
        access: OperationAccess::Keyed,
        caching: OperationCaching::None,
        parameters: vec![headers::parameter("IdempotencyKey")],
        body: Some(RequestBody {
            required: true,
            schema: "NewHook",
            example: json!({"trigger": "form_submitted",
                            "target_url": "https://hooks.example.com/catch"}),
        }),
        success: SuccessAnswer {
            status: 201,
            description: "The subscription. Keep its id to unsubscribe.",
            schema: schema_reference("Hook"),
            examples: only_example(&examples::hook()),
            links: json!({"Unsubscribe": answer_link("deleteHook", "id", "/id", "The id unsubscribes.")}),
        },
        refusals: vec![
            Error::invalid("`trigger` is missing"),
            Error::UnknownTrigger,
            Error::InvalidTarget(TargetRefusal::NotHttps),
            Error::FormNotFound,
            Error::IdempotencyConflict,
            Error::TooManyHooks,
        ],
    }
}

fn delete_hook() -> Operation {
    Operation {
        method: "delete",
        path: "/hooks/{id}",
        id: "deleteHook",
        tag: "Hooks",
        summary: "Unsubscribe",
        description: "Removes a subscription made with this key, and its queued deliveries.",
        access: OperationAccess::Keyed,
        caching: OperationCaching::None,
        parameters: vec![path_id("The subscription.", examples::HOOK_ID)],
        body: None,
        success: SuccessAnswer {
            status: 200,
            description: "It is removed.",
            schema: schema_reference("Removed"),
            examples: only_example(&json!({"ok": true})),
            links: Value::Null,
        },
        refusals: vec![Error::NotFound],
    }
}
