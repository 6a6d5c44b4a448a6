//! PostgreSQL's messages to its clients, as far as the proxy must know them: where each begins, and
//! which of them says that a transaction was committed. A connection that asks for TLS is not
//! understood: the answer to that question is no message.

/// A message's type and length.
const HEAD_BYTES: usize = 5;

/// CommandComplete of a COMMIT. A transaction that failed is answered `ROLLBACK`.
const COMMITTED: &[u8] = b"C\0\0\0\x0bCOMMIT\0";

/// Follows the messages of one connection, however they are cut into reads.
#[derive(Debug, Default)]
pub struct ServerMessages {
    /// The beginning of the present message, as much as tells its type.
    begun: Vec<u8>,
    /// The bytes of the present message that are still to come and tell nothing.
    rest: usize,
}

impl ServerMessages {
    /// Takes in the server's next bytes. Returns how many of them precede the first answer to a
    /// COMMIT, if one ends in them.
    pub fn find_commit(&mut self, bytes: &[u8]) -> Option<usize> {
        let (mut next, mut before_commit) = (0, None);
        while next < bytes.len() {
            if self.rest > 0 {
                let passed = self.rest.min(bytes.len() - next);
                self.rest -= passed;
                next += passed;
                continue;
            }
            self.begun.push(bytes[next]);
            next += 1;
            let Some(length) = self.length() else { continue };
            if self.begun == COMMITTED {
                before_commit.get_or_insert(next.saturating_sub(COMMITTED.len()));
            }
            if !COMMITTED.starts_with(&self.begun) || self.begun.len() == length {
                self.rest = length.saturating_sub(self.begun.len());
                self.begun.clear();
            }
        }
        before_commit
    }

    /// The length of the present message with its type, once its head is there.
    fn length(&self) -> Option<usize> {
        let head: [u8; HEAD_BYTES] = self.begun.get(..HEAD_BYTES)?.try_into().ok()?;
        let [_, length @ ..] = head;
        Some(1 + u32::from_be_bytes(length) as usize)
    }
}
