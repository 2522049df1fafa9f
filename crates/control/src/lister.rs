//! Where the objects that an observation is made of are found: in the informer caches of a controller, or in the files of
//! `plimsoll evaluate`.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

use api::Problem;
use cluster::{Cache, CacheEntry};

/// Lists the objects of one kind.
pub trait Lister<K> {
    /// How an object is handed out: by value, or shared with a cache.
    type Item: Borrow<K>;

    /// Lists the objects in one namespace, or all of them. An object is read when the iterator reaches it, so that not all have
    /// to be in memory at once.
    fn list(&self, namespace: Option<&str>)
    -> impl Iterator<Item = Result<Self::Item, Unreadable>>;
}

/// Declares a trait that everything has that lists these kinds.
macro_rules! listers {
    ($(#[$about:meta])* $name:ident: $first:path $(, $more:path)* $(,)?) => {
        $(#[$about])*
        pub trait $name: $first $(+ $more)* {}

        impl<W> $name for W where W: $first $(+ $more)* {}
    };
}

pub(crate) use listers;

/// An object that cannot be read, though it is stored.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Unreadable {
    /// Its kind.
    pub kind: String,
    /// Its namespace; empty where it lives in none.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The fields that cannot be read, and what was expected there.
    pub problems: Vec<Problem>,
}

impl Unreadable {
    /// Describes an object by its metadata.
    pub fn new<K>(object: &K, problems: Vec<Problem>) -> Self
    where
        K: kube::Resource<DynamicType = ()>,
    {
        let meta = object.meta();
        Self {
            kind: K::kind(&()).into_owned(),
            namespace: meta.namespace.clone().unwrap_or_default(),
            name: meta.name.clone().unwrap_or_default(),
            problems,
        }
    }
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, namespace, name, problems } = self;
        write!(f, "{kind} {namespace}/{name} cannot be read: {}", sentence(problems))
    }
}

/// Joins problems into one sentence.
pub(crate) fn sentence(problems: &[Problem]) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

impl<K: CacheEntry> Lister<K> for Cache<K> {
    type Item = Arc<K>;

    fn list(&self, namespace: Option<&str>) -> impl Iterator<Item = Result<Arc<K>, Unreadable>> {
        let is_there =
            |entry: &Arc<K>| namespace.is_none_or(|n| entry.meta().namespace.as_deref() == Some(n));
        let mut all = self.all();
        all.retain(is_there);
        all.into_iter().map(Ok)
    }
}
