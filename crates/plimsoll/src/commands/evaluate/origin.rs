//! The origin of an object, and the text of a problem with it.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use api::Problem;

use crate::input::Position;

/// The position of an object in the input.
#[derive(Clone)]
pub(crate) struct Origin {
    pub(crate) file: Arc<Path>,
    pub(crate) position: Position,
    /// Where in the document it is, such as `items[3]`; empty where the document is the object.
    pub(crate) item: Box<str>,
}

impl Origin {
    /// Adds the origin of the object to its problems.
    pub(crate) fn faults(&self, problems: Vec<Problem>) -> impl Iterator<Item = Fault> {
        let problems =
            if self.item.is_empty() { problems } else { api::prefixed(&self.item, problems) };
        let (file, position) = (Arc::clone(&self.file), self.position);
        problems.into_iter().map(move |problem| Fault {
            file: Arc::clone(&file),
            position,
            problem,
        })
    }
}

/// One thing wrong with the input, and where.
pub(crate) struct Fault {
    file: Arc<Path>,
    position: Position,
    problem: Problem,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}{}", self.file.display(), self.position, self.problem)
    }
}
