//! Where random bytes come from: an argument, so that a test can give its own.

use uuid::Uuid;

/// A source of random bytes.
pub trait Entropy: Send + Sync {
    /// Fills the buffer with bytes nobody can guess.
    fn fill(&self, buffer: &mut [u8]);

    /// 32 random bytes: a key, or the text of one.
    fn secret(&self) -> [u8; 32] {
        let mut bytes = [0; 32];
        self.fill(&mut bytes);
        bytes
    }

    /// A new id (UUID version 4).
    fn id(&self) -> Uuid {
        let mut bytes = [0; 16];
        self.fill(&mut bytes);
        uuid::Builder::from_random_bytes(bytes).into_uuid()
    }
}

/// The operating system's randomness.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemEntropy;

impl Entropy for SystemEntropy {
    fn fill(&self, buffer: &mut [u8]) {
        use rand::Rng;
        rand::rng().fill_bytes(buffer);
    }
}
