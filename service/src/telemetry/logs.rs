//! The log of the process: lines on standard error, as text or as JSON. A JSON line is one object
//! with `time`, `level`, `target`, `message` and `fields`. Within a trace it has `trace_id`, too,
//! and within a call `request_id`.

use std::any::Any;
use std::fmt;

use domain::values::{printable_json, printable_text};
use serde_json::{Map, Value, json};
use telemetry::request_id::current_request_id;
use telemetry::trace;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::{EnvFilter, FilterExt, filter_fn};
use tracing_subscriber::fmt::format::{Format, Writer};
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;

use super::traces::TraceExporter;

/// The format of a line of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// Text for people.
    Text,
    /// A JSON object.
    Json,
}

/// Whether lines of text have colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogColour {
    /// They have none.
    Plain,
    /// Levels have colours.
    Coloured,
}

/// The settings of the log.
#[derive(Debug, Clone, Copy)]
pub struct LogSettings {
    /// The format of its lines.
    pub format: LogFormat,
    /// The lowest level that is logged. `RUST_LOG` overrides it.
    pub level: &'static str,
    /// The colours of its lines of text.
    pub colour: LogColour,
}

/// Starts the log. Spans go to traces only.
pub(super) fn start(
    LogSettings { format, level, colour }: LogSettings,
    traces: Option<&TraceExporter>,
) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(level));
    let filter = filter
        .and(filter_fn(|told| told.target() != trace::SPAN_TARGET && !is_of_lost_connection(told)));
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let lines = if format == LogFormat::Json {
        lines.with_ansi(false).event_format(JsonLine).boxed()
    } else {
        lines.event_format(TextLine(text_format(colour))).boxed()
    };
    let traces = traces.map(|traces| {
        tracing_opentelemetry::layer()
            .with_tracer(traces.tracer())
            .with_location(false)
            .with_threads(false)
            .with_tracked_inactivity(false)
            .with_filter(filter_fn(|told| told.is_span() && told.target() == trace::SPAN_TARGET))
    });
    tracing_subscriber::registry().with(lines.with_filter(filter)).with(traces).init();
    std::panic::set_hook(Box::new(log_panic));
}

/// Whether this is a line with which sqlx tells of a connection that it drops: one that our check
/// refused, or one that broke. The check has logged the reason, and the followers of the databases
/// log an outage once.
fn is_of_lost_connection(told: &Metadata<'_>) -> bool {
    let lines =
        [("sqlx_core::pool::inner", Level::ERROR), ("sqlx_core::pool::connection", Level::WARN)];
    lines.contains(&(told.target(), *told.level()))
}

/// Logs a panic as a line. Only a message written in code is logged. A formatted message may quote
/// personal data.
fn log_panic(panic: &std::panic::PanicHookInfo<'_>) {
    let at = panic.location().map(ToString::to_string);
    tracing::error!(at, words = panic_words(panic.payload()), "a panic");
}

fn panic_words(payload: &(dyn Any + Send)) -> &'static str {
    payload.downcast_ref::<&'static str>().copied().unwrap_or_default()
}

/// The last line of a process that ends with an error.
#[must_use]
pub fn last_line(format: LogFormat, message: &str) -> String {
    if format == LogFormat::Text {
        return printable_text(message).into_owned();
    }
    let mut time = String::new();
    let _ = SystemTime.format_time(&mut Writer::new(&mut time));
    let line = json!({"time": time, "level": "ERROR", "target": "firmforms", "message": message,
                      "fields": {}});
    printable_json(&line.to_string()).into_owned()
}

fn text_format(colour: LogColour) -> Format {
    Format::default().with_target(false).with_ansi(colour == LogColour::Coloured)
}

/// A line of text, with the call in which it was told.
struct TextLine(Format);

impl<S, N> FormatEvent<S, N> for TextLine
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let Some(id) = current_request_id() else {
            return self.0.format_event(context, writer, event);
        };
        let mut line = String::new();
        self.0.format_event(context, Writer::new(&mut line), event)?;
        writeln!(writer, "{} request_id={id}", line.trim_end())
    }
}

struct JsonLine;

impl<S, N> FormatEvent<S, N> for JsonLine
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut time = String::new();
        SystemTime.format_time(&mut Writer::new(&mut time))?;
        let mut fields = JsonFields::default();
        event.record(&mut fields);
        let metadata = event.metadata();
        let mut line = json!({
            "time": time,
            "level": metadata.level().as_str(),
            "target": metadata.target(),
            "message": fields.0.remove("message").unwrap_or_default(),
            "fields": fields.0,
        });
        if let Some(traceparent) = trace::current_traceparent() {
            line["trace_id"] = hex::encode(traceparent.trace_id).into();
        }
        if let Some(id) = current_request_id() {
            line["request_id"] = id.as_str().into();
        }
        writeln!(writer, "{}", printable_json(&line.to_string()))
    }
}

/// The fields of an event as JSON.
#[derive(Default)]
struct JsonFields(Map<String, Value>);

impl JsonFields {
    fn put_field(&mut self, field: &Field, value: impl Into<Value>) {
        self.0.insert(field.name().to_owned(), value.into());
    }
}

impl Visit for JsonFields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.put_field(field, format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put_field(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put_field(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put_field(field, value);
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put_field(field, value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put_field(field, value);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::{Arc, Mutex};

    use telemetry::request_id;

    use super::*;

    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<u8>>>);

    impl Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn b15_a_panic_tells_no_formatted_words() {
        let caught = |panic: fn()| std::panic::catch_unwind(panic).unwrap_err();
        assert_eq!(panic_words(&*caught(|| panic!("as it is written"))), "as it is written");
        let put_together =
            caught(|| assert_ne!("canary".parse::<u32>().map_err(|_| "canary").unwrap(), 0));
        assert_eq!(panic_words(&*put_together), "");
    }

    /// Each line is one JSON object.
    #[tokio::test]
    async fn h4_a_line_names_its_trace() {
        let kept = Kept::default();
        let writer = kept.clone();
        let lines = tracing_subscriber::fmt::layer().event_format(JsonLine).with_ansi(false);
        let lines = lines.with_writer(move || writer.clone());
        let listening =
            tracing::subscriber::set_default(tracing_subscriber::registry().with(lines));
        tracing::info!(target: "api", ready = true, of = %"two\nlines", "a line\nand another");
        let traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".parse().ok();
        let told = async { tracing::warn!(count = 3_u64, share = 0.5, "told") };
        let id = "caller:1".parse().ok();
        request_id::with_request_id(id, trace::with_traceparent(traceparent, told)).await;
        drop(listening);
        let told = String::from_utf8(kept.0.lock().unwrap().clone()).unwrap();
        let mut lines: Vec<Value> =
            told.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        for line in &mut lines {
            line.as_object_mut().unwrap().remove("time").unwrap();
        }
        let first = json!({"level": "INFO", "target": "api", "message": "a line\nand another",
                           "fields": {"ready": true, "of": "two\nlines"}});
        let second = json!({"level": "WARN", "target": "service::telemetry::logs::tests",
                            "message": "told", "fields": {"count": 3, "share": 0.5},
                            "trace_id": "4bf92f3577b34da6a3ce929d0e0e4736",
                            "request_id": "caller:1"});
        assert_eq!(lines, [first, second]);
        assert_eq!(last_line(LogFormat::Text, "firmforms: x"), "firmforms: x");
    }

    /// The line of a failed call could not be found by anything that its caller knew.
    #[tokio::test]
    async fn a_text_line_names_its_call() {
        let kept = Kept::default();
        let writer = kept.clone();
        let lines =
            tracing_subscriber::fmt::layer().event_format(TextLine(text_format(LogColour::Plain)));
        let lines = lines.with_writer(move || writer.clone());
        let listening =
            tracing::subscriber::set_default(tracing_subscriber::registry().with(lines));
        tracing::info!("outside");
        let told = async { tracing::error!(detail = "x", "a call failed") };
        request_id::with_request_id("caller:1".parse().ok(), told).await;
        drop(listening);
        let told = String::from_utf8(kept.0.lock().unwrap().clone()).unwrap();
        let ends = [" INFO outside", "ERROR a call failed detail=\"x\" request_id=caller:1"];
        assert!(told.lines().zip(ends).all(|(line, end)| line.ends_with(end)), "{told}");
        assert_eq!(told.lines().count(), 2, "{told}");
    }
}
