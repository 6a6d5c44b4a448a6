//! Keyed hashes: pseudonyms of people, digests of URLs, and unsubscribe links that only this
//! service can make.
//!
//! The identity key is made once, with the keyring, and never changes. With another key every
//! person would get another id, and all mailed links would be dead.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use domain::access::Cell;
use domain::values::EmailAddress;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use sqlx::PgPool;
use subtle::ConstantTimeEq;
use uuid::Uuid;

use crate::error::VaultError;
use crate::seal::BrokenSeal;

/// Bytes of a link's signature.
const MAC_BYTES: usize = 16;

/// Characters of a link without the digit of a cell: firm, person and signature as base64url.
pub const UNROUTED_LINK_CHARS: usize = (16 + 16 + MAC_BYTES) * 4 / 3;

/// The key that makes ids of people and digests of URLs, and signs unsubscribe links.
#[derive(Clone)]
pub struct IdentityKey(Hmac<Sha256>);

/// The person that an unsubscribe link belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MailRecipient {
    /// The firm that sent the mail.
    pub firm_id: Uuid,
    /// The person that the mail was sent to.
    pub person_id: Uuid,
}

impl IdentityKey {
    /// The identity key of these bytes.
    #[must_use]
    pub fn new(key: &[u8; 32]) -> Self {
        // A shorter key is padded with zeros (RFC 2104, section 2).
        let mut block = [0; 64];
        block[..key.len()].copy_from_slice(key);
        Self(Hmac::new(&block.into()))
    }

    /// The id of the person with this address, in this firm (ruling 11; rulings, section
    /// Occurrences). Without the key, two firms cannot find out that they know one person.
    #[must_use]
    pub fn person_id(&self, firm_id: Uuid, address: &EmailAddress) -> Uuid {
        self.id_of_name(firm_id, &address.person_key())
    }

    /// The id of the person that a text names, in this firm. An address is read leniently and gives
    /// the id of [`IdentityKey::person_id`]. Any other text is compared without case.
    #[must_use]
    pub fn person_named(&self, firm_id: Uuid, text: &str) -> Uuid {
        let known = EmailAddress::read_leniently(text);
        let name =
            known.map_or_else(|_| text.trim().to_lowercase(), |address| address.person_key());
        self.id_of_name(firm_id, &name)
    }

    /// The id that older builds gave the person, if it differs: they took angle brackets for a part
    /// of the name. Rows with such ids are erased, too.
    #[must_use]
    pub fn person_once_named(&self, firm_id: Uuid, text: &str) -> Option<Uuid> {
        let name = text.trim().to_lowercase();
        let has_brackets = name.starts_with('<');
        (has_brackets && EmailAddress::read_leniently(text).is_ok())
            .then(|| self.id_of_name(firm_id, &name))
    }

    /// The digest of a workflow step's URL, in this firm (ruling 44). Equal URLs have equal
    /// digests. Without the key, nobody can try URLs against a digest.
    #[must_use]
    pub fn step_url(&self, firm_id: Uuid, url: &str) -> [u8; 32] {
        let named = [b"step url".as_slice(), firm_id.as_bytes(), url.as_bytes()].concat();
        self.whole_mac(&named)
    }

    /// The digest of a notice's recipient, an address or a URL, in this firm (ruling 49).
    #[must_use]
    pub fn notice_recipient(&self, firm_id: Uuid, recipient: &str) -> [u8; 32] {
        let recipient = recipient.to_lowercase();
        let named = [b"notice".as_slice(), firm_id.as_bytes(), recipient.as_bytes()].concat();
        self.whole_mac(&named)
    }

    /// The text of an unsubscribe link. In a cell the link begins with the cell's digit, by which a
    /// router finds the cell (ruling 47).
    #[must_use]
    pub fn unsubscribe_link(&self, recipient: MailRecipient, cell: Option<Cell>) -> String {
        let who = recipient.to_bytes();
        let mut link: String = cell.map(Cell::digit).into_iter().collect();
        URL_SAFE_NO_PAD
            .encode_string([who.as_slice(), &self.sign_recipient(&who)].concat(), &mut link);
        link
    }

    /// The recipient that a link belongs to, if this service signed the link. A link from before
    /// links named a cell has no digit.
    #[must_use]
    pub fn read_link(&self, text: &str, cell: Option<Cell>) -> Option<MailRecipient> {
        let named = text.len() == UNROUTED_LINK_CHARS + 1;
        let signed = match cell.filter(|_| named) {
            Some(cell) => text.strip_prefix(cell.digit())?,
            None => text,
        };
        let bytes = URL_SAFE_NO_PAD.decode(signed).ok()?;
        let (who, mac) = bytes.split_last_chunk::<MAC_BYTES>()?;
        let recipient = MailRecipient::from_bytes(who)?;
        bool::from(self.sign_recipient(who).ct_eq(mac)).then_some(recipient)
    }

    /// The signature of a session's name or of its forms (`api/src/sessions.rs`).
    #[must_use]
    pub fn sign_session(&self, named: &[u8]) -> [u8; 32] {
        self.whole_mac(&[b"console session".as_slice(), named].concat())
    }

    /// Whether this service signed the name of a session or its forms.
    #[must_use]
    pub fn has_signed_session(&self, named: &[u8], signature: &[u8]) -> bool {
        bool::from(self.sign_session(named).ct_eq(signature))
    }

    /// Checks that this key belongs to the main database. The first start stores a fingerprint, a
    /// hash that the key makes of a fixed word.
    ///
    /// # Errors
    /// [`VaultError::Broken`] for another key: the keyring is new, or another database's.
    pub async fn check_fingerprint(&self, pool: &PgPool) -> Result<(), VaultError> {
        let fingerprint = self.short_mac(b"fingerprint");
        sqlx::query("insert into identity_check (fingerprint) values ($1) on conflict do nothing")
            .bind(fingerprint.as_slice())
            .execute(pool)
            .await?;
        let known: Vec<u8> =
            sqlx::query_scalar("select fingerprint from identity_check").fetch_one(pool).await?;
        if known == fingerprint { Ok(()) } else { Err(BrokenSeal.into()) }
    }

    /// Compares like [`IdentityKey::check_fingerprint`], but stores nothing. Accepts any key if no
    /// fingerprint is stored yet.
    ///
    /// # Errors
    /// Like [`IdentityKey::check_fingerprint`].
    pub async fn check_read_only(&self, pool: &PgPool) -> Result<(), VaultError> {
        let known: Option<Vec<u8>> = sqlx::query_scalar("select fingerprint from identity_check")
            .fetch_optional(pool)
            .await?;
        let same = known.is_none_or(|known| known == self.short_mac(b"fingerprint"));
        if same { Ok(()) } else { Err(BrokenSeal.into()) }
    }

    fn id_of_name(&self, firm_id: Uuid, name: &str) -> Uuid {
        let name = [b"person".as_slice(), firm_id.as_bytes(), name.as_bytes()].concat();
        uuid::Builder::from_custom_bytes(self.short_mac(&name)).into_uuid()
    }

    fn sign_recipient(&self, who: &[u8]) -> [u8; MAC_BYTES] {
        self.short_mac(&[b"unsubscribe".as_slice(), who].concat())
    }

    fn short_mac(&self, text: &[u8]) -> [u8; MAC_BYTES] {
        let mut cut = [0; MAC_BYTES];
        cut.copy_from_slice(&self.whole_mac(text)[..MAC_BYTES]);
        cut
    }

    fn whole_mac(&self, text: &[u8]) -> [u8; 32] {
        let mut mac = self.0.clone();
        mac.update(text);
        mac.finalize().into_bytes().into()
    }
}

impl MailRecipient {
    fn to_bytes(self) -> Vec<u8> {
        [self.firm_id.as_bytes().as_slice(), self.person_id.as_bytes()].concat()
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (firm_id, person_id) = bytes.split_at_checked(16)?;
        Some(Self {
            firm_id: Uuid::from_slice(firm_id).ok()?,
            person_id: Uuid::from_slice(person_id).ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> EmailAddress {
        text.parse().unwrap()
    }

    /// Each firm has persons of its own.
    #[test]
    fn spellings_of_an_address_are_one_person() {
        let (one, two) = (Uuid::from_u128(1), Uuid::from_u128(2));
        let identity = IdentityKey::new(&[1; 32]);
        let ann = identity.person_id(one, &address("ann@example.com"));
        assert_eq!(ann, identity.person_id(one, &address("Ann@EXAMPLE.com")));
        assert_ne!(ann, identity.person_id(one, &address("ann+tag@example.com")));
        assert_ne!(ann, identity.person_id(two, &address("ann@example.com")));
        assert_ne!(ann, IdentityKey::new(&[2; 32]).person_id(one, &address("ann@example.com")));
    }

    /// An address in brackets once was another person.
    #[test]
    fn brackets_make_no_other_person() {
        let firm = Uuid::from_u128(1);
        let identity = IdentityKey::new(&[1; 32]);
        let ann = identity.person_id(firm, &address("ann@example.com"));
        for text in [" ann@example.com", "ann@example.com.", "<Ann@example.com>"] {
            assert_eq!(identity.person_named(firm, text), ann, "{text}");
        }
        assert!(identity.person_once_named(firm, "<ann@example.com>").is_some_and(|id| id != ann));
        assert_eq!(identity.person_once_named(firm, "ann@example.com"), None);
        assert_eq!(identity.person_once_named(firm, "<n/a>"), None, "it still is");
    }

    /// The digest needs the key.
    #[test]
    fn a_firms_equal_urls_share_a_digest() {
        let (one, two) = (Uuid::from_u128(1), Uuid::from_u128(2));
        let (identity, url) = (IdentityKey::new(&[1; 32]), "https://a.example/?email=a%40b.c");
        assert_eq!(identity.step_url(one, url), identity.step_url(one, url));
        assert_ne!(identity.step_url(one, url), identity.step_url(one, "https://a.example/"));
        assert_ne!(identity.step_url(one, url), identity.step_url(two, url));
        assert_ne!(identity.step_url(one, url), IdentityKey::new(&[2; 32]).step_url(one, url));
    }

    #[test]
    fn a_notices_recipient_has_a_keyed_digest() {
        let (one, two) = (Uuid::from_u128(1), Uuid::from_u128(2));
        let identity = IdentityKey::new(&[1; 32]);
        let office = identity.notice_recipient(one, "office@harrow.example");
        assert_eq!(office, identity.notice_recipient(one, "Office@Harrow.example"));
        assert_ne!(office, identity.notice_recipient(two, "office@harrow.example"));
        let other = IdentityKey::new(&[2; 32]);
        assert_ne!(office, other.notice_recipient(one, "office@harrow.example"));
    }

    /// The signature holds for the name of the session alone.
    #[test]
    fn a_session_is_signed_by_one_key() {
        let identity = IdentityKey::new(&[1; 32]);
        let signature = identity.sign_session(b"a session");
        assert!(identity.has_signed_session(b"a session", &signature));
        assert!(!identity.has_signed_session(b"another", &signature));
        assert!(!identity.has_signed_session(b"a session", &signature[1..]));
        assert!(!IdentityKey::new(&[2; 32]).has_signed_session(b"a session", &signature));
    }

    #[test]
    fn a_link_is_ours_or_nothing() {
        let identity = IdentityKey::new(&[1; 32]);
        let recipient =
            MailRecipient { firm_id: Uuid::from_u128(1), person_id: Uuid::from_u128(2) };
        for cell in [None, Some(Cell::try_from(41).unwrap())] {
            let link = identity.unsubscribe_link(recipient, cell);
            assert_eq!(identity.read_link(&link, cell), Some(recipient));
            assert_eq!(IdentityKey::new(&[2; 32]).read_link(&link, cell), None);
            for place in 0..link.len() {
                let mut other = link.clone().into_bytes();
                other[place] = if other[place] == b'A' { b'B' } else { b'A' };
                let other = String::from_utf8(other).unwrap();
                assert_eq!(identity.read_link(&other, cell), None, "{place}");
            }
            for text in ["", "A", &link[2..], &format!("{link}AA"), "é"] {
                assert_eq!(identity.read_link(text, cell), None, "{text}");
            }
        }
    }

    /// An older link names none.
    #[test]
    fn a_link_names_its_cell() {
        let identity = IdentityKey::new(&[1; 32]);
        let recipient =
            MailRecipient { firm_id: Uuid::from_u128(1), person_id: Uuid::from_u128(2) };
        let (own, other) = (Cell::try_from(41).unwrap(), Cell::try_from(42).unwrap());
        let older = identity.unsubscribe_link(recipient, None);
        assert_eq!(older.len(), UNROUTED_LINK_CHARS);
        let link = identity.unsubscribe_link(recipient, Some(own));
        assert_eq!(link, format!("{}{older}", own.digit()));
        assert_eq!(identity.read_link(&older, Some(own)), Some(recipient));
        assert_eq!(identity.read_link(&link, Some(other)), None);
        assert_eq!(identity.read_link(&link, None), None);
    }
}
