//! The origin of a backup: its manifest is signed by the key that signs checkpoints, and sealed
//! under the wrapping key. The manifest has the digest of each member, so both prove the whole
//! backup. A restore compares them with keys that are not from the backup, before it reads anything
//! else.
//!
//! A machine proves with the keys that it has. One of the two is enough to be believed. Keys inside
//! of a backup prove nothing: whoever forges the rest forges them as well.

use std::path::Path;

use anyhow::{Context, bail};
use auditor::{KeySignature, Notary, PublicKey};
use serde::{Deserialize, Serialize};
use service::StorageSettings;
use service::key_files::{key_of_file, parse_key};
use sha2::{Digest, Sha256};
use vault::{SystemEntropy, WrappingKey};

use crate::audit;
use crate::output::print_note;

/// The name of the file beside the manifest.
pub(super) const ORIGIN: &str = "manifest.origin.json";

/// The bytes before a manifest in what is signed. No other signed bytes begin with them.
const SIGNED_PREFIX: &[u8] = b"firmforms backup manifest v1\n";

/// The signature and the seal of a manifest, as their file holds them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ManifestOrigin {
    /// The signature. `None` if the machine that took the backup had no signing key.
    signature: Option<ManifestSignature>,
    /// The digest of the manifest, sealed under the wrapping key, in hexadecimal digits. `None` if
    /// the machine did not have that key.
    seal: Option<String>,
}

/// A signature of a manifest (Ed25519), in hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ManifestSignature {
    public_key: String,
    signature: String,
}

impl ManifestOrigin {
    /// Signs and seals a manifest with the keys of this machine.
    pub(super) fn new(
        manifest: &[u8],
        notary: &Notary,
        wrapping: Option<&WrappingKey>,
    ) -> anyhow::Result<Self> {
        let signature = match notary.keys.sign(&signed_bytes(manifest)) {
            Ok(signature) => signature,
            Err(error) => {
                print_note(&format!("note: the backup is not signed: {error}"));
                None
            }
        };
        let signature = signature.map(|KeySignature { key, bytes }| ManifestSignature {
            public_key: key.hex(),
            signature: hex::encode(bytes),
        });
        let seal =
            |key: &WrappingKey| key.seal_manifest(&manifest_digest(manifest), &SystemEntropy);
        let seal = wrapping.map(seal).transpose()?.map(hex::encode);
        if signature.is_none() && seal.is_none() {
            print_note(
                "note: this machine has neither a signing key nor the wrapping key: nothing proves \
                 where this backup is from; `restore` takes it only with --even-if-forged",
            );
        }
        Ok(Self { signature, seal })
    }

    /// Reads the file.
    pub(super) fn read(text: &[u8]) -> anyhow::Result<Self> {
        serde_json::from_slice(text).context(ORIGIN)
    }

    /// The text of the file.
    pub(super) fn to_text(&self) -> anyhow::Result<String> {
        Ok(serde_json::to_string_pretty(self).context(ORIGIN)? + "\n")
    }
}

fn signed_bytes(manifest: &[u8]) -> Vec<u8> {
    [SIGNED_PREFIX, manifest].concat()
}

fn manifest_digest(manifest: &[u8]) -> [u8; 32] {
    Sha256::digest(manifest).into()
}

/// Keys that this machine trusts, none of them from the backup.
#[derive(Clone, Default)]
pub(super) struct TrustedKeys {
    public: Vec<PublicKey>,
    pub(super) wrapping: Option<WrappingKey>,
}

/// The proof of an origin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ProvedOrigin {
    /// A trusted key has signed the manifest.
    Signed(PublicKey),
    /// The wrapping key of this machine has sealed the manifest.
    Sealed,
}

/// Why an origin is not proved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum UnprovedOrigin {
    /// No key is there to compare with.
    #[error("no key here can prove the origin of the backup")]
    NoTrustedKey,
    /// The backup has no signature or seal that a key here could prove.
    #[error("nothing proves the origin of the backup: no key that is trusted here signed it")]
    Unsigned,
    /// The signature of a trusted key does not fit the manifest.
    #[error("the manifest of the backup was changed after it was signed")]
    Changed,
}

/// The keys of a file, else those of the installation.
pub(super) fn trusted_keys(
    storage: &StorageSettings,
    file: Option<&Path>,
) -> anyhow::Result<TrustedKeys> {
    TrustedKeys::new(storage, file.map(audit::public_keys).transpose()?)
}

impl TrustedKeys {
    /// The named keys alone, else the keys of this installation.
    pub(super) fn new(
        storage: &StorageSettings,
        named: Option<Vec<PublicKey>>,
    ) -> anyhow::Result<Self> {
        if let Some(public) = named {
            return Ok(Self { public, wrapping: None });
        }
        let place = storage.wrapping_key_place();
        let wrapping = match &storage.wrapping_key {
            Some(text) => Some(parse_key(text).context("the wrapping key")?),
            None if place.exists() => Some(key_of_file(&place)?),
            None => None,
        };
        Ok(Self { public: storage.notary().known_keys()?.keys, wrapping })
    }

    /// Judges the origin of a manifest.
    pub(super) fn prove_origin(
        &self,
        manifest: &[u8],
        origin: &ManifestOrigin,
    ) -> Result<ProvedOrigin, UnprovedOrigin> {
        if self.public.is_empty() && self.wrapping.is_none() {
            return Err(UnprovedOrigin::NoTrustedKey);
        }
        let signer = origin.signature.as_ref().and_then(|signature| self.trusted_signer(signature));
        if let Some((key, bytes)) = &signer
            && key.verifies(&signed_bytes(manifest), bytes)
        {
            return Ok(ProvedOrigin::Signed(key.clone()));
        }
        let seal = self.wrapping.as_ref().zip(origin.seal.as_ref());
        if let Some((key, seal)) = &seal
            && hex::decode(seal)
                .is_ok_and(|seal| key.has_sealed_manifest(&manifest_digest(manifest), &seal))
        {
            return Ok(ProvedOrigin::Sealed);
        }
        // A seal that does not fit may be of another wrapping key.
        Err(if signer.is_some() { UnprovedOrigin::Changed } else { UnprovedOrigin::Unsigned })
    }

    /// The trusted key that a signature names, and the signature.
    fn trusted_signer(&self, signature: &ManifestSignature) -> Option<(PublicKey, Vec<u8>)> {
        let key = PublicKey::from_hex(&signature.public_key)?;
        let key = self.public.iter().find(|trusted| **trusted == key)?;
        Some((key.clone(), hex::decode(&signature.signature).ok()?))
    }
}

/// What a restore does with a backup of unproved origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UnprovedPolicy {
    /// It is refused.
    Refuse,
    /// The operator has said that it is restored even if forged.
    Restore,
}

/// Requires a proved origin, unless the operator takes the backup even if it is forged.
pub(super) fn require_proof(
    judged: Result<ProvedOrigin, UnprovedOrigin>,
    policy: UnprovedPolicy,
) -> anyhow::Result<()> {
    match (judged, policy) {
        (Ok(_), _) => Ok(()),
        (Err(why), UnprovedPolicy::Restore) => {
            print_note(&format!(
                "note: {why}. If it is forged, so are its history, its keys and its verification"
            ));
            Ok(())
        }
        (Err(why), UnprovedPolicy::Refuse) => bail!(
            "{why}: name the keys that you trust by --public-keys, or put the wrapping key in its \
             place. --even-if-forged restores it unproved: who could write to the backup then \
             decides what this installation believes"
        ),
    }
}

impl ProvedOrigin {
    /// The origin for people.
    pub(super) fn in_words(&self) -> String {
        match self {
            Self::Signed(key) => format!("signed by {}", key.id()),
            Self::Sealed => "sealed under the wrapping key".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use auditor::{CheckpointFolder, KeyFolder};

    use super::*;

    const MANIFEST: &[u8] = b"{\"format\": 1}\n";

    /// A machine with a signing key in this folder.
    fn signer(folder: &Path) -> (Notary, PublicKey) {
        let keys = KeyFolder::in_folder(folder.join("keys"));
        let public = keys.rotate(&SystemEntropy).unwrap();
        let checkpoints = CheckpointFolder::in_folder(folder.join("checkpoints"));
        (Notary { keys, checkpoints }, public)
    }

    #[test]
    fn one_trusted_key_proves_an_origin() {
        let folder = tempfile::tempdir().unwrap();
        let (notary, public) = signer(folder.path());
        let wrapping = WrappingKey::new(&[7; 32]);
        let origin = ManifestOrigin::new(MANIFEST, &notary, Some(&wrapping)).unwrap();
        let origin = ManifestOrigin::read(origin.to_text().unwrap().as_bytes()).unwrap();
        let signed = Ok(ProvedOrigin::Signed(public.clone()));
        let by_key = TrustedKeys { public: vec![public], wrapping: None };
        let by_seal = TrustedKeys { public: vec![], wrapping: Some(wrapping) };
        let both = TrustedKeys { wrapping: by_seal.wrapping.clone(), ..by_key.clone() };
        assert_eq!(by_key.prove_origin(MANIFEST, &origin), signed);
        assert_eq!(by_seal.prove_origin(MANIFEST, &origin), Ok(ProvedOrigin::Sealed));
        assert_eq!(both.prove_origin(MANIFEST, &origin), signed);
        for trusted in [&by_key, &by_seal, &both] {
            let is_signed = !trusted.public.is_empty();
            let changed =
                if is_signed { UnprovedOrigin::Changed } else { UnprovedOrigin::Unsigned };
            assert_eq!(trusted.prove_origin(b"{}", &origin), Err(changed));
            let none = ManifestOrigin::default();
            assert_eq!(trusted.prove_origin(MANIFEST, &none), Err(UnprovedOrigin::Unsigned));
        }
        let nobody = TrustedKeys::default();
        assert_eq!(nobody.prove_origin(MANIFEST, &origin), Err(UnprovedOrigin::NoTrustedKey));
    }

    #[test]
    fn a_stranger_proves_no_origin() {
        let (ours, theirs) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let ((_, public), (notary, _)) = (signer(ours.path()), signer(theirs.path()));
        let origin = ManifestOrigin::new(MANIFEST, &notary, None).unwrap();
        let trusted = TrustedKeys { public: vec![public.clone()], wrapping: None };
        assert_eq!(trusted.prove_origin(MANIFEST, &origin), Err(UnprovedOrigin::Unsigned));
        // A stranger names our key beside a signature of his own.
        let stranger = origin.signature.unwrap();
        let named = ManifestSignature { public_key: public.hex(), ..stranger };
        let forged = ManifestOrigin { signature: Some(named), seal: None };
        assert_eq!(trusted.prove_origin(MANIFEST, &forged), Err(UnprovedOrigin::Changed));
    }
}
