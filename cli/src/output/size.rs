//! A number of bytes, as a person says it.

const UNITS: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

/// The size with one decimal place, such as `1.2 GiB`.
pub(super) fn size_text(bytes: i64) -> String {
    let sign = if bytes < 0 { "-" } else { "" };
    let mut tenths = u128::from(bytes.unsigned_abs()) * 10;
    let mut unit = 0;
    while tenths >= 10_240 && unit + 1 < UNITS.len() {
        tenths /= 1_024;
        unit += 1;
    }
    match unit {
        0 => format!("{sign}{} B", tenths / 10),
        _ => format!("{sign}{}.{} {}", tenths / 10, tenths % 10, UNITS[unit]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_has_the_largest_whole_unit() {
        let said = [0, 1_023, 1_024, 1_300_000_000, -2_048, 5 << 50].map(size_text);
        assert_eq!(said, ["0 B", "1023 B", "1.0 KiB", "1.2 GiB", "-2.0 KiB", "5.0 PiB"]);
    }
}
