//! The command line, with the names of its environment variables.

use std::path::PathBuf;

use clap::{Args, ColorChoice, Parser, Subcommand, ValueEnum, value_parser};
use domain::event::OperatorName;
use domain::values::When;
use service::StorageSettings;
use service::telemetry::LogFormat;

use crate::answers::why::WhyKeyArgs;
use crate::answers::{
    AccessArgs, EventsCommand, FindArgs, FormsCommand, MembersCommand, PeopleCommand, ReceiversArgs,
};
use crate::archive::ArchiveCommand;
use crate::audit::args::{AuditCommand, HooksCommand};
use crate::cells::CellsCommand;
use crate::config::ConfigCommand;
use crate::confirm::ConsentArgs;
use crate::deliveries::args::{DeliveriesCommand, WorkflowsCommand};
use crate::generate::GenerateArgs;
use crate::keyring::KeyringCommand;
use crate::migrate::MigrateArgs;
use crate::output::{OutputArgs, ReportArgs};
use crate::projections::ProjectionsCommand;
use crate::replays::ReplaysCommand;
use crate::retention::RetentionCommand;
use crate::secret_file::read_secret;
use crate::serve_args::{ServeCommand, base_url};
use crate::settings_file::CONFIG_VARIABLE;
use crate::shared_args::{reason, switch};
use crate::verify::VerifyCommand;
use crate::version::version;

/// Firm Forms Integration: an API for one firm at a time, and signed webhook deliveries.
#[derive(Debug, Parser)]
#[command(name = "firmforms", version = version())]
pub(crate) struct CliArgs {
    #[command(flatten)]
    pub(crate) storage: StorageArgs,
    /// A settings file in TOML, with the flags' names: role = "api". Flags come before variables,
    /// and these before the file. `firmforms config show` tells each source.
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
    Workflows(WorkflowsCommand),
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
    /// Copy segments of the log into an archive, and read it.
    #[command(subcommand)]
    Archive(ArchiveCommand),
    /// Show which responses expire.
    #[command(subcommand)]
    Retention(RetentionCommand),
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

#[derive(Debug, Args)]
pub(crate) struct IngestArgs {
    /// The file, or - for standard input.
    pub(crate) file: PathBuf,
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

#[derive(Debug, Args)]
pub(crate) struct OpenapiArgs {
    /// The public door's URL for integrators, without /api/v1.
    #[arg(long, default_value = "http://127.0.0.1:8080", env = "FIRMFORMS_BASE_URL",
          value_parser = base_url)]
    pub(crate) base_url: String,
}
