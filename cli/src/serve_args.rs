//! The settings of the service, as `serve` takes them.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use clap::builder::RangedU64ValueParser;
use clap::{Args, ValueEnum, value_parser};
use domain::access::Cell;
use ipnet::IpNet;
use mailer::{SenderAddress, SmtpUrl};
use service::{InternalAddr, ProcessRole};

use crate::collector::TelemetryArgs;
use crate::provider::OidcArgs;
use crate::shared_args::{
    ArchivePlace, DAYS_MAX, ResponseRetentionArgs, TargetArgs, archive_place, switch,
};

/// A count of connections or attempts. None at all would stop the service for good.
fn count() -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(1..=1_000_000)
}

/// The arguments of `serve`.
#[derive(Debug, Args)]
pub(crate) struct ServeCommand {
    #[command(flatten)]
    pub(crate) settings: ServeArgs,
    /// Look at the settings, at their files and at the databases, and start nothing.
    #[arg(long)]
    pub(crate) check: bool,
}

/// The settings of the service.
#[derive(Debug, Clone, Args)]
pub(crate) struct ServeArgs {
    /// The role of this process: all, api, projector or deliverer. Any number of each role may work
    /// on one database.
    #[arg(long, value_enum, default_value = "all", env = "FIRMFORMS_ROLE")]
    pub(crate) role: RoleArg,
    /// The number of this installation, from 0 to 63, if it is one of several behind one address.
    /// New keys name it for good.
    #[arg(long, env = "FIRMFORMS_CELL", value_name = "NUMBER")]
    pub(crate) cell: Option<Cell>,
    /// Start no delivery, replay or invite while this process runs; activities are taken in, and
    /// deliveries queued. For the time after a restore: a start without it continues the work.
    #[arg(long, env = "FIRMFORMS_PAUSED", value_parser = switch)]
    pub(crate) paused: bool,
    /// The address of the public door.
    #[arg(long, default_value = "127.0.0.1:8080", env = "FIRMFORMS_ADDR", value_parser = address)]
    pub(crate) addr: SocketAddr,
    /// The address of the internal door: by default 127.0.0.1:8081, or unix: with the path of a
    /// Unix socket. A process without doors answers /livez, /readyz and /metrics there, if it is
    /// given.
    #[arg(long, env = "FIRMFORMS_INTERNAL_ADDR")]
    pub(crate) internal_addr: Option<InternalAddr>,
    /// The most connections of the public door at once. A low limit of file descriptors lowers it.
    #[arg(long, env = "FIRMFORMS_CONNECTIONS", default_value_t = 8_192, value_parser = count())]
    pub(crate) connections: usize,
    /// The most connections of the public door from one address (IPv6: one /64); by default half of
    /// all. Raise it behind a proxy.
    #[arg(long, env = "FIRMFORMS_CONNECTIONS_PER_PEER", value_parser = count())]
    pub(crate) connections_per_peer: Option<usize>,
    /// Seconds that a door's connection may wait for its next request: longer than in a proxy
    /// before it.
    #[arg(long, env = "FIRMFORMS_IDLE_SECONDS", default_value_t = 75,
          value_parser = value_parser!(u64).range(1..=86_400))]
    pub(crate) idle_seconds: u64,
    /// The public door's URL for integrators, without /api/v1. By default http:// (https:// with a
    /// certificate) and its address.
    #[arg(long, env = "FIRMFORMS_BASE_URL", value_parser = base_url)]
    pub(crate) base_url: Option<String>,
    #[command(flatten)]
    pub(crate) targets: TargetArgs,
    /// Make waits pass this many times faster: for tests and drills only, with --allow-targets.
    #[arg(long, default_value_t = 1.0, env = "FIRMFORMS_TIME_SCALE")]
    pub(crate) time_scale: f64,
    /// The mail server for invites: smtp://user:password@host:587, or smtps://; with --base-url in
    /// https. Without it, invites are answered with send_failed.
    #[arg(long, env = "FIRMFORMS_SMTP_URL", hide_env_values = true, requires = "mail_from")]
    pub(crate) smtp_url: Option<SmtpUrl>,
    /// A file with the URL of the mail server.
    #[arg(
        long,
        env = "FIRMFORMS_SMTP_URL_FILE",
        conflicts_with = "smtp_url",
        requires = "mail_from"
    )]
    pub(crate) smtp_url_file: Option<PathBuf>,
    /// A folder that gets mails as plain files, instead of a mail server: for development only.
    #[arg(long, env = "FIRMFORMS_MAIL_DIR", conflicts_with_all = ["smtp_url", "smtp_url_file"])]
    pub(crate) mail_dir: Option<PathBuf>,
    /// The sender's address of mail; needed with --smtp-url.
    #[arg(long, env = "FIRMFORMS_MAIL_FROM")]
    pub(crate) mail_from: Option<SenderAddress>,
    /// The URL that gets notices about subscriptions and keys: public and https. Every process with
    /// doors or a deliverer needs it.
    #[arg(long, env = "FIRMFORMS_NOTICES_URL", hide_env_values = true)]
    pub(crate) notices_url: Option<String>,
    /// The secret that signs notices: whsec_ and 43 characters.
    #[arg(
        long,
        env = "FIRMFORMS_NOTICES_SECRET",
        hide_env_values = true,
        requires = "notices_url"
    )]
    pub(crate) notices_secret: Option<String>,
    /// A file with that secret.
    #[arg(
        long,
        env = "FIRMFORMS_NOTICES_SECRET_FILE",
        requires = "notices_url",
        conflicts_with = "notices_secret"
    )]
    pub(crate) notices_secret_file: Option<PathBuf>,
    /// The product's integrations screen, to which notices link. {firm} stands for the firm's id.
    #[arg(long, env = "FIRMFORMS_INTEGRATIONS_URL", value_parser = integrations_url)]
    pub(crate) integrations_url: Option<String>,
    /// The addresses that deliveries leave from, IPv4 and IPv6; by default any. They are published
    /// at /.well-known/firmforms-egress.json. A process that sends must have them all.
    #[arg(long, env = "FIRMFORMS_EGRESS_BIND", value_delimiter = ',', value_name = "ADDR",
          value_parser = egress_address)]
    pub(crate) egress_bind: Vec<IpAddr>,
    /// Proxies whose X-Forwarded-For is believed.
    #[arg(long, env = "FIRMFORMS_TRUSTED_PROXIES", value_delimiter = ',')]
    pub(crate) trusted_proxies: Vec<IpNet>,
    /// The public door's certificate chain, in PEM. It is read again on SIGHUP.
    #[arg(long, env = "FIRMFORMS_TLS_CERT", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// The private key of that certificate, in PEM.
    #[arg(long, env = "FIRMFORMS_TLS_KEY", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
    /// The internal door's certificate chain, in PEM. It is read again on SIGHUP.
    #[arg(long, env = "FIRMFORMS_INTERNAL_TLS_CERT", requires = "internal_tls_key")]
    pub(crate) internal_tls_cert: Option<PathBuf>,
    /// The private key of that certificate, in PEM.
    #[arg(long, env = "FIRMFORMS_INTERNAL_TLS_KEY", requires = "internal_tls_cert")]
    pub(crate) internal_tls_key: Option<PathBuf>,
    /// Root certificates, in PEM. With them the internal door takes only callers with a certificate
    /// of these roots, beside their token.
    #[arg(long, env = "FIRMFORMS_INTERNAL_TLS_CLIENT_CA", requires = "internal_tls_cert")]
    pub(crate) internal_tls_client_ca: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) oidc: OidcArgs,
    /// Days that the body of a delivered delivery is kept, as ciphertext.
    #[arg(long, default_value_t = 7, env = "FIRMFORMS_KEEP_DELIVERED_DAYS",
          value_parser = value_parser!(u32).range(..=DAYS_MAX))]
    pub(crate) keep_delivered_days: u32,
    /// Days that the body of a failed or cancelled delivery is kept for replays, at least as long
    /// as a delivered one's.
    #[arg(long, default_value_t = 30, env = "FIRMFORMS_KEEP_FAILED_DAYS",
          value_parser = value_parser!(u32).range(..=DAYS_MAX))]
    pub(crate) keep_failed_days: u32,
    /// Days that answers of receivers are kept.
    #[arg(long, default_value_t = 30, env = "FIRMFORMS_KEEP_ANSWERS_DAYS",
          value_parser = value_parser!(u32).range(..=DAYS_MAX))]
    pub(crate) keep_answers_days: u32,
    #[command(flatten)]
    pub(crate) responses: ResponseRetentionArgs,
    /// Days after a firm was closed until its data are dropped: documents, bodies, answers, secrets
    /// and data keys.
    #[arg(long, default_value_t = 30, env = "FIRMFORMS_CLOSED_FIRM_DAYS",
          value_parser = value_parser!(u32).range(1..=DAYS_MAX))]
    pub(crate) closed_firm_days: u32,
    /// The most claimed attempts without an answer, in this process.
    #[arg(long, default_value_t = 256, env = "FIRMFORMS_PERMITS", value_parser = count())]
    pub(crate) permits: usize,

    /// The most deliveries in flight from one firm to one host, over all processes.
    #[arg(long, env = "FIRMFORMS_PER_FIRM_AND_HOST", default_value_t = 32, value_parser = count())]
    pub(crate) per_firm_and_host: usize,

    /// The most deliveries in flight to one host, over all processes.
    #[arg(long, env = "FIRMFORMS_PER_HOST", default_value_t = 256, value_parser = count())]
    pub(crate) per_host: usize,

    /// Hours from one verification of the log by the projector to the next; 0: none.
    #[arg(long, env = "FIRMFORMS_VERIFY_HOURS", default_value_t = 24,
          value_parser = value_parser!(u32).range(..=8_760))]
    pub(crate) verify_hours: u32,

    /// Days within which the verifications read each older event again.
    #[arg(long, env = "FIRMFORMS_REVERIFY_DAYS", default_value_t = 30,
          value_parser = value_parser!(u32).range(1..=DAYS_MAX))]
    pub(crate) reverify_days: u32,

    /// Archive the log here: a directory, `file://` and its path, or `s3://bucket/prefix`.
    #[arg(long, env = "FIRMFORMS_ARCHIVE_URL", value_parser = archive_place)]
    pub(crate) archive_url: Option<ArchivePlace>,

    /// Days after which archived ranges of the log leave the database; by default none leaves.
    #[arg(long, env = "FIRMFORMS_KEEP_LOG_DAYS", requires = "archive_url",
          value_parser = value_parser!(u32).range(1..=DAYS_MAX))]
    pub(crate) keep_log_days: Option<u32>,

    /// Days after which months of history leave the database; by default none leaves.
    #[arg(long, env = "FIRMFORMS_KEEP_HISTORY_DAYS",
          value_parser = value_parser!(u32).range(1..=DAYS_MAX))]
    pub(crate) keep_history_days: Option<u32>,

    #[command(flatten)]
    pub(crate) telemetry: TelemetryArgs,
}

/// Reads the URL of a door, without a path or with one that a proxy adds.
pub(crate) fn base_url(text: &str) -> Result<String, &'static str> {
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    let is_host = |rest: &str| !rest.is_empty() && !rest.starts_with(['/', ':']);
    let plain =
        |rest: &str| !rest.contains(['@', '?', '#', '\\']) && !rest.contains(char::is_whitespace);
    match rest.filter(|rest| is_host(rest) && plain(rest)) {
        Some(_) => Ok(text.to_owned()),
        None => Err("a URL with a host is needed, such as https://forms.example.com"),
    }
}

/// An address that a receiver can name in its list. The others are no source of a connection to it.
fn egress_address(text: &str) -> Result<IpAddr, &'static str> {
    let address: IpAddr = text.trim().parse().map_err(|_| "write an IPv4 or IPv6 address")?;
    if address.is_unspecified() || address.is_multicast() {
        return Err("this address names no one machine");
    }
    Ok(address.to_canonical())
}

/// Reads the URL of a screen. A mail links to it.
fn integrations_url(text: &str) -> Result<String, &'static str> {
    let is_url = text.starts_with("https://") && !text.contains(char::is_whitespace);
    is_url.then(|| text.to_owned()).ok_or("an https URL is needed")
}

/// Reads an address with a port. A name is none: it may have several addresses.
fn address(text: &str) -> Result<SocketAddr, &'static str> {
    text.parse().map_err(|_| "an IP address with a port is needed, such as 127.0.0.1:8080")
}

impl ServeArgs {
    /// The role of the process.
    pub(crate) fn role(&self) -> ProcessRole {
        self.role.into()
    }
}

/// The part of the service that a process runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum RoleArg {
    /// All parts.
    All,
    /// Both doors.
    Api,
    /// The read models that follow the log.
    Projector,
    /// Claims and sends.
    Deliverer,
}

impl From<RoleArg> for ProcessRole {
    fn from(role: RoleArg) -> Self {
        match role {
            RoleArg::All => Self::All,
            RoleArg::Api => Self::Api,
            RoleArg::Projector => Self::Projector,
            RoleArg::Deliverer => Self::Deliverer,
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("https://forms.example.com", true)]
    #[case("http://127.0.0.1:8080/forms", true)]
    #[case("example.com", false)]
    #[case("https://", false)]
    #[case("https:///x", false)]
    #[case("https://u@example.com", false)]
    #[case("https://example.com?x", false)]
    #[case("https://exam ple.com", false)]
    fn a_base_url_has_scheme_and_host(#[case] text: &str, #[case] is_one: bool) {
        assert_eq!(base_url(text).is_ok(), is_one);
    }
}
