//! Providers that several targets use: all targets of one connection share it, and what it has read.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use serde_json::Value;

use super::{NamedGroup, NodeGroupProvider};
use crate::registry::{Context, OpenError};

/// The providers that targets have open.
#[derive(Clone, Default)]
pub struct SharedProviders(Arc<Mutex<Opened>>);

/// Providers by their name and their connection.
type Opened = BTreeMap<(String, String), Weak<SharedProvider>>;

/// A provider, and the groups that targets name.
pub(crate) struct SharedProvider {
    provider: Arc<dyn NodeGroupProvider>,
    named: Mutex<BTreeMap<String, NamedGroup>>,
}

impl SharedProviders {
    /// Returns the provider with a connection; opens it if no target has it open.
    pub(crate) fn open(
        &self,
        context: &Context,
        name: &str,
        connection: &Value,
    ) -> Result<Arc<SharedProvider>, OpenError> {
        let key = (name.to_owned(), connection.to_string());
        let mut all = lock(&self.0);
        all.retain(|_, provider| provider.strong_count() > 0);
        if let Some(open) = all.get(&key).and_then(Weak::upgrade) {
            return Ok(open);
        }
        let provider = super::open(context, name, connection)?;
        let open = Arc::new(SharedProvider { provider, named: Mutex::default() });
        all.insert(key, Arc::downgrade(&open));
        Ok(open)
    }
}

impl SharedProvider {
    /// Returns the provider, which knows a group from now on.
    pub(crate) fn with(&self, group: &NamedGroup) -> &dyn NodeGroupProvider {
        let mut named = lock(&self.named);
        if named.get(&group.id) != Some(group) {
            named.insert(group.id.clone(), group.clone());
            let all: Vec<NamedGroup> = named.values().cloned().collect();
            self.provider.set_named_groups(&all);
        }
        &*self.provider
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
