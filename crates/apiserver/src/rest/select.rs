//! The selectors of a list or watch.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{Call, convert};
use crate::status::{ApiResult, Status};
use crate::store::Object;
use apimachinery::resource::{Origin, Resource};
use apimachinery::selector::{FieldSelector, LabelSelector, Selectable};

/// The label and field selectors of a request.
#[derive(Clone, Debug)]
pub(crate) struct Selection {
    labels: LabelSelector,
    fields: FieldSelector,
    /// The name in the path of a watch.
    only: Option<String>,
}

/// The metadata that label selectors match.
#[derive(Default, Deserialize)]
struct Labelled {
    #[serde(default)]
    labels: Option<BTreeMap<String, String>>,
}

impl Selection {
    /// Reads the selectors of a request.
    pub(crate) fn of(call: &Call) -> ApiResult<Self> {
        let labels = match call.query.get("labelSelector") {
            Some(text) => LabelSelector::parse(text).map_err(|err| Status::bad_request(err.0))?,
            None => LabelSelector::everything(),
        };
        let resource = &call.resource;
        let selectable = match resource.origin {
            Origin::BuiltIn => Selectable::Builtin { group: &resource.group, kind: &resource.kind },
            Origin::Custom => {
                Selectable::Custom { namespaced: resource.namespaced, fields: &resource.selectable }
            }
        };
        let text = call.query.get("fieldSelector").unwrap_or_default();
        let fields =
            FieldSelector::parse(text, selectable).map_err(|err| Status::bad_request(err.0))?;
        Ok(Self { labels, fields, only: None })
    }

    /// Selects one object by name.
    pub(crate) fn named(mut self, name: &str) -> Self {
        self.only = Some(name.to_owned());
        self
    }

    /// Returns whether every object is selected.
    pub(crate) fn is_everything(&self) -> bool {
        self.labels.is_everything() && self.fields.is_everything() && self.only.is_none()
    }

    /// Returns whether an object is selected.
    pub(crate) fn matches(&self, resource: &Resource, key: &str, object: &Object) -> bool {
        let (namespace, name) = match key.split_once('/') {
            Some((namespace, name)) => (Some(namespace), name),
            None => (None, key),
        };
        if self.only.as_ref().is_some_and(|only| only != name) {
            return false;
        }
        if !self.fields.may_match(namespace, name) || !self.matches_labels(object) {
            return false;
        }
        self.fields.is_name_only()
            || convert::value(resource, object).is_ok_and(|value| self.fields.matches(&value))
    }

    fn matches_labels(&self, object: &Object) -> bool {
        if self.labels.is_everything() {
            return true;
        }
        let labelled: Labelled = object.metadata().unwrap_or_default();
        let labels = labelled.labels.unwrap_or_default();
        self.labels.matches_with(|key| labels.get(key).map(String::as_str))
    }
}
