//! Operations on subscriptions.

use domain::subscription::TargetRefusal;
use serde_json::{Value, json};

use super::{
    Operation, OperationAccess, OperationCaching, RequestBody, SuccessAnswer, array_of, example,
    examples, link, path_id, reference,
};
use crate::Error;
use crate::openapi::headers;

pub(super) fn all() -> Vec<Operation> {
    vec![list(), create(), delete()]
}

fn list() -> Operation {
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
            examples: example(&json!([examples::hook()])),
            links: Value::Null,
        },
        refusals: vec![],
    }
}

fn create() -> Operation {
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
            schema: reference("Hook"),
            examples: example(&examples::hook()),
            links: json!({"Unsubscribe": link("deleteHook", "id", "/id", "The id unsubscribes.")}),
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

fn delete() -> Operation {
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
            schema: reference("Removed"),
            examples: example(&json!({"ok": true})),
            links: Value::Null,
        },
        refusals: vec![Error::NotFound],
    }
}
