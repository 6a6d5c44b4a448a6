//! The source of random bytes. Randomness is an argument, so that a test can supply its own.

use chrono::{DateTime, Utc};
use uuid::Uuid;

/// A source of random bytes.
pub trait Entropy: Send + Sync {
    /// Fills the buffer with unpredictable bytes.
    fn fill_bytes(&self, buffer: &mut [u8]);

    /// 32 random bytes: a key, or the text of one.
    fn new_secret(&self) -> [u8; 32] {
        let mut bytes = [0; 32];
        self.fill_bytes(&mut bytes);
        bytes
    }

    /// A new id (UUID version 4).
    fn new_id(&self) -> Uuid {
        let mut bytes = [0; 16];
        self.fill_bytes(&mut bytes);
        uuid::Builder::from_random_bytes(bytes).into_uuid()
    }

    /// A new id that begins with this time (UUID version 7, RFC 9562). Ids made one after another
    /// are neighbours in an index.
    fn id_at(&self, at: DateTime<Utc>) -> Uuid {
        let ms = at.timestamp_millis().unsigned_abs();
        let mut bytes = [0; 10];
        self.fill_bytes(&mut bytes);
        uuid::Builder::from_unix_timestamp_millis(ms, &bytes).into_uuid()
    }
}

/// The operating system's randomness.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemEntropy;

impl Entropy for SystemEntropy {
    fn fill_bytes(&self, buffer: &mut [u8]) {
        use rand::Rng;
        rand::rng().fill_bytes(buffer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timed_ids_are_ordered_and_unique() {
        let at = |ms| SystemEntropy.id_at(DateTime::from_timestamp_millis(ms).unwrap());
        let (one, other, later) =
            (at(1_795_000_000_000), at(1_795_000_000_000), at(1_795_000_000_001));
        assert!(one != other && one < later && other < later, "{one} {other} {later}");
        assert_eq!(one.get_version_num(), 7);
        assert_eq!(one.get_timestamp().map(|time| time.to_unix()), Some((1_795_000_000, 0)));
    }
}
