//! The pages of settings and commands in `docs/reference` are equal to the command line. `UPDATE=1`
//! writes them.

use firmforms::reference;
use tests::assert_page_is;

/// Words of the generated pages together: a reader looks a setting up, and does not read a book.
const GENERATED_WORDS_MAX: usize = 2_250;

/// Words of the page of commands: a line for each.
const COMMANDS_WORDS_MAX: usize = 1_150;

#[test]
fn the_settings_page_matches_the_command_line() {
    assert_page_is("settings.md", &reference::settings_page());
}

#[test]
fn the_commands_page_matches_the_command_line() {
    assert_page_is("commands.md", &reference::commands_page());
}

#[test]
fn the_generated_pages_are_short() {
    let words = |page: String| page.split_whitespace().count();
    let commands = words(reference::commands_page());
    assert!(commands <= COMMANDS_WORDS_MAX, "{commands} words of commands");
    let both = commands + words(reference::settings_page());
    assert!(both <= GENERATED_WORDS_MAX, "{both} words of settings and commands");
}
