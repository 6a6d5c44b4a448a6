//! Encryption: XChaCha20-Poly1305 with a random nonce in front of the ciphertext. Each ciphertext
//! is bound to a purpose, and decrypts only for that purpose.

use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};

use crate::entropy::Entropy;

const NONCE_BYTES: usize = 24;

/// The plaintext and the purpose of the check value. Only the right wrapping key decrypts the
/// value.
pub(crate) const WRAPPING_CHECK: &[u8] = b"wrapping key";

/// The purpose of a sealed manifest.
const BACKUP_MANIFEST: &[u8] = b"backup manifest";

/// The bytes do not decrypt: the key or the purpose is another one, or the bytes were changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this key does not open the sealed bytes")]
pub struct BrokenSeal;

/// The data key of one subject.
#[derive(Clone)]
pub struct DataKey(XChaCha20Poly1305);

impl DataKey {
    pub(crate) fn new(bytes: &[u8; 32]) -> Self {
        Self(XChaCha20Poly1305::new(bytes.into()))
    }

    /// Encrypts bytes. [`DataKey::open`] needs the same `purpose` to decrypt them.
    ///
    /// # Errors
    /// [`BrokenSeal`] for more than 256 GiB.
    pub fn seal(
        &self,
        purpose: &[u8],
        bytes: &[u8],
        entropy: &dyn Entropy,
    ) -> Result<Vec<u8>, BrokenSeal> {
        let mut sealed = vec![0; NONCE_BYTES];
        entropy.fill_bytes(&mut sealed);
        let nonce = XNonce::try_from(sealed.as_slice()).map_err(|_| BrokenSeal)?;
        let payload = Payload { msg: bytes, aad: purpose };
        sealed.extend(self.0.encrypt(&nonce, payload).map_err(|_| BrokenSeal)?);
        Ok(sealed)
    }

    /// Decrypts the result of [`DataKey::seal`] for the same purpose.
    ///
    /// # Errors
    /// [`BrokenSeal`].
    pub fn open(&self, purpose: &[u8], sealed: &[u8]) -> Result<Vec<u8>, BrokenSeal> {
        let (nonce, bytes) = sealed.split_at_checked(NONCE_BYTES).ok_or(BrokenSeal)?;
        let nonce = XNonce::try_from(nonce).map_err(|_| BrokenSeal)?;
        self.0.decrypt(&nonce, Payload { msg: bytes, aad: purpose }).map_err(|_| BrokenSeal)
    }
}

/// The key that encrypts all data keys and secrets of firms. No database holds it.
#[derive(Clone)]
pub struct WrappingKey(pub(crate) DataKey);

impl WrappingKey {
    /// Makes the key from these bytes.
    #[must_use]
    pub fn new(bytes: &[u8; 32]) -> Self {
        Self(DataKey::new(bytes))
    }

    /// Whether a keyring with this check value was made with this key.
    #[must_use]
    pub fn opens_check(&self, sealed: &[u8]) -> bool {
        self.0.open(WRAPPING_CHECK, sealed).is_ok()
    }

    /// Seals the manifest of a backup: only a holder of the key can have made the seal.
    ///
    /// # Errors
    /// [`BrokenSeal`] for more than 256 GiB.
    pub fn seal_manifest(
        &self,
        manifest: &[u8],
        entropy: &dyn Entropy,
    ) -> Result<Vec<u8>, BrokenSeal> {
        self.0.seal(BACKUP_MANIFEST, manifest, entropy)
    }

    /// Whether the seal of a manifest was made with this key, for these bytes.
    #[must_use]
    pub fn has_sealed_manifest(&self, manifest: &[u8], sealed: &[u8]) -> bool {
        self.0.open(BACKUP_MANIFEST, sealed).is_ok_and(|bytes| bytes == manifest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entropy::SystemEntropy;

    fn key(byte: u8) -> DataKey {
        DataKey::new(&[byte; 32])
    }

    #[test]
    fn ciphertext_needs_its_key_and_purpose() {
        let sealed = key(1).seal(b"body", "né".as_bytes(), &SystemEntropy).unwrap();
        assert_eq!(key(1).open(b"body", &sealed).unwrap(), "né".as_bytes());
        assert_eq!(key(2).open(b"body", &sealed), Err(BrokenSeal));
        assert_eq!(key(1).open(b"document", &sealed), Err(BrokenSeal));
        assert!(!sealed.windows(2).any(|bytes| bytes == "né".as_bytes()));
    }

    #[test]
    fn a_changed_or_short_text_stays_closed() {
        let mut sealed = key(1).seal(b"", b"x", &SystemEntropy).unwrap();
        let last = sealed.len() - 1;
        sealed[last] ^= 1;
        assert_eq!(key(1).open(b"", &sealed), Err(BrokenSeal));
        assert_eq!(key(1).open(b"", &sealed[..10]), Err(BrokenSeal));
    }

    #[test]
    fn only_its_key_seals_a_manifest() {
        let (ours, other) = (WrappingKey::new(&[1; 32]), WrappingKey::new(&[2; 32]));
        let sealed = ours.seal_manifest(b"manifest", &SystemEntropy).unwrap();
        assert!(ours.has_sealed_manifest(b"manifest", &sealed));
        assert!(!ours.has_sealed_manifest(b"changed", &sealed));
        assert!(!other.has_sealed_manifest(b"manifest", &sealed));
        let check = ours.0.seal(WRAPPING_CHECK, b"manifest", &SystemEntropy).unwrap();
        assert!(!ours.has_sealed_manifest(b"manifest", &check), "another purpose");
    }

    #[test]
    fn the_same_bytes_are_never_sealed_alike() {
        let seal = || key(1).seal(b"", b"x", &SystemEntropy).unwrap();
        assert_ne!(seal(), seal());
    }
}
