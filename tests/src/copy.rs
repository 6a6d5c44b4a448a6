//! Copies of databases by PostgreSQL's own programs, as an operator makes and restores them.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicU32, Ordering};

use sqlx::postgres::PgConnectOptions;
use sqlx::{ConnectOptions, Connection, Executor};
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

static NUMBER: AtomicU32 = AtomicU32::new(1);

/// `pg_dump` and `psql`.
pub struct Copies {
    folder: PathBuf,
}

impl Copies {
    /// The programs beside the server's; none, and says so, where only the server's are.
    #[must_use]
    pub fn of_this_machine() -> Option<Self> {
        let pg_bin = std::env::var_os("FIRMFORMS_PG_BIN").map(PathBuf::from);
        let folder = cluster::find_programs(pg_bin.as_deref()).unwrap().folder;
        let all = ["pg_dump", "psql"].iter().all(|program| folder.join(program).is_file());
        if !all {
            println!("skipped: no pg_dump and psql in {}", folder.display());
        }
        all.then_some(Self { folder })
    }

    async fn dump(&self, database: &PgConnectOptions) -> String {
        let output = self.program("pg_dump", database).output().await.unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Everything in a database, as SQL; nowhere in it is this word, in either case, as text or in
    /// PostgreSQL's spelling of bytes.
    pub async fn dump_without(&self, word: &str, database: &PgConnectOptions) -> String {
        let dump = self.dump(database).await;
        let shown = dump.to_lowercase();
        let (first, rest) = word.split_at(1);
        for spelling in [word.to_owned(), first.to_uppercase() + rest] {
            let bytes: String = spelling.bytes().map(|byte| format!("{byte:02x}")).collect();
            assert!(!shown.contains(&bytes), "{spelling}, as bytes");
        }
        assert!(!shown.contains(word), "{word}");
        dump
    }

    /// A new database on the same server with the content of the dump.
    pub async fn restore(&self, dump: &str, server: &PgConnectOptions) -> PgConnectOptions {
        let name = format!("restored_{}", NUMBER.fetch_add(1, Ordering::Relaxed));
        let mut connection = server.clone().database("postgres").connect().await.unwrap();
        let create = format!("create database {name} template template0");
        connection.execute(create.as_str()).await.unwrap();
        connection.close().await.unwrap();
        let restored = server.clone().database(&name);
        let mut command = self.program("psql", &restored);
        command.args(["--no-psqlrc", "--quiet", "--set", "ON_ERROR_STOP=1"]);
        command.stdin(Stdio::piped()).stdout(Stdio::null());
        let mut psql = command.spawn().unwrap();
        psql.stdin.take().unwrap().write_all(dump.as_bytes()).await.unwrap();
        assert!(psql.wait().await.unwrap().success());
        restored
    }

    /// The schema of a database, as SQL, without row guards and without the name of this dump.
    pub async fn schema(&self, database: &PgConnectOptions) -> String {
        let mut command = self.program("pg_dump", database);
        let options = ["--schema-only", "--no-owner", "--no-privileges", "--schema=public"];
        let output = command.args(options).output().await.unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8(output.stdout).unwrap();
        let named = ["POLICY", "ROW LEVEL SECURITY", "\\restrict", "\\unrestrict"];
        let is_kept = |line: &&str| !named.iter().any(|word| line.contains(word));
        text.lines().filter(is_kept).map(|line| format!("{line}\n")).collect()
    }

    /// Writes a dump of a database as a backup has it.
    pub async fn archive(&self, database: &PgConnectOptions, arguments: &[&str]) -> Vec<u8> {
        let mut command = self.program("pg_dump", database);
        command.args(["--format=custom", "--compress=1"]).args(arguments);
        let output = command.output().await.unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    }

    /// Restores such a dump by PostgreSQL's program.
    pub async fn unarchive(&self, dump: &Path, database: &PgConnectOptions) {
        let mut command = self.program("pg_restore", database);
        command.arg("--no-owner").arg("--dbname").arg(database.get_database().unwrap()).arg(dump);
        let output = command.output().await.unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    fn program(&self, name: &str, database: &PgConnectOptions) -> Command {
        let mut command = Command::new(self.folder.join(name));
        command
            .env("PGHOST", database.get_socket().unwrap())
            .env("PGPORT", database.get_port().to_string())
            .env("PGUSER", database.get_username())
            .env("PGDATABASE", database.get_database().unwrap())
            .env("PGPASSWORD", database.to_url_lossy().password().unwrap_or_default());
        command
    }
}
