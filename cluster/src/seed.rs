//! The seed of test clusters: the data of a stopped cluster as a tar archive, with its password
//! beside it. A cluster that begins with a seed needs no `initdb`, and has the seed's databases.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{self, Command};

use crate::error::{AtPath, ClusterError};
use crate::files::{ClusterFiles, write_secret};

/// Stores the data of a stopped cluster. The archive is whole, or not there.
pub(crate) fn store_data(
    files: &ClusterFiles,
    password: &str,
    seed: &Path,
) -> Result<(), ClusterError> {
    write_secret(&password_path(seed), password)?;
    let unfinished = seed.with_extension(process::id().to_string());
    let archive = File::create(&unfinished).at_path(&unfinished)?;
    let mut tar = files.account.command("tar");
    run_tar(tar.arg("-C").arg(files.folder()).args(["-cf", "-", "data"]).stdout(archive))
        .at_path(seed)?;
    fs::rename(&unfinished, seed).at_path(seed)
}

/// Begins the data of a new cluster with a seed.
pub(crate) fn plant_data(files: &ClusterFiles, seed: &Path) -> Result<(), ClusterError> {
    let password = fs::read_to_string(password_path(seed)).at_path(seed)?;
    write_secret(&files.password_path(), &password)?;
    let mut tar = files.account.command("tar");
    let archive = File::open(seed).at_path(seed)?;
    run_tar(tar.arg("-C").arg(files.folder()).args(["-xf", "-"]).stdin(archive)).at_path(seed)
}

fn password_path(seed: &Path) -> PathBuf {
    seed.with_extension("password")
}

fn run_tar(command: &mut Command) -> io::Result<()> {
    match command.status()?.success() {
        true => Ok(()),
        false => Err(io::Error::other("tar failed")),
    }
}
