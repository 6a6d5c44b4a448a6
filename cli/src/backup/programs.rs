//! PostgreSQL's own programs: `pg_dump` and `pg_restore`. Each gets its connection by environment
//! variables, so that no password is on a command line.

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::thread::JoinHandle;

use anyhow::{Context, bail};
use cluster::find_client_program;
use percent_encoding::percent_decode_str;
use sqlx::ConnectOptions;
use sqlx::postgres::PgConnectOptions;
use tokio::process::ChildStdout;

use super::source::MemberReader;

/// The variables of ours that the programs need.
const KEPT_VARIABLES: [&str; 5] = ["PATH", "HOME", "LD_LIBRARY_PATH", "LANG", "TMPDIR"];

/// Parameters of a database URL, and the variables that libpq reads instead.
const TLS_VARIABLES: [(&str, &str); 4] = [
    ("sslmode", "PGSSLMODE"),
    ("sslrootcert", "PGSSLROOTCERT"),
    ("sslcert", "PGSSLCERT"),
    ("sslkey", "PGSSLKEY"),
];

/// A client program of PostgreSQL.
#[derive(Debug, Clone)]
pub(super) struct ClientProgram {
    name: &'static str,
    path: PathBuf,
}

impl ClientProgram {
    /// The program that fits a server or a dump of this major version.
    pub(super) fn find_for_version(
        name: &'static str,
        pg_bin: Option<&Path>,
        version: u32,
    ) -> anyhow::Result<Self> {
        Ok(Self { name, path: find_client_program(name, pg_bin, version)? })
    }

    /// A command without a database.
    fn bare_command(&self) -> Command {
        let mut command = Command::new(&self.path);
        command.env_clear().envs(
            std::env::vars_os().filter(|(name, _)| KEPT_VARIABLES.iter().any(|kept| name == kept)),
        );
        command
    }

    /// A command on this database.
    fn command_on(&self, database: &PgConnectOptions) -> Command {
        let mut command = self.bare_command();
        command.envs(connection_variables(database));
        command
    }

    /// Dumps a database as of a shared snapshot, or as of now. `take` reads the dump.
    pub(super) fn dump_database<T>(
        &self,
        database: &PgConnectOptions,
        snapshot: Option<&str>,
        take: impl FnOnce(&mut dyn Read) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        let mut command = self.command_on(database);
        // Nearly all bytes are ciphertext, so a higher compression costs time and saves nothing.
        command.args(["--format=custom", "--compress=1", "--no-password"]);
        command.args(snapshot.map(|name| format!("--snapshot={name}")));
        let mut child = self.spawn_command(command.stdin(Stdio::null()).stdout(Stdio::piped()))?;
        let mut output = child.stdout.take().context(self.name)?;
        let taken = take(&mut output);
        // A reader that failed must not leave the program waiting.
        drop(output);
        let ended = self.require_success(child);
        let taken = taken?;
        ended.map(|()| taken)
    }

    /// Lists the content of a dump.
    pub(super) fn list_dump(&self, dump: impl Read + Send) -> anyhow::Result<String> {
        let mut command = self.bare_command();
        let mut child =
            self.spawn_command(command.arg("--list").stdin(Stdio::piped()).stdout(Stdio::piped()))?;
        let input = child.stdin.take().context(self.name)?;
        let mut output = child.stdout.take().context(self.name)?;
        let mut list = String::new();
        // The program prints its list before it has read the dump.
        std::thread::scope(|scope| {
            let fed = scope.spawn(|| self.feed_dump(input, dump));
            output.read_to_string(&mut list).context(self.name)?;
            fed.join().unwrap_or_else(|_| bail!("{} was not fed", self.name))
        })?;
        self.require_success(child)?;
        Ok(list)
    }

    /// Begins to write the rows of a dump as a script. The script goes to no database.
    pub(super) fn begin_script(&self, dump: MemberReader) -> anyhow::Result<RunningScript> {
        let mut command = self.bare_command();
        command.args(["--data-only", "--file=-"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = self.spawn_command(&mut command)?;
        let input = child.stdin.take().context(self.name)?;
        let output = ChildStdout::from_std(child.stdout.take().context(self.name)?)?;
        let program = self.clone();
        let fed = std::thread::spawn(move || program.feed_dump(input, dump));
        Ok(RunningScript { program: self.clone(), child, output, fed })
    }

    fn spawn_command(&self, command: &mut Command) -> anyhow::Result<Child> {
        let child = command.stderr(Stdio::piped()).spawn();
        child.with_context(|| self.path.display().to_string())
    }

    /// Writes a dump to the program. A program that ends early tells the reason at its end, and the
    /// rest of the dump is read to compare it with its digest.
    fn feed_dump(&self, mut input: ChildStdin, mut dump: impl Read) -> anyhow::Result<()> {
        let fed = io::copy(&mut dump, &mut input).and_then(|_| input.flush());
        let read = match fed {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                io::copy(&mut dump, &mut io::sink()).map(drop)
            }
            fed => fed,
        };
        read.context(self.name)
    }

    fn require_success(&self, child: Child) -> anyhow::Result<()> {
        let ended = child.wait_with_output().context(self.name)?;
        if ended.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&ended.stderr);
        let first = said.lines().find(|line| !line.trim().is_empty()).unwrap_or("it told nothing");
        let is_refused = ["row-level security", "permission denied"].iter();
        let advice = match is_refused.clone().any(|part| first.contains(part)) {
            true => ": use the owner of the tables, or a login with BYPASSRLS and pg_read_all_data",
            false => "",
        };
        bail!("{} failed ({}): {first}{advice}", self.name, ended.status)
    }
}

/// A program that writes the script of a dump.
pub(super) struct RunningScript {
    program: ClientProgram,
    child: Child,
    /// The script.
    pub(super) output: ChildStdout,
    fed: JoinHandle<anyhow::Result<()>>,
}

impl RunningScript {
    /// Waits for the end of the program. A script whose program failed is not whole.
    pub(super) fn wait_for_end(self) -> anyhow::Result<()> {
        // A script that was not read to its end must not leave the program waiting.
        drop(self.output);
        let ended = self.program.require_success(self.child);
        let fed = self.fed.join();
        ended?;
        fed.unwrap_or_else(|_| bail!("{} was not fed", self.program.name))
    }
}

/// The connection of these options, as libpq's variables.
fn connection_variables(database: &PgConnectOptions) -> Vec<(&'static str, String)> {
    let url = database.to_url_lossy();
    let host = match database.get_socket() {
        Some(folder) => folder.display().to_string(),
        None => database.get_host().to_owned(),
    };
    let mut variables = vec![
        ("PGHOST", host),
        ("PGPORT", database.get_port().to_string()),
        ("PGUSER", database.get_username().to_owned()),
        ("PGDATABASE", database.get_database().unwrap_or_default().to_owned()),
        ("PGAPPNAME", "firmforms backup".to_owned()),
        ("PGCONNECT_TIMEOUT", "10".to_owned()),
    ];
    if let Some(password) = url.password() {
        let password = percent_decode_str(password).decode_utf8_lossy().into_owned();
        variables.push(("PGPASSWORD", password));
    }
    for (parameter, variable) in TLS_VARIABLES {
        let value = url.query_pairs().find(|(name, _)| name == parameter);
        variables.extend(value.map(|(_, value)| (variable, value.into_owned())));
    }
    variables
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each character stays.
    #[test]
    fn a_connection_is_told_by_variables() {
        let url = "postgres://ann:p%40s%2Bs%25%20%C3%A9@db.example.com:6432/forms?sslmode=require";
        let told = connection_variables(&url.parse().unwrap());
        let of = |name: &str| {
            told.iter().find(|(known, _)| *known == name).map(|(_, value)| value.as_str())
        };
        assert_eq!(of("PGHOST"), Some("db.example.com"));
        assert_eq!(of("PGPORT"), Some("6432"));
        assert_eq!(of("PGUSER"), Some("ann"));
        assert_eq!(of("PGDATABASE"), Some("forms"));
        assert_eq!(of("PGPASSWORD"), Some("p@s+s% é"));
        assert_eq!(of("PGSSLMODE"), Some("require"));
        assert_eq!(of("PGSSLROOTCERT"), None);
    }
}
