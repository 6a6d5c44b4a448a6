//! The keys that sign checkpoints: files in one folder, never rows in the database. A key's id is
//! made from its public half. A rotation deletes the old private half for good; public halves stay.

use std::fs;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use sha2::{Digest, Sha256};
use vault::Entropy;

use crate::error::AuditError;
use crate::files::{PUBLIC_MODE, SECRET_MODE, numbered_paths, write_new};

/// The bytes before the 32 key bytes in the standard encoding of an Ed25519 public key (RFC 8410).
const SPKI_PREFIX: [u8; 12] =
    [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];

/// A folder of keys.
#[derive(Debug, Clone)]
pub struct KeyFolder {
    folder: PathBuf,
}

/// The public half of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublicKey(pub [u8; 32]);

/// A signature, and the public half of its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeySignature {
    /// The public half of the key.
    pub key: PublicKey,
    /// The signature (Ed25519).
    pub bytes: Vec<u8>,
}

/// A key that can sign.
pub(crate) struct SigningKey(Ed25519KeyPair);

impl KeyFolder {
    /// The keys in this folder. The folder need not exist.
    #[must_use]
    pub const fn in_folder(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// The folder's path.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The public half of every key that ever signed with this folder, oldest first.
    ///
    /// # Errors
    /// If a file cannot be read, or is no key.
    pub fn public_keys(&self) -> Result<Vec<PublicKey>, AuditError> {
        let files = numbered_paths(&self.folder, "pub")?;
        files.iter().map(|(_, path)| read_half(path).map(PublicKey)).collect()
    }

    /// Makes a new key for all later signatures, and deletes the old private half.
    ///
    /// # Errors
    /// If a file cannot be read or written.
    pub fn rotate(&self, entropy: &dyn Entropy) -> Result<PublicKey, AuditError> {
        let old = numbered_paths(&self.folder, "key")?;
        let key = self.make_next(entropy)?;
        for (_, path) in old {
            fs::remove_file(&path).map_err(AuditError::at_path(&path))?;
        }
        Ok(key.public())
    }

    /// Signs bytes with the key that signs now. `None` if the folder has none.
    ///
    /// # Errors
    /// If the key cannot be read.
    pub fn sign(&self, bytes: &[u8]) -> Result<Option<KeySignature>, AuditError> {
        let signed = |key: SigningKey| KeySignature { key: key.public(), bytes: key.sign(bytes) };
        Ok(self.current_key()?.map(signed))
    }

    /// The key that signs now. `None` if the folder has none.
    pub(crate) fn current_key(&self) -> Result<Option<SigningKey>, AuditError> {
        Ok(self.last_key()?.map(|(_, key)| key))
    }

    /// Writes the public half of the current key if a crash left the private half alone.
    pub(crate) fn complete_pair(&self) -> Result<(), AuditError> {
        if let Some((number, key)) = self.last_key()? {
            self.write_public(number, key)?;
        }
        Ok(())
    }

    fn last_key(&self) -> Result<Option<(u64, SigningKey)>, AuditError> {
        let keys = numbered_paths(&self.folder, "key")?;
        let last = keys.last();
        last.map(|(number, path)| Ok((*number, SigningKey::of_seed(&read_half(path)?, path)?)))
            .transpose()
    }

    /// Makes a key after all others, and leaves them as they are.
    pub(crate) fn make_next(&self, entropy: &dyn Entropy) -> Result<SigningKey, AuditError> {
        let last = numbered_paths(&self.folder, "pub")?.last().map_or(0, |(number, _)| *number);
        self.make_key(last + 1, entropy)
    }

    /// Makes a key with this number. If another process made that key first, returns the other
    /// process's key.
    fn make_key(&self, number: u64, entropy: &dyn Entropy) -> Result<SigningKey, AuditError> {
        let seed = entropy.new_secret();
        let secret = self.folder.join(format!("{number:08}.key"));
        if !write_new(&secret, SECRET_MODE, hex::encode(seed).as_bytes())? {
            return self.write_public(number, SigningKey::of_seed(&read_half(&secret)?, &secret)?);
        }
        self.write_public(number, SigningKey::of_seed(&seed, &secret)?)
    }

    /// Writes the public half, unless the file exists. A crash may have left a private half alone.
    fn write_public(&self, number: u64, key: SigningKey) -> Result<SigningKey, AuditError> {
        let public = self.folder.join(format!("{number:08}.pub"));
        if !public.exists() {
            write_new(&public, PUBLIC_MODE, key.public().hex().as_bytes())?;
        }
        Ok(key)
    }
}

/// Reads the 32 bytes of a key's half.
pub(crate) fn read_half(path: &Path) -> Result<[u8; 32], AuditError> {
    let text = fs::read_to_string(path).map_err(AuditError::at_path(path))?;
    let mut bytes = [0; 32];
    hex::decode_to_slice(text.trim(), &mut bytes)
        .map_err(|_| AuditError::unreadable_file(path, "not 64 hexadecimal digits"))?;
    Ok(bytes)
}

impl SigningKey {
    fn of_seed(seed: &[u8; 32], path: &Path) -> Result<Self, AuditError> {
        let pair = Ed25519KeyPair::from_seed_unchecked(seed);
        pair.map(Self).map_err(|refused| AuditError::unreadable_file(path, &refused))
    }

    pub(crate) fn public(&self) -> PublicKey {
        let mut bytes = [0; 32];
        bytes.copy_from_slice(self.0.public_key().as_ref());
        PublicKey(bytes)
    }

    pub(crate) fn sign(&self, bytes: &[u8]) -> Vec<u8> {
        self.0.sign(bytes).as_ref().to_vec()
    }
}

impl PublicKey {
    /// The key's id: the first 16 hexadecimal digits of the key's SHA-256.
    #[must_use]
    pub fn id(&self) -> String {
        let mut id = hex::encode(Sha256::digest(self.0));
        id.truncate(16);
        id
    }

    /// Whether the signature over these bytes is made with the private half of this key.
    #[must_use]
    pub fn verifies(&self, bytes: &[u8], signature: &[u8]) -> bool {
        UnparsedPublicKey::new(&ED25519, self.0).verify(bytes, signature).is_ok()
    }

    /// The key as 64 hexadecimal digits.
    #[must_use]
    pub fn hex(&self) -> String {
        hex::encode(self.0)
    }

    /// Reads the form of [`PublicKey::hex`].
    #[must_use]
    pub fn from_hex(text: &str) -> Option<Self> {
        let mut bytes = [0; 32];
        hex::decode_to_slice(text.trim(), &mut bytes).ok()?;
        Some(Self(bytes))
    }

    /// The key as PEM, for other programs.
    #[must_use]
    pub fn pem(&self) -> String {
        let text = STANDARD.encode([&SPKI_PREFIX[..], &self.0].concat());
        format!("-----BEGIN PUBLIC KEY-----\n{text}\n-----END PUBLIC KEY-----\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vault::SystemEntropy;

    /// The signatures of a former key still verify.
    #[test]
    fn a_key_stays_until_its_rotation() {
        let folder = tempfile::tempdir().unwrap();
        let keys = KeyFolder::in_folder(folder.path().join("keys"));
        assert_eq!(keys.public_keys().unwrap(), []);
        assert!(keys.current_key().unwrap().is_none(), "no key is made by a look");
        let first = keys.make_next(&SystemEntropy).unwrap();
        let current = || keys.current_key().unwrap().unwrap().public();
        assert_eq!(current(), first.public());
        let signature = first.sign(b"said");
        let second = keys.rotate(&SystemEntropy).unwrap();
        assert_eq!(keys.public_keys().unwrap(), [first.public(), second.clone()]);
        assert_eq!(current(), second);
        assert!(first.public().verifies(b"said", &signature));
        assert!(!first.public().verifies(b"never said", &signature));
        assert!(!second.verifies(b"said", &signature));
        let secrets = numbered_paths(&keys.folder, "key").unwrap();
        assert_eq!(secrets.len(), 1, "the old private half is gone");
    }

    /// RFC 8032, section 7.1, test 1.
    #[test]
    fn g3_signatures_follow_the_standard() {
        let seed = "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60";
        let mut bytes = [0; 32];
        hex::decode_to_slice(seed, &mut bytes).unwrap();
        let key = SigningKey::of_seed(&bytes, Path::new("")).unwrap();
        assert_eq!(
            key.public().hex(),
            "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"
        );
        assert!(hex::encode(key.sign(b"")).starts_with("e5564300c360ac729086e2cc806e828a"));
    }
}
