//! The firm's colour, and an ink that is readable on the colour.

/// The colour of a firm without a usable one.
const NEUTRAL_RGB: [u8; 3] = [0x1f, 0x29, 0x33];

/// Black and white are equally readable on this luminance: `(L + 0.05) / 0.05 = 1.05 / (L + 0.05)`.
const BALANCE_LUMINANCE: f64 = 0.179_128_784_747_792;

/// A background and its ink, in the notation of mail readers.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct AccentColor {
    /// `#rrggbb`.
    pub(crate) background: String,
    /// Black or white.
    pub(crate) ink: &'static str,
}

impl AccentColor {
    /// Reads `#rgb` or `#rrggbb`; nothing else may reach a style.
    pub(super) fn parse_hex(text: &str) -> Option<Self> {
        let digits: Vec<u8> = text
            .strip_prefix('#')?
            .chars()
            .map(|digit| digit.to_digit(16).and_then(|digit| u8::try_from(digit).ok()))
            .collect::<Option<_>>()?;
        match digits[..] {
            [r, g, b] => Some(Self::with_ink([r * 0x11, g * 0x11, b * 0x11])),
            [r, rr, g, gg, b, bb] => Some(Self::with_ink([r << 4 | rr, g << 4 | gg, b << 4 | bb])),
            _ => None,
        }
    }

    /// Chooses the ink with the higher contrast (WCAG 2.2, contrast ratio): at least 4.58 to 1.
    fn with_ink(rgb @ [r, g, b]: [u8; 3]) -> Self {
        let ink = if relative_luminance(rgb) > BALANCE_LUMINANCE { "#000000" } else { "#ffffff" };
        Self { background: format!("#{r:02x}{g:02x}{b:02x}"), ink }
    }
}

impl Default for AccentColor {
    fn default() -> Self {
        Self::with_ink(NEUTRAL_RGB)
    }
}

/// WCAG 2.2, relative luminance.
fn relative_luminance(rgb: [u8; 3]) -> f64 {
    let [r, g, b] = rgb.map(|channel| {
        let channel = f64::from(channel) / 255.0;
        if channel <= 0.04045 { channel / 12.92 } else { ((channel + 0.055) / 1.055).powf(2.4) }
    });
    0.2126 * r + 0.7152 * g + 0.0722 * b
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case("#fff", "#ffffff", "#000000")]
    #[case("#000", "#000000", "#ffffff")]
    #[case("#0A7", "#00aa77", "#000000")]
    #[case("#1D4ED8", "#1d4ed8", "#ffffff")]
    #[case("#ffdd00", "#ffdd00", "#000000")]
    #[case("#757575", "#757575", "#ffffff")]
    #[case("#777777", "#777777", "#000000")]
    fn the_ink_is_readable(#[case] text: &str, #[case] background: &str, #[case] ink: &str) {
        let accent = AccentColor::parse_hex(text).unwrap();
        assert_eq!((accent.background.as_str(), accent.ink), (background, ink));
    }

    #[rstest]
    fn a16_only_hex_colours_reach_the_style(
        #[values(
            "",
            "#",
            "#ff",
            "#ffff",
            "#fffff",
            "#fffffff",
            "#ffffffff",
            "fff",
            "red",
            "#ggg",
            "#fff;",
            " #fff",
            "#ff\u{301}f",
            "#\u{FF11}\u{FF12}\u{FF13}",
            "#+12",
            "rgb(0,0,0)",
            "#fff\"><script>",
            "url(https://e.example/)"
        )]
        text: &str,
    ) {
        assert_eq!(AccentColor::parse_hex(text), None);
    }

    /// WCAG 2.2, success criterion 1.4.3, for text of any size.
    #[test]
    fn every_background_keeps_the_least_contrast() {
        for rgb in (0..=0xff_ffff_u32).step_by(97) {
            let [_, r, g, b] = rgb.to_be_bytes();
            let light = relative_luminance([r, g, b]) + 0.05;
            let contrast = match AccentColor::with_ink([r, g, b]).ink {
                "#000000" => light / 0.05,
                _ => 1.05 / light,
            };
            assert!(contrast >= 4.5, "{rgb:06x}: {contrast}");
        }
    }
}
