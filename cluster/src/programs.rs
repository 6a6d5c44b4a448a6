//! Finds PostgreSQL's own programs on this machine. Never runs a server and never downloads.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::account::ServerAccount;
use crate::error::{ClusterError, OLDEST_VERSION};

/// The folders of packages: a folder, the start of a name in it, and the path after that name.
const PACKAGE_FOLDERS: [(&str, &str, &str); 7] = [
    ("/usr/lib/postgresql", "", "bin"),          // Debian
    ("/usr", "pgsql-", "bin"),                   // the PostgreSQL project's RPMs
    ("/usr/lib", "postgresql", "bin"),           // SUSE
    ("/usr/lib64", "postgresql-", "bin"),        // Gentoo
    ("/usr/libexec", "postgresql", ""),          // Alpine
    ("/opt/homebrew/opt", "postgresql@", "bin"), // Homebrew
    ("/usr/local/opt", "postgresql@", "bin"),    // Homebrew on Intel
];

/// PostgreSQL's programs: a folder that holds `initdb` and `postgres`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PostgresPrograms {
    /// The folder, free of symbolic links.
    pub folder: PathBuf,
    /// The major version.
    pub version: u32,
}

impl PostgresPrograms {
    /// The programs in a folder, if both exist and are new enough.
    fn in_folder(folder: PathBuf) -> Option<Self> {
        let output = Command::new(folder.join("postgres")).arg("--version").output().ok()?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let version = major_version(said.strip_prefix("postgres ")?)?;
        let usable = version >= OLDEST_VERSION && folder.join("initdb").is_file();
        usable.then_some(Self { folder, version })
    }
}

/// The newest programs of version 14 or later, in `pg_bin` if given. Otherwise the search covers
/// the PATH and the folders of packages (unless `FIRMFORMS_PG_SEARCH` is `none`).
pub fn find_programs(pg_bin: Option<&Path>) -> Result<PostgresPrograms, ClusterError> {
    usable_programs(pg_bin)?
        .into_iter()
        .max_by_key(|programs| programs.version)
        .ok_or(ClusterError::NoPrograms)
}

/// A client program such as `pg_dump`, in `pg_bin` if given and in the usual places otherwise. Of
/// several versions it is the oldest that is not older than `version_min`: a newer program writes
/// settings that an older server does not know.
///
/// # Errors
/// [`ClusterError::NoClientProgram`].
pub fn find_client_program(
    name: &'static str,
    pg_bin: Option<&Path>,
    version_min: u32,
) -> Result<PathBuf, ClusterError> {
    let folders = pg_bin.map_or_else(candidate_folders, |folder| vec![folder.to_owned()]);
    folders
        .into_iter()
        .map(|folder| folder.join(name))
        .filter(|path| path.is_file())
        .filter_map(|path| Some((program_version(&path)?, path)))
        .filter(|(version, _)| *version >= version_min)
        .min_by_key(|(version, _)| *version)
        .map(|(_, path)| path)
        .ok_or(ClusterError::NoClientProgram { name, version_min })
}

/// The major version of a client program, as it tells.
fn program_version(program: &Path) -> Option<u32> {
    let output = Command::new(program).arg("--version").output().ok()?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    major_version(said.split_once(' ')?.1)
}

/// The programs of the version that made the data. The account can reach them.
pub(crate) fn find_for(
    account: &ServerAccount,
    data: &Path,
    pg_bin: Option<&Path>,
) -> Result<PostgresPrograms, ClusterError> {
    let made_by = fs::read_to_string(data.join("PG_VERSION")).ok();
    let made_by = made_by.and_then(|version| version.trim().parse::<u32>().ok());
    let rank = |programs: &PostgresPrograms| {
        let fits = made_by.is_none_or(|made_by| made_by == programs.version);
        (fits, account.can_enter(&programs.folder).is_ok(), programs.version)
    };
    let best =
        usable_programs(pg_bin)?.into_iter().max_by_key(rank).ok_or(ClusterError::NoPrograms)?;
    match made_by.filter(|made_by| *made_by != best.version) {
        Some(made_by) => Err(ClusterError::WrongVersion { made_by, found: best.version }),
        None => account.can_enter(&best.folder).map(|()| best),
    }
}

fn usable_programs(pg_bin: Option<&Path>) -> Result<Vec<PostgresPrograms>, ClusterError> {
    let Some(pg_bin) = pg_bin else {
        return Ok(distinct_folders(candidate_folders())
            .filter_map(PostgresPrograms::in_folder)
            .collect());
    };
    let folder = pg_bin.canonicalize().ok();
    let programs = folder.and_then(PostgresPrograms::in_folder);
    programs.map(|programs| vec![programs]).ok_or_else(|| ClusterError::NoProgramsIn(pg_bin.into()))
}

/// The folders that hold a real `initdb`, each once. Programs on the PATH are often links.
fn distinct_folders(places: Vec<PathBuf>) -> impl Iterator<Item = PathBuf> {
    let real = places.into_iter().filter_map(|place| place.join("initdb").canonicalize().ok());
    let folders: BTreeSet<_> = real.filter_map(|initdb| Some(initdb.parent()?.into())).collect();
    folders.into_iter()
}

fn candidate_folders() -> Vec<PathBuf> {
    if env::var_os("FIRMFORMS_PG_SEARCH").is_some_and(|search| search == "none") {
        return Vec::new();
    }
    let path = env::var_os("PATH").unwrap_or_default();
    let packaged = PACKAGE_FOLDERS.into_iter().flat_map(|(folder, prefix, then)| {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        let fitting =
            entries.filter(move |entry| entry.file_name().to_string_lossy().starts_with(prefix));
        fitting.map(move |entry| entry.path().join(then))
    });
    env::split_paths(&path).chain(packaged).collect()
}

/// Finds `15` in `(PostgreSQL) 15.8 (Debian 15.8-0+deb12u1)`, and `18` in `18beta1`.
fn major_version(said: &str) -> Option<u32> {
    let number = said.strip_prefix("(PostgreSQL) ")?;
    number.split(|character: char| !character.is_ascii_digit()).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::major_version;

    #[test]
    fn the_major_version_is_the_first_number() {
        assert_eq!(major_version("(PostgreSQL) 15.8 (Debian 15.8-0+deb12u1)\n"), Some(15));
        assert_eq!(major_version("(PostgreSQL) 18beta1\n"), Some(18));
        assert_eq!(major_version("(EnterpriseDB) 15.8\n"), None);
        assert_eq!(major_version(""), None);
    }
}
