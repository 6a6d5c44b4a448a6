//! Files of the wrapping key.

use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use anyhow::{Context, bail};
use vault::{Entropy, SystemEntropy, WrappingKey};

use crate::installation::Installation;

/// Reads a wrapping key from its text.
///
/// # Errors
///
/// If the text is not 64 hexadecimal digits.
pub fn parse_key(text: &str) -> anyhow::Result<WrappingKey> {
    let bytes = hex::decode(text.trim()).ok().and_then(|bytes| <[u8; 32]>::try_from(bytes).ok());
    Ok(WrappingKey::new(&bytes.context("not 64 hexadecimal digits")?))
}

pub(crate) fn key_from_file(
    path: &Path,
    installation: Installation,
) -> anyhow::Result<WrappingKey> {
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
///
/// # Errors
///
/// If the file cannot be read, or holds no key.
pub fn key_of_file(path: &Path) -> anyhow::Result<WrappingKey> {
    let named = || path.display().to_string();
    parse_key(&std::fs::read_to_string(path).with_context(named)?).with_context(named)
}

/// Writes a new key into a new file.
///
/// # Errors
///
/// If the file exists, or cannot be written.
pub fn make_key_file(path: &Path) -> std::io::Result<()> {
    write_key_file(path, &hex::encode(SystemEntropy.new_secret()))
}

/// Writes a key file beside its place and links it. So one of two processes wins, and no process
/// reads half a key. A file that exists is an error, and stays.
///
/// # Errors
///
/// If the file exists, or cannot be written.
pub fn write_key_file(path: &Path, key: &str) -> std::io::Result<()> {
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
    fn a_new_key_file_follows_no_link() {
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
