//! Decoding that survives an unreadable object.
//!
//! An API server stores what its schemas allow: objects nested deeper than `serde_json` reads, fields of a type that we do not
//! expect. Decoded as a whole, one such object makes a list or an event fail, and a watch that starts again meets it again. So
//! each object is decoded by itself, and one that cannot be decoded is still known by its name.

use std::borrow::Cow;
use std::fmt::Debug;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// An object, or the identity of one that cannot be decoded.
#[derive(Clone, Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "nearly every value is an object, which is far larger still"
)]
pub enum Lenient<K> {
    /// It was decoded.
    Object(K),
    /// It cannot be decoded.
    Unreadable {
        /// Its name, namespace, uid and version.
        metadata: ObjectMeta,
        /// Why it cannot be decoded.
        reason: String,
    },
}

impl<K: Resource<DynamicType = ()>> Lenient<K> {
    /// Returns the object; one that cannot be decoded is logged.
    pub fn readable(self) -> Option<K> {
        match self {
            Self::Object(object) => Some(object),
            Self::Unreadable { metadata, reason } => {
                tracing::error!(
                    kind = %K::kind(&()),
                    namespace = metadata.namespace,
                    name = metadata.name,
                    reason,
                    "object cannot be decoded and is skipped; correct or delete it"
                );
                None
            }
        }
    }
}

/// The identity of an object. All else is skipped without being decoded, however deep it is.
#[derive(Deserialize)]
struct Identified {
    metadata: Identity,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Identity {
    name: Option<String>,
    namespace: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
}

impl<'de, K: DeserializeOwned> Deserialize<'de> for Lenient<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <&'de RawValue>::deserialize(deserializer)?.get();
        let reason = match serde_json::from_str(text) {
            Ok(object) => return Ok(Self::Object(object)),
            Err(why) => why.to_string(),
        };
        let Identified { metadata } = serde_json::from_str(text).map_err(D::Error::custom)?;
        let Identity { name, namespace, uid, resource_version } = metadata;
        let metadata =
            ObjectMeta { name, namespace, uid, resource_version, ..ObjectMeta::default() };
        Ok(Self::Unreadable { metadata, reason })
    }
}

impl<K: Resource> Resource for Lenient<K> {
    type DynamicType = K::DynamicType;
    type Scope = K::Scope;

    fn kind(of: &Self::DynamicType) -> Cow<'_, str> {
        K::kind(of)
    }

    fn group(of: &Self::DynamicType) -> Cow<'_, str> {
        K::group(of)
    }

    fn version(of: &Self::DynamicType) -> Cow<'_, str> {
        K::version(of)
    }

    fn plural(of: &Self::DynamicType) -> Cow<'_, str> {
        K::plural(of)
    }

    fn meta(&self) -> &ObjectMeta {
        match self {
            Self::Object(object) => object.meta(),
            Self::Unreadable { metadata, .. } => metadata,
        }
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        match self {
            Self::Object(object) => object.meta_mut(),
            Self::Unreadable { metadata, .. } => metadata,
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::api::{ObjectList, WatchEvent};

    use super::*;

    fn deep(name: &str) -> String {
        let fields = format!("{}{}", r#"{"f:a":"#.repeat(200) + "{}", "}".repeat(200));
        let metadata = format!(
            r#"{{"name":"{name}","namespace":"n","resourceVersion":"7","uid":"u","managedFields":[{{"fieldsV1":{fields}}}]}}"#
        );
        format!(r#"{{"metadata":{metadata}}}"#)
    }

    #[test]
    fn an_object_that_cannot_be_read_does_not_hide_the_others() {
        let items = [
            r#"{"metadata":{"name":"a"},"data":{"k":"v"}}"#.to_owned(),
            deep("b"),
            r#"{"metadata":{"name":"c"},"data":7}"#.to_owned(),
            r#"{"metadata":{"name":"d"}}"#.to_owned(),
        ];
        let list = format!(
            r#"{{"apiVersion":"v1","kind":"ConfigMapList","metadata":{{}},"items":[{}]}}"#,
            items.join(",")
        );
        assert!(serde_json::from_str::<ObjectList<ConfigMap>>(&list).is_err());
        let list: ObjectList<Lenient<ConfigMap>> = serde_json::from_str(&list).unwrap();
        let names: Vec<_> = list.iter().map(|map| map.meta().name.clone().unwrap()).collect();
        assert_eq!(names, ["a", "b", "c", "d"], "all are known by name");
        let read: Vec<ConfigMap> = list.items.into_iter().filter_map(Lenient::readable).collect();
        let names: Vec<_> = read.into_iter().map(|map| map.metadata.name.unwrap()).collect();
        assert_eq!(names, ["a", "d"]);
    }

    #[test]
    fn an_event_about_an_object_that_cannot_be_read_says_which_it_is() {
        let event = format!(r#"{{"type":"ADDED","object":{}}}"#, deep("a"));
        assert!(serde_json::from_str::<WatchEvent<ConfigMap>>(&event).is_err());
        let event: WatchEvent<Lenient<ConfigMap>> = serde_json::from_str(&event).unwrap();
        let WatchEvent::Added(Lenient::Unreadable { metadata, reason }) = event else {
            panic!("it cannot be read");
        };
        assert_eq!(metadata.resource_version.as_deref(), Some("7"));
        assert!(reason.contains("recursion limit"), "{reason}");
    }
}
