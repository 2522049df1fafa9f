//! Providers that several targets use: all targets of one connection share it, and what it has read.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;

use super::{NamedGroup, NodeGroupProvider};
use crate::registry::{Context, OpenError};

/// A provider, and the groups that targets name.
pub(crate) struct SharedProvider {
    provider: Arc<dyn NodeGroupProvider>,
    named: Mutex<BTreeMap<String, NamedGroup>>,
}

/// Opens a provider, unless another target has it open with the same connection.
pub(crate) fn open_shared(
    context: &Context,
    name: &str,
    connection: &Value,
) -> Result<Arc<SharedProvider>, OpenError> {
    context.shared.get_or_open(name, connection.to_string(), || {
        let provider = super::open(context, name, connection)?;
        Ok(SharedProvider { provider, named: Mutex::default() })
    })
}

impl SharedProvider {
    /// Returns the provider, which knows a group from now on.
    pub(crate) fn with(&self, group: &NamedGroup) -> &dyn NodeGroupProvider {
        let mut named = self.named.lock().unwrap_or_else(PoisonError::into_inner);
        if named.get(&group.id) != Some(group) {
            named.insert(group.id.clone(), group.clone());
            let all: Vec<NamedGroup> = named.values().cloned().collect();
            self.provider.set_named_groups(&all);
        }
        &*self.provider
    }
}
