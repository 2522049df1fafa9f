//! Reads objects from files, one at a time: memory use depends on the largest object, not on the file.
//!
//! Files are YAML with one or more documents, JSON, (nested) Lists of both, or Nomad policy files; in UTF-8, or in UTF-16 with
//! a byte order mark. Every entry has its position in the file.

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

/// A position in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Position {
    /// The file as a whole.
    File,
    /// A document, counted from 1.
    Document(usize),
    /// A line, counted from 1.
    Line(usize),
}

impl fmt::Display for Position {
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
    pub(crate) position: Position,
    /// Where in the document the object is, such as `items[3]`; empty where the document is the object.
    pub(crate) item: String,
    pub(crate) content: Result<Content, Problem>,
}

/// The content of an entry.
#[derive(Debug)]
pub(crate) enum Content {
    /// An object as it was written, without `metadata.managedFields`.
    Object(Value),
    /// A `scaling` block of a Nomad file, as a ScalingPolicy.
    Policy(Value),
}

/// Passes every entry of a file to `handle` until that breaks. The path `-` is standard input.
pub(crate) fn read(path: &Path, handle: &mut dyn FnMut(Entry) -> ControlFlow<()>) {
    if let Err(err) = read_file(path, handle) {
        let problem = Problem::new("", format!("could not be read: {err}"));
        // This is the last entry, so a break has no effect.
        let _ =
            handle(Entry { position: Position::File, item: String::new(), content: Err(problem) });
    }
}

fn read_file(path: &Path, handle: &mut dyn FnMut(Entry) -> ControlFlow<()>) -> std::io::Result<()> {
    let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    if let Some(form) = policy::detect(path, extension)? {
        return policy::read(source::open(path)?, form, handle);
    }
    let mut source = source::open(path)?;
    let is_json = match extension {
        "json" => true,
        "yaml" | "yml" => false,
        _ => source::starts_like_json(&mut source)?,
    };
    if is_json {
        json::read(source, handle);
        return Ok(());
    }
    yaml::read(source, handle)
}
