//! Traces: one goes from a call over what it appended to the tries. Its place is carried
//! in the metadata of events and in the outbox, so it outlives processes.
//!
//! A span is a span of `tracing` under a target of its own. Where no exporter listens to that target,
//! none is made, and the place that came in goes on as it is.

use domain::trace::Traceparent;
use opentelemetry::Context;
use opentelemetry::trace::{SpanContext, SpanId, TraceContextExt, TraceFlags, TraceId, TraceState};
use tracing::field::Empty;
use tracing::{Span, info_span};
use tracing_opentelemetry::OpenTelemetrySpanExt;

/// The target of all spans that are exported; nothing else has it.
pub const SPAN_TARGET: &str = "firmforms::trace";

tokio::task_local! {
    static TRACEPARENT: Traceparent;
}

/// The place of what this task does, if it has one.
#[must_use]
pub fn current_traceparent() -> Option<Traceparent> {
    TRACEPARENT.try_with(|place| *place).ok()
}

/// Does this work at that place.
pub async fn scope<W: Future>(place: Option<Traceparent>, work: W) -> W::Output {
    match place {
        Some(place) => TRACEPARENT.scope(place, work).await,
        None => work.await,
    }
}

/// How a call came to be, as far as whoever made it says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallerTrace {
    /// A step of our own product: the call is a part of it.
    Ours(Option<Traceparent>),
    /// A step of somebody else's: they say nothing about what we keep, and are linked to.
    Theirs(Option<Traceparent>),
}

/// A call, as its span tells it. The route is a template, never the path that was asked for.
#[derive(Debug, Clone, Copy)]
pub struct TracedCall<'a> {
    /// `public` or `internal`.
    pub door: &'static str,
    /// One of those that HTTP knows, or `other`.
    pub method: &'static str,
    /// The template; none for a path that is no route.
    pub route: Option<&'a str>,
}

/// Work under way, and its place in its trace. The span ends when this is dropped.
#[derive(Debug)]
pub struct TraceSpan {
    span: Span,
    traceparent: Option<Traceparent>,
}

impl TraceSpan {
    /// A call.
    #[must_use]
    pub fn call(TracedCall { door, method, route }: TracedCall, cause: CallerTrace) -> Self {
        let span = info_span!(
            target: SPAN_TARGET, parent: None, "call", otel.kind = "server", otel.name = Empty,
            otel.status_code = Empty, door, http.request.method = method, http.route = route,
            http.response.status_code = Empty
        );
        if !span.is_disabled() {
            let name = format!("{method} {}", route.unwrap_or("unknown"));
            span.record("otel.name", name);
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

    /// One try of a delivery, from its claim to its answer.
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
            // Fails where no exporter listens: then the span is nobody's.
            let _ = span.set_parent(remote);
        }
        let place = traceparent_of(span.context().span().span_context()).or(parent);
        Self { span, traceparent: place }
    }

    /// Where it is in its trace, if it has one.
    #[must_use]
    pub const fn traceparent(&self) -> Option<Traceparent> {
        self.traceparent
    }

    /// The call was answered.
    pub fn answered(&self, status: u16) {
        self.span.record("http.response.status_code", status);
        if status >= 500 {
            self.span.record("otel.status_code", "ERROR");
        }
    }

    /// The try came to this: a word for it, and the status if there was one.
    pub fn tried(&self, class: &'static str, status: Option<u16>) {
        self.span.record("class", class);
        if let Some(status) = status {
            self.span.record("http.response.status_code", status);
        }
        if class != "2xx" {
            self.span.record("otel.status_code", "ERROR");
        }
    }
}

fn span_context(place: Traceparent) -> SpanContext {
    let flags = if place.sampled { TraceFlags::SAMPLED } else { TraceFlags::NOT_SAMPLED };
    SpanContext::new(
        TraceId::from_bytes(place.trace_id),
        SpanId::from_bytes(place.parent_id),
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

    #[test]
    fn h4_where_nobody_listens_no_span_is_made_and_the_place_goes_on() {
        let call = TracedCall { door: "internal", method: "POST", route: None };
        let ours = TraceSpan::call(call, CallerTrace::Ours(given()));
        assert_eq!((ours.span.is_disabled(), ours.traceparent()), (true, given()));
        let theirs = TraceSpan::call(call, CallerTrace::Theirs(given()));
        assert_eq!((theirs.span.is_disabled(), theirs.traceparent()), (true, None));
        assert_eq!(TraceSpan::attempt(None, 1).traceparent(), None);
    }

    #[tokio::test]
    async fn h4_a_task_knows_its_place_and_no_other_does() {
        assert_eq!(current_traceparent(), None);
        assert_eq!(scope(given(), async { current_traceparent() }).await, given());
        assert_eq!(scope(None, async { current_traceparent() }).await, None);
        assert_eq!(scope(given(), scope(None, async { current_traceparent() })).await, given());
    }
}
