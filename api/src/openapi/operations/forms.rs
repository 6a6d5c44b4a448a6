//! Operations on forms, links and invites.

use projector::forms::LISTED_FORMS_MAX;
use serde_json::{Value, json};

use super::{
    Operation, OperationAccess, OperationCaching, RequestBody, SuccessAnswer, answer_link,
    array_of, examples, only_example, path_id, schema_reference,
};
use crate::Error;

pub(super) fn all() -> Vec<Operation> {
    vec![list_forms(), show_form(), create_link(), send_form()]
}

fn form_id() -> Value {
    path_id("The form.", examples::FORM_ID)
}

fn list_forms() -> Operation {
    let of_newest = |operation, why| answer_link(operation, "id", "/0/id", why);
    let mut schema = array_of("Form");
    schema["maxItems"] = json!(LISTED_FORMS_MAX);
    Operation {
        method: "get",
        path: "/forms",
        id: "listForms",
        tag: "Forms",
        summary: "List forms",
        description: "The newest 500 forms, newest first, drafts included. There is no pagination.",
        access: OperationAccess::Keyed,
        caching: OperationCaching::ByTag,
        parameters: vec![],
        body: None,
        success: SuccessAnswer {
            status: 200,
            description: "The forms.",
            schema,
            examples: only_example(&json!([examples::form()])),
            links: json!({
                "Form": of_newest("getForm", "An id names a form."),
                "Link": of_newest("createLink", "An id names a form to link to."),
                "Send": of_newest("sendForm", "An id names a form to send."),
            }),
        },
        refusals: vec![],
    }
}

fn show_form() -> Operation {
    Operation {
        method: "get",
        path: "/forms/{id}",
        id: "getForm",
        tag: "Forms",
        summary: "Show a form",
        description: "One form, with the hidden fields that its link accepts.",
        access: OperationAccess::Keyed,
        caching: OperationCaching::None,
        parameters: vec![form_id()],
        body: None,
        success: SuccessAnswer {
            status: 200,
            description: "The form.",
            schema: schema_reference("Form"),
            examples: only_example(&examples::form()),
            links: Value::Null,
        },
        refusals: vec![Error::FormNotFound],
    }
}

fn create_link() -> Operation {
    Operation {
        method: "post",
        path: "/forms/{id}/links",
        id: "createLink",
        tag: "Forms",
        summary: "Build a prefilled link",
        description: "Nothing is stored and nothing is sent. Without a body the link is the form's \
            own address.",
        access: OperationAccess::Keyed,
        caching: OperationCaching::None,
        parameters: vec![form_id()],
        body: Some(RequestBody {
            required: false,
            schema: "NewLink",
            example: json!({"hidden": {"partner": "Northwind", "utm_source": "newsletter"},
                            "lang": "fr"}),
        }),
        success: SuccessAnswer {
            status: 201,
            description: "The link, and what became of the hidden values.",
            schema: schema_reference("PrefilledLink"),
            examples: only_example(&examples::link()),
            links: Value::Null,
        },
        refusals: vec![invalid_request(), Error::FormNotFound],
    }
}

fn send_form() -> Operation {
    Operation {
        method: "post",
        path: "/forms/{id}/send",
        id: "sendForm",
        tag: "Forms",
        summary: "Send a form invite",
        description: "Emails a link to a published form, in the firm's branding. A firm has 300 \
            invites per UTC day, a person one per form and day. A skipped invite is no error and \
            must not be retried.",
        access: OperationAccess::Keyed,
        caching: OperationCaching::None,
        parameters: vec![form_id()],
        body: Some(RequestBody {
            required: true,
            schema: "NewInvite",
            example: json!({"email": "ann@example.com", "name": "Ann Smith",
                            "message": "As agreed on the phone."}),
        }),
        success: SuccessAnswer {
            status: 202,
            description: "The invite was sent, or skipped for a `reason`.",
            schema: schema_reference("FormInvite"),
            examples: json!({
                "sent": {"value": examples::sent()},
                "skipped": {"value": examples::skipped()},
            }),
            links: Value::Null,
        },
        refusals: vec![
            invalid_request(),
            Error::FormNotFound,
            Error::FormNotPublished,
            Error::InviteLimitReached(43_200),
            Error::SendFailed,
        ],
    }
}

fn invalid_request() -> Error {
    Error::invalid("the body has a property that this endpoint does not take")
}
