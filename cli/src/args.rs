//! The command line, with the names of its environment variables.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use clap::builder::RangedU64ValueParser;
use clap::{Args, ColorChoice, Parser, Subcommand, ValueEnum, value_parser};
use domain::access::Cell;
use domain::event::OperatorName;
use domain::values::When;
use explain::moment::PastMoment;
use ipnet::IpNet;
use mailer::{SenderAddress, SmtpUrl};
use service::telemetry::LogFormat;
use service::{InternalAddr, ProcessRole, StorageSettings};

use crate::answers::why::{WhyDeliveryArgs, WhyKeyArgs};
use crate::answers::{
    AccessArgs, DeliveryExportArgs, EventsCommand, FindArgs, FormsCommand, MembersCommand,
    PeopleCommand, ReceiversArgs,
};
use crate::audit::args::{AuditCommand, HooksCommand};
use crate::cells::CellsCommand;
use crate::collector::TelemetryArgs;
use crate::config::ConfigCommand;
use crate::confirm::ConsentArgs;
use crate::generate::ActivityArgs;
use crate::keyring::KeyringCommand;
use crate::migrate::MigrateArgs;
use crate::output::{OutputArgs, ReportArgs};
use crate::projections::ProjectionsCommand;
use crate::provider::OidcArgs;
use crate::replays::ReplaysCommand;
use crate::secret_file::read_secret;
use crate::settings_file::CONFIG_VARIABLE;
use crate::shared_args::{TargetArgs, TargetRevealArgs, reason, switch};
use crate::verify::VerifyCommand;
use crate::version::version;

/// Firm Forms Integration: an API for one firm at a time, and signed webhook deliveries.
#[derive(Debug, Parser)]
#[command(name = "firmforms", version = version())]
pub(crate) struct CliArgs {
    #[command(flatten)]
    pub(crate) storage: StorageArgs,
    /// A settings file in TOML, with the names of the flags: role = "api". A flag comes before a
    /// variable, and a variable before the file. `firmforms config show` tells each source.
    #[arg(long, global = true, env = CONFIG_VARIABLE, value_name = "FILE", help_heading = "Settings")]
    pub(crate) config: Option<PathBuf>,
    /// Write the log as JSON lines.
    #[arg(long, global = true, env = "FIRMFORMS_LOG_JSON", value_parser = switch,
          help_heading = "Output")]
    pub(crate) log_json: bool,
    /// Colour the output. `auto` does so on a terminal, unless NO_COLOR is set.
    #[arg(long, global = true, value_enum, default_value_t = ColorChoice::Auto, value_name = "WHEN",
          help_heading = "Output")]
    pub(crate) color: ColorChoice,
    #[command(subcommand)]
    pub(crate) command: CliCommand,
}

impl CliArgs {
    pub(crate) const fn log_format(&self) -> LogFormat {
        if self.log_json { LogFormat::Json } else { LogFormat::Text }
    }
}

/// The heading of the options that a command with a database has.
pub(crate) const CONNECTION: &str = "Connection";

/// The location of the data, and the operator who works with them.
#[derive(Debug, Clone, Args)]
pub(crate) struct StorageArgs {
    /// The main database, as a URL with one host or several: the primary among them is used.
    /// Without it, a private PostgreSQL cluster is kept in the data directory.
    #[arg(long, global = true, help_heading = CONNECTION, env = "DATABASE_URL", hide_env_values = true)]
    pub(crate) database_url: Option<String>,
    /// A file with the URL of the main database.
    #[arg(long, global = true, help_heading = CONNECTION, env = "DATABASE_URL_FILE", conflicts_with = "database_url")]
    pub(crate) database_url_file: Option<PathBuf>,
    /// The database of data keys, in the same form. It is needed with --database-url, and never the
    /// same database.
    #[arg(long, global = true, help_heading = CONNECTION, env = "FIRMFORMS_KEYRING_URL", hide_env_values = true)]
    pub(crate) keyring_url: Option<String>,
    /// A file with the URL of the keyring.
    #[arg(long, global = true, help_heading = CONNECTION, env = "FIRMFORMS_KEYRING_URL_FILE", conflicts_with = "keyring_url")]
    pub(crate) keyring_url_file: Option<PathBuf>,
    /// The directory of the private cluster and of the wrapping key. By default /var/lib/firmforms
    /// for root, and the user's data folder for others.
    #[arg(long, global = true, help_heading = CONNECTION, env = "FIRMFORMS_DATA_DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    /// The folder of PostgreSQL's programs, if they are not in a usual one.
    #[arg(long, global = true, help_heading = CONNECTION, env = "FIRMFORMS_PG_BIN")]
    pub(crate) pg_bin: Option<PathBuf>,
    /// The wrapping key: 64 hexadecimal digits. Without it, a file in the data directory, which a
    /// private cluster makes.
    #[arg(long, global = true, help_heading = CONNECTION, env = "FIRMFORMS_WRAPPING_KEY", hide_env_values = true)]
    pub(crate) wrapping_key: Option<String>,
    /// A file with the wrapping key.
    #[arg(
        long,
        global = true,
        help_heading = CONNECTION,
        env = "FIRMFORMS_WRAPPING_KEY_FILE",
        conflicts_with = "wrapping_key"
    )]
    pub(crate) wrapping_key_file: Option<PathBuf>,
    /// The directory of signed checkpoints; by default in the data directory. Best is a place to
    /// which this machine can only add.
    #[arg(long, global = true, help_heading = CONNECTION, env = "FIRMFORMS_CHECKPOINTS_DIR")]
    pub(crate) checkpoints_dir: Option<PathBuf>,
    /// The directory of the keys that sign checkpoints; by default audit-keys in the data
    /// directory. Only the signer needs it.
    #[arg(long, global = true, help_heading = CONNECTION, env = "FIRMFORMS_AUDIT_KEYS_DIR")]
    pub(crate) audit_keys_dir: Option<PathBuf>,
    /// The operator who gives a command, in the audit log; by default the account of the operating
    /// system.
    #[arg(long = "as", value_name = "NAME", global = true, help_heading = CONNECTION, env = "FIRMFORMS_AS")]
    pub(crate) operator: Option<OperatorName>,
}

impl StorageArgs {
    /// The settings. Reads the URLs whose files were named: a secret on the command line is shown
    /// to every local user, and a file is not.
    pub(crate) fn read_settings(&self) -> anyhow::Result<StorageSettings> {
        let given = self.clone();
        Ok(StorageSettings {
            database_url: read_secret(given.database_url, given.database_url_file.as_deref())?,
            keyring_url: read_secret(given.keyring_url, given.keyring_url_file.as_deref())?,
            data_dir: given.data_dir,
            pg_bin: given.pg_bin,
            wrapping_key: given.wrapping_key,
            wrapping_key_file: given.wrapping_key_file,
            checkpoints_dir: given.checkpoints_dir,
            audit_keys_dir: given.audit_keys_dir,
            operator: given.operator,
        })
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum CliCommand {
    /// Show activity, signed deliveries and history on databases of its own.
    Demo(DemoArgs),
    /// Run the service.
    Serve(Box<ServeCommand>),
    /// Show the settings.
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Bring the databases to this version's schema.
    Migrate(MigrateArgs),
    /// Take in activities: CloudEvents, one per line.
    Ingest(IngestArgs),
    /// Make up activities: CloudEvents, one per line. Equal arguments give equal lines.
    Generate(GenerateArgs),
    /// List firms.
    #[command(subcommand)]
    Firms(FirmsCommand),
    /// List the members of a firm.
    #[command(subcommand)]
    Members(MembersCommand),
    /// List the forms of a firm.
    #[command(subcommand)]
    Forms(FormsCommand),
    /// Show members, keys, tokens and operators of a firm, now or on a day.
    Access(AccessArgs),
    /// Make, list, explain and revoke API keys.
    #[command(subcommand)]
    Keys(KeysCommand),
    /// Make, list and revoke tokens of the internal API.
    #[command(subcommand)]
    Tokens(TokensCommand),
    /// List and sign out users of the provider.
    #[command(subcommand)]
    Users(crate::users::UsersCommand),
    /// Show and rotate a firm's webhook signing secret.
    #[command(subcommand)]
    Secrets(SecretsCommand),
    /// Make or change the wrapping key.
    #[command(subcommand)]
    Keyring(KeyringCommand),
    /// List, show, explain, export, pause and resume deliveries.
    #[command(subcommand)]
    Deliveries(DeliveriesCommand),
    /// Send ended deliveries again, and follow that replay.
    #[command(subcommand)]
    Replay(ReplaysCommand),
    /// Make a new delivery from an ended one: its body is read anew, under a new id.
    Reissue(crate::reissue::ReissueArgs),
    /// List lanes, and why their deliveries wait.
    #[command(subcommand)]
    Lanes(crate::lanes::LanesCommand),
    /// List the deliveries of workflow steps.
    #[command(subcommand)]
    Workflows(crate::deliveries::WorkflowsCommand),
    /// List, explain and test subscriptions, removed ones too.
    #[command(subcommand)]
    Hooks(HooksCommand),
    /// List receivers over all firms, those that fail first.
    Receivers(ReceiversArgs),
    /// Find anything by a piece of it: an id, key, host, name, position or hash.
    Find(FindArgs),
    /// Show events of the log.
    #[command(subcommand)]
    Events(EventsCommand),
    /// Show traces of people.
    #[command(subcommand)]
    People(PeopleCommand),
    /// Show the sizes of all tables, their growth and a forecast.
    Stats(ReportArgs),
    /// List, export, sign and verify the audit log.
    #[command(subcommand)]
    Audit(AuditCommand),
    /// Look at read models, rebuild them from the log, or compare them with it.
    #[command(subcommand)]
    Projections(ProjectionsCommand),
    /// Take a backup of both databases, the keys and the signed checkpoints, beside the running
    /// service.
    Backup(crate::backup::BackupArgs),
    /// Restore a backup into empty databases, and verify the result.
    Restore(crate::backup::RestoreArgs),
    /// Check an installation, and name each fault with its remedy.
    Doctor(crate::doctor::DoctorArgs),
    /// Ask a running process on this machine whether it is ready.
    Health(crate::health::HealthArgs),
    /// Prove from the log that no delivery is missing, doubled or lost.
    #[command(subcommand)]
    Verify(VerifyCommand),
    /// Receive deliveries, check their signatures, answer by a script, and tell what follows.
    Listen(crate::listen::ListenArgs),
    /// Run several installations behind one address.
    #[command(subcommand)]
    Cells(CellsCommand),
    /// Print the description of the public API (OpenAPI 3.1) as JSON.
    Openapi(OpenapiArgs),
    /// Print the completions of a shell.
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Write the manual pages into a directory.
    Man {
        /// The directory, which must exist.
        directory: PathBuf,
    },
}

impl CliCommand {
    /// The default level of the log. A service reports its work; a command reports only faults.
    pub(crate) const fn log_level(&self) -> &'static str {
        if matches!(self, Self::Serve(_)) { "info" } else { "warn" }
    }
}

#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// Play it once and exit: 0 if every delivery arrived once with a good signature, otherwise 1.
    #[arg(long)]
    pub(crate) once: bool,
    /// The file of activities to play.
    #[arg(long, default_value = "demo/activity.ndjson")]
    pub(crate) activity: PathBuf,
    /// Play made-up activities instead, with this many responses of three firms.
    #[arg(long, conflicts_with = "activity", value_parser = value_parser!(u64).range(1..=10_000))]
    pub(crate) responses: Option<u64>,
    /// The seed of the made-up activities.
    #[arg(long, requires = "responses", default_value_t = 1)]
    pub(crate) seed: u64,
}

/// Kept days, at most: a century.
const DAYS_MAX: i64 = 36_500;

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
    /// It is kept for good, and new keys name it.
    #[arg(long, env = "FIRMFORMS_CELL", value_name = "NUMBER")]
    pub(crate) cell: Option<Cell>,
    /// Start no delivery, replay or invite while this process runs. Activities are taken in, and
    /// deliveries are queued. For the time after a restore: a start without it continues the work.
    /// See also `deliveries pause`.
    #[arg(long, env = "FIRMFORMS_PAUSED", value_parser = switch)]
    pub(crate) paused: bool,
    /// The address of the public door.
    #[arg(long, default_value = "127.0.0.1:8080", env = "FIRMFORMS_ADDR", value_parser = address)]
    pub(crate) addr: SocketAddr,
    /// The address of the internal door, for the product and operators: by default 127.0.0.1:8081,
    /// or unix: with the path of a Unix socket. A process without doors answers /livez, /readyz and
    /// /metrics there, if it is given.
    #[arg(long, env = "FIRMFORMS_INTERNAL_ADDR")]
    pub(crate) internal_addr: Option<InternalAddr>,
    /// The most connections of the public door at once. A low limit of file descriptors lowers it.
    #[arg(long, env = "FIRMFORMS_CONNECTIONS", default_value_t = 8_192, value_parser = count())]
    pub(crate) connections: usize,
    /// The most connections of the public door from one address (IPv6: one /64); by default half of
    /// all. Raise it behind a proxy.
    #[arg(long, env = "FIRMFORMS_CONNECTIONS_PER_PEER", value_parser = count())]
    pub(crate) connections_per_peer: Option<usize>,
    /// Seconds that a connection of a door may wait for its next request. Longer than a proxy in
    /// front keeps its connections.
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
    /// Days that the body of a failed or cancelled delivery is kept. A replay needs it.
    #[arg(long, default_value_t = 30, env = "FIRMFORMS_KEEP_FAILED_DAYS",
          value_parser = value_parser!(u32).range(..=DAYS_MAX))]
    pub(crate) keep_failed_days: u32,
    /// Days that answers of receivers are kept.
    #[arg(long, default_value_t = 30, env = "FIRMFORMS_KEEP_ANSWERS_DAYS",
          value_parser = value_parser!(u32).range(..=DAYS_MAX))]
    pub(crate) keep_answers_days: u32,
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

    #[command(flatten)]
    pub(crate) telemetry: TelemetryArgs,
}

/// Reads the URL of a door, without a path or with one that a proxy adds.
fn base_url(text: &str) -> Result<String, &'static str> {
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    let is_host = |rest: &str| !rest.is_empty() && !rest.starts_with(['/', ':']);
    let plain =
        |rest: &str| !rest.contains(['@', '?', '#', '\\']) && !rest.contains(char::is_whitespace);
    match rest.filter(|rest| is_host(rest) && plain(rest)) {
        Some(_) => Ok(text.to_owned()),
        None => Err("a URL with a host is needed, such as https://forms.example.com"),
    }
}

/// Reads the URL of a screen. A mail links to it.
/// An address that a receiver can name in its list. The others are no source of a connection to it.
fn egress_address(text: &str) -> Result<IpAddr, &'static str> {
    let address: IpAddr = text.trim().parse().map_err(|_| "write an IPv4 or IPv6 address")?;
    if address.is_unspecified() || address.is_multicast() {
        return Err("this address names no one machine");
    }
    Ok(address.to_canonical())
}

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

#[derive(Debug, Args)]
pub(crate) struct IngestArgs {
    /// The file, or - for standard input.
    pub(crate) file: PathBuf,
}

/// The arguments of `generate`.
#[derive(Debug, Args)]
pub(crate) struct GenerateArgs {
    #[command(flatten)]
    pub(crate) made_up: ActivityArgs,
    /// The file to write; by default standard output.
    #[arg(long)]
    pub(crate) out: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum FirmsCommand {
    /// List all firms, by name.
    List(OutputArgs),
}

#[derive(Debug, Subcommand)]
pub(crate) enum KeysCommand {
    /// Make a key for an owner or admin. It is shown once.
    Create {
        /// The firm: its id, the beginning of its id, or its name.
        #[arg(long)]
        firm: String,
        /// The owner or admin that the key acts for: its id, or the beginning of its id.
        #[arg(long)]
        member: String,
        /// A label.
        #[arg(long)]
        name: String,
        #[command(flatten)]
        json: OutputArgs,
    },
    /// List the keys of a firm, newest first.
    List {
        /// The firm: its id, the beginning of its id, or its name.
        #[arg(long)]
        firm: String,
        #[command(flatten)]
        json: OutputArgs,
    },
    /// Explain the life of a key, and everything that went with it.
    Why(WhyKeyArgs),
    /// Revoke a key and remove its subscriptions, at once.
    Revoke {
        /// The firm: its id, the beginning of its id, or its name.
        #[arg(long)]
        firm: String,
        /// The key: its id, the beginning of its id, or the beginning of its text (ffk_…).
        key: String,
        /// The reason; kept in the audit log.
        #[arg(long, value_parser = reason)]
        reason: Option<String>,
        #[command(flatten)]
        consent: ConsentArgs,
        #[command(flatten)]
        json: OutputArgs,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum TokensCommand {
    /// Make a token. It is shown once.
    Create {
        /// The rights of the token.
        #[arg(long, value_enum)]
        role: TokenRole,
        /// A label.
        #[arg(long)]
        name: String,
        /// The time from which the token is refused: 2027-01-31, or 90d from now.
        #[arg(long)]
        expires: Option<When>,
        /// A firm that the token may reach; repeated for more. Without it, the token reaches all.
        #[arg(long)]
        firm: Vec<String>,
        #[command(flatten)]
        json: OutputArgs,
    },
    /// List all tokens, newest first.
    List(OutputArgs),
    /// Revoke a token at once.
    Revoke {
        /// The token: its id, or the beginning of its id.
        token: String,
        #[command(flatten)]
        consent: ConsentArgs,
        #[command(flatten)]
        json: OutputArgs,
    },
}

/// The rights of a token of the internal API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TokenRole {
    /// Report activities, manage keys.
    Product,
    /// Operate the service.
    Operator,
    /// Read history.
    Auditor,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SecretsCommand {
    /// Show a firm's webhook signing secret, and record the reading.
    Reveal {
        /// The firm: its id, the beginning of its id, or its name.
        #[arg(long)]
        firm: String,
        #[command(flatten)]
        json: OutputArgs,
    },
    /// Make a new signing secret and show it. The old one signs no attempt claimed from then on.
    Rotate {
        /// The firm: its id, the beginning of its id, or its name.
        #[arg(long)]
        firm: String,
        /// The reason; kept in the log.
        #[arg(long)]
        reason: Option<String>,
        #[command(flatten)]
        consent: ConsentArgs,
        #[command(flatten)]
        json: OutputArgs,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum DeliveriesCommand {
    /// List the newest deliveries of a firm.
    List(crate::deliveries::DeliveryListArgs),
    /// Pause deliveries in every process until they are resumed. Paused deliveries wait and do not
    /// age.
    Pause(crate::pauses::PauseArgs),
    /// End a pause. Its deliveries continue where they were.
    Resume(crate::pauses::ResumeArgs),
    /// List pauses.
    Paused(OutputArgs),
    /// Show one delivery with its attempts; for a reason with its body and the answers.
    Show(DeliveryShowArgs),
    /// Explain the state of a delivery: its attempts, its end or the hold on it.
    Why(WhyDeliveryArgs),
    /// Write deliveries with their attempts to a file, and record the export.
    Export(DeliveryExportArgs),
}

#[derive(Debug, Args)]
pub(crate) struct DeliveryShowArgs {
    /// The firm: its id, the beginning of its id, or its name. Only a delivery that no list shows
    /// yet needs it.
    #[arg(long)]
    pub(crate) firm: Option<String>,
    /// The delivery: its id, or the beginning of its id.
    pub(crate) delivery: String,
    /// Its state at a position of the log, or at a time (2026-11-01, 2h).
    #[arg(long)]
    pub(crate) as_of: Option<PastMoment>,
    #[command(flatten)]
    pub(crate) reveal: TargetRevealArgs,
    #[command(flatten)]
    pub(crate) contents: ContentArgs,
    #[command(flatten)]
    pub(crate) json: OutputArgs,
}

/// The wish to see the contents of a delivery.
#[derive(Debug, Clone, Args)]
pub(crate) struct ContentArgs {
    /// Show the body that was sent, if it is kept.
    #[arg(long, requires = "reason")]
    pub(crate) body: bool,
    /// Show the answers of the receiver that are kept.
    #[arg(long, requires = "reason")]
    pub(crate) answer: bool,
    /// The reason to see body or answers; kept in the audit log.
    #[arg(long, value_parser = reason)]
    pub(crate) reason: Option<String>,
}

impl ContentArgs {
    /// The reason, if the body is asked for.
    pub(crate) fn of_body(&self) -> Option<&str> {
        self.reason.as_deref().filter(|_| self.body)
    }

    /// The reason, if the answers are asked for.
    pub(crate) fn of_answers(&self) -> Option<&str> {
        self.reason.as_deref().filter(|_| self.answer)
    }
}

#[derive(Debug, Args)]
pub(crate) struct OpenapiArgs {
    /// The public door's URL for integrators, without /api/v1.
    #[arg(long, default_value = "http://127.0.0.1:8080", env = "FIRMFORMS_BASE_URL",
          value_parser = base_url)]
    pub(crate) base_url: String,
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
