//! Traces: a trace leads from a request, over the events that it appended, to the attempts. The
//! trace context lies in the metadata of events and in the outbox, so a trace outlives processes.
//!
//! Exported spans are `tracing` spans with a target of their own. Without an exporter for that
//! target no span is made, and the incoming trace context is passed on unchanged.

use domain::event::Traceparent;
use opentelemetry::Context;
use opentelemetry::trace::{SpanContext, SpanId, TraceContextExt, TraceFlags, TraceId, TraceState};
use tracing::field::Empty;
use tracing::{Span, info_span};
use tracing_opentelemetry::OpenTelemetrySpanExt;

use crate::request_id::current_request_id;

/// The target of all exported spans. No other span has this target.
pub const SPAN_TARGET: &str = "firmforms::trace";

tokio::task_local! {
    static TRACEPARENT: Traceparent;
}

/// The trace context of the current task, if there is one.
#[must_use]
pub fn current_traceparent() -> Option<Traceparent> {
    TRACEPARENT.try_with(|traceparent| *traceparent).ok()
}

/// Runs `work` under this trace context. With `None`, a context that is already set stays.
pub async fn with_traceparent<W: Future>(traceparent: Option<Traceparent>, work: W) -> W::Output {
    match traceparent {
        Some(traceparent) => TRACEPARENT.scope(traceparent, work).await,
        None => work.await,
    }
}

/// The caller's trace context, and whether the caller is trusted with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallerTrace {
    /// The caller is our own product. The call becomes a part of the product's trace.
    Ours(Option<Traceparent>),
    /// The caller is a stranger. The call gets a trace of its own, with a link to the stranger's.
    /// So a stranger cannot decide which traces are kept.
    Theirs(Option<Traceparent>),
}

/// The call's data for its span. The route is a template, never the requested path.
#[derive(Debug, Clone, Copy)]
pub struct TracedCall<'a> {
    /// `public` or `internal`.
    pub door: &'static str,
    /// A method of the HTTP standard, or `other`.
    pub method: &'static str,
    /// The route's template; `None` for a path without a route.
    pub route: Option<&'a str>,
}

/// A unit of work with its trace context. Dropping the value ends the span.
#[derive(Debug)]
pub struct TraceSpan {
    span: Span,
    traceparent: Option<Traceparent>,
}

impl TraceSpan {
    /// Begins the span of one call, from its head to its answer.
    #[must_use]
    pub fn call(TracedCall { door, method, route }: TracedCall, cause: CallerTrace) -> Self {
        let span = info_span!(
            target: SPAN_TARGET, parent: None, "call", otel.kind = "server", otel.name = Empty,
            otel.status_code = Empty, door, http.request.method = method, http.route = route,
            http.response.status_code = Empty, request_id = Empty
        );
        if !span.is_disabled() {
            let name = format!("{method} {}", route.unwrap_or("unknown"));
            span.record("otel.name", name);
            if let Some(id) = current_request_id() {
                span.record("request_id", id.as_str());
            }
        }
        match cause {
            CallerTrace::Ours(parent) => Self::part_of(parent, span),
            CallerTrace::Theirs(linked) => {
                if let Some(linked) = linked.filter(|_| !span.is_disabled()) {
                    span.add_link(span_context(linked));
                }
                Self::part_of(None, span)
            }
        }
    }

    /// Begins the span of one attempt, from the claim to the answer.
    #[must_use]
    pub fn attempt(parent: Option<Traceparent>, number: u32) -> Self {
        let span = parent.map_or_else(Span::none, |_| {
            info_span!(
                target: SPAN_TARGET, parent: None, "attempt", otel.kind = "client",
                otel.status_code = Empty, number, class = Empty,
                http.response.status_code = Empty
            )
        });
        Self::part_of(parent, span)
    }

    fn part_of(parent: Option<Traceparent>, span: Span) -> Self {
        if span.is_disabled() {
            return Self { span, traceparent: parent };
        }
        if let Some(parent) = parent {
            let remote = Context::new().with_remote_span_context(span_context(parent));
            // This fails only where no exporter's layer listens. The span is then not exported.
            let _ = span.set_parent(remote);
        }
        let traceparent = traceparent_of(span.context().span().span_context()).or(parent);
        Self { span, traceparent }
    }

    /// The span's trace context, if there is one.
    #[must_use]
    pub const fn traceparent(&self) -> Option<Traceparent> {
        self.traceparent
    }

    /// Records the status of the call's answer.
    pub fn record_status(&self, status: u16) {
        self.span.record("http.response.status_code", status);
        if status >= 500 {
            self.span.record("otel.status_code", "ERROR");
        }
    }

    /// Records the outcome of the attempt: its class, and the status if there was an answer.
    pub fn record_outcome(&self, class: &'static str, status: Option<u16>) {
        self.span.record("class", class);
        if let Some(status) = status {
            self.span.record("http.response.status_code", status);
        }
        if class != "2xx" {
            self.span.record("otel.status_code", "ERROR");
        }
    }
}

fn span_context(traceparent: Traceparent) -> SpanContext {
    let flags = if traceparent.sampled { TraceFlags::SAMPLED } else { TraceFlags::NOT_SAMPLED };
    SpanContext::new(
        TraceId::from_bytes(traceparent.trace_id),
        SpanId::from_bytes(traceparent.parent_id),
        flags,
        true,
        TraceState::NONE,
    )
}

fn traceparent_of(of: &SpanContext) -> Option<Traceparent> {
    of.is_valid().then(|| Traceparent {
        trace_id: of.trace_id().to_bytes(),
        parent_id: of.span_id().to_bytes(),
        sampled: of.is_sampled(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given() -> Option<Traceparent> {
        Some(Traceparent { trace_id: [1; 16], parent_id: [2; 8], sampled: true })
    }

    /// The trace context of our own caller is passed on, and the stranger's is not.
    #[test]
    fn h4_without_listeners_no_span_is_made() {
        let call = TracedCall { door: "internal", method: "POST", route: None };
        let ours = TraceSpan::call(call, CallerTrace::Ours(given()));
        assert_eq!((ours.span.is_disabled(), ours.traceparent()), (true, given()));
        let theirs = TraceSpan::call(call, CallerTrace::Theirs(given()));
        assert_eq!((theirs.span.is_disabled(), theirs.traceparent()), (true, None));
        assert_eq!(TraceSpan::attempt(None, 1).traceparent(), None);
    }

    #[tokio::test]
    async fn h4_only_a_task_knows_its_trace() {
        assert_eq!(current_traceparent(), None);
        assert_eq!(with_traceparent(given(), async { current_traceparent() }).await, given());
        assert_eq!(with_traceparent(None, async { current_traceparent() }).await, None);
        assert_eq!(
            with_traceparent(given(), with_traceparent(None, async { current_traceparent() }))
                .await,
            given()
        );
    }
}
