//! Counts of how readable the project is, held as a ratchet: a count may fall and may not rise.
//! Each test names the file and the line of every offence. No test here opens a database, and none
//! asks git: the project is also built from an archive.
//!
//! `source` reads files and takes comments, strings and tests out of them. `items` finds functions,
//! parameters, bindings and types in the rest. `circles` finds files that import each other. The
//! ceilings are all on this page: lower one when its count has fallen. If a ceiling makes code
//! worse, raise it in the same commit and say why.

#![expect(clippy::unwrap_used, reason = "a file of the tree that cannot be read fails the test")]

mod circles;
mod items;
mod source;

use std::collections::BTreeMap;
use std::fmt;

use items::{Function, TypeName};
use source::{Page, SourceFile};

/// Above 70 lines a function has two subjects.
const FUNCTION_LINES_MAX: usize = 70;

/// A tuple hides how many parameters a function has; a struct would have a name.
const TUPLE_PARAMETERS_MAX: usize = 0;

/// `let (a, b) = (x, y);` is two statements on one line.
const PAIRED_LETS_MAX: usize = 0;

/// Two types of one name in a crate make every mention of it a riddle.
const DOUBLED_TYPE_NAMES_MAX: usize = 0;

/// A type of one word rarely says without its path which thing it is.
const ONE_WORD_TYPES_PERCENT_MAX: f64 = 15.0;

/// A function of one word rarely says at its call what it does.
const ONE_WORD_FUNCTIONS_PERCENT_MAX: f64 = 25.0;

/// A file of a circle can be read only together with all others of it.
const CIRCLES_MAX: usize = 7;

/// The files of the largest circle.
const CIRCLE_FILES_MAX: usize = 19;

/// A longer name of a test is a sentence for its comment.
const TEST_NAME_WORDS_MAX: usize = 7;

/// A longer comment line breaks in a split window; rustfmt holds only the code to it.
const COMMENT_COLUMNS_MAX: usize = 100;

/// Comment lines above that width.
const WIDE_COMMENTS_MAX: usize = 0;

/// A clause of "what" or "who" stands where a noun of the glossary should.
const CLAUSES_PER_1000_WORDS_MAX: f64 = 3.0;

/// The ceiling of such clauses in tests and measurements.
const TEST_CLAUSES_PER_1000_WORDS_MAX: f64 = 0.5;

/// A longer page is not read to its end. Pages of `docs/reference` are looked up, not read.
const PAGE_WORDS_MAX: usize = 2_500;

/// Pages above that length.
const LONG_PAGES_MAX: usize = 0;

/// An afternoon of reading for the whole project.
const ALL_PAGES_WORDS_MAX: usize = 48_000;

/// A place that breaks a rule.
struct Offence {
    path: String,
    line: usize,
    text: String,
}

impl fmt::Display for Offence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, line, text } = self;
        write!(f, "{path}:{line}: {text}")
    }
}

fn assert_at_most(ceiling: usize, offences: &[Offence]) {
    let places: Vec<String> = offences.iter().map(ToString::to_string).collect();
    let count = places.len();
    assert!(count <= ceiling, "{count} places, at most {ceiling}:\n{}", places.join("\n"));
}

fn offences_of_functions(
    rule: impl Fn(&Function) -> Vec<(usize, String)>,
    files: &[SourceFile],
) -> Vec<Offence> {
    let mut offences = Vec::new();
    for file in files {
        for function in items::functions(&file.code) {
            let places = rule(&function).into_iter();
            offences.extend(places.map(|(line, text)| file.offence(line, text)));
        }
    }
    offences
}

fn long_function(function: &Function) -> Vec<(usize, String)> {
    let Function { name, line, lines, .. } = function;
    let is_long = *lines > FUNCTION_LINES_MAX;
    is_long.then(|| (*line, format!("{name} has {lines} lines"))).into_iter().collect()
}

fn tuple_parameters(function: &Function) -> Vec<(usize, String)> {
    let tuples = function.parameters.iter().filter(|parameter| parameter.is_tuple());
    tuples.map(|parameter| (function.line, format!("{}: {parameter}", function.name))).collect()
}

fn paired_lets(files: &[SourceFile]) -> Vec<Offence> {
    let of_file = |file: &SourceFile| {
        let lets = items::paired_lets(&file.code).into_iter();
        lets.map(|(line, text)| file.offence(line, text)).collect::<Vec<_>>()
    };
    files.iter().flat_map(of_file).collect()
}

fn doubled_types(files: &[SourceFile]) -> Vec<Offence> {
    let mut by_name: BTreeMap<(&str, String), Vec<Offence>> = BTreeMap::new();
    for file in files {
        for TypeName { name, line } in items::types(&file.code) {
            let offence = file.offence(line, format!("{name} is the name of another type, too"));
            by_name.entry((file.crate_name(), name)).or_default().push(offence);
        }
    }
    by_name.into_values().filter(|places| places.len() > 1).flatten().collect()
}

fn is_one_word(name: &str) -> bool {
    let mut words = 0;
    let mut was_capital = false;
    for letter in name.chars() {
        words += usize::from(letter.is_uppercase() && !was_capital);
        was_capital = letter.is_uppercase();
    }
    words == 1
}

fn wide_comments(files: &[SourceFile]) -> Vec<Offence> {
    let mut offences = Vec::new();
    for file in files {
        let wide = file.comments.iter().filter(|comment| comment.columns > COMMENT_COLUMNS_MAX);
        offences.extend(
            wide.map(|comment| file.offence(comment.line, format!("{} columns", comment.columns))),
        );
    }
    offences
}

fn is_clause_word(word: &str) -> bool {
    let word = word.to_ascii_lowercase();
    ["what", "who", "whoever"].contains(&word.as_str())
}

fn clauses(files: &[SourceFile]) -> Vec<Offence> {
    let mut offences = Vec::new();
    for file in files {
        for comment in &file.comments {
            let words = comment.text.split(|letter: char| !letter.is_alphanumeric());
            let clauses = words.filter(|word| is_clause_word(word));
            offences.extend(clauses.map(|_| file.offence(comment.line, comment.text.clone())));
        }
    }
    offences
}

/// References are looked up, and the changelog grows with each release.
fn is_reference(page: &Page) -> bool {
    page.path.starts_with("docs/reference/") || page.path == "CHANGELOG.md"
}

fn long_pages(pages: &[Page]) -> Vec<Offence> {
    let read = pages.iter().filter(|page| !is_reference(page));
    let long = read.filter(|page| page.words() > PAGE_WORDS_MAX);
    long.map(|page| {
        let line = page.line_of_word(PAGE_WORDS_MAX);
        let text = format!("{} words, at most {PAGE_WORDS_MAX}", page.words());
        Offence { path: page.path.clone(), line, text }
    })
    .collect()
}

/// A page may leave out the first folders of a path.
fn missing_files(pages: &[Page], paths: &[String]) -> Vec<Offence> {
    let is_there = |name: &str| {
        let end = format!("/{name}");
        paths.iter().any(|path| path == name || path.ends_with(&end))
    };
    let missing = |page: &Page| {
        let names = page.rust_files().filter(|(_, name)| !is_there(name));
        let offence = |(line, name): (usize, &str)| Offence {
            path: page.path.clone(),
            line,
            text: name.to_owned(),
        };
        names.map(offence).collect::<Vec<_>>()
    };
    pages.iter().flat_map(missing).collect()
}

#[test]
fn no_function_is_longer_than_its_ceiling() {
    let files = source::files();
    assert!(files.len() > 100, "{} files of source: the tree is not where it was", files.len());
    assert_at_most(0, &offences_of_functions(long_function, &files));
}

#[test]
fn no_parameter_is_a_tuple() {
    assert_at_most(
        TUPLE_PARAMETERS_MAX,
        &offences_of_functions(tuple_parameters, &source::files()),
    );
}

#[test]
fn no_statement_binds_unrelated_values() {
    assert_at_most(PAIRED_LETS_MAX, &paired_lets(&source::files()));
}

#[test]
fn no_crate_names_two_types_alike() {
    assert_at_most(DOUBLED_TYPE_NAMES_MAX, &doubled_types(&source::files()));
}

#[test]
fn few_types_are_called_by_one_word() {
    let mut names = Vec::new();
    for file in source::files() {
        let types = items::types(&file.code).into_iter();
        names.extend(types.map(|TypeName { name, line }| file.offence(line, name)));
    }
    assert_share_at_most(ONE_WORD_TYPES_PERCENT_MAX, names, is_one_word);
}

/// Asserts that at most this share of the names breaks a rule.
fn assert_share_at_most(percent: f64, mut names: Vec<Offence>, is_bad: impl Fn(&str) -> bool) {
    let most = percent / 100.0 * f64::from(u32::try_from(names.len()).unwrap());
    names.retain(|name| is_bad(&name.text));
    assert_at_most(whole(most), &names);
}

#[test]
fn few_functions_are_called_by_one_word() {
    let name_of = |function: &Function| vec![(function.line, function.name.clone())];
    let names = || offences_of_functions(name_of, &source::files());
    assert_share_at_most(ONE_WORD_FUNCTIONS_PERCENT_MAX, names(), |name| !name.contains('_'));
    assert_share_at_most(0.0, names(), |name| name == "of");
}

#[test]
fn few_files_import_each_other() {
    let circles = circles::find_circles(&source::crate_files());
    let largest = circles.iter().map(Vec::len).max().unwrap_or_default();
    let lines: Vec<String> = circles.iter().map(|circle| circle.join(" ")).collect();
    let count = circles.len();
    assert!(
        count <= CIRCLES_MAX && largest <= CIRCLE_FILES_MAX,
        "{count} circles, at most {CIRCLES_MAX}; {largest} files in one, at most \
         {CIRCLE_FILES_MAX}:\n{}",
        lines.join("\n")
    );
}

#[test]
fn no_test_name_exceeds_its_ceiling() {
    let mut long = Vec::new();
    for file in source::files_with_tests() {
        for (line, name) in items::test_names(&file.code) {
            if name.split('_').count() > TEST_NAME_WORDS_MAX {
                long.push(file.offence(line, name.to_owned()));
            }
        }
    }
    assert_at_most(0, &long);
}

#[test]
fn no_comment_is_wider_than_the_code() {
    assert_at_most(WIDE_COMMENTS_MAX, &wide_comments(&source::files()));
}

#[test]
fn comments_name_nouns_instead_of_clauses() {
    let tests = source::files_with_tests().into_iter().filter(SourceFile::is_test).collect();
    let both =
        [(CLAUSES_PER_1000_WORDS_MAX, source::files()), (TEST_CLAUSES_PER_1000_WORDS_MAX, tests)];
    for (most, files) in both {
        let comments = files.iter().flat_map(|file| &file.comments);
        let words: usize = comments.map(|comment| comment.text.split_whitespace().count()).sum();
        let thousands = f64::from(u32::try_from(words).unwrap()) / 1_000.0;
        assert_at_most(whole(most * thousands), &clauses(&files));
    }
}

#[test]
fn no_page_exceeds_its_ceiling() {
    assert_at_most(LONG_PAGES_MAX, &long_pages(&source::pages()));
}

#[test]
fn pages_name_only_files_that_exist() {
    assert_at_most(0, &missing_files(&source::pages(), &source::rust_paths()));
}

#[test]
fn all_pages_together_keep_their_budget() {
    let pages = source::pages();
    assert!(pages.len() > 10, "{} pages: the tree is not where it was", pages.len());
    let words: usize = pages.iter().map(Page::words).sum();
    let each: Vec<String> =
        pages.iter().map(|page| format!("{}: {} words", page.path, page.words())).collect();
    let budget = ALL_PAGES_WORDS_MAX;
    assert!(words <= budget, "{words} words, at most {budget}:\n{}", each.join("\n"));
}

/// The counters themselves: each finds the offences of a small file, and nothing beside.
#[test]
fn every_offence_is_found_at_its_line() {
    let file = SourceFile::new("room/src/it.rs", include_str!("specimen.txt"));
    let lines = |offences: Vec<Offence>| offences.iter().map(|it| it.line).collect::<Vec<_>>();
    let files = [file];
    assert_eq!(lines(offences_of_functions(tuple_parameters, &files)), [8, 11, 11]);
    assert_eq!(lines(paired_lets(&files)), [17]);
    assert_eq!(lines(doubled_types(&files)), [4, 25]);
    assert_eq!(lines(clauses(&files)), [2, 2]);
    assert_eq!(lines(wide_comments(&files)), [29]);
    let lengths: Vec<_> = items::functions(&files[0].code).iter().map(|it| it.lines).collect();
    assert_eq!(lengths, [2, 9, 3]);
    assert_eq!(items::test_names("#[tokio::test(a)]\nasync fn a_b() {}"), [(2, "a_b")]);
    assert!(is_one_word("Hook") && is_one_word("TLS") && !is_one_word("HookRow"));
}

/// One file of the circle imports the other by way of a re-export.
#[test]
fn a_circle_passes_a_reexport() {
    let files = [
        SourceFile::new("room/src/lib.rs", "mod a;\nmod b;\nmod c;\npub use b::{B as C};"),
        SourceFile::new("room/src/a.rs", "use crate::{C, c};\npub struct A(C);"),
        SourceFile::new("room/src/b.rs", "pub struct B(Box<super::a::A>);"),
        SourceFile::new("room/src/c.rs", "use std::fmt;\nuse crate::a::A;"),
    ];
    assert_eq!(circles::find_circles(&files), [["room/src/a.rs", "room/src/b.rs"]]);
}

/// A count that may be reached, of a share that is rarely whole.
fn whole(count: f64) -> usize {
    (0_u32..).take_while(|whole| f64::from(*whole) <= count).count() - 1
}
