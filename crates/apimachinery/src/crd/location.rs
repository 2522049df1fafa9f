//! The location of a walk in a document.

use std::fmt;

use crate::builtin::field::Path;

/// The longest path that is written. Longer ones are truncated, so that a long key does not lengthen every error below it.
const LONGEST: usize = 4096;

/// A location in a document. Locations form a chain on the stack, so that a path costs nothing until it is written.
#[derive(Clone, Copy, Debug)]
pub(super) enum Location<'p> {
    Root,
    /// Where a walk over part of a document began.
    Start(&'p Path),
    Field(&'p Location<'p>, &'p str),
    Item(&'p Location<'p>, usize),
}

impl Location<'_> {
    /// Returns the path, for an error message.
    pub(super) fn path(&self) -> Path {
        Path::new(&self.to_string())
    }

    fn collect(&self, out: &mut String) {
        match self {
            Self::Root => {}
            Self::Start(path) => out.push_str(&path.to_string()),
            Self::Field(parent, name) => {
                parent.collect(out);
                if !out.is_empty() {
                    out.push('.');
                }
                out.push_str(name);
            }
            Self::Item(parent, index) => {
                parent.collect(out);
                out.push_str(&format!("[{index}]"));
            }
        }
    }
}

impl fmt::Display for Location<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut path = String::new();
        self.collect(&mut path);
        match path.char_indices().nth(LONGEST) {
            Some((end, _)) => write!(f, "{}...", &path[..end]),
            None => f.write_str(&path),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_formatted_as_in_errors_and_truncated() {
        let (spec, start) = (Location::Field(&Location::Root, "spec"), Path::new("a.b"));
        let item = Location::Item(&spec, 3);
        assert_eq!(Location::Field(&item, "name").to_string(), "spec[3].name");
        assert_eq!(Location::Field(&Location::Start(&start), "c").to_string(), "a.b.c");
        let long = "x".repeat(LONGEST + 1);
        assert_eq!(
            Location::Field(&Location::Root, &long).to_string(),
            format!("{}...", &long[1..])
        );
    }
}
