//! Sequences of requests, as files hold them.
//!
//! ```yaml
//! - name: a config map comes back as it was created
//!   steps:
//!   - POST {core}/configmaps: {metadata: {name: a}, data: {k: v}}
//!     save: {version: metadata.resourceVersion}     # {version} stands for it in later steps
//!   - GET {core}/configmaps/a
//!   - PATCH-MERGE {core}/configmaps/a: {data: {k: w}}
//!   - WATCH {core}/configmaps?resourceVersion={version}   # for a second; compares the events
//!   - GET {core}/configmaps/a: null
//!     eventually: true                                    # asks until both agree; a write: until it is not a 404
//!     present: metadata.deletionTimestamp                 # with eventually: and until both have this field
//!   cleanup: [/api/v1/nodes/{ns}-a]                       # cluster-wide objects to delete afterwards
//! ```
//!
//! `{ns}` is the sequence's namespace; `{core}`, `{apps}`, `{batch}`, `{policy}` the paths of groups in it. Verbs are
//! those of HTTP, and PATCH-JSON, PATCH-MERGE, PATCH-STRATEGIC, APPLY (YAML body as JSON) and WATCH. Further keys of a
//! step: `type` (content type), `accept`, `raw` (the body as text), `save`, `eventually`, `present`.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Map, Value};

/// Requests that belong together.
pub(super) struct Sequence {
    pub(super) name: String,
    pub(super) steps: Vec<Step>,
    pub(super) cleanup: Vec<String>,
}

/// One request.
pub(super) struct Step {
    pub(super) verb: String,
    pub(super) path: String,
    pub(super) body: Option<String>,
    pub(super) content_type: Option<String>,
    pub(super) accept: Option<String>,
    pub(super) save: BTreeMap<String, String>,
    pub(super) eventually: bool,
    pub(super) present: Option<String>,
}

impl Step {
    /// Returns whether the step only reads, so that it may be repeated.
    pub(super) fn reads(&self) -> bool {
        matches!(self.verb.as_str(), "GET" | "WATCH")
    }
}

/// Reads every file of sequences.
pub(super) fn all() -> Vec<Sequence> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/differential");
    let mut files: Vec<_> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|e| e == "yaml"));
    files.sort();
    files.iter().flat_map(|path| file(path)).collect()
}

fn file(path: &Path) -> Vec<Sequence> {
    let text = std::fs::read_to_string(path).unwrap();
    let list: Vec<Value> = serde_saphyr::from_str_with_options(
        &text,
        serde_saphyr::options! { strict_booleans: true },
    )
    .unwrap_or_else(|err| panic!("{}: {err}", path.display()));
    let topic = path.file_stem().unwrap().to_string_lossy();
    list.iter().map(|value| sequence(&topic, value)).collect()
}

fn sequence(topic: &str, value: &Value) -> Sequence {
    let name = value["name"]
        .as_str()
        .unwrap_or_else(|| panic!("{topic}: a sequence without a name: {value}"));
    let steps = value["steps"].as_array().unwrap_or_else(|| panic!("{topic}: {name} has no steps"));
    let text = |v: &Value| v.as_str().unwrap().to_owned();
    Sequence {
        name: format!("{topic}: {name}"),
        steps: steps.iter().map(step).collect(),
        cleanup: value["cleanup"].as_array().into_iter().flatten().map(text).collect(),
    }
}

fn step(value: &Value) -> Step {
    let empty = Map::new();
    let options = value.as_object().unwrap_or(&empty);
    let is_request = |key: &str| {
        key.split_once(' ')
            .is_some_and(|(verb, _)| verb.chars().all(|c| c.is_ascii_uppercase() || c == '-'))
    };
    let (line, body) = value.as_str().map(|line| (line, &Value::Null)).unwrap_or_else(|| {
        let found = options.iter().find(|(key, _)| is_request(key)).map(|(k, v)| (k.as_str(), v));
        found.unwrap_or_else(|| panic!("not a step: {value}"))
    });
    let (verb, path) = line.split_once(' ').unwrap();
    let text = |key: &str| options.get(key).and_then(Value::as_str).map(str::to_owned);
    let save = options.get("save").and_then(Value::as_object).into_iter().flatten();
    Step {
        verb: verb.to_owned(),
        path: path.to_owned(),
        body: text("raw").or_else(|| (!body.is_null()).then(|| body.to_string())),
        content_type: text("type"),
        accept: text("accept"),
        save: save.map(|(k, v)| (k.clone(), v.as_str().unwrap().to_owned())).collect(),
        eventually: options.get("eventually") == Some(&Value::Bool(true)),
        present: text("present"),
    }
}
