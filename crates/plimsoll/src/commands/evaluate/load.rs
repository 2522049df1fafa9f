//! Reads objects from files, and refuses what is not valid by file, document and field.

use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};

use api::autoscaling::FleetAutoscaleReview;
use api::{Admission, Problem, Scope, nomad};
use jiff::Timestamp;
use serde_json::Value;

use super::world::Object;

/// One thing wrong with the input, and where.
pub(crate) struct Fault {
    file: PathBuf,
    place: Place,
    problem: Problem,
}

/// Where in a file something is wrong.
#[derive(Clone, Copy)]
enum Place {
    /// The file as a whole cannot be read.
    File,
    /// In a document, counted from 1.
    Document(usize),
    /// In a line, counted from 1.
    Line(usize),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.file.display())?;
        match self.place {
            Place::File => {}
            Place::Document(document) => write!(f, "document {document}: ")?,
            Place::Line(line) => write!(f, "line {line}: ")?,
        }
        self.problem.fmt(f)
    }
}

/// Reads all files. Either every object is valid, or all problems come back.
pub(crate) fn files(paths: &[PathBuf], now: Timestamp) -> Result<Vec<Object>, Vec<Fault>> {
    let mut objects = Vec::new();
    let mut faults = Vec::new();
    for path in paths {
        match one(path, now) {
            Ok(found) => objects.extend(found),
            Err(found) => faults.extend(found.into_iter().map(|(place, problem)| Fault {
                file: path.clone(),
                place,
                problem,
            })),
        }
    }
    if faults.is_empty() { Ok(objects) } else { Err(faults) }
}

/// Reads the objects of one file.
fn one(path: &Path, now: Timestamp) -> Result<Vec<Object>, Vec<(Place, Problem)>> {
    let text = read(path).map_err(|problem| vec![(Place::File, problem)])?;
    if let Some(form) = nomad_form(path, &text) {
        let lined = |fault: nomad::Fault| (Place::Line(fault.line), fault.problem);
        let policies = nomad::read(&text, form)
            .map_err(|faults| faults.into_iter().map(lined).collect::<Vec<_>>())?;
        return gather(policies.into_iter().map(|policy| nomad_policy(policy, now)));
    }
    let documents = documents(path, &text).map_err(|problem| vec![(Place::File, problem)])?;
    gather(documents.into_iter().map(|value| document(value, now)))
}

/// Gives all objects, or everything that is wrong with them, by document.
fn gather(
    documents: impl Iterator<Item = Result<Vec<Object>, Vec<Problem>>>,
) -> Result<Vec<Object>, Vec<(Place, Problem)>> {
    let (mut objects, mut faults) = (Vec::new(), Vec::new());
    for (index, found) in documents.enumerate() {
        match found {
            Ok(found) => objects.extend(found),
            Err(problems) => {
                faults.extend(problems.into_iter().map(|p| (Place::Document(index + 1), p)));
            }
        }
    }
    if faults.is_empty() { Ok(objects) } else { Err(faults) }
}

/// Admits a policy of a Nomad file. One that is not enabled is not checked, as there.
fn nomad_policy(value: Value, now: Timestamp) -> Result<Vec<Object>, Vec<Problem>> {
    if value["spec"]["enabled"] == Value::Bool(true) {
        return object(value, now).map(|object| vec![object]);
    }
    let name = value["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let (kind, namespace) = ("ScalingPolicy".to_owned(), Some("default".to_owned()));
    Ok(vec![Object { kind, namespace, name, value }])
}

/// Tells whether a file is one of Nomad's policy files, and how it is written.
fn nomad_form(path: &Path, text: &str) -> Option<nomad::Form> {
    match path.extension()?.to_str()? {
        "hcl" => Some(nomad::Form::Hcl),
        "json" => {
            let document = serde_json::from_str(text).ok()?;
            nomad::is_policy_file(&document).then_some(nomad::Form::Json)
        }
        _ => None,
    }
}

fn read(path: &Path) -> Result<String, Problem> {
    let text = if path == Path::new("-") {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).map(|_| text)
    } else {
        std::fs::read_to_string(path)
    };
    text.map_err(|err| Problem::new("", format!("could not be read: {err}")))
}

/// Reads one file as its documents, of whatever kind it is.
pub(crate) fn file(path: &Path) -> Result<Vec<Value>, Problem> {
    let text = read(path)?;
    match nomad_form(path, &text) {
        None => documents(path, &text),
        Some(form) => nomad::read(&text, form).map_err(|faults| {
            let first = faults.into_iter().next();
            first.map_or(Problem::new("", "cannot be read"), |fault| {
                Problem::new(format!("line {}", fault.line), fault.problem.to_string())
            })
        }),
    }
}

fn documents(path: &Path, text: &str) -> Result<Vec<Value>, Problem> {
    let whole = |message: String| Problem::new("", message);
    if path.extension().is_some_and(|e| e == "json") {
        let value = serde_json::from_str(text).map_err(|err| whole(format!("not JSON: {err}")))?;
        return Ok(vec![value]);
    }
    // A number that is none (`.nan`) is a point that was not measured; in JSON's terms it is null.
    let options = serde_saphyr::options! {
        non_finite_float_policy: serde_saphyr::options::NonFiniteFloatPolicy::PassThrough,
    };
    let documents = serde_saphyr::from_multiple_with_options(text, options).map_err(|err| {
        let said = err.to_string();
        whole(format!("not YAML: {}", said.lines().next().unwrap_or_default()))
    })?;
    Ok(documents.into_iter().filter(|d: &Value| !d.is_null()).collect())
}

/// Turns a document into objects: one, or those of a List.
fn document(value: Value, now: Timestamp) -> Result<Vec<Object>, Vec<Problem>> {
    let is_list = |v: &Value| {
        v["kind"].as_str().is_some_and(|k| k.ends_with("List")) && v["items"].is_array()
    };
    if !is_list(&value) {
        return object(value, now).map(|o| vec![o]);
    }
    let items = value["items"].as_array().cloned().unwrap_or_default();
    let mut objects = Vec::new();
    let mut problems = Vec::new();
    for (index, item) in items.into_iter().enumerate() {
        match object(item, now) {
            Ok(object) => objects.push(object),
            Err(found) => problems.extend(api::prefixed(&format!("items[{index}]"), found)),
        }
    }
    if problems.is_empty() { Ok(objects) } else { Err(problems) }
}

/// Admits one object as an API server would: an object that has a `uid` counts as stored.
fn object(mut value: Value, now: Timestamp) -> Result<Object, Vec<Problem>> {
    let wrong = |path: &str, message: &str| vec![Problem::new(path, message)];
    if !value.is_object() {
        return Err(wrong("", "expected an object with `apiVersion`, `kind` and `metadata`"));
    }
    let kind = value["kind"]
        .as_str()
        .ok_or_else(|| wrong("kind", "required: what kind of object this is"))?
        .to_owned();
    let api_version = value["apiVersion"].as_str().map(str::to_owned);
    if api_version.is_none() && !value["apiVersion"].is_null() {
        return Err(wrong("apiVersion", "expected text such as `v1` or `apps/v1`"));
    }
    let known = api::find(api_version.as_deref(), &kind);
    let stored = value["metadata"]["uid"].is_string().then(|| value.clone());
    if let Some(known) = known {
        value["apiVersion"] = format!("{}/{}", known.group, known.version).into();
        (known.admit)(&mut value, &Admission { old: stored.as_ref(), now })?;
    } else {
        api::nodes::check(&value)?;
    }
    if kind == "FleetAutoscaleReview" {
        FleetAutoscaleReview::read(&value)?;
    }
    let name = value["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let has_namespace = known
        .map_or_else(|| !CLUSTER_WIDE.contains(&kind.as_str()), |k| k.scope == Scope::Namespaced);
    let namespace = has_namespace
        .then(|| value["metadata"]["namespace"].as_str().unwrap_or("default").to_owned());
    Ok(Object { kind, namespace, name, value })
}

/// The kinds of Kubernetes that live in no namespace, among those that a decision looks at.
const CLUSTER_WIDE: [&str; 6] =
    ["Node", "Namespace", "PersistentVolume", "PriorityClass", "StorageClass", "CSINode"];
