//! Nomad's policy files: which files are some, and what do they hold?

use std::fmt;
use std::io::{self, Read};
use std::ops::ControlFlow;
use std::path::Path;

use api::{Problem, nomad};
use serde::Deserializer as _;
use serde::de::{Error as _, IgnoredAny, MapAccess, Visitor};

use super::source::{self, Source};
use super::{Content, Entry, Place};

/// The size of the largest policy file. They are written by hand.
const MAX_SIZE: u64 = 16 << 20;

/// Tells whether a file is one of Nomad's policy files, and how it is written.
pub(super) fn form(path: &Path, extension: &str) -> io::Result<Option<nomad::Form>> {
    match extension {
        "hcl" => Ok(Some(nomad::Form::Hcl)),
        // What cannot be read twice is taken for objects.
        "json" if path.is_file() => {
            let mut json = serde_json::Deserializer::from_reader(source::open(path)?);
            let is_policy = json.deserialize_map(TopLevel).unwrap_or(false);
            Ok(is_policy.then_some(nomad::Form::Json))
        }
        _ => Ok(None),
    }
}

/// Looks for `scaling` at the top of a JSON file. Kubernetes' objects say soon what they are, so that little is read.
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

/// Passes on every policy of a file, or everything that is wrong with it.
pub(super) fn read(
    source: Source,
    form: nomad::Form,
    take: &mut dyn FnMut(Entry) -> ControlFlow<()>,
) -> io::Result<()> {
    let mut text = String::new();
    source.take(MAX_SIZE + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MAX_SIZE {
        return Err(io::Error::other(format!("a policy file has at most {} MiB", MAX_SIZE >> 20)));
    }
    let entries: Vec<(Place, Result<Content, Problem>)> = match nomad::read(&text, form) {
        Ok(policies) => {
            let policies = policies.into_iter().zip(1..);
            policies.map(|(p, index)| (Place::Document(index), Ok(Content::Policy(p)))).collect()
        }
        Err(faults) => {
            faults.into_iter().map(|fault| (Place::Line(fault.line), Err(fault.problem))).collect()
        }
    };
    for (place, content) in entries {
        if take(Entry { place, item: String::new(), content }).is_break() {
            break;
        }
    }
    Ok(())
}
