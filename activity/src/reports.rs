//! Reports on a response: written, perhaps sold, changed, approved, sent and opened.

use uuid::Uuid;

use super::event::{DAY, EventTeller, EventTime, HOUR, MINUTE, SECOND};
use super::responses::GeneratedResponse;
use super::words::{HIGHLIGHTS, SUMMARIES};

/// The state of a report.
#[derive(Clone, Copy)]
struct ReportStatus {
    status: &'static str,
    locked: bool,
}

/// A report between its first and its last event.
struct GeneratedReport<'a> {
    id: Uuid,
    response: &'a GeneratedResponse<'a>,
    summary: &'static str,
    highlights: &'static [&'static str],
}

/// Tells the report of a response. Four in ten have none.
pub(super) fn tell_report(
    teller: &mut EventTeller,
    response: &GeneratedResponse<'_>,
    submitted: EventTime,
) {
    if teller.random.per_mille(400) {
        return;
    }
    let random = &mut teller.random;
    let most = random.pick_index(HIGHLIGHTS.len() / 2 + 1);
    let highlights = &HIGHLIGHTS[most..most + random.pick_index(4)];
    let report = GeneratedReport {
        id: random.draw_id(),
        response,
        summary: random.pick_one(&SUMMARIES),
        highlights,
    };
    let written = submitted.after(random.draw_between(SECOND, 20 * SECOND));
    let draft = ReportStatus { status: "draft", locked: random.per_mille(250) };
    report.tell_state(teller, "report.created", draft, written);
    if draft.locked {
        report.tell_sale(teller, written);
    } else {
        report.tell_review(teller, draft, written);
    }
}

impl GeneratedReport<'_> {
    fn tell_state(
        &self,
        teller: &mut EventTeller,
        kind: &'static str,
        state: ReportStatus,
        at: EventTime,
    ) {
        let Self { id, response, summary, highlights } = *self;
        teller.tell(kind, at, |data| {
            data.plain_text("report_id", id).plain_text("response_id", response.id);
            data.text("title", response.form.template.title).text("status", state.status);
            data.text("summary", summary).texts("highlights", highlights);
            data.text("review_url", &format!("https://forms.example.com/reports/{id}"));
            data.bare_value("locked", state.locked);
        });
    }

    /// Sells a locked report, then reviews it. Most people pay; the others' report stays locked.
    fn tell_sale(&self, teller: &mut EventTeller, written: EventTime) {
        let paid = written.after(teller.random.draw_between(MINUTE, 2 * DAY));
        if teller.random.per_mille(350) {
            let locked = ReportStatus { status: "draft", locked: true };
            return self.tell_review(teller, locked, paid);
        }
        let bought = PaidItem { report: Some(self.id), booking: None };
        tell_payment(teller, self.response, bought, paid);
        let unlocked = paid.after(teller.random.draw_between(SECOND, MINUTE));
        let open = ReportStatus { status: "draft", locked: false };
        self.tell_state(teller, "report.changed", open, unlocked);
        self.tell_review(teller, open, unlocked);
    }

    fn tell_review(&self, teller: &mut EventTeller, draft: ReportStatus, now: EventTime) {
        let changed = now.after(teller.random.draw_between(MINUTE, DAY));
        if teller.random.per_mille(350) {
            let state = ReportStatus { status: "in_review", ..draft };
            self.tell_state(teller, "report.changed", state, changed);
        }
        if teller.random.per_mille(250) {
            return;
        }
        let approved = changed.after(teller.random.draw_between(MINUTE, 8 * HOUR));
        self.tell_moved(teller, "report.approved", approved);
        let sent = approved.after(teller.random.draw_between(SECOND, HOUR));
        self.tell_moved(teller, "report.sent", sent);
        if teller.random.per_mille(600) {
            let opened = sent.after(teller.random.draw_between(MINUTE, 4 * DAY));
            self.tell_moved(teller, "report.opened", opened);
        }
    }

    fn tell_moved(&self, teller: &mut EventTeller, kind: &'static str, at: EventTime) {
        teller.tell(kind, at.after(50), |data| {
            data.plain_text("report_id", self.id).plain_text("at", at);
        });
    }
}

/// The paid report or booking.
#[derive(Clone, Copy)]
pub(super) struct PaidItem {
    pub(super) report: Option<Uuid>,
    pub(super) booking: Option<Uuid>,
}

/// Tells a payment.
pub(super) fn tell_payment(
    teller: &mut EventTeller,
    response: &GeneratedResponse<'_>,
    bought: PaidItem,
    at: EventTime,
) {
    let payment = teller.random.draw_id();
    let amount = 1_900 + 500 * teller.random.draw_below(60);
    let currency = if response.firm.home.lang == "en" { "GBP" } else { "EUR" };
    teller.tell("payment.received", at.after(300), |data| {
        data.plain_text("payment_id", payment).plain_text("response_id", response.id);
        if let Some(report) = bought.report {
            data.plain_text("report_id", report);
        }
        if let Some(booking) = bought.booking {
            data.plain_text("booking_id", booking);
        }
        data.bare_value("amount", amount).text("currency", currency).plain_text("at", at);
    });
}
