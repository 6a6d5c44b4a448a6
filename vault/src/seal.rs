//! Encryption: XChaCha20-Poly1305 with a random nonce in front of the ciphertext. Each ciphertext
//! is bound to a purpose, and decrypts only for that purpose.
//!
//! A text is deflated before it is encrypted, if all processes can read that. Only its length tells
//! a little more than before.

use std::cell::RefCell;
use std::io::Read;

use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};
use flate2::read::DeflateDecoder;
use flate2::{Compress, Compression, FlushCompress, Status};

use crate::entropy::Entropy;

const NONCE_BYTES: usize = 24;

/// The plaintext and the purpose of the check value. Only the right wrapping key decrypts the
/// value.
pub(crate) const WRAPPING_CHECK: &[u8] = b"wrapping key";

/// The purpose of a sealed manifest.
const BACKUP_MANIFEST: &[u8] = b"backup manifest";

/// The first byte of a deflated text. No text that is stored begins with it: it is a control
/// character of ASCII, and texts are JSON.
const DEFLATED: u8 = 1;

/// Shorter texts are not deflated.
const DEFLATED_FROM: usize = 200;

/// A deflated text is padded, so that it has this part of the text's length at least. So the sealed
/// length tells the memory that a text takes, within this factor.
const DEFLATED_AT_MOST: usize = 4;

/// Returns the most bytes that a text with this sealed length can have.
pub(crate) fn text_size_max(sealed: i32) -> usize {
    usize::try_from(sealed).unwrap_or_default() * DEFLATED_AT_MOST
}

/// The bytes do not decrypt: the key or the purpose is another one, or the bytes were changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this key does not open the sealed bytes")]
pub struct BrokenSeal;

/// The data key of one subject.
#[derive(Clone)]
pub struct DataKey {
    cipher: XChaCha20Poly1305,
    deflates: bool,
}

impl DataKey {
    pub(crate) fn new(bytes: &[u8; 32]) -> Self {
        Self { cipher: XChaCha20Poly1305::new(bytes.into()), deflates: false }
    }

    /// Returns the same key. It deflates texts if `deflates` is true.
    #[must_use]
    pub(crate) fn that_deflates(self, deflates: bool) -> Self {
        Self { deflates, ..self }
    }

    /// Encrypts a text. [`DataKey::open_text`] needs the same `purpose` to decrypt it.
    ///
    /// # Errors
    /// [`BrokenSeal`] for more than 256 GiB.
    pub fn seal_text(
        &self,
        purpose: &[u8],
        text: &[u8],
        entropy: &dyn Entropy,
    ) -> Result<Vec<u8>, BrokenSeal> {
        match Some(text).filter(|_| self.deflates).and_then(deflate) {
            Some(deflated) => self.seal(purpose, &deflated, entropy),
            None => self.seal(purpose, text, entropy),
        }
    }

    /// Decrypts the result of [`DataKey::seal_text`] or [`DataKey::seal`] for the same purpose.
    ///
    /// # Errors
    /// [`BrokenSeal`].
    pub fn open_text(&self, purpose: &[u8], sealed: &[u8]) -> Result<Vec<u8>, BrokenSeal> {
        let bytes = self.open(purpose, sealed)?;
        match bytes.split_first() {
            Some((&DEFLATED, deflated)) => inflate(deflated),
            _ => Ok(bytes),
        }
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
        sealed.extend(self.cipher.encrypt(&nonce, payload).map_err(|_| BrokenSeal)?);
        Ok(sealed)
    }

    /// Decrypts the result of [`DataKey::seal`] for the same purpose.
    ///
    /// # Errors
    /// [`BrokenSeal`].
    pub fn open(&self, purpose: &[u8], sealed: &[u8]) -> Result<Vec<u8>, BrokenSeal> {
        let (nonce, bytes) = sealed.split_at_checked(NONCE_BYTES).ok_or(BrokenSeal)?;
        let nonce = XNonce::try_from(nonce).map_err(|_| BrokenSeal)?;
        self.cipher.decrypt(&nonce, Payload { msg: bytes, aad: purpose }).map_err(|_| BrokenSeal)
    }
}

thread_local! {
    /// The state of a compression is 200 KB, which is costly to make for each text.
    static COMPRESS: RefCell<Compress> = RefCell::new(Compress::new(Compression::fast(), false));
}

/// Returns the deflated text with its mark, if that is shorter than the text.
fn deflate(text: &[u8]) -> Option<Vec<u8>> {
    if text.len() < DEFLATED_FROM {
        return None;
    }
    let mut deflated = Vec::with_capacity(text.len());
    deflated.push(DEFLATED);
    let status = COMPRESS.with_borrow_mut(|compress| {
        compress.reset();
        compress.compress_vec(text, &mut deflated, FlushCompress::Finish)
    });
    let least = text.len().div_ceil(DEFLATED_AT_MOST);
    deflated.resize(deflated.len().max(least), 0);
    matches!(status, Ok(Status::StreamEnd)).then_some(deflated)
}

fn inflate(deflated: &[u8]) -> Result<Vec<u8>, BrokenSeal> {
    let mut text = Vec::with_capacity(deflated.len() * 2);
    DeflateDecoder::new(deflated).read_to_end(&mut text).map_err(|_| BrokenSeal)?;
    Ok(text)
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
    fn a_text_is_deflated_and_opens_alike() {
        let text = (0..40).map(|n| format!("answer {n} of the client; ")).collect::<String>();
        let plain = key(1).seal_text(b"", text.as_bytes(), &SystemEntropy).unwrap();
        let key = key(1).that_deflates(true);
        let sealed = key.seal_text(b"", text.as_bytes(), &SystemEntropy).unwrap();
        assert!(sealed.len() < plain.len() / 2, "{} of {}", sealed.len(), plain.len());
        for sealed in [&plain, &sealed] {
            assert_eq!(key.open_text(b"", sealed).unwrap(), text.as_bytes());
            assert_eq!(key.open_text(b"x", sealed), Err(BrokenSeal));
        }
    }

    /// Memory is limited by the sealed length.
    #[test]
    fn no_text_inflates_beyond_its_limit() {
        let key = key(1).that_deflates(true);
        let short = vec![b'a'; DEFLATED_FROM - 1];
        let repeated = vec![b'a'; 100_000];
        let random: Vec<u8> =
            std::iter::repeat_with(|| SystemEntropy.new_secret()).take(100).flatten().collect();
        for (text, least) in [(short, DEFLATED_FROM), (repeated, 25_000), (random, 3_200)] {
            let sealed = key.seal_text(b"", &text, &SystemEntropy).unwrap();
            assert!(sealed.len() > least && text_size_max(sealed.len() as i32) >= text.len());
            assert_eq!(key.open_text(b"", &sealed).unwrap(), text);
        }
    }

    #[test]
    fn a_broken_deflated_text_stays_closed() {
        let sealed = key(1).seal(b"", &[DEFLATED, 0xff, 0xff], &SystemEntropy).unwrap();
        assert_eq!(key(1).open_text(b"", &sealed), Err(BrokenSeal));
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
