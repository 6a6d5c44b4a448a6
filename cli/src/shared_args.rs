//! Arguments and readers of arguments that several commands share.

use std::env;
use std::fmt;
use std::path::PathBuf;

use auditor::archive::{BucketAccess, BucketPlace, LogArchive};
use clap::{Args, value_parser};
use domain::delivery::replay::REASON_MAX_CHARS;
use domain::values::trimmed_label;
use ipnet::IpNet;

/// The targets that a process may call.
#[derive(Debug, Clone, Args)]
pub(crate) struct TargetArgs {
    /// Private networks that targets may lie in: for development and tests only.
    #[arg(long, env = "FIRMFORMS_ALLOW_TARGETS", value_delimiter = ',')]
    pub(crate) allow_targets: Vec<IpNet>,
    /// Let targets be http: for development and tests only.
    #[arg(long, env = "FIRMFORMS_ALLOW_HTTP_TARGETS", value_parser = switch)]
    pub(crate) allow_http_targets: bool,
    /// A file of root certificates, in PEM, that deliveries and mail trust beside the platform's.
    #[arg(long, env = "FIRMFORMS_EXTRA_ROOTS")]
    pub(crate) extra_roots: Option<PathBuf>,
}

/// Kept days, at most: a century.
pub(crate) const DAYS_MAX: i64 = 36_500;

/// How long the answers of respondents are kept.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct ResponseRetentionArgs {
    /// Days that a response is kept after the last report about it; by default for good.
    #[arg(long, env = "FIRMFORMS_KEEP_RESPONSES_DAYS",
          value_parser = value_parser!(u32).range(1..=DAYS_MAX))]
    pub(crate) keep_responses_days: Option<u32>,
}

/// The place of an archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ArchivePlace {
    /// A directory.
    Folder(PathBuf),
    /// A bucket of S3.
    Bucket(BucketPlace),
}

/// Reads the place of an archive.
pub(crate) fn archive_place(text: &str) -> Result<ArchivePlace, String> {
    let path = match text.split_once("://") {
        None => text,
        Some(("file", path)) if path.starts_with('/') => path,
        Some(("s3", _)) => {
            let place = BucketPlace::from_url(text).map_err(|error| error.to_string())?;
            return Ok(ArchivePlace::Bucket(place));
        }
        Some(_) => {
            let asked = "write a directory, file:// and an absolute path, or s3://bucket/prefix";
            return Err(asked.to_owned());
        }
    };
    if path.is_empty() {
        return Err("name a directory".to_owned());
    }
    Ok(ArchivePlace::Folder(path.into()))
}

impl ArchivePlace {
    /// The archive in this place. Access to a bucket is named by the environment.
    pub(crate) fn open(&self) -> anyhow::Result<LogArchive> {
        match self {
            Self::Folder(folder) => Ok(LogArchive::in_folder(folder.clone())),
            Self::Bucket(place) => {
                let access = BucketAccess::from_variables(env::vars_os());
                Ok(LogArchive::in_bucket(place.clone(), &access)?)
            }
        }
    }
}

impl fmt::Display for ArchivePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(folder) => folder.display().fmt(f),
            Self::Bucket(place) => place.fmt(f),
        }
    }
}

/// The archive that has the ranges which have left the database.
#[derive(Debug, Clone, Args)]
pub(crate) struct KnownArchiveArgs {
    /// The archive of what has left the log: a directory, `file://` and its path, or
    /// `s3://bucket/prefix`.
    #[arg(long, env = "FIRMFORMS_ARCHIVE_URL", value_parser = archive_place)]
    archive_url: Option<ArchivePlace>,
}

impl KnownArchiveArgs {
    /// The archive, if one is named.
    pub(crate) fn open(&self) -> anyhow::Result<Option<LogArchive>> {
        self.archive_url.as_ref().map(ArchivePlace::open).transpose()
    }
}

/// Reads an operator's reason, as the log keeps it.
pub(crate) fn reason(text: &str) -> Result<String, String> {
    let reason = trimmed_label(text, REASON_MAX_CHARS).map(str::to_owned);
    reason.ok_or_else(|| format!("write 1 to {REASON_MAX_CHARS} characters, no control character"))
}

/// The wish to see a target with its path and query.
#[derive(Debug, Clone, Args)]
pub(crate) struct TargetRevealArgs {
    /// Show the whole target, for this reason. The reason is kept in the audit log.
    #[arg(long, value_name = "REASON")]
    pub(crate) show_target: Option<String>,
}

/// Reads a switch of the environment. Another word is refused: `maybe` must not pause a service.
pub(crate) fn switch(text: &str) -> Result<bool, &'static str> {
    match text.trim().to_ascii_lowercase().as_str() {
        "1" | "true" | "yes" | "on" => Ok(true),
        "" | "0" | "false" | "no" | "off" => Ok(false),
        _ => Err("write true or false"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_switch_is_a_clear_word() {
        assert_eq!(["1", "TRUE", "on"].map(switch), [Ok(true); 3]);
        assert_eq!(["", "0", "off"].map(switch), [Ok(false); 3]);
        assert!(switch("maybe").is_err());
    }

    #[test]
    fn an_archive_is_a_directory_or_bucket() {
        for (text, shown) in [
            ("/var/archive", "/var/archive"),
            ("file:///var/archive", "/var/archive"),
            ("s3://bucket/prefix", "s3://bucket/prefix"),
        ] {
            assert_eq!(archive_place(text).map(|place| place.to_string()), Ok(shown.to_owned()));
        }
        for refused in ["", "file://", "file://relative", "s3://", "https://example.com/a"] {
            assert!(archive_place(refused).is_err(), "{refused}");
        }
    }
}
