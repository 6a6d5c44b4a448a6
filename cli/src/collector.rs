//! The settings of the collector of traces.

use std::collections::HashMap;
use std::path::PathBuf;
use std::str::FromStr;

use anyhow::Context;
use clap::Args;
use service::telemetry::TraceCollector;

/// The readers of this process's telemetry.
#[derive(Debug, Clone, Args)]
pub(crate) struct TelemetryArgs {
    /// The OpenTelemetry collector for traces, by OTLP over HTTP: http://collector:4318. Without
    /// it, there are no traces.
    #[arg(long, env = "OTEL_EXPORTER_OTLP_ENDPOINT", hide_env_values = true)]
    pub(crate) otlp_endpoint: Option<OtlpEndpoint>,
    /// A file with headers for the collector, such as its credentials: one name=value in a line.
    #[arg(long, env = "OTEL_EXPORTER_OTLP_HEADERS_FILE", requires = "otlp_endpoint")]
    pub(crate) otlp_headers_file: Option<PathBuf>,
}

impl TelemetryArgs {
    /// The collector, if traces are sent.
    pub(crate) fn collector(&self) -> anyhow::Result<Option<TraceCollector>> {
        let headers = self.read_headers()?;
        let endpoint = self.otlp_endpoint.as_ref().and_then(OtlpEndpoint::traces_url);
        Ok(endpoint.map(|endpoint| TraceCollector { endpoint, headers }))
    }

    /// The headers of the file, if one is named. No error repeats a line, which may be a secret.
    fn read_headers(&self) -> anyhow::Result<HashMap<String, String>> {
        let Some(path) = &self.otlp_headers_file else {
            return Ok(HashMap::new());
        };
        let named = || path.display().to_string();
        parse_headers(&std::fs::read_to_string(path).with_context(named)?).with_context(named)
    }
}

/// Reads headers, one in a line. Empty lines are left out.
fn parse_headers(text: &str) -> anyhow::Result<HashMap<String, String>> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let header = |(index, line): (usize, &str)| {
        let header = line.split_once('=').filter(|(name, _)| !name.trim().is_empty());
        let header = header.map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned()));
        header.with_context(|| format!("line {}: name=value is needed", index + 1))
    };
    lines.map(header).collect()
}

/// A collector's address, without the path of its traces. An empty address is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OtlpEndpoint(String);

impl OtlpEndpoint {
    /// The URL for traces, if traces are sent.
    fn traces_url(&self) -> Option<String> {
        (!self.0.is_empty()).then(|| format!("{}/v1/traces", self.0))
    }
}

impl FromStr for OtlpEndpoint {
    type Err = &'static str;

    /// Refuses credentials, because the address is shown and logged. They belong into
    /// `OTEL_EXPORTER_OTLP_HEADERS`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.is_empty() {
            return Ok(Self(String::new()));
        }
        let rest = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"));
        let rest = rest.ok_or("an address that starts with http:// or https:// is needed")?;
        let host = rest.split('/').next().unwrap_or_default();
        if host.is_empty() || rest.contains(['@', '?', '#', ' ']) {
            return Err("an address without user, query and fragment is needed");
        }
        Ok(Self(text.trim_end_matches('/').to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_of_a_collector_stand_in_lines() {
        let found = parse_headers("authorization=Basic a=b\n\n x-key = k \n").unwrap();
        let header = |name: &str| found.get(name).map(String::as_str);
        assert_eq!(header("authorization"), Some("Basic a=b"));
        assert_eq!((header("x-key"), found.len()), (Some("k"), 2));
        for text in ["a=b\nsecret", "a=b\n=secret"] {
            let error = parse_headers(text).unwrap_err().to_string();
            assert_eq!(error, "line 2: name=value is needed");
        }
    }

    #[test]
    fn h4_a_collector_is_named_without_credentials() {
        let traces =
            |text: &str| text.parse::<OtlpEndpoint>().map(|endpoint| endpoint.traces_url());
        let expected = Ok(Some("http://collector:4318/v1/traces".to_owned()));
        assert_eq!(traces(""), Ok(None), "set to nothing is not set");
        assert_eq!(traces("http://collector:4318"), expected);
        assert_eq!(traces("http://collector:4318/"), expected);
        let below = traces("https://c.example/otlp").unwrap();
        assert_eq!(below.as_deref(), Some("https://c.example/otlp/v1/traces"));
        for text in ["collector:4318", "http://", "grpc://c", "http://u:p@c", "http://c?a=b"] {
            assert!(traces(text).is_err(), "{text}");
        }
    }
}
