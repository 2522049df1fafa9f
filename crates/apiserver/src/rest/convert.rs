//! Converts objects between the versions of a built-in kind.
//!
//! Objects are kept in one version. Where another differs only in its name there is nothing to do; horizontal pod
//! autoscalers and events are the built-in kinds whose versions differ in their fields.

mod autoscaler;
mod event;

use std::borrow::Cow;

use serde_json::Value;

use crate::store::{Object, Unreadable};
use apimachinery::resource::{Conversion, Resource};

/// Whether an object is served as it is stored, so that it need not be decoded.
pub(crate) fn is_kept_as_served(resource: &Resource) -> bool {
    resource.rules.conversion.is_none() && !resource.custom.as_ref().is_some_and(|c| c.fills_stored)
}

/// Reads an object as the resource is served.
pub(crate) fn value(resource: &Resource, object: &Object) -> Result<Value, Unreadable> {
    let mut value = object.value(&resource.api_version(), &resource.kind)?;
    match resource.rules.conversion {
        Some(Conversion::Autoscaler) => autoscaler::served(&mut value),
        Some(Conversion::Event) => event::served(&mut value),
        None => {
            if let Some(custom) = resource.custom.as_ref().filter(|custom| custom.fills_stored) {
                custom.default(&mut value, None);
            }
        }
    }
    Ok(value)
}

/// Returns an object as it is stored.
pub(crate) fn kept<'v>(resource: &Resource, value: &'v Value) -> Cow<'v, Value> {
    let Some(conversion) = resource.rules.conversion else { return Cow::Borrowed(value) };
    let mut value = value.clone();
    match conversion {
        Conversion::Autoscaler => autoscaler::kept(&mut value),
        Conversion::Event => event::kept(&mut value),
    }
    Cow::Owned(value)
}
