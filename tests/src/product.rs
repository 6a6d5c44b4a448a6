//! Calls of the product: it reports activity and orders the steps of its workflows.

use axum::body::Body;
use axum::http::Request;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::activity::{activity, later};
use crate::answer::Answer;
use crate::firm::Firm;
use crate::world::World;

impl World {
    /// Reports activity by the internal door.
    pub async fn report(&self, events: &[Value]) -> Answer {
        self.report_by(self.token(), events).await
    }

    /// Reports activity by the internal door, as the holder of this token.
    pub async fn report_by(&self, token: &str, events: &[Value]) -> Answer {
        let request = Request::post("/internal/v1/activity")
            .header("authorization", format!("Bearer {token}"))
            .header("content-type", "application/cloudevents-batch+json")
            .body(Body::from(serde_json::to_vec(events).unwrap()))
            .unwrap();
        self.internal(request).await
    }

    /// Reports a submitted response; returns its id.
    pub async fn submit(&self, firm: &Firm) -> Uuid {
        let response_id = self.id();
        self.report_one(submitted(firm, response_id)).await;
        response_id
    }

    /// Reports one activity, which is taken in; the answer.
    pub async fn report_one(&self, event: Value) -> Answer {
        self.report(&[event]).await.ok()
    }

    /// Reports one second after noon that the firm is suspended.
    pub async fn suspend_firm(&self, firm: &Firm) {
        self.report_one(later(activity(firm.id, "firm.suspended", json!({})), 1)).await;
    }

    /// Reports one second after noon that the firm is closed.
    pub async fn close_firm(&self, firm: &Firm) {
        self.report_one(later(activity(firm.id, "firm.closed", json!({})), 1)).await;
    }

    /// Reports that a response is to be erased.
    pub async fn order_erasure(&self, firm: &Firm, response_id: Uuid) {
        let response = json!({ "response_id": response_id });
        self.report_one(activity(firm.id, "response.erased", response)).await;
    }

    /// A step that posts a submitted response to this URL, in a run of its own.
    #[must_use]
    pub fn step_order(&self, firm: &Firm, url: &str, response_id: Uuid) -> Value {
        json!({
            "firm_id": firm.id, "run_id": self.id(), "step_id": self.id(), "method": "POST",
            "url": url, "headers": {}, "trigger": "form_submitted", "response_id": response_id,
        })
    }

    /// Orders a step of a workflow.
    pub async fn order_step(&self, order: &Value) -> Answer {
        let request = Request::post("/internal/v1/workflow-steps");
        self.internal(request.body(Body::from(order.to_string())).unwrap()).await
    }
}

/// A response submitted to the firm's form.
#[must_use]
pub fn submitted(firm: &Firm, response_id: Uuid) -> Value {
    activity(firm.id, "response.submitted", response_data(response_id, firm.form))
}

fn response_data(response_id: Uuid, form_id: Uuid) -> Value {
    json!({
        "response_id": response_id, "form_id": form_id,
        "submitted_at": "2026-11-01T11:59:58.250Z",
        "device": "mobile", "lang": "fr", "ending": "default",
        "respondent": {"name": "Zoé Lefèvre", "first_name": "Zoé", "last_name": "Lefèvre",
                       "email": "zoe@example.com", "phone": "", "company": ""},
        "answers": [{"id": "q1", "question": "Pourquoi ?", "type": "long_text",
                     "answer": "Parce que… 🎉 \"oui\""}],
        "variables": {"score": 7}, "hidden": {"utm_source": "news"},
    })
}
