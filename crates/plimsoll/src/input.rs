//! Reads objects from files, one at a time: a file of any size needs no more memory than its largest object.
//!
//! YAML of many documents, JSON, Lists (of Lists) of both, and Nomad's policy files; in UTF-8, or in UTF-16 with a byte
//! order mark. Every entry says where in the file it stands.

mod json;
mod object;
mod policy;
mod source;
mod yaml;

use std::fmt;
use std::ops::ControlFlow;
use std::path::Path;

use api::Problem;
use serde_json::Value;

/// Where in a file something stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// The file as a whole.
    File,
    /// A document, counted from 1.
    Document(usize),
    /// A line, counted from 1.
    Line(usize),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File => Ok(()),
            Self::Document(document) => write!(f, "document {document}: "),
            Self::Line(line) => write!(f, "line {line}: "),
        }
    }
}

/// One object of a file, or a part of it that cannot be read.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) place: Place,
    /// Where in the document the object is, such as `items[3]`; empty where the document is the object.
    pub(crate) item: String,
    pub(crate) content: Result<Content, Problem>,
}

/// What an entry holds.
#[derive(Debug)]
pub(crate) enum Content {
    /// An object as it was written, without `metadata.managedFields`.
    Object(Value),
    /// A `scaling` block of a Nomad file, as a ScalingPolicy.
    Policy(Value),
}

/// Passes every entry of a file to `take` until that breaks. The path `-` is standard input.
pub(crate) fn read(path: &Path, take: &mut dyn FnMut(Entry) -> ControlFlow<()>) {
    if let Err(err) = read_file(path, take) {
        let problem = Problem::new("", format!("could not be read: {err}"));
        // Nothing follows, so that it does not matter whether more is wanted.
        let _ = take(Entry { place: Place::File, item: String::new(), content: Err(problem) });
    }
}

fn read_file(path: &Path, take: &mut dyn FnMut(Entry) -> ControlFlow<()>) -> std::io::Result<()> {
    let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    if let Some(form) = policy::form(path, extension)? {
        return policy::read(source::open(path)?, form, take);
    }
    let mut source = source::open(path)?;
    let is_json = match extension {
        "json" => true,
        "yaml" | "yml" => false,
        _ => source::starts_like_json(&mut source)?,
    };
    if is_json {
        json::read(source, take);
        return Ok(());
    }
    yaml::read(source, take)
}
