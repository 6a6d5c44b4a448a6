use super::*;
use rstest::rstest;

#[rstest]
#[case(Some("Ann"), Some("Bo Lee"), Some("Ann"))]
#[case(Some(" Mary\tAnn "), None, Some("Mary Ann"))]
#[case(None, Some("Bo Lee"), Some("Bo"))]
#[case(Some(""), Some("  Bo  Lee "), Some("Bo"))]
#[case(Some("\u{200B}"), Some("\u{FEFF} Bo"), Some("Bo"))]
#[case(None, Some("Bo\r\nBcc: x"), Some("Bo"))]
#[case(Some("A\r\nB\0C"), None, Some("A B C"))]
#[case(Some("\u{202E}nnA"), None, Some("nnA"))]
#[case(Some("李"), None, Some("李"))]
#[case(Some("👩\u{200D}🚀"), None, Some("👩\u{200D}🚀"))]
#[case(Some(" "), Some(" "), None)]
#[case(None, None, None)]
fn a16_a_greeting_uses_a_first_name(
    #[case] first_name: Option<&str>,
    #[case] name: Option<&str>,
    #[case] expected: Option<&str>,
) {
    assert_eq!(greeting_name(first_name, name).as_deref(), expected);
}

#[rstest]
#[case("  Acme \u{A0} Ltd\n", Some("Acme Ltd"))]
#[case("a\u{2066}b\u{2069}c", Some("a b c"))]
#[case("שלום\u{200F}!", Some("שלום\u{200F}!"))]
#[case("\u{2800}\u{3164}", None)]
fn a16_a_name_becomes_one_line(#[case] text: &str, #[case] expected: Option<&str>) {
    assert_eq!(one_line(text).as_deref(), expected);
}

#[test]
fn a16_lines_are_cut_at_200_characters() {
    assert_eq!(one_line(&"😀".repeat(200)), Some("😀".repeat(200)));
    assert_eq!(one_line(&"😀".repeat(201)), Some("😀".repeat(200)));
    let cut_at_a_space = format!("{} b", "a".repeat(199));
    assert_eq!(one_line(&cut_at_a_space), Some("a".repeat(199)));
}

#[rstest]
#[case("a\r\nb\n\nc", Some("a\nb\n\nc"))]
#[case("\n a\tb\rc\0 \n", Some("a b c"))]
#[case("a\u{2028}b\u{202D}c", Some("a b c"))]
#[case("  a  b  ", Some("a  b"))]
#[case("\n\u{200B}\n", None)]
fn a16_a_note_is_cleaned(#[case] text: &str, #[case] expected: Option<&str>) {
    assert_eq!(clean_note(text).as_deref(), expected);
}
