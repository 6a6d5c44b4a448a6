//! Telemetry: the metrics and traces of a process.
//!
//! - [`metrics`] lists all metrics by name and counts them. Every crate may count.
//! - [`trace`] makes the spans of a trace and passes the trace context on.
//! - [`request_id`] names the call that a task answers.
//!
//! Only `service` knows the readers: it installs the exporters. Labels are words of this code and
//! route templates. So no metric and no span names a firm, a person or a receiver. A caller chooses
//! its request id, and nothing else.

pub mod metrics;
pub mod request_id;
pub mod trace;

pub use self::metrics::Metric;
