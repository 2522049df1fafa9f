//! Objects as a watch delivers them: their identity, and all else as JSON text.
//!
//! An API server stores what its schemas allow: objects nested deeper than `serde_json` reads, fields of a type that we do not
//! expect. Decoded as a whole, one such object makes a list or an event fail, and a watch that starts again meets it again. So
//! each object is decoded by itself, and one that cannot be decoded is still known by its name. An object that is known already
//! need not be decoded at all.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::de::{DeserializeOwned, Error as _, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// An object that is not decoded yet.
#[derive(Clone, Debug)]
pub struct Undecoded<K> {
    /// Its name, namespace, uid and version.
    metadata: ObjectMeta,
    text: Box<str>,
    kind: PhantomData<fn() -> K>,
}

impl<K> Undecoded<K> {
    /// Returns the JSON text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the JSON text.
    pub fn into_text(self) -> Box<str> {
        self.text
    }
}

impl<K: Resource<DynamicType = ()>> Undecoded<K> {
    /// Returns the object; one that cannot be decoded is logged.
    pub fn decode(&self) -> Option<K>
    where
        K: DeserializeOwned,
    {
        serde_json::from_str(&self.text).inspect_err(|reason| self.log_unreadable(reason)).ok()
    }

    /// Logs that the object cannot be decoded.
    pub(crate) fn log_unreadable(&self, reason: &serde_json::Error) {
        tracing::error!(
            kind = %K::kind(&()),
            namespace = self.metadata.namespace,
            name = self.metadata.name,
            %reason,
            "object cannot be decoded and is skipped; correct or delete it"
        );
    }
}

/// The identity of an object. The other fields of its metadata are skipped without being decoded, however deep they are.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Identity {
    name: Option<String>,
    namespace: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
}

/// Reads the identity of an object up to the end of its `metadata`, which comes before its `spec` and `status`.
struct IdentityReader<'a>(&'a mut Option<Identity>);

impl<'de> Visitor<'de> for IdentityReader<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with metadata")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<Cow<'de, str>>()? {
            if key == "metadata" {
                *self.0 = Some(map.next_value()?);
                return Ok(());
            }
            map.next_value::<IgnoredAny>()?;
        }
        Err(A::Error::missing_field("metadata"))
    }
}

fn read_identity(text: &str) -> serde_json::Result<Identity> {
    let mut identity = None;
    // Once the identity is read, the only error is that the object goes on.
    let read =
        serde_json::Deserializer::from_str(text).deserialize_map(IdentityReader(&mut identity));
    match identity {
        Some(identity) => Ok(identity),
        None => Err(read.err().unwrap_or_else(|| serde_json::Error::missing_field("metadata"))),
    }
}

impl<'de, K> Deserialize<'de> for Undecoded<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <&'de RawValue>::deserialize(deserializer)?.get();
        let identity = read_identity(text).map_err(D::Error::custom)?;
        let Identity { name, namespace, uid, resource_version } = identity;
        let metadata =
            ObjectMeta { name, namespace, uid, resource_version, ..ObjectMeta::default() };
        Ok(Self { metadata, text: text.into(), kind: PhantomData })
    }
}

impl<K: Resource> Resource for Undecoded<K> {
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
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
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
    fn an_object_that_cannot_be_decoded_does_not_hide_the_others() {
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
        let list: ObjectList<Undecoded<ConfigMap>> = serde_json::from_str(&list).unwrap();
        let names: Vec<_> = list.iter().map(|map| map.meta().name.clone().unwrap()).collect();
        assert_eq!(names, ["a", "b", "c", "d"], "all are known by name");
        let decoded: Vec<ConfigMap> = list.items.iter().filter_map(Undecoded::decode).collect();
        let names: Vec<_> = decoded.into_iter().map(|map| map.metadata.name.unwrap()).collect();
        assert_eq!(names, ["a", "d"]);
    }

    #[test]
    fn an_event_about_an_object_that_cannot_be_decoded_names_it() {
        let event = format!(r#"{{"type":"ADDED","object":{}}}"#, deep("a"));
        assert!(serde_json::from_str::<WatchEvent<ConfigMap>>(&event).is_err());
        let event: WatchEvent<Undecoded<ConfigMap>> = serde_json::from_str(&event).unwrap();
        let WatchEvent::Added(object) = event else {
            panic!("it is an object that was added");
        };
        assert_eq!(object.meta().resource_version.as_deref(), Some("7"));
        let reason = serde_json::from_str::<ConfigMap>(object.text()).unwrap_err().to_string();
        assert!(reason.contains("recursion limit"), "{reason}");
    }
}
