//! Finds modules of a crate that depend on each other in a circle.
//!
//! The nodes are the top-level modules of each crate below `crates`: a module includes all files below it. The edges are the
//! uses of `crate::` paths, resolved through the re-exports of the crate root. Tests, and circles inside a top-level module, are
//! not counted. A circle of many modules is in effect one large module.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::bail;
use xtask::run;

/// The largest circle that is still easy to understand.
const LARGEST: usize = 4;

type Graph = BTreeMap<String, BTreeSet<String>>;

/// Prints the largest circle of each crate, and fails if one has too many modules.
pub(crate) fn check() -> anyhow::Result<()> {
    let crates = run::root().join("crates");
    let mut names: Vec<_> = std::fs::read_dir(&crates)?.collect::<Result<_, _>>()?;
    names.sort_by_key(std::fs::DirEntry::file_name);
    let mut too_large = Vec::new();
    for entry in names {
        let source = entry.path().join("src");
        let name = entry.file_name().to_string_lossy().into_owned();
        let graph = graph(&source)?;
        let largest = circles(&graph).into_iter().max_by_key(Vec::len).unwrap_or_default();
        eprintln!("{}", line(&name, graph.len(), &largest));
        if largest.len() > LARGEST {
            too_large.push(name);
        }
    }
    if !too_large.is_empty() {
        bail!(
            "more than {LARGEST} top-level modules depend on each other in a circle in {}: separate them, so that each \
             can be understood alone",
            too_large.join(", ")
        );
    }
    Ok(())
}

/// Describes the largest circle of a crate.
fn line(name: &str, modules: usize, largest: &[String]) -> String {
    if largest.is_empty() {
        return format!(
            "{name}: none of {modules} top-level modules depend on each other in a circle"
        );
    }
    let (count, listed) = (largest.len(), largest.join(", "));
    format!("{name}: the largest circle has {count} of {modules} top-level modules: {listed}")
}

/// Reads which top-level module uses which others.
fn graph(source: &Path) -> anyhow::Result<Graph> {
    let root = ["lib.rs", "main.rs"].map(|name| source.join(name)).into_iter().find(|p| p.exists());
    let Some(root) = root else { return Ok(Graph::new()) };
    let root = std::fs::read_to_string(root)?;
    let exported = exported(&root);
    let mut graph = Graph::new();
    for file in super::sources_in(source)? {
        let below = file.strip_prefix(source).unwrap_or(&file);
        let Some(first) = below.components().next() else { continue };
        let module = first.as_os_str().to_string_lossy().trim_end_matches(".rs").to_owned();
        if matches!(module.as_str(), "lib" | "main") {
            continue;
        }
        let text = super::without_tests(&std::fs::read_to_string(&file)?);
        let used = graph.entry(module.clone()).or_default();
        for name in used_from_crate(&text) {
            let target = exported.get(&name).cloned().unwrap_or(name);
            if target != module {
                used.insert(target);
            }
        }
    }
    let modules: BTreeSet<String> = graph.keys().cloned().collect();
    graph.values_mut().for_each(|used| used.retain(|name| modules.contains(name)));
    Ok(graph)
}

/// Finds the names behind `crate::`, also in braces.
fn used_from_crate(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (at, _) in text.match_indices("crate::") {
        let before = text[..at].chars().next_back();
        if before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':') {
            continue;
        }
        let rest = &text[at + "crate::".len()..];
        match rest.strip_prefix('{') {
            Some(list) => found.extend(first_names(list)),
            None => found.extend(identifier(rest)),
        }
    }
    found
}

/// Returns the first name of each item in a list of imports that ends with its closing brace.
fn first_names(list: &str) -> Vec<String> {
    let (mut depth, mut names, mut is_start) = (0, Vec::new(), true);
    for (at, c) in list.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => is_start = true,
            c if is_start && (c.is_alphabetic() || c == '_') => {
                names.extend(identifier(&list[at..]));
                is_start = false;
            }
            _ => {}
        }
    }
    names
}

fn identifier(text: &str) -> Option<String> {
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    (end > 0).then(|| text[..end].to_owned())
}

/// Maps each name that the root of a crate re-exports to the module that it comes from.
fn exported(root: &str) -> BTreeMap<String, String> {
    let mut exported = BTreeMap::new();
    for statement in root.split(';') {
        let Some(at) = statement.rfind("use ") else { continue };
        let path = statement[at + "use ".len()..].trim();
        let Some((module, names)) = path.split_once("::") else { continue };
        for name in
            names.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|n| !n.is_empty())
        {
            exported.insert(name.to_owned(), module.to_owned());
        }
    }
    exported
}

/// Finds the groups of modules that all reach each other.
fn circles(graph: &Graph) -> Vec<Vec<String>> {
    let reached: BTreeMap<&str, BTreeSet<&str>> =
        graph.keys().map(|name| (name.as_str(), reached(graph, name))).collect();
    let mut circles = BTreeSet::new();
    for (name, from_it) in &reached {
        let circle: Vec<String> = from_it
            .iter()
            .filter(|other| reached[*other].contains(name))
            .map(|other| (*other).to_owned())
            .collect();
        if circle.len() > 1 {
            circles.insert(circle);
        }
    }
    circles.into_iter().collect()
}

fn reached<'g>(graph: &'g Graph, from: &'g str) -> BTreeSet<&'g str> {
    let (mut reached, mut open) = (BTreeSet::new(), vec![from]);
    while let Some(next) = open.pop() {
        for used in graph.get(next).into_iter().flatten() {
            if reached.insert(used.as_str()) {
                open.push(used);
            }
        }
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_that_use_each_other_are_found() {
        let graph: Graph = [("a", "b"), ("b", "c"), ("c", "a"), ("d", "a")]
            .map(|(from, to)| (from.to_owned(), BTreeSet::from([to.to_owned()])))
            .into();
        assert_eq!(circles(&graph), [["a", "b", "c"]]);
    }

    #[test]
    fn the_largest_circle_of_a_crate_is_described() {
        let circle = ["a", "b"].map(str::to_owned);
        assert_eq!(
            line("x", 5, &circle),
            "x: the largest circle has 2 of 5 top-level modules: a, b"
        );
        assert_eq!(
            line("x", 5, &[]),
            "x: none of 5 top-level modules depend on each other in a circle"
        );
    }

    #[test]
    fn names_behind_crate_are_found() {
        let text =
            "use crate::a::B;\nuse crate::{c::{D, e}, F};\nlet x = other_crate::g(); crate::h()";
        let found: Vec<String> = used_from_crate(text).into_iter().collect();
        assert_eq!(found, ["F", "a", "c", "h"]);
        let exported = exported("mod c;\npub use f::{F, G as H};\nuse i::J;");
        assert_eq!((exported["F"].as_str(), exported["J"].as_str()), ("f", "i"));
    }
}
