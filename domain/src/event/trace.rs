//! The trace of an event or request, in the W3C form of a `traceparent` header (Trace Context,
//! level 1).

use std::fmt;
use std::str::FromStr;

/// A span in a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Traceparent {
    /// The trace.
    pub trace_id: [u8; 16],
    /// The parent span.
    pub parent_id: [u8; 8],
    /// Whether the origin of the trace keeps it.
    pub sampled: bool,
}

/// The text is no `traceparent`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a traceparent")]
pub struct NotATraceparent;

/// Length of version 0: `00-`, then 32, 16 and 2 digits with `-` between.
const LENGTH: usize = 55;

impl FromStr for Traceparent {
    type Err = NotATraceparent;

    /// Reads strictly: lower-case digits, nothing before or after, no id of zeros. A later version
    /// may have more after the known part.
    fn from_str(text: &str) -> Result<Self, NotATraceparent> {
        let known = text.get(..LENGTH).ok_or(NotATraceparent)?;
        let more = text.get(LENGTH..).ok_or(NotATraceparent)?;
        let mut parts = known.split('-');
        let mut next = || parts.next().ok_or(NotATraceparent);
        let version = next()?;
        let trace_id = next()?;
        let parent_id = next()?;
        let flags = next()?;
        let [version] = read_hex(version)?;
        let fits = match version {
            0 => more.is_empty(),
            0xff => false,
            _ => more.is_empty() || more.starts_with('-'),
        };
        let trace_id = read_hex(trace_id)?;
        let parent_id = read_hex(parent_id)?;
        let [flags] = read_hex(flags)?;
        if !fits || parts.next().is_some() || trace_id == [0; 16] || parent_id == [0; 8] {
            return Err(NotATraceparent);
        }
        Ok(Self { trace_id, parent_id, sampled: flags & 1 == 1 })
    }
}

/// Reads `N` bytes from lower-case hexadecimal digits.
fn read_hex<const N: usize>(text: &str) -> Result<[u8; N], NotATraceparent> {
    let lower = text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
    let mut bytes = [0; N];
    hex::decode_to_slice(text, &mut bytes).map_err(|_| NotATraceparent)?;
    if lower { Ok(bytes) } else { Err(NotATraceparent) }
}

impl fmt::Display for Traceparent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let trace_id = hex::encode(self.trace_id);
        let parent_id = hex::encode(self.parent_id);
        write!(f, "00-{trace_id}-{parent_id}-{:02x}", u8::from(self.sampled))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOUND: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn h4_a_traceparent_is_written_as_read() {
        let read: Traceparent = SOUND.parse().unwrap();
        assert!(read.sampled);
        assert_eq!(read.to_string(), SOUND);
        let unsampled = SOUND.replace("-01", "-00");
        assert_eq!(unsampled.parse::<Traceparent>().unwrap().to_string(), unsampled);
        // Flags that are not known are not handed on.
        let flagged: Traceparent = SOUND.replace("-01", "-ff").parse().unwrap();
        assert_eq!(flagged.to_string(), SOUND);
        for later in [SOUND.replacen("00", "cc", 1), SOUND.replacen("00", "cc", 1) + "-what-comes"]
        {
            assert_eq!(later.parse::<Traceparent>().unwrap().to_string(), SOUND, "{later}");
        }
    }

    #[test]
    fn h4_a_malformed_traceparent_is_refused() {
        let zeros = |id: &str| SOUND.replace(id, &"0".repeat(id.len()));
        for text in [
            "",
            "00",
            "00-canary-canary-01",
            &SOUND[..54],
            &SOUND.to_uppercase(),
            &SOUND.replacen("00", "ff", 1),
            &SOUND.replacen("00", "0", 1),
            &format!("{SOUND}-more"),
            &format!("{SOUND} "),
            &format!(" {SOUND}"),
            &(SOUND.replacen("00", "cc", 1) + "x"),
            &SOUND.replace('-', "_"),
            &SOUND.replace("4bf9", "4bg9"),
            &SOUND.replace("4bf9", "4b-9"),
            &SOUND.replace("4bf9", "4bé"),
            &zeros("4bf92f3577b34da6a3ce929d0e0e4736"),
            &zeros("00f067aa0ba902b7"),
        ] {
            assert_eq!(text.parse::<Traceparent>(), Err(NotATraceparent), "{text}");
        }
    }
}
