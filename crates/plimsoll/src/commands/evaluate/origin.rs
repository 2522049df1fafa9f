//! Where an object comes from, and how a problem with it is printed.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use api::Problem;

use crate::input::Place;

/// Where an object stands.
#[derive(Clone)]
pub(crate) struct Origin {
    pub(crate) file: Arc<Path>,
    pub(crate) place: Place,
    /// Where in the document it is, such as `items[3]`; empty where the document is the object.
    pub(crate) item: Box<str>,
}

impl Origin {
    /// Says where problems with the object are.
    pub(crate) fn faults(&self, problems: Vec<Problem>) -> impl Iterator<Item = Fault> {
        let problems =
            if self.item.is_empty() { problems } else { api::prefixed(&self.item, problems) };
        let (file, place) = (Arc::clone(&self.file), self.place);
        problems.into_iter().map(move |problem| Fault { file: Arc::clone(&file), place, problem })
    }
}

/// One thing wrong with the input, and where.
pub(crate) struct Fault {
    file: Arc<Path>,
    place: Place,
    problem: Problem,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}{}", self.file.display(), self.place, self.problem)
    }
}
