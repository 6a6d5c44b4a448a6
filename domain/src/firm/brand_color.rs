//! The colour of a firm's brand, with ink that can be read on it.

use std::fmt;
use std::str::FromStr;

/// A colour by its red, green and blue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BrandColor([u8; 3]);

/// The text is no colour of six or three hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no colour of six or three hexadecimal digits")]
pub struct NotAColor;

/// Linear light above which black has more contrast than white: the root of 1.05 × 0.05, without
/// the 0.05 that WCAG 2 adds to both.
const BLACK_ABOVE: f64 = 0.179_129;

impl BrandColor {
    /// The ink with the better contrast, which is at least 4.5 : 1.
    #[must_use]
    pub fn ink(self) -> &'static str {
        if self.relative_luminance() > BLACK_ABOVE { "#000000" } else { "#ffffff" }
    }

    /// Relative luminance (WCAG 2).
    fn relative_luminance(self) -> f64 {
        let [red, green, blue] = self.0.map(|part| {
            let share = f64::from(part) / 255.0;
            if share <= 0.040_45 { share / 12.92 } else { ((share + 0.055) / 1.055).powf(2.4) }
        });
        0.2126f64.mul_add(red, 0.7152f64.mul_add(green, 0.0722 * blue))
    }
}

/// Six hexadecimal digits.
impl fmt::Display for BrandColor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [red, green, blue] = self.0;
        write!(f, "{red:02x}{green:02x}{blue:02x}")
    }
}

impl FromStr for BrandColor {
    type Err = NotAColor;

    /// Reads `#1a2b3c`, `1a2b3c` and `#abc`.
    fn from_str(text: &str) -> Result<Self, NotAColor> {
        let digits = text.strip_prefix('#').unwrap_or(text);
        if !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(NotAColor);
        }
        let doubled = digits.chars().flat_map(|digit| [digit, digit]).collect::<String>();
        let digits = match digits.len() {
            6 => digits,
            3 => &doubled,
            _ => return Err(NotAColor),
        };
        let part = |at| u8::from_str_radix(&digits[at..at + 2], 16).map_err(|_| NotAColor);
        Ok(Self([part(0)?, part(2)?, part(4)?]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_color_has_six_or_three_digits() {
        let read = |text: &str| text.parse::<BrandColor>().map(|color| color.to_string());
        assert_eq!(read("#1A2b3c").as_deref(), Ok("1a2b3c"));
        assert_eq!(read("1a2b3c").as_deref(), Ok("1a2b3c"));
        assert_eq!(read("#abc").as_deref(), Ok("aabbcc"));
        for other in ["", "#", "red", "#12345", "#1234567", "#12345g", "#+12345", "##12345", "é12"]
        {
            assert_eq!(read(other), Err(NotAColor), "{other}");
        }
    }

    #[test]
    fn ink_can_be_read_on_every_color() {
        for step in 0..=u8::MAX {
            for color in [[step; 3], [step, 0, 0], [0, step, 0], [0, 0, step], [255, step, 0]] {
                let color = BrandColor(color);
                let ink = if color.ink() == "#000000" { 0.0 } else { 1.0 };
                let light = color.relative_luminance();
                let contrast = (light.max(ink) + 0.05) / (light.min(ink) + 0.05);
                assert!(contrast >= 4.5, "{color}: {contrast}");
            }
        }
    }
}
