//! Reads the tree: source without its tests, and pages of documentation.

use std::fs;
use std::path::{Path, PathBuf};

use crate::Offence;

/// Folders of tests and measurements: their code is read less often than it is run.
const NOT_SOURCE: [&str; 2] = ["tests", "bench"];

/// Folders of builds, and of pages that belong to an example.
const NOT_PAGES: [&str; 4] = ["target", "node_modules", "demo", "integrations"];

/// A file of the service.
pub(crate) struct SourceFile {
    pub(crate) path: String,
    /// The code, line by line as it was. Comments, strings and tests are blanks.
    pub(crate) code: String,
    pub(crate) comments: Vec<CommentLine>,
}

/// A comment, or a line of a longer one.
pub(crate) struct CommentLine {
    pub(crate) line: usize,
    /// The width of its whole line.
    pub(crate) columns: usize,
    pub(crate) text: String,
}

/// A page of Markdown.
pub(crate) struct Page {
    pub(crate) path: String,
    text: String,
}

impl SourceFile {
    pub(crate) fn new(path: &str, text: &str) -> Self {
        let mut code = without_texts(text);
        blank_tests(&mut code);
        Self::of_code(path, text, &code)
    }

    fn with_tests(path: &str, text: &str) -> Self {
        Self::of_code(path, text, &without_texts(text))
    }

    fn of_code(path: &str, text: &str, code: &str) -> Self {
        let mut comments = Vec::new();
        for (index, (line, coded)) in text.lines().zip(code.lines()).enumerate() {
            let Some(start) = coded.chars().position(|letter| letter == COMMENT) else { continue };
            let text = line.chars().skip(start).collect::<String>();
            let text = text.trim_start_matches(['/', '!', ' ']).to_owned();
            comments.push(CommentLine { line: index + 1, columns: line.chars().count(), text });
        }
        let code = code.replace(COMMENT, " ");
        Self { path: path.to_owned(), code, comments }
    }

    pub(crate) fn crate_name(&self) -> &str {
        self.path.split('/').next().unwrap_or_default()
    }

    /// Whether it is a test or a measurement.
    pub(crate) fn is_test(&self) -> bool {
        NOT_SOURCE.contains(&self.crate_name()) || self.path.contains("/tests")
    }

    pub(crate) fn offence(&self, line: usize, text: String) -> Offence {
        Offence { path: self.path.clone(), line, text }
    }
}

impl Page {
    pub(crate) fn words(&self) -> usize {
        self.text.split_whitespace().count()
    }

    /// The names of Rust files between backticks, each with its line.
    pub(crate) fn rust_files(&self) -> impl Iterator<Item = (usize, &str)> {
        let is_file = |name: &&str| name.ends_with(".rs") && !name.contains([' ', '*', '<']);
        (1..).zip(self.text.lines()).flat_map(move |(line, text)| {
            let spans = text.split('`').skip(1).step_by(2);
            spans.filter(is_file).map(move |name| (line, name))
        })
    }

    /// The line on which this word stands.
    pub(crate) fn line_of_word(&self, number: usize) -> usize {
        let mut words = 0;
        let before = self.text.lines().take_while(|line| {
            words += line.split_whitespace().count();
            words < number
        });
        before.count() + 1
    }
}

/// Every file of source of the service, by path.
pub(crate) fn files() -> Vec<SourceFile> {
    let paths = rust_paths().into_iter();
    let files = paths.map(|path| SourceFile::new(&path, &read(&path)));
    files.filter(|file| !file.is_test()).collect()
}

/// Every file of source of a crate by path. Measurements are crates, too.
pub(crate) fn crate_files() -> Vec<SourceFile> {
    let is_wanted = |path: &str| path.contains("/src/") && !path.starts_with("tests/");
    let paths = paths_where(|path| path.ends_with(".rs") && is_wanted(path)).into_iter();
    paths.map(|path| SourceFile::new(&path, &read(&path))).collect()
}

/// Every Rust file by path, with its tests.
pub(crate) fn files_with_tests() -> Vec<SourceFile> {
    let paths = rust_paths().into_iter();
    paths.map(|path| SourceFile::with_tests(&path, &read(&path))).collect()
}

/// The paths of all Rust files, tests included.
pub(crate) fn rust_paths() -> Vec<String> {
    paths_where(|path| path.ends_with(".rs"))
}

/// Every page of documentation, by path.
pub(crate) fn pages() -> Vec<Page> {
    let paths = paths_where(|path| path.ends_with(".md")).into_iter();
    paths.map(|path| Page { text: read(&path), path }).collect()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap()
}

fn paths_where(is_wanted: impl Fn(&str) -> bool) -> Vec<String> {
    let root = root();
    let mut found = Vec::new();
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            let name = entry.file_name().into_string().unwrap_or_default();
            let path = entry.path().strip_prefix(&root).unwrap().to_string_lossy().into_owned();
            let kind = entry.file_type().unwrap();
            if kind.is_dir() && !name.starts_with('.') && !NOT_PAGES.contains(&name.as_str()) {
                folders.push(entry.path());
            } else if kind.is_file() && is_wanted(&path) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// Stands in the code where a comment begins, until the comments are read.
const COMMENT: char = '\u{1}';

/// Stands in the code for a literal: a value is still there.
const LITERAL: char = '_';

/// The code without the words of comments and literals. Lines stay where they are.
fn without_texts(text: &str) -> String {
    let letters: Vec<char> = text.chars().collect();
    let mut code = String::with_capacity(text.len());
    let mut at = 0;
    while at < letters.len() {
        let rest = &letters[at..];
        let after_name = at > 0 && is_of_name(letters[at - 1]);
        let length = match rest {
            ['/', '/', ..] => line_length(rest),
            ['/', '*', ..] => block_comment_length(rest),
            ['"', ..] => text_length(rest),
            ['r', '"' | '#', ..] if !after_name => raw_text_length(rest),
            ['b' | 'c', 'r', '"' | '#', ..] if !after_name => 1 + raw_text_length(&rest[1..]),
            ['\'', ..] => letter_length(rest),
            _ => 0,
        };
        let is_comment = matches!(rest, ['/', '/', ..]);
        if length == 0 {
            code.push(letters[at]);
        }
        for (index, letter) in rest[..length].iter().enumerate() {
            code.push(match (letter, index) {
                ('\n', _) => '\n',
                (_, 0) if is_comment => COMMENT,
                (_, 0) => LITERAL,
                _ => ' ',
            });
        }
        at += length.max(1);
    }
    code
}

pub(crate) fn is_of_name(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

fn line_length(rest: &[char]) -> usize {
    rest.iter().take_while(|letter| **letter != '\n').count()
}

fn block_comment_length(rest: &[char]) -> usize {
    let mut depth = 0;
    for (index, pair) in rest.windows(2).enumerate() {
        depth += match pair {
            ['/', '*'] => 1,
            ['*', '/'] => -1,
            _ => 0,
        };
        if depth == 0 {
            return index + 2;
        }
    }
    rest.len()
}

fn text_length(rest: &[char]) -> usize {
    let mut at = 1;
    while at < rest.len() && rest[at] != '"' {
        at += if rest[at] == '\\' { 2 } else { 1 };
    }
    (at + 1).min(rest.len())
}

/// None for `r#name`, which is no text.
fn raw_text_length(rest: &[char]) -> usize {
    let hashes = rest[1..].iter().take_while(|letter| **letter == '#').count();
    if rest.get(1 + hashes) != Some(&'"') {
        return 0;
    }
    let mut end = vec!['"'];
    end.resize(1 + hashes, '#');
    let begins = 2 + hashes;
    let until = rest[begins..].windows(end.len()).position(|window| window == end);
    until.map_or(rest.len(), |until| begins + until + end.len())
}

/// None for a lifetime.
fn letter_length(rest: &[char]) -> usize {
    match rest {
        ['\'', '\\', _, tail @ ..] => {
            let tail = tail.iter().position(|letter| *letter == '\'');
            tail.map_or(0, |tail| tail + 4)
        }
        ['\'', _, '\'', ..] => 3,
        _ => 0,
    }
}

/// Makes every item blank that only a test build has.
fn blank_tests(code: &mut String) {
    let attribute = "#[cfg(test)]";
    while let Some(start) = code.find(attribute) {
        let rest = &code[start + attribute.len()..];
        let mut depth = 0_i32;
        let end = rest.char_indices().find(|(_, letter)| {
            depth += match letter {
                '{' | '(' | '[' => 1,
                '}' | ')' | ']' => -1,
                _ => 0,
            };
            depth < 0 || depth == 0 && matches!(letter, '}' | ';')
        });
        let end = end.map_or(rest.len(), |(index, letter)| index + letter.len_utf8());
        let end = start + attribute.len() + end;
        let blank: String =
            code[start..end].chars().map(|it| if it == '\n' { '\n' } else { ' ' }).collect();
        code.replace_range(start..end, &blank);
    }
}
