//! Circles: files of one crate that import each other in a loop. A path leads to the file that
//! defines its name, also by way of re-exports. A re-export alone is no import.

use std::collections::{BTreeMap, BTreeSet};

use crate::source::{SourceFile, is_of_name};

/// Imports that one path may pass: a name can be like that of the crate it comes from.
const STEPS_MAX: usize = 8;

/// The files of a crate, by module.
type Modules = BTreeMap<Vec<String>, ModuleFile>;

#[derive(Default)]
struct ModuleFile {
    path: String,
    /// The imported names, re-exports too, each with its path.
    imports: BTreeMap<String, Vec<String>>,
    /// The paths in the code and in imports that are no re-exports.
    used: BTreeSet<Vec<String>>,
}

/// The circles of each crate, with the paths of their files.
pub(crate) fn find_circles(files: &[SourceFile]) -> Vec<Vec<String>> {
    let mut crates: BTreeMap<&str, Modules> = BTreeMap::new();
    for file in files {
        let Some((_, path)) = file.path.split_once("/src/") else { continue };
        let names = path.trim_end_matches(".rs").split('/').map(str::to_owned);
        let module = names.filter(|name| !["lib", "main", "mod"].contains(&name.as_str()));
        let modules = crates.entry(file.crate_name()).or_default();
        modules.entry(module.collect()).or_insert_with(|| ModuleFile::read(file));
    }
    crates.values().flat_map(circles_of_crate).collect()
}

fn circles_of_crate(modules: &Modules) -> BTreeSet<Vec<String>> {
    let mut imported: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (module, file) in modules {
        let files = file.used.iter().filter_map(|path| find_file(modules, module, path, STEPS_MAX));
        imported.insert(&file.path, files.collect());
    }
    let mut reached = imported.clone();
    for others in reached.values_mut() {
        let mut waiting: Vec<&str> = others.iter().copied().collect();
        while let Some(file) = waiting.pop() {
            waiting.extend(imported[file].iter().copied().filter(|next| others.insert(*next)));
        }
    }
    let mut circles = BTreeSet::new();
    for (file, others) in &reached {
        let circle = others.iter().filter(|other| reached[**other].contains(file));
        circles.insert(circle.map(ToString::to_string).collect::<Vec<_>>());
    }
    circles.retain(|circle| circle.len() > 1);
    circles
}

/// The file that defines the name at the end of a path. `None` for a name of another crate.
fn find_file<'a>(
    modules: &'a Modules,
    from: &[String],
    path: &[String],
    steps: usize,
) -> Option<&'a str> {
    let mut module = if path.first()? == "crate" { Vec::new() } else { from.to_vec() };
    for (index, name) in path.iter().enumerate() {
        match name.as_str() {
            "crate" | "self" => continue,
            "super" => drop(module.pop()),
            _ => module.push(name.clone()),
        }
        if modules.contains_key(&module) {
            continue;
        }
        module.pop();
        let file = modules.get(&module)?;
        let Some(import) = file.imports.get(name) else {
            return (index > 0).then_some(file.path.as_str());
        };
        let whole = [&import[..], &path[index + 1..]].concat();
        return find_file(modules, &module, &whole, steps.checked_sub(1)?);
    }
    None
}

impl ModuleFile {
    fn read(file: &SourceFile) -> Self {
        let tokens = split_tokens(&file.code);
        let mut read = Self { path: file.path.clone(), ..Self::default() };
        let mut at = 0;
        while at < tokens.len() {
            let before = at.checked_sub(1).map_or(";", |before| tokens[before]);
            if tokens[at] == "use" && tokens.get(at + 1) != Some(&"<") {
                let tree = tokens[at + 1..].split(|token| *token == ";").next().unwrap_or_default();
                let imports = imports_of(tree);
                if !["pub", ")"].contains(&before) {
                    read.used.extend(imports.values().cloned());
                }
                read.imports.extend(imports);
                at += tree.len();
            } else if tokens[at].starts_with(is_of_name) && ![".", "::"].contains(&before) {
                let mut path = vec![tokens[at].to_owned()];
                while let [_, "::", name, ..] = &tokens[at..]
                    && name.starts_with(is_of_name)
                {
                    path.push((*name).to_owned());
                    at += 2;
                }
                read.used.insert(path);
            }
            at += 1;
        }
        read
    }
}

/// The names of a `use`, each with its path.
fn imports_of(tree: &[&str]) -> BTreeMap<String, Vec<String>> {
    let mut imports: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut prefixes: Vec<Vec<&str>> = Vec::new();
    let mut path: Vec<&str> = Vec::new();
    let mut name: Option<&str> = None;
    let mut before = "";
    for token in tree.iter().copied().chain([","]) {
        match token {
            "::" | "as" => {}
            "{" => {
                prefixes.push(path.clone());
                name = None;
            }
            "," | "}" => {
                if let Some(name) = name.take() {
                    let whole = path.iter().map(ToString::to_string).collect();
                    imports.insert(name.to_owned(), whole);
                }
                if token == "}" {
                    prefixes.pop();
                }
                path = prefixes.last().cloned().unwrap_or_default();
            }
            "self" if !path.is_empty() => name = path.last().copied(),
            alias if before == "as" => name = Some(alias),
            word => {
                path.push(word);
                name = Some(word);
            }
        }
        before = token;
    }
    imports
}

/// Names, `::`, and all other characters by themselves.
fn split_tokens(code: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut rest = code.trim_start();
    while let Some(first) = rest.chars().next() {
        let name = rest.find(|letter| !is_of_name(letter)).unwrap_or(rest.len());
        let other = if rest.starts_with("::") { 2 } else { first.len_utf8() };
        let (token, after) = rest.split_at(name.max(other));
        tokens.push(token);
        rest = after.trim_start();
    }
    tokens
}
