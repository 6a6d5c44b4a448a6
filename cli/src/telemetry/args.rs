//! What `serve` is told of who reads.

use std::str::FromStr;

use clap::Args;

/// Who reads what the process tells.
#[derive(Debug, Clone, Args)]
pub struct TelemetryArgs {
    /// The OpenTelemetry collector that traces are sent to, by OTLP over HTTP: http://collector:4318.
    /// Without it, there are none.
    #[arg(long, env = "OTEL_EXPORTER_OTLP_ENDPOINT", hide_env_values = true)]
    pub otlp_endpoint: Option<OtlpEndpoint>,
}

/// The address of a collector, without the path of its traces; an empty one is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtlpEndpoint(String);

impl OtlpEndpoint {
    /// Where traces go, if they do.
    pub(super) fn traces(&self) -> Option<String> {
        (!self.0.is_empty()).then(|| format!("{}/v1/traces", self.0))
    }
}

impl FromStr for OtlpEndpoint {
    type Err = &'static str;

    /// Credentials have their place in `OTEL_EXPORTER_OTLP_HEADERS`: an address is shown and logged.
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
