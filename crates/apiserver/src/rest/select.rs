//! Which objects does a list or watch ask for?

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{Call, convert};
use crate::status::{Answer, Status};
use crate::store::Object;
use apimachinery::resource::{Origin, Resource};
use apimachinery::selector::{Fields, Labels, Selectable};

/// The label and field selectors of a request.
#[derive(Clone, Debug)]
pub(crate) struct Selection {
    labels: Labels,
    fields: Fields,
    /// The name in the path of a watch.
    only: Option<String>,
}

/// The part of an object that label selectors look at.
#[derive(Default, Deserialize)]
struct Labelled {
    #[serde(default)]
    labels: Option<BTreeMap<String, String>>,
}

impl Selection {
    /// Reads the selectors of a request.
    pub(crate) fn of(call: &Call) -> Answer<Self> {
        let labels = match call.query.get("labelSelector") {
            Some(text) => Labels::parse(text).map_err(|err| Status::bad_request(err.0))?,
            None => Labels::everything(),
        };
        let resource = &call.resource;
        let selectable = match resource.origin {
            Origin::BuiltIn => Selectable::Builtin { group: &resource.group, kind: &resource.kind },
            Origin::Custom => {
                Selectable::Custom { namespaced: resource.namespaced, fields: &resource.selectable }
            }
        };
        let text = call.query.get("fieldSelector").unwrap_or_default();
        let fields = Fields::parse(text, selectable).map_err(|err| Status::bad_request(err.0))?;
        Ok(Self { labels, fields, only: None })
    }

    /// Asks for one object only.
    pub(crate) fn named(mut self, name: &str) -> Self {
        self.only = Some(name.to_owned());
        self
    }

    /// Tells whether every object is asked for.
    pub(crate) fn is_everything(&self) -> bool {
        self.labels.is_everything() && self.fields.is_everything() && self.only.is_none()
    }

    /// Tells whether an object is asked for.
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
