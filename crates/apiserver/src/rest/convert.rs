//! How do the versions of one kind look?
//!
//! Objects are kept in one version. Where another differs only in its name there is nothing to do; horizontal pod
//! autoscalers and events are the built-in kinds whose versions differ in their fields.

mod autoscaler;
mod event;

use std::borrow::Cow;

use serde_json::Value;

use crate::store::{Object, Unreadable};
use apimachinery::resource::Resource;

/// Tells whether an object can be answered as it is kept, without reading it.
pub(crate) fn is_kept_as_served(resource: &Resource) -> bool {
    !matches!(
        (resource.group.as_str(), resource.version.as_str(), resource.plural.as_str()),
        ("autoscaling", "v1", "horizontalpodautoscalers") | ("events.k8s.io", _, "events")
    ) && !resource.custom.as_ref().is_some_and(|c| c.fills_stored)
}

/// Reads an object as the resource is served.
pub(crate) fn value(resource: &Resource, object: &Object) -> Result<Value, Unreadable> {
    let mut value = object.value(&resource.api_version(), &resource.kind)?;
    if !is_kept_as_served(resource) {
        if let Some(custom) = &resource.custom {
            custom.default(&mut value, None);
        } else if resource.plural == "events" {
            event::served(&mut value)
        } else {
            autoscaler::served(&mut value)
        }
    }
    Ok(value)
}

/// Gives an object as it is kept.
pub(crate) fn kept<'v>(resource: &Resource, value: &'v Value) -> Cow<'v, Value> {
    if is_kept_as_served(resource) || resource.custom.is_some() {
        return Cow::Borrowed(value);
    }
    let mut value = value.clone();
    if resource.plural == "events" {
        event::kept(&mut value)
    } else {
        autoscaler::kept(&mut value)
    }
    Cow::Owned(value)
}
