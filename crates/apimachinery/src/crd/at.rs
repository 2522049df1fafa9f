//! Where in a document is a walk over it?

use std::fmt;

use crate::builtin::field::Path;

/// How much of a path is written. Longer ones are cut off, so that a long key does not make every error below it long.
const LONGEST: usize = 4096;

/// A place in a document. Places form a chain on the stack, so that a path costs nothing until it is written.
#[derive(Clone, Copy, Debug)]
pub(super) enum At<'p> {
    Root,
    /// Where a walk over a part of a document began.
    Start(&'p Path),
    Field(&'p At<'p>, &'p str),
    Item(&'p At<'p>, usize),
}

impl At<'_> {
    /// Returns the path, to say what is wrong there.
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

impl fmt::Display for At<'_> {
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
    fn paths_are_written_as_errors_have_them_and_cut_off_when_they_are_long() {
        let (spec, start) = (At::Field(&At::Root, "spec"), Path::new("a.b"));
        let item = At::Item(&spec, 3);
        assert_eq!(At::Field(&item, "name").to_string(), "spec[3].name");
        assert_eq!(At::Field(&At::Start(&start), "c").to_string(), "a.b.c");
        let long = "x".repeat(LONGEST + 1);
        assert_eq!(At::Field(&At::Root, &long).to_string(), format!("{}...", &long[1..]));
    }
}
