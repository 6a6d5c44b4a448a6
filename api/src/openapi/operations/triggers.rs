//! Operations on triggers.

use domain::subscription::Trigger;
use serde_json::{Value, json};

use super::{
    Operation, OperationAccess, OperationCaching, SuccessAnswer, answer_link, array_of, examples,
    only_example, schema_reference,
};
use crate::Error;

pub(super) fn all() -> Vec<Operation> {
    vec![list_triggers(), show_sample()]
}

fn list_triggers() -> Operation {
    Operation {
        method: "get",
        path: "/triggers",
        id: "listTriggers",
        tag: "Triggers",
        summary: "List triggers",
        description: "One per trigger that the firm's plan lets it subscribe to. A new one can appear \
            without a new version of the API.",
        access: OperationAccess::Keyed,
        caching: OperationCaching::None,
        parameters: vec![],
        body: None,
        success: SuccessAnswer {
            status: 200,
            description: "The triggers.",
            schema: array_of("Trigger"),
            examples: only_example(&json!([examples::trigger()])),
            links: json!({"Sample": answer_link(
                "getSample", "trigger", "/0/key", "A key names a trigger's sample.",
            )}),
        },
        refusals: vec![],
    }
}

fn show_sample() -> Operation {
    Operation {
        method: "get",
        path: "/triggers/{trigger}/sample",
        id: "getSample",
        tag: "Triggers",
        summary: "Show a sample event",
        description: "An event in the shape of a delivery, built from the firm's latest submission, or \
            made up when there is none. What the trigger implies and the submission lacks is made up.",
        access: OperationAccess::Keyed,
        caching: OperationCaching::None,
        parameters: vec![trigger_parameter(), form_id()],
        body: None,
        success: SuccessAnswer {
            status: 200,
            description: "Exactly one event.",
            schema: one_event(),
            examples: only_example(&json!([examples::event(Trigger::FormSubmitted)])),
            links: Value::Null,
        },
        refusals: vec![Error::NoSuchTrigger, Error::FormNotFound],
    }
}

fn trigger_parameter() -> Value {
    json!({
        "name": "trigger",
        "in": "path",
        "required": true,
        "description": "The trigger's key. More than these can appear: `GET /triggers` lists them.",
        "schema": schema_reference("TriggerKey"),
        "example": Trigger::FormSubmitted.key(),
    })
}

fn form_id() -> Value {
    json!({
        "name": "form_id",
        "in": "query",
        "required": false,
        "description": "Only this form's submissions. Sent twice, or empty, it names no form.",
        "schema": schema_reference("Id"),
        "example": examples::FORM_ID,
    })
}

fn one_event() -> Value {
    let mut event = array_of("EventPayload");
    event["minItems"] = json!(1);
    event["maxItems"] = json!(1);
    event
}
