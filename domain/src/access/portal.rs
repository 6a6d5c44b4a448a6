//! Sessions of the portal (ruling 48). The audit log has the beginning of each, as a look of its
//! member.

use chrono::TimeDelta;
use uuid::Uuid;

/// The time of a session.
pub const SESSION_TIME: TimeDelta = TimeDelta::minutes(30);

/// The namespace of the ids of beginnings.
const BEGINNINGS: Uuid = Uuid::from_u128(0x0c1b_62a4_57f3_4d0e_9f5d_8b70_3de1_94a6);

/// The stream of the reading that is the beginning of a session. A session without it was begun by
/// hand, or by a build before 0.3.0.
#[must_use]
pub fn reading_id(cookie_sha256: &[u8; 32]) -> Uuid {
    Uuid::new_v5(&BEGINNINGS, cookie_sha256)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stream_of_a_beginning_never_changes() {
        let stream = reading_id(&[7; 32]);
        assert_eq!(stream, reading_id(&[7; 32]));
        assert_ne!(stream, reading_id(&[8; 32]));
    }
}
