//! Finds functions, their parameters, paired bindings and types in code without texts.

use std::fmt;

use crate::source::is_of_name;

/// A function that has a body.
pub(crate) struct Function {
    pub(crate) name: String,
    pub(crate) line: usize,
    /// From `fn` to the last brace.
    pub(crate) lines: usize,
    pub(crate) parameters: Vec<Parameter>,
}

/// A parameter: its pattern, and its type unless it is `self`.
pub(crate) struct Parameter {
    pattern: String,
    kind: String,
}

/// A struct, an enum or a trait.
pub(crate) struct TypeName {
    pub(crate) name: String,
    pub(crate) line: usize,
}

impl Parameter {
    fn new(text: &str) -> Self {
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let colon = pieces(&text, ':').first().map_or(text.len(), |pattern| pattern.len());
        let kind = text[colon..].trim_start_matches(':').trim().to_owned();
        Self { pattern: text[..colon].trim().to_owned(), kind }
    }

    /// Whether it is taken apart in the list of parameters, or would have to be in the body.
    pub(crate) fn is_tuple(&self) -> bool {
        let kind = self.kind.trim_start_matches(['&', ' ']);
        let kind = kind.strip_prefix("mut ").unwrap_or(kind);
        kind.starts_with('(') && kind.contains(',')
    }
}

impl fmt::Display for Parameter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.pattern, self.kind)
    }
}

pub(crate) fn functions(code: &str) -> Vec<Function> {
    named(code, "fn").filter_map(|(start, name)| function(code, start, name)).collect()
}

fn function(code: &str, start: usize, name: &str) -> Option<Function> {
    let opens = start + open_parenthesis(&code[start..])?;
    let closes = opens + closing(&code[opens..])?;
    let mut depth = 0;
    let body = code[closes + 1..].char_indices().find(|(_, letter)| {
        depth += nesting(*letter);
        matches!((depth, letter), (1, '{') | (0, ';'))
    });
    let (body, _) = body.filter(|(_, letter)| *letter == '{')?;
    let body = closes + 1 + body;
    let ends = body + closing(&code[body..])?;
    let listed = pieces(&code[opens + 1..closes], ',').into_iter();
    let parameters = listed.filter(|text| !text.trim().is_empty()).map(Parameter::new).collect();
    let line = line_at(code, start);
    Some(Function {
        name: name.to_owned(),
        line,
        lines: line_at(code, ends) - line + 1,
        parameters,
    })
}

/// The names of tests, each with its line.
pub(crate) fn test_names(code: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    for (start, _) in code.match_indices("test") {
        let attribute = ["#[", "#[tokio::"].iter().any(|begin| code[..start].ends_with(begin));
        let ends = code[start + "test".len()..].starts_with([']', '(']);
        if attribute
            && ends
            && let Some((at, name)) = named(&code[start..], "fn").next()
        {
            found.push((line_at(code, start + at), name));
        }
    }
    found
}

/// Tuples of plain names that are bound to a tuple of values.
pub(crate) fn paired_lets(code: &str) -> Vec<(usize, String)> {
    let is_plain = |letter: char| is_of_name(letter) && !letter.is_uppercase();
    let mut found = Vec::new();
    for (start, _) in code.match_indices("let (") {
        let opens = start + "let ".len();
        let Some(length) = closing(&code[opens..]) else { continue };
        let pattern = &code[opens..=opens + length];
        let plain = pattern.chars().all(|letter| is_plain(letter) || " \n,()".contains(letter));
        let statement = code[opens + length + 1..].split_once('=');
        let Some((kind, value)) = statement else { continue };
        let kind = kind.trim();
        let value = value.trim_start();
        if !plain || !kind.is_empty() && !kind.starts_with(':') || !value.starts_with('(') {
            continue;
        }
        let Some(closes) = closing(value) else { continue };
        let is_whole = value[closes + 1..].trim_start().starts_with(';');
        if is_whole && pieces(&value[1..closes], ',').len() > 1 {
            found.push((line_at(code, start), format!("let {pattern}")));
        }
    }
    found
}

pub(crate) fn types(code: &str) -> Vec<TypeName> {
    let mut found = Vec::new();
    for keyword in ["struct", "enum", "trait"] {
        found.extend(
            named(code, keyword).map(|(start, name)| TypeName {
                name: name.to_owned(),
                line: line_at(code, start),
            }),
        );
    }
    found.sort_by_key(|found| found.line);
    found
}

/// Where this keyword stands before a name, and the name.
fn named<'a>(code: &'a str, keyword: &'a str) -> impl Iterator<Item = (usize, &'a str)> {
    code.match_indices(keyword).filter_map(move |(start, _)| {
        let is_word = !code[..start].chars().next_back().is_some_and(is_of_name);
        let rest = &code[start + keyword.len()..];
        let name = rest.trim_start();
        let is_apart = name.len() < rest.len();
        let end = name.find(|letter| !is_of_name(letter)).unwrap_or(name.len());
        (is_word && is_apart && end > 0).then(|| (start, &name[..end]))
    })
}

/// The parenthesis that opens the parameters: one in the generic parameters is none.
fn open_parenthesis(rest: &str) -> Option<usize> {
    let mut depth = 0;
    let mut before = ' ';
    for (index, letter) in rest.char_indices() {
        match letter {
            '<' => depth += 1,
            '>' if before != '-' => depth -= 1,
            '(' if depth == 0 => return Some(index),
            _ => {}
        }
        before = letter;
    }
    None
}

/// Where the bracket closes that this text begins with.
fn closing(text: &str) -> Option<usize> {
    let mut depth = 0;
    let found = text.char_indices().find(|(_, letter)| {
        depth += nesting(*letter);
        depth == 0
    });
    found.map(|(index, _)| index)
}

const fn nesting(letter: char) -> i32 {
    match letter {
        '(' | '[' | '{' => 1,
        ')' | ']' | '}' => -1,
        _ => 0,
    }
}

/// The text between these separators. A separator inside of brackets does not count, nor does `::`.
fn pieces(text: &str, separator: char) -> Vec<&str> {
    let mut found = Vec::new();
    let mut depth = 0;
    let mut begins = 0;
    let mut before = ' ';
    for (index, letter) in text.char_indices() {
        depth += nesting(letter);
        depth += i32::from(letter == '<') - i32::from(letter == '>' && !"-=".contains(before));
        let is_path = letter == ':' && (before == ':' || text[index + 1..].starts_with(':'));
        if letter == separator && depth == 0 && !is_path {
            found.push(&text[begins..index]);
            begins = index + 1;
        }
        before = letter;
    }
    found.push(&text[begins..]);
    found.retain(|piece| !piece.trim().is_empty());
    found
}

fn line_at(code: &str, at: usize) -> usize {
    code[..at].matches('\n').count() + 1
}
