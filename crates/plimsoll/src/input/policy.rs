//! Nomad policy files: detects and reads them.

use std::fmt;
use std::io::{self, Read};
use std::ops::ControlFlow;
use std::path::Path;

use api::{Problem, nomad};
use serde::Deserializer as _;
use serde::de::{Error as _, IgnoredAny, MapAccess, Visitor};

use super::source::{self, Source};
use super::{Content, Entry, Position};

/// The maximum size of a policy file.
const MAX_SIZE: u64 = 16 << 20;

/// Returns the syntax of a Nomad policy file; `None` for other files.
pub(super) fn detect(path: &Path, extension: &str) -> io::Result<Option<nomad::Form>> {
    match extension {
        "hcl" => Ok(Some(nomad::Form::Hcl)),
        // A pipe cannot be read twice, so it is taken for Kubernetes objects.
        "json" if path.is_file() => {
            let mut json = serde_json::Deserializer::from_reader(source::open(path)?);
            let is_policy = json.deserialize_map(TopLevel).unwrap_or(false);
            Ok(is_policy.then_some(nomad::Form::Json))
        }
        _ => Ok(None),
    }
}

/// Searches the top level of a JSON file for `scaling`. It stops at the first field of a Kubernetes object.
struct TopLevel;

impl<'de> Visitor<'de> for TopLevel {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<bool, A::Error> {
        let mut has_scaling = false;
        while let Some(name) = fields.next_key::<String>()? {
            match name.as_str() {
                "kind" | "apiVersion" | "items" => return Err(A::Error::custom("an object")),
                name => has_scaling |= name == "scaling",
            }
            fields.next_value::<IgnoredAny>()?;
        }
        Ok(has_scaling)
    }
}

/// Emits every policy of a file, or all of its problems.
pub(super) fn read(
    source: Source,
    form: nomad::Form,
    handle: &mut dyn FnMut(Entry) -> ControlFlow<()>,
) -> io::Result<()> {
    let mut text = String::new();
    source.take(MAX_SIZE + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MAX_SIZE {
        return Err(io::Error::other(format!(
            "a policy file may have at most {} MiB",
            MAX_SIZE >> 20
        )));
    }
    let entries: Vec<(Position, Result<Content, Problem>)> = match nomad::read(&text, form) {
        Ok(policies) => {
            let policies = policies.into_iter().zip(1..);
            policies.map(|(p, index)| (Position::Document(index), Ok(Content::Policy(p)))).collect()
        }
        Err(faults) => faults
            .into_iter()
            .map(|fault| (Position::Line(fault.line), Err(fault.problem)))
            .collect(),
    };
    for (position, content) in entries {
        if handle(Entry { position, item: String::new(), content }).is_break() {
            break;
        }
    }
    Ok(())
}
