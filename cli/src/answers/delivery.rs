//! `deliveries show`: one delivery with its attempts, and for a reason with its body and answers.

use api::Service;
use api::commands::contents::{self, DeliveryContents, ShownContent};
use api::commands::readings;
use api::commands::targets::{self, TargetReveal};
use api::queries::as_of;
use domain::delivery::Attempt;
use domain::operations::{ReadAs, ReadingDetails, ReadingSubject};
use domain::values::AsOf;
use projector::as_of::DeliveryThen;
use projector::deliveries::DeliveryRow;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::deliveries::args::{ContentArgs, DeliveryShowArgs};
use crate::deliveries::view::{
    BodyErasure, attempt_sentence, delivery_json, delivery_then, pause_by_delivery,
};
use crate::failure::terminal_error;
use crate::names::{self, NamedKind};
use crate::output::{Column, OutputArgs, RecordView, print_json, print_line};

const DELIVERY: RecordView = RecordView::new(&[
    Column::id("id"),
    Column::state("state"),
    Column::text("cause"),
    Column::id("trigger"),
    Column::id("hook_id"),
    Column::id("run_id"),
    Column::id("step_id"),
    Column::id("form_id"),
    Column::id("response_id"),
    Column::time("created_at"),
    Column::time("next_try_at"),
    Column::id("paused"),
    Column::id("reissue_of"),
    Column::id("body_sha256"),
    Column::text("erased"),
    Column::text("target"),
]);

/// Shows a delivery with its attempts, now or in the past. The reading is recorded first.
pub(crate) async fn run(service: &Service, asked: DeliveryShowArgs) -> anyhow::Result<()> {
    let DeliveryShowArgs { firm, delivery, as_of, reveal, contents, json, archive: _ } = asked;
    let pool = service.store.pool();
    let delivery_id = names::find_id(pool, NamedKind::Delivery, &delivery).await?;
    let firm_id = names::firm_of_delivery(pool, firm.as_deref(), delivery_id).await?;
    let as_of = names::as_of(as_of, service.clock.now());
    let until = match as_of {
        Some(as_of) => as_of::check(service, as_of).await.map_err(terminal_error)?,
        None => AsOf::NOW,
    };
    let found = as_of::delivery(service, firm_id, delivery_id, until).await;
    let (mut found, erased) = found.map_err(terminal_error)?;
    let erasure = if erased { BodyErasure::Erased } else { BodyErasure::Kept };
    let look = ReadingDetails {
        delivery_id: Some(delivery_id),
        ..ReadingDetails::at(ReadingSubject::Delivery, ReadAs::Page)
    };
    readings::record(service, firm_id, service.operator(), look).await.map_err(terminal_error)?;
    let mut target = None;
    if let Some(reason) = &reveal.show_target {
        let reveal = TargetReveal { firm_id, actor: service.operator(), reason };
        let whole = targets::of_delivery(service, reveal, &found.row).await;
        let whole = whole.map_err(terminal_error)?;
        found.show_target(&whole);
        target = Some(whole);
    }
    let mut item = if as_of.is_some() {
        delivery_then(&found.row, erasure)
    } else {
        let row = std::slice::from_ref(&found.row);
        delivery_json(&found.row, &pause_by_delivery(service, firm_id, row).await?)
    };
    if let Some(target) = target {
        item["target"] = target.into();
    }
    let shown = ShownDelivery::load_contents(service, firm_id, found, &contents).await?;
    shown.print(item, json, &contents);
    Ok(())
}

/// The attempts of a delivery, with the body and the answers as far as they are shown.
struct ShownDelivery {
    attempts: Vec<Attempt>,
    answers: Vec<ShownContent>,
    body: ShownContent,
}

impl ShownDelivery {
    async fn load_contents(
        service: &Service,
        firm_id: Uuid,
        DeliveryThen { row, attempts }: DeliveryThen,
        wish: &ContentArgs,
    ) -> anyhow::Result<Self> {
        let DeliveryRow { delivery_id, response_id, .. } = row;
        let actor = service.operator();
        let of = DeliveryContents { firm_id, delivery_id, response_id, attempts: &attempts, actor };
        let body =
            contents::show_body(service, of, wish.of_body()).await.map_err(terminal_error)?;
        let answers = contents::show_answers(service, of, wish.of_answers()).await;
        let answers = answers.map_err(terminal_error)?;
        Ok(Self { attempts, answers, body })
    }

    fn print(&self, mut item: Value, how: OutputArgs, wish: &ContentArgs) {
        let attempts = self.attempts.iter().zip(&self.answers);
        if how.json {
            item["body"] = json!(self.body);
            item["attempts"] = attempts.map(|(one, answer)| attempt_json(one, answer)).collect();
            return print_json(&item);
        }
        DELIVERY.print(how, &item);
        if how.quiet {
            return;
        }
        for (attempt, answer) in attempts {
            print_line(&attempt_sentence(attempt));
            if wish.answer {
                print_line(&format!("answer to try {}: {}", attempt.number, content_text(answer)));
            }
        }
        if wish.body {
            print_line(&format!("body: {}", content_text(&self.body)));
        }
    }
}

/// The text, or why there is none.
fn content_text(content: &ShownContent) -> String {
    match &content.text {
        Some(text) => text.clone(),
        None => format!("({})", json!(content.state).as_str().unwrap_or_default()),
    }
}

fn attempt_json(one: &Attempt, answer: &ShownContent) -> Value {
    json!({
        "number": one.number, "started_at": one.started_at, "finished_at": one.finished_at,
        "outcome": one.outcome, "status": one.status, "error": one.error,
        "retry_after_seconds": one.retry_after_seconds, "hops": one.hops,
        "late": one.late.is_some(), "answer": answer.text, "answer_state": answer.state,
    })
}
