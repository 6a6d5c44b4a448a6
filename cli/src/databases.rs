//! Finds and opens the two databases, and reads the wrapping key.

use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use auditor::{CheckpointFolder, KeyFolder, Notary};
use cluster::Cluster;
use eventstore::{DatabaseHosts, HostReport, HostState, NoPrimary, connect};
use log::LevelFilter;
use sqlx::postgres::PgConnectOptions;
use sqlx::{ConnectOptions, Connection, Executor, PgPool};
use vault::{Entropy, SystemEntropy, WrappingKey};

use crate::args::StorageArgs;
use crate::output::print_note;

/// The wait between two looks for the primary of a database.
const RECONNECT_INTERVAL: Duration = Duration::from_millis(500);

/// The name of the main database in the log and in errors.
pub(crate) const MAIN: &str = "the main database";

/// The name of the keyring in the log and in errors.
pub(crate) const KEYRING: &str = "the keyring";

/// The two databases, and the private cluster if they are in one.
pub struct Databases {
    /// The main database.
    pub main: DatabaseHosts,
    /// The keyring.
    pub keyring: DatabaseHosts,
    pub(crate) cluster: Option<Cluster>,
}

/// Whether a command may begin an installation: make a data directory, a key and a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Installation {
    /// `serve`, `migrate` and `demo`.
    MayBegin,
    /// Every other command: a mistyped directory must not become an empty installation.
    MustExist,
}

/// Whether a server of the keyring can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyringPresence {
    /// A server answers.
    Readable,
    /// No host answers.
    Away,
}

/// The names of the two databases in the private cluster.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DatabaseNames {
    pub(crate) main: &'static str,
    pub(crate) keyring: &'static str,
}

/// The databases of the service.
pub(crate) const SERVICE_DATABASES: DatabaseNames =
    DatabaseNames { main: "firmforms", keyring: "firmforms_keyring" };

impl Databases {
    /// Finds the databases named by the settings, or opens the private cluster.
    pub(crate) async fn open(
        storage: &StorageArgs,
        names: DatabaseNames,
        installation: Installation,
    ) -> anyhow::Result<Self> {
        let found = match (&storage.database_url, &storage.keyring_url) {
            (Some(main), Some(keyring)) if main != keyring => Self {
                main: main.parse().context("DATABASE_URL")?,
                keyring: keyring.parse().context("FIRMFORMS_KEYRING_URL")?,
                cluster: None,
            },
            (Some(_), _) => bail!(
                "with DATABASE_URL, set FIRMFORMS_KEYRING_URL to another database: \
                 the data keys must not be in the main one; an auditor uses a token instead, see \
                 docs/how-to/audit-with-a-token.md"
            ),
            (None, _) => Self::private(storage, names, installation).await?,
        };
        Ok(if std::env::var_os("RUST_LOG").is_some() { found } else { found.unlogged() })
    }

    /// Logs only slow statements, unless `RUST_LOG` is set. The check whether to log costs time in
    /// each statement.
    fn unlogged(self) -> Self {
        let unlogged = |host: PgConnectOptions| host.log_statements(LevelFilter::Off);
        Self { main: self.main.with(unlogged), keyring: self.keyring.with(unlogged), ..self }
    }

    async fn private(
        storage: &StorageArgs,
        names: DatabaseNames,
        installation: Installation,
    ) -> anyhow::Result<Self> {
        let data_dir = storage.data_dir();
        if installation == Installation::MustExist && !Cluster::exists(&data_dir) {
            cluster::check_owner(&data_dir)?;
            bail!(
                "there is no installation in {}: --data-dir or DATABASE_URL names another, and \
                 `firmforms serve` begins one",
                data_dir.display()
            );
        }
        let config = cluster::ClusterConfig {
            data_dir,
            durability: cluster::Durability::Durable,
            settings: Vec::new(),
            pg_bin: storage.pg_bin.clone(),
        };
        let cluster = Cluster::open(&config).await?;
        cluster.ensure_database(names.main).await?;
        cluster.ensure_database(names.keyring).await?;
        Ok(Self {
            main: cluster.connect(names.main).into(),
            keyring: cluster.connect(names.keyring).into(),
            cluster: Some(cluster),
        })
    }

    /// Opens empty databases for one run. The private cluster makes them anew; named databases must
    /// be empty.
    pub(crate) async fn new_and_empty(
        storage: &StorageArgs,
        names: DatabaseNames,
    ) -> anyhow::Result<Self> {
        if storage.database_url.is_none() {
            let begun = Installation::MayBegin;
            let cluster = Self::private(storage, SERVICE_DATABASES, begun).await?;
            for name in [names.main, names.keyring] {
                drop_database(cluster.main.options(), name).await?;
            }
        }
        let mut databases = Self::open(storage, names, Installation::MayBegin).await?;
        databases.require().await?;
        let used = "select count(*) from pg_class where relname = 'events'";
        let mut connection = databases.main.connect().await?;
        let tables: i64 = sqlx::query_scalar(used).fetch_one(&mut connection).await?;
        connection.close().await?;
        if tables > 0 {
            bail!("the demo wants empty databases");
        }
        Ok(databases)
    }

    /// Requires the primaries of both databases.
    pub(crate) async fn require(&mut self) -> anyhow::Result<()> {
        for (name, database) in self.both() {
            database.find_primary().await.map_err(|none| anyhow!("{name} {none}"))?;
        }
        Ok(())
    }

    /// Requires a server of each database that can be read, and tells the operator of a standby.
    pub(crate) async fn require_readable(&mut self) -> anyhow::Result<()> {
        for (name, database) in self.both() {
            find_readable(name, database).await?;
        }
        Ok(())
    }

    /// Requires a server of the main database that can be read, and looks for one of the keyring.
    /// Tells the operator of a standby. A refusal, such as a wrong password, is an error.
    pub(crate) async fn require_main(&mut self) -> anyhow::Result<KeyringPresence> {
        find_readable(MAIN, &mut self.main).await?;
        match self.keyring.find_readable().await {
            Ok(found) => note_standby(KEYRING, &found),
            Err(none) if none.refusal().is_some() => bail!("{KEYRING} {none}"),
            Err(_) => return Ok(KeyringPresence::Away),
        }
        Ok(KeyringPresence::Readable)
    }

    /// Waits for the primaries of both databases (case E11). A refusal is an error at once: a wrong
    /// password or a missing database does not pass by itself.
    pub(crate) async fn wait(&mut self) -> anyhow::Result<()> {
        for (name, database) in self.both() {
            until_primary(name, database).await?;
        }
        Ok(())
    }

    /// Releases the private cluster. Its last user stops it.
    pub(crate) async fn stop(self) -> anyhow::Result<()> {
        match self.cluster {
            Some(cluster) => Ok(cluster.stop().await?),
            None => Ok(()),
        }
    }

    const fn both(&mut self) -> [(&'static str, &mut DatabaseHosts); 2] {
        [(MAIN, &mut self.main), (KEYRING, &mut self.keyring)]
    }

    /// Databases that the caller keeps.
    #[must_use]
    pub fn given(main: PgConnectOptions, keyring: PgConnectOptions) -> Self {
        Self { main: main.into(), keyring: keyring.into(), cluster: None }
    }
}

/// The main database alone, over one connection and without the keyring. It is read as it is: no
/// migration, no writes. So read-only rights are enough, and a standby will do.
pub(crate) struct MainDatabase {
    pub(crate) pool: PgPool,
    cluster: Option<Cluster>,
}

impl MainDatabase {
    /// Connects to the main database.
    pub(crate) async fn at(storage: &StorageArgs) -> anyhow::Result<Self> {
        let (mut main, cluster) = match &storage.database_url {
            Some(main) => (main.parse::<DatabaseHosts>().context("DATABASE_URL")?, None),
            None => {
                let there = Installation::MustExist;
                let databases = Databases::private(storage, SERVICE_DATABASES, there).await?;
                (databases.main, databases.cluster)
            }
        };
        find_readable(MAIN, &mut main).await?;
        let quiet = connect(main.options().clone().disable_statement_logging(), 1);
        Ok(Self { pool: quiet, cluster })
    }

    /// Closes the connection, and releases the private cluster.
    pub(crate) async fn close(self) -> anyhow::Result<()> {
        self.pool.close().await;
        match self.cluster {
            Some(cluster) => Ok(cluster.stop().await?),
            None => Ok(()),
        }
    }
}

/// Finds a server to read from.
async fn find_readable(name: &str, database: &mut DatabaseHosts) -> anyhow::Result<()> {
    let found = database.find_readable().await.map_err(|none| anyhow!("{name} {none}"))?;
    note_standby(name, &found);
    Ok(())
}

/// Tells the operator of a standby, which may lack the newest rows.
fn note_standby(name: &str, found: &HostReport) {
    if let HostReport { place, state: HostState::Standby(_) } = found {
        print_note(&format!("note: {place} is a standby of {name}: it may be behind the primary"));
    }
}

/// Waits for the primary of one database. The log says why no host is the primary, once for each
/// reason, and when one is.
async fn until_primary(name: &str, database: &mut DatabaseHosts) -> anyhow::Result<()> {
    let mut said = None;
    loop {
        match database.find_primary().await {
            Ok(()) if said.is_some() => {
                tracing::info!("{name} answers");
                return Ok(());
            }
            Ok(()) => return Ok(()),
            Err(none) => say_why(name, &none, &mut said)?,
        }
        tokio::time::sleep(RECONNECT_INTERVAL).await;
    }
}

/// Logs why a database has no primary, unless it was said before. A refusal is an error.
fn say_why(name: &str, none: &NoPrimary, said: &mut Option<String>) -> anyhow::Result<()> {
    if let Some(refusal) = none.refusal() {
        bail!("{name}: {refusal}");
    }
    let why = none.to_string();
    if said.as_ref() != Some(&why) {
        tracing::warn!("{name} {why}: waiting");
        *said = Some(why);
    }
    Ok(())
}

async fn drop_database(beside: &PgConnectOptions, name: &str) -> anyhow::Result<()> {
    let mut connection = beside.connect().await?;
    let statement = format!("drop database if exists {name} with (force)");
    connection.execute(statement.as_str()).await?;
    Ok(connection.close().await?)
}

impl StorageArgs {
    pub(crate) fn data_dir(&self) -> PathBuf {
        self.data_dir.clone().unwrap_or_else(cluster::default_data_dir)
    }

    /// The notary that signs checkpoints and keeps them in their folder.
    pub(crate) fn notary(&self) -> Notary {
        let folder = |set: &Option<PathBuf>, name: &str| {
            set.clone().unwrap_or_else(|| self.data_dir().join(name))
        };
        Notary {
            keys: KeyFolder::in_folder(folder(&self.audit_keys_dir, "audit-keys")),
            checkpoints: CheckpointFolder::in_folder(folder(&self.checkpoints_dir, "checkpoints")),
        }
    }

    /// The notary of a process that signs. It writes into no other user's data directory.
    pub(crate) fn signing_notary(&self) -> anyhow::Result<Notary> {
        cluster::check_owner(&self.data_dir())?;
        Ok(self.notary())
    }

    /// The wrapping key: the given one, or the one of its file. A new installation gets a missing
    /// file.
    pub(crate) fn wrapping_key(&self, installation: Installation) -> anyhow::Result<WrappingKey> {
        match (&self.wrapping_key, &self.wrapping_key_file) {
            (Some(text), _) => parse_key(text).context("FIRMFORMS_WRAPPING_KEY"),
            (None, Some(file)) => key_of_file(file),
            (None, None) => {
                cluster::check_owner(&self.data_dir())?;
                // Each process on named databases would make a key of its own, and none of them
                // would read the data of another.
                let installation = match self.database_url {
                    Some(_) => Installation::MustExist,
                    None => installation,
                };
                key_from_file(&self.wrapping_key_place(), installation)
            }
        }
    }

    /// The text of the wrapping key, for a backup.
    pub(crate) fn wrapping_key_text(&self) -> anyhow::Result<String> {
        if let Some(text) = &self.wrapping_key {
            return Ok(text.clone());
        }
        cluster::check_owner(&self.data_dir())?;
        let file = self.wrapping_key_place();
        std::fs::read_to_string(&file).with_context(|| file.display().to_string())
    }

    /// The file of the wrapping key: the named one, or the one in the data directory.
    pub(crate) fn wrapping_key_place(&self) -> PathBuf {
        let named = self.wrapping_key_file.clone();
        named.unwrap_or_else(|| self.data_dir().join("wrapping.key"))
    }

    /// Reads the URLs whose files were named. A secret on the command line is shown to every local
    /// user, and a file is not.
    pub(crate) fn with_files(&self) -> anyhow::Result<Self> {
        let given = self.clone();
        Ok(Self {
            database_url: secret(given.database_url, self.database_url_file.as_deref())?,
            keyring_url: secret(given.keyring_url, self.keyring_url_file.as_deref())?,
            ..given
        })
    }
}

/// The secret, or the content of its file without the line break at its end.
pub(crate) fn secret(given: Option<String>, file: Option<&Path>) -> anyhow::Result<Option<String>> {
    let Some(path) = file else {
        return Ok(given);
    };
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    Ok(Some(text.trim_end_matches(['\r', '\n']).to_owned()))
}

pub(crate) fn parse_key(text: &str) -> anyhow::Result<WrappingKey> {
    let bytes = hex::decode(text.trim()).ok().and_then(|bytes| <[u8; 32]>::try_from(bytes).ok());
    Ok(WrappingKey::new(&bytes.context("not 64 hexadecimal digits")?))
}

fn key_from_file(path: &Path, installation: Installation) -> anyhow::Result<WrappingKey> {
    let named = || path.display().to_string();
    match (path.exists(), installation) {
        (true, _) => {}
        (false, Installation::MayBegin) => match make_key_file(path) {
            // Another process was first.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            made => made.with_context(named)?,
        },
        (false, Installation::MustExist) => bail!(
            "there is no wrapping key in {}: every process needs the one key of the installation; \
             --wrapping-key-file or FIRMFORMS_WRAPPING_KEY names it, and `firmforms keyring init` \
             makes the key of a new installation",
            path.display()
        ),
    }
    key_of_file(path)
}

/// Reads a key file.
pub(crate) fn key_of_file(path: &Path) -> anyhow::Result<WrappingKey> {
    let named = || path.display().to_string();
    parse_key(&std::fs::read_to_string(path).with_context(named)?).with_context(named)
}

/// Writes a new key into a new file.
pub(crate) fn make_key_file(path: &Path) -> std::io::Result<()> {
    write_key_file(path, &hex::encode(SystemEntropy.secret()))
}

/// Writes a key file beside its place and links it. So one of two processes wins, and no process
/// reads half a key. A file that exists is an error, and stays.
pub(crate) fn write_key_file(path: &Path, key: &str) -> std::io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    // The folder is searchable and not readable. As root, the account that runs PostgreSQL must
    // reach its own folder.
    std::fs::DirBuilder::new().recursive(true).mode(0o711).create(folder)?;
    let draft = folder.join(format!("wrapping.key.{}", std::process::id()));
    match std::fs::remove_file(&draft) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut options = std::fs::OpenOptions::new();
    let mut file = options.write(true).create_new(true).mode(0o600).open(&draft)?;
    writeln!(file, "{}", key.trim())?;
    file.sync_all()?;
    let linked = std::fs::hard_link(&draft, path);
    std::fs::remove_file(&draft)?;
    linked
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f2_a_link_in_the_place_of_a_key_that_is_made_is_not_followed() {
        let folder = std::env::temp_dir().join(format!("firmforms-key-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let precious = folder.join("precious");
        std::fs::write(&precious, "precious").unwrap();
        let draft = folder.join(format!("wrapping.key.{}", std::process::id()));
        std::os::unix::fs::symlink(&precious, draft).unwrap();
        make_key_file(&folder.join("wrapping.key")).unwrap();
        assert_eq!(std::fs::read_to_string(&precious).unwrap(), "precious");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
