//! What several users have open together: the first one opens it, and it is closed after the last one.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// What is open, by the name of its kind and its settings.
#[derive(Clone, Default)]
pub struct Shared(Arc<Mutex<Entries>>);

type Entries = BTreeMap<(String, String), Weak<dyn Any + Send + Sync>>;

impl Shared {
    /// Returns what is open under a name and settings; opens it if it is not open yet.
    pub(crate) fn get_or_open<T: Any + Send + Sync, E>(
        &self,
        name: &str,
        settings: String,
        open: impl FnOnce() -> Result<T, E>,
    ) -> Result<Arc<T>, E> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, one| one.strong_count() > 0);
        let key = (name.to_owned(), settings);
        let found = all.get(&key).and_then(Weak::upgrade).and_then(|one| one.downcast().ok());
        if let Some(found) = found {
            return Ok(found);
        }
        let opened = Arc::new(open()?);
        let shared: Arc<dyn Any + Send + Sync> = Arc::clone(&opened) as _;
        all.insert(key, Arc::downgrade(&shared));
        Ok(opened)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_opened_once_and_again_after_the_last_user() {
        let shared = Shared::default();
        let mut opened = 0;
        let mut open = |settings: &str| {
            let open = || {
                opened += 1;
                Ok::<_, ()>(opened)
            };
            shared.get_or_open("driver", settings.to_owned(), open).unwrap()
        };
        let (first, second, other) = (open("a"), open("a"), open("b"));
        assert_eq!((*first, *second, *other), (1, 1, 2));
        drop((first, second));
        assert_eq!(*open("a"), 3);
    }
}
