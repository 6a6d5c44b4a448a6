//! What the product reports in a run: a firm with its owner and form, and submitted responses.

use anyhow::bail;
use api::intake::CloudEvent;
use bytes::Bytes;
use domain::activity::Activity;
use domain::payload::{EventPayload, FormPart, PayloadSource};
use domain::trigger::Trigger;
use serde_json::{Value, json};
use uuid::Uuid;
use vault::{Entropy, SystemEntropy};

const FORM_TITLE: &str = "New client enquiry";
const FORM_URL: &str = "https://forms.example.com/harrow-lane/new-client-enquiry";
const AT: &str = "2026-10-12T09:30:00.000Z";

/// A firm, before it is reported.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Firm {
    pub(crate) id: Uuid,
    pub(crate) owner: Uuid,
    pub(crate) form: Uuid,
}

impl Firm {
    pub(crate) fn new() -> Self {
        Self { id: SystemEntropy.id(), owner: SystemEntropy.id(), form: SystemEntropy.id() }
    }

    /// The reports that bring it into being, as a batch.
    pub(crate) fn opening(self) -> Vec<u8> {
        let opened = json!({"name": "Harrow Lane", "plan": {"leads_in_full": true}});
        let joined = json!({"member_id": self.owner, "role": "owner"});
        batch(&[
            self.event("firm.opened", &opened),
            self.event("member.joined", &joined),
            self.event("form.created", &form(self.form, AT)),
        ])
    }

    /// So many forms more, a second apart, in batches of this many.
    pub(crate) fn forms(self, forms: usize, per_batch: usize) -> Vec<Vec<u8>> {
        let event = |number: usize| {
            let at = format!("2026-10-12T10:{:02}:{:02}.000Z", number / 60 % 60, number % 60);
            self.event("form.created", &form(SystemEntropy.id(), &at))
        };
        let all: Vec<Value> = (0..forms).map(event).collect();
        all.chunks(per_batch).map(batch).collect()
    }

    /// Submitted responses, in batches of this many.
    pub(crate) fn submissions(self, events: usize, per_batch: usize) -> Vec<Vec<u8>> {
        let all: Vec<Value> =
            (0..events).map(|_| self.event("response.submitted", &self.response())).collect();
        all.chunks(per_batch).map(batch).collect()
    }

    /// One report.
    pub(crate) fn event(self, kind: &str, data: &Value) -> Value {
        json!({
            "specversion": "1.0", "id": SystemEntropy.id(), "source": "urn:bench", "type": kind,
            "time": AT, "firmid": self.id, "data": data,
        })
    }

    fn response(self) -> Value {
        json!({
            "response_id": SystemEntropy.id(), "form_id": self.form, "submitted_at": AT,
            "device": "mobile", "lang": "en", "ending": "default",
            "respondent": {"name": "Zoë Lefèvre", "first_name": "Zoë", "last_name": "Lefèvre",
                           "email": "zoe@example.com", "phone": "+44 20 7946 0123",
                           "company": "Lefèvre & Daughters"},
            "answers": [
                {"id": "q1", "question": "What can we help you with?", "type": "long_text",
                 "answer": "We opened a second shop in spring and our books are a shoe box \
                            again… Can you take over from March? 🙂"},
                {"id": "q2", "question": "How many people work for you?", "type": "number",
                 "answer": "14"},
                {"id": "q3", "question": "Which services interest you?", "type": "multiple_choice",
                 "answer": "Bookkeeping, Payroll, Year-end accounts"},
            ],
            "variables": {"score": 72}, "hidden": {"referrer": "partner", "utm_source": "news"},
        })
    }
}

fn form(id: Uuid, created_at: &str) -> Value {
    json!({
        "form_id": id, "title": FORM_TITLE, "slug": "new-client-enquiry", "url": FORM_URL,
        "status": "published", "hidden_fields": [{"key": "referrer", "label": "Referred by"}],
        "created_at": created_at,
    })
}

fn batch(events: &[Value]) -> Vec<u8> {
    Value::from(events).to_string().into_bytes()
}

/// What a delivery about this submission sends.
pub(crate) fn body(event: &CloudEvent) -> anyhow::Result<Bytes> {
    let Activity::ResponseSubmitted(report) = &event.activity else {
        bail!("not a submission");
    };
    let payload = EventPayload::of(PayloadSource {
        trigger: Trigger::FormSubmitted,
        form: FormPart {
            id: report.form_id.into(),
            title: FORM_TITLE.to_owned(),
            url: FORM_URL.to_owned(),
        },
        response_id: report.response_id,
        submitted_at: report.at,
        document: &report.document,
        report: None,
        booking: None,
    });
    Ok(serde_json::to_vec(&payload)?.into())
}
