//! The service's telemetry: metrics, health, traces and log lines (cases B15 and H4).

mod collected;
mod figures;
mod health;
mod lines;
mod plans;
mod traces;
