//! Operations on the caller itself and on the description.

use serde_json::{Value, json};

use super::{
    Operation, OperationAccess, OperationCaching, SuccessAnswer, examples, only_example,
    schema_reference,
};

pub(super) fn all() -> Vec<Operation> {
    vec![show_me(), show_description()]
}

fn show_me() -> Operation {
    Operation {
        method: "get",
        path: "/me",
        id: "getMe",
        tag: "Account",
        summary: "Test a key",
        description: "Tells which firm and key it is.",
        access: OperationAccess::Keyed,
        caching: OperationCaching::None,
        parameters: vec![],
        body: None,
        success: SuccessAnswer {
            status: 200,
            description: "The firm and the key.",
            schema: schema_reference("Me"),
            examples: only_example(&examples::me()),
            links: Value::Null,
        },
        refusals: vec![],
    }
}

fn show_description() -> Operation {
    Operation {
        method: "get",
        path: "/openapi.json",
        id: "getDescription",
        tag: "Description",
        summary: "Read this description",
        description: "Needs no key, and answers whatever became of the firm. Web pages of any origin may \
            read it.",
        access: OperationAccess::Open,
        caching: OperationCaching::ByTag,
        parameters: vec![],
        body: None,
        success: SuccessAnswer {
            status: 200,
            description: "This document.",
            schema: json!({
                "type": "object",
                "description": "An OpenAPI 3.1 description.",
                "required": ["openapi", "info", "paths"],
                "properties": {
                    "openapi": {"type": "string", "pattern": r"^3\.1\."},
                    "info": {
                        "type": "object",
                        "required": ["title", "version"],
                        "properties": {"title": {"type": "string"}, "version": {"type": "string"}},
                    },
                    "paths": {"type": "object"},
                },
            }),
            examples: json!({"shortened": {"value": {
                "openapi": "3.1.0",
                "info": {"title": "Firm Forms Integration API", "version": super::super::VERSION},
                "paths": {},
            }}}),
            links: Value::Null,
        },
        refusals: vec![],
    }
}
