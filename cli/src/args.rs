//! The command line and its environment names.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::builder::FalseyValueParser;
use clap::{Args, Parser, Subcommand, ValueEnum, value_parser};
use domain::as_of::AsOf;
use ipnet::IpNet;
use mailer::{SenderAddress, SmtpUrl};
use uuid::Uuid;

use crate::audit::args::{AuditCommand, HooksCommand};
use crate::generate::ActivityArgs;
use crate::keyring::KeyringCommand;
use crate::projections::ProjectionsCommand;
use crate::replays::ReplaysCommand;
use crate::roles::MigrateArgs;
use crate::telemetry::args::TelemetryArgs;
use crate::verify::VerifyCommand;

/// Firm Forms Integration: an API for one firm at a time, and signed webhook deliveries.
#[derive(Debug, Parser)]
#[command(name = "firmforms", version)]
pub(crate) struct CliArgs {
    #[command(flatten)]
    pub(crate) storage: StorageArgs,
    /// Write the log as JSON lines.
    #[arg(long, global = true, env = "FIRMFORMS_LOG_JSON", value_parser = FalseyValueParser::new())]
    pub(crate) log_json: bool,
    #[command(subcommand)]
    pub(crate) command: CliCommand,
}

/// Where the data is.
#[derive(Debug, Clone, Args)]
pub struct StorageArgs {
    /// The main database. Without it, a private PostgreSQL cluster is kept in the data directory.
    #[arg(long, global = true, env = "DATABASE_URL", hide_env_values = true)]
    pub database_url: Option<String>,
    /// The database of data keys; needed with --database-url, and never the same database.
    #[arg(long, global = true, env = "FIRMFORMS_KEYRING_URL", hide_env_values = true)]
    pub keyring_url: Option<String>,
    /// The private cluster and the wrapping key; /var/lib/firmforms for root, otherwise the user's
    /// data folder.
    #[arg(long, global = true, env = "FIRMFORMS_DATA_DIR")]
    pub data_dir: Option<PathBuf>,
    /// The folder of PostgreSQL's programs, if they are not where they usually are.
    #[arg(long, global = true, env = "FIRMFORMS_PG_BIN")]
    pub pg_bin: Option<PathBuf>,
    /// The key that wraps all data keys: 64 hexadecimal digits. Without it, a file in the data
    /// directory, made when there is none.
    #[arg(long, global = true, env = "FIRMFORMS_WRAPPING_KEY", hide_env_values = true)]
    pub wrapping_key: Option<String>,
    /// Where signed checkpoints of the audit log are kept; by default in the data directory. Best where
    /// this machine can only add to it.
    #[arg(long, global = true, env = "FIRMFORMS_CHECKPOINTS_DIR")]
    pub checkpoints_dir: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum CliCommand {
    /// Show the whole thing: activity, signed deliveries, history.
    Demo(DemoArgs),
    /// Run the service.
    Serve(Box<ServeArgs>),
    /// Bring the databases to this version's schema.
    Migrate(MigrateArgs),
    /// Take in product activity: CloudEvents, one per line.
    Ingest(IngestArgs),
    /// Make product activity up, the same for the same arguments: CloudEvents, one per line.
    Generate(GenerateArgs),
    /// List firms.
    #[command(subcommand)]
    Firms(FirmsCommand),
    /// Make, list and revoke API keys.
    #[command(subcommand)]
    Keys(KeysCommand),
    /// Make, list and revoke tokens of the internal door.
    #[command(subcommand)]
    Tokens(TokensCommand),
    /// Show and rotate a firm's webhook signing secret.
    #[command(subcommand)]
    Secrets(SecretsCommand),
    /// Put everything under another wrapping key.
    #[command(subcommand)]
    Keyring(KeyringCommand),
    /// List, show, hold and resume deliveries.
    #[command(subcommand)]
    Deliveries(DeliveriesCommand),
    /// Send again what has ended, and see how that goes.
    #[command(subcommand)]
    Replay(ReplaysCommand),
    /// Make a delivery that has ended anew: read anew, under an id of its own.
    Reissue(crate::reissue::ReissueArgs),
    /// Show what waits where, and why.
    #[command(subcommand)]
    Lanes(crate::lanes::LanesCommand),
    /// List what workflow steps sent.
    #[command(subcommand)]
    Workflows(crate::deliveries::WorkflowsCommand),
    /// List and explain subscriptions, removed ones too.
    #[command(subcommand)]
    Hooks(HooksCommand),
    /// List, export, sign and verify the audit log.
    #[command(subcommand)]
    Audit(AuditCommand),
    /// Look at read models, make them anew from the log, or compare them with it.
    #[command(subcommand)]
    Projections(ProjectionsCommand),
    /// Look at an installation, and say what is wrong and what to do. Exit code 0: nothing is wrong;
    /// 1: something is; 2: it could not look.
    Doctor(crate::doctor::DoctorArgs),
    /// Prove from the log that nothing was missed, doubled or lost.
    #[command(subcommand)]
    Verify(VerifyCommand),
    /// Print the description of the public API (OpenAPI 3.1) as JSON.
    Openapi(OpenapiArgs),
}

impl CliCommand {
    /// How much the process says by default: a service tells what it does, a command only what is
    /// wrong.
    pub(crate) const fn log_level(&self) -> &'static str {
        match self {
            Self::Serve(_) => "info",
            Self::Demo(_)
            | Self::Migrate(_)
            | Self::Ingest(_)
            | Self::Generate(_)
            | Self::Firms(_)
            | Self::Keys(_)
            | Self::Tokens(_)
            | Self::Secrets(_)
            | Self::Keyring(_)
            | Self::Deliveries(_)
            | Self::Hooks(_)
            | Self::Replay(_)
            | Self::Reissue(_)
            | Self::Doctor(_)
            | Self::Lanes(_)
            | Self::Workflows(_)
            | Self::Audit(_)
            | Self::Projections(_)
            | Self::Verify(_)
            | Self::Openapi(_) => "warn",
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// Do it once and exit: 0 if every delivery arrived once with a good signature, otherwise 1.
    #[arg(long)]
    pub(crate) once: bool,
    /// The activity to show.
    #[arg(long, default_value = "demo/activity.ndjson")]
    pub(crate) activity: PathBuf,
    /// Show activity that is made up instead, with so many responses of three firms.
    #[arg(long, conflicts_with = "activity", value_parser = value_parser!(u64).range(1..=10_000))]
    pub(crate) responses: Option<u64>,
    /// Another number, other activity.
    #[arg(long, requires = "responses", default_value_t = 1)]
    pub(crate) seed: u64,
}

/// The address mail is sent from while none is named: one that no mail server takes.
pub(crate) const DEFAULT_MAIL_FROM: &str = "forms@firmforms.example";

/// How the service runs.
#[derive(Debug, Clone, Args)]
pub struct ServeArgs {
    /// What this process does; any number of each against one database.
    #[arg(long, value_enum, default_value = "all", env = "FIRMFORMS_ROLE")]
    pub role: ProcessRole,
    /// Send nothing as long as this process runs: take in, fan out and show only. For the time after
    /// a restore; started again without it, everything goes on. See also `deliveries pause`.
    #[arg(long, env = "FIRMFORMS_PAUSED", value_parser = FalseyValueParser::new())]
    pub paused: bool,
    /// The public door.
    #[arg(long, default_value = "127.0.0.1:8080", env = "FIRMFORMS_ADDR")]
    pub addr: SocketAddr,
    /// The internal door: the product and operators; by default 127.0.0.1:8081. A process without
    /// doors answers /livez, /readyz and /metrics there, if this is given.
    #[arg(long, env = "FIRMFORMS_INTERNAL_ADDR")]
    pub internal_addr: Option<SocketAddr>,
    /// Where integrators reach the public door, without /api/v1; by default http:// (https:// with a
    /// certificate) and its address.
    #[arg(long, env = "FIRMFORMS_BASE_URL")]
    pub base_url: Option<String>,
    /// Private networks that targets may lie in: for development and tests only.
    #[arg(long, env = "FIRMFORMS_ALLOW_TARGETS", value_delimiter = ',')]
    pub allow_targets: Vec<IpNet>,
    /// Let targets be http: for development and tests only.
    #[arg(long, env = "FIRMFORMS_ALLOW_HTTP_TARGETS", value_parser = FalseyValueParser::new())]
    pub allow_http_targets: bool,
    /// Make waits pass so many times faster: for tests and drills only, with --allow-targets.
    #[arg(long, default_value_t = 1.0, env = "FIRMFORMS_TIME_SCALE")]
    pub time_scale: f64,
    /// The mail server for invites: smtp://user:password@host:587, or smtps://; with --base-url in
    /// https. Without it, mails are written as plain files into the data directory: for development.
    #[arg(long, env = "FIRMFORMS_SMTP_URL", hide_env_values = true, requires = "mail_from")]
    pub smtp_url: Option<SmtpUrl>,
    /// The address mail is sent from; needed with --smtp-url.
    #[arg(long, env = "FIRMFORMS_MAIL_FROM")]
    pub mail_from: Option<SenderAddress>,
    /// Proxies whose X-Forwarded-For is believed.
    #[arg(long, env = "FIRMFORMS_TRUSTED_PROXIES", value_delimiter = ',')]
    pub trusted_proxies: Vec<IpNet>,
    /// Certificates, in PEM, of roots to trust beside the platform's: by deliveries and by mail.
    #[arg(long, env = "FIRMFORMS_EXTRA_ROOTS")]
    pub extra_roots: Option<PathBuf>,
    /// The public door's certificate chain, in PEM; read again on SIGHUP.
    #[arg(long, env = "FIRMFORMS_TLS_CERT", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,
    /// The private key of that certificate, in PEM.
    #[arg(long, env = "FIRMFORMS_TLS_KEY", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
    /// Days that what was delivered is kept, as ciphertext.
    #[arg(long, default_value_t = 7, env = "FIRMFORMS_KEEP_DELIVERED_DAYS")]
    pub keep_delivered_days: u32,
    /// Days that what failed or was cancelled is kept: it can be replayed so long.
    #[arg(long, default_value_t = 30, env = "FIRMFORMS_KEEP_FAILED_DAYS")]
    pub keep_failed_days: u32,
    /// Days that what receivers answered is kept.
    #[arg(long, default_value_t = 30, env = "FIRMFORMS_KEEP_ANSWERS_DAYS")]
    pub keep_answers_days: u32,
    /// Deliveries in flight at a time.
    #[arg(long, default_value_t = 256, env = "FIRMFORMS_PERMITS")]
    pub permits: usize,

    /// Deliveries in flight from one firm to one host, over all processes.
    #[arg(long, env = "FIRMFORMS_PER_FIRM_AND_HOST", default_value_t = 32)]
    pub per_firm_and_host: usize,

    /// Deliveries in flight to one host, over all processes.
    #[arg(long, env = "FIRMFORMS_PER_HOST", default_value_t = 256)]
    pub per_host: usize,

    #[command(flatten)]
    #[expect(missing_docs, reason = "its words would stand for those of the service")]
    pub telemetry: TelemetryArgs,
}

/// What a process does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ProcessRole {
    /// Everything.
    All,
    /// Both doors.
    Api,
    /// The read models that follow the log.
    Projector,
    /// Fan-out and sending.
    Deliverer,
}

#[derive(Debug, Args)]
pub(crate) struct IngestArgs {
    /// The file, or - for standard input.
    pub(crate) file: PathBuf,
}

/// What to make up, and where it goes.
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
    /// All firms, by name.
    List(OutputArgs),
}

#[derive(Debug, Subcommand)]
pub(crate) enum KeysCommand {
    /// Make a key for an owner or admin; it is shown once.
    Create {
        /// The firm.
        #[arg(long)]
        firm: Uuid,
        /// The owner or admin it acts for.
        #[arg(long)]
        member: Uuid,
        /// A label.
        #[arg(long)]
        name: String,
        #[command(flatten)]
        json: OutputArgs,
    },
    /// The keys of a firm, newest first.
    List {
        /// The firm.
        #[arg(long)]
        firm: Uuid,
        #[command(flatten)]
        json: OutputArgs,
    },
    /// Revoke a key, and remove its subscriptions, at once.
    Revoke {
        /// The firm.
        #[arg(long)]
        firm: Uuid,
        /// The key.
        key: Uuid,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum TokensCommand {
    /// Make a token; it is shown once.
    Create {
        /// What it may do.
        #[arg(long, value_enum)]
        role: TokenRole,
        /// A label.
        #[arg(long)]
        name: String,
        #[command(flatten)]
        json: OutputArgs,
    },
    /// All tokens, newest first.
    List(OutputArgs),
    /// Revoke a token at once.
    Revoke {
        /// The token's id.
        token: Uuid,
    },
}

/// What a token of the internal door may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TokenRole {
    /// Report activity, manage keys.
    Product,
    /// Operate the service.
    Operator,
    /// Read history.
    Auditor,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SecretsCommand {
    /// Show a firm's webhook signing secret; that it was shown is recorded.
    Reveal {
        /// The firm.
        #[arg(long)]
        firm: Uuid,
        #[command(flatten)]
        json: OutputArgs,
    },
    /// Make a new signing secret, and show it; the old one signs nothing that is claimed from then on.
    Rotate {
        /// The firm.
        #[arg(long)]
        firm: Uuid,
        /// Why; kept in the log.
        #[arg(long)]
        reason: Option<String>,
        #[command(flatten)]
        json: OutputArgs,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum DeliveriesCommand {
    /// The newest deliveries of a firm.
    List(crate::deliveries::DeliveryListArgs),
    /// Hold deliveries, in every process, until they are resumed; they wait and do not age.
    Pause(crate::pauses::PauseArgs),
    /// Let go of what is held; it goes on where it was.
    Resume(crate::pauses::ResumeArgs),
    /// What is held.
    Paused(OutputArgs),
    /// One delivery, try by try.
    Show {
        /// The firm.
        #[arg(long)]
        firm: Uuid,
        /// The delivery.
        delivery: Uuid,
        /// As it was at a position of the log, or at an instant.
        #[arg(long)]
        as_of: Option<AsOf>,
        #[command(flatten)]
        json: OutputArgs,
    },
}

#[derive(Debug, Args)]
pub(crate) struct OpenapiArgs {
    /// Where integrators reach the public door, without /api/v1.
    #[arg(long, default_value = "http://127.0.0.1:8080", env = "FIRMFORMS_BASE_URL")]
    pub(crate) base_url: String,
}

/// How to answer.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct OutputArgs {
    /// Answer with JSON.
    #[arg(long)]
    pub(crate) json: bool,
}
