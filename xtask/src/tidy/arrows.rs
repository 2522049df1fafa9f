//! Checks which crates depend on which others.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::bail;
use serde_json::Value;
use xtask::run;

/// The crates, and the arrows of ARCHITECTURE.md that begin at each. A crate may use whatever its arrows reach, and nothing else.
const ARROWS: &[(&str, &[&str])] = &[
    ("plimsoll", &["simulate", "serve", "engine"]),
    ("simulate", &["serve", "engine"]),
    ("serve", &["control"]),
    ("control", &["connect"]),
    ("connect", &["cluster"]),
    ("cluster", &["api", "process"]),
    ("engine", &["apiserver", "scheduler", "kubelet"]),
    ("scheduler", &["cluster"]),
    ("kubelet", &["cluster"]),
    ("apiserver", &["apimachinery", "process"]),
    ("apimachinery", &["api"]),
    ("api", &["decide"]),
    ("process", &[]),
    ("decide", &[]),
];

/// Third-party crates that a pure crate must not reach, however indirectly.
const IMPURE: &[(&str, &[&str])] = &[
    ("decide", &["tokio", "kube-core", "k8s-openapi"]),
    ("api", &["tokio", "hyper"]),
    ("apimachinery", &["tokio", "hyper"]),
];

/// Checks that the crates depend only on what their arrows reach.
pub(crate) fn check() -> anyhow::Result<()> {
    let metadata =
        run::output("cargo", &["metadata", "--format-version", "1", "--no-deps", "--locked"])?;
    let metadata: Value = serde_json::from_str(&metadata)?;
    for (from, to) in dependencies(&metadata) {
        let Some(reached) = reached(&from) else {
            bail!(
                "the crate `{from}` has no arrow in xtask/src/tidy/arrows.rs and ARCHITECTURE.md"
            );
        };
        if !reached.contains(to.as_str()) {
            bail!("{from} must not depend on {to}: ARCHITECTURE.md has no arrow that leads there");
        }
    }
    for (from, banned) in IMPURE {
        let package = format!("plimsoll-{from}");
        let tree = run::output(
            "cargo",
            &["tree", "--locked", "--edges", "normal", "--prefix", "none", "--package", &package],
        )?;
        let names: BTreeSet<&str> =
            tree.lines().filter_map(|line| line.split(' ').next()).collect();
        if let Some(found) = banned.iter().find(|name| names.contains(**name)) {
            bail!(
                "{from} must not depend on {found}: `cargo tree -p {package} -i {found}` shows how it does"
            );
        }
    }
    Ok(())
}

/// Lists the dependencies between our crates, other than those of tests and build scripts.
fn dependencies(metadata: &Value) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for package in metadata["packages"].as_array().into_iter().flatten() {
        let manifest = package["manifest_path"].as_str().unwrap_or_default();
        if !manifest.contains("/crates/") {
            continue;
        }
        let from = short(package["name"].as_str().unwrap_or_default());
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            let path = dependency["path"].as_str().unwrap_or_default();
            if dependency["kind"].is_null() && path.contains("/crates/") {
                found.push((from.clone(), short(dependency["name"].as_str().unwrap_or_default())));
            }
        }
    }
    found
}

fn short(package: &str) -> String {
    package.trim_start_matches("plimsoll-").to_owned()
}

/// Returns all crates that the arrows of a crate lead to; `None` for a crate without an entry.
fn reached(from: &str) -> Option<BTreeSet<&'static str>> {
    let arrows: BTreeMap<&str, &[&str]> = ARROWS.iter().copied().collect();
    let mut open: Vec<&str> = arrows.get(from)?.to_vec();
    let mut reached = BTreeSet::new();
    while let Some(next) = open.pop() {
        if reached.insert(next) {
            open.extend(arrows.get(next).copied().unwrap_or_default());
        }
    }
    Some(reached)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn arrows_lead_further_but_never_back() {
        assert!(reached("plimsoll").unwrap().contains("decide"));
        assert!(reached("kubelet").unwrap().contains("cluster"));
        assert!(!reached("kubelet").unwrap().contains("apiserver"));
        assert!(!reached("serve").unwrap().contains("engine"));
        assert_eq!(reached("decide"), Some(BTreeSet::new()));
        assert_eq!(reached("unknown"), None);
    }

    #[test]
    fn dependencies_of_tests_do_not_count() {
        let dependency = |name: &str, kind: Value| json!({"name": name, "kind": kind, "path": format!("/p/crates/{name}")});
        let metadata = json!({"packages": [
            {"name": "plimsoll-serve", "manifest_path": "/p/crates/serve/Cargo.toml", "dependencies": [
                dependency("plimsoll-control", Value::Null), dependency("plimsoll-engine", json!("dev")),
                {"name": "tokio", "kind": null},
            ]},
            {"name": "xtask", "manifest_path": "/p/xtask/Cargo.toml", "dependencies": [dependency("plimsoll-api", Value::Null)]},
        ]});
        assert_eq!(dependencies(&metadata), [("serve".to_owned(), "control".to_owned())]);
    }
}
