//! Settings for the readers of telemetry.

use std::str::FromStr;

use clap::Args;

/// The readers of this process's telemetry.
#[derive(Debug, Clone, Args)]
pub struct TelemetryArgs {
    /// The OpenTelemetry collector for traces, by OTLP over HTTP: http://collector:4318. Without
    /// it, there are no traces.
    #[arg(long, env = "OTEL_EXPORTER_OTLP_ENDPOINT", hide_env_values = true)]
    pub otlp_endpoint: Option<OtlpEndpoint>,
}

/// A collector's address, without the path of its traces. An empty address is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtlpEndpoint(String);

impl OtlpEndpoint {
    /// The URL for traces, if traces are sent.
    pub(super) fn traces(&self) -> Option<String> {
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
    fn h4_a_collector_is_named_without_credentials() {
        let traces = |text: &str| text.parse::<OtlpEndpoint>().map(|endpoint| endpoint.traces());
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
