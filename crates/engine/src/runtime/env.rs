//! What is in the environment of a container?

use std::collections::BTreeMap;

use base64::Engine as _;
use k8s_openapi::api::core::v1::{
    Container, EnvVar, EnvVarSource, ObjectFieldSelector, ResourceFieldSelector,
};
use serde_json::Value;

use crate::core::Core;
use apimachinery::schema::quantity::Quantity;

/// Names and values.
pub(super) type Variables = BTreeMap<String, String>;

/// What the environment of a container is made from.
pub(super) struct Source<'a> {
    pub(super) core: &'a Core,
    /// The pod as the API shows it.
    pub(super) pod: &'a Value,
    pub(super) host_ip: String,
    pub(super) pod_ip: String,
}

impl Source<'_> {
    /// Gives every variable of a container, or says what is missing. `last` has the final word.
    pub(super) fn variables(
        &self,
        container: &Container,
        last: Variables,
    ) -> Result<Variables, String> {
        let mut all = Variables::new();
        let name =
            self.pod["spec"]["hostname"].as_str().or_else(|| self.pod["metadata"]["name"].as_str());
        all.insert("HOSTNAME".to_owned(), name.unwrap_or_default().to_owned());
        for from in container.env_from.iter().flatten() {
            let prefix = from.prefix.as_deref().unwrap_or_default();
            let (what, name, optional) = match (&from.config_map_ref, &from.secret_ref) {
                (Some(map), _) => ("configmaps", &map.name, map.optional),
                (None, Some(secret)) => ("secrets", &secret.name, secret.optional),
                (None, None) => continue,
            };
            match self.values(what, name) {
                Some(values) => {
                    all.extend(values.into_iter().map(|(k, v)| (format!("{prefix}{k}"), v)))
                }
                None if optional == Some(true) => {}
                None => return Err(format!("{what} {name:?} not found")),
            }
        }
        for variable in container.env.iter().flatten() {
            if let Some(value) = self.value(variable, container, &all)? {
                all.insert(variable.name.clone(), value);
            }
        }
        all.extend(last);
        Ok(all)
    }

    fn value(
        &self,
        variable: &EnvVar,
        container: &Container,
        before: &Variables,
    ) -> Result<Option<String>, String> {
        match (&variable.value, &variable.value_from) {
            (Some(value), _) => Ok(Some(expand(value, before))),
            (None, None) => Ok(Some(String::new())),
            (None, Some(source)) => self.sourced(source, container),
        }
    }

    fn sourced(
        &self,
        source: &EnvVarSource,
        container: &Container,
    ) -> Result<Option<String>, String> {
        if let Some(field) = &source.field_ref {
            return self.field(field).map(Some);
        }
        if let Some(field) = &source.resource_field_ref {
            return Ok(Some(resource(container, field)));
        }
        let (what, name, key, optional) = match (&source.config_map_key_ref, &source.secret_key_ref)
        {
            (Some(map), _) => ("configmaps", &map.name, &map.key, map.optional),
            (None, Some(secret)) => ("secrets", &secret.name, &secret.key, secret.optional),
            (None, None) => return Ok(Some(String::new())),
        };
        match self.values(what, name).and_then(|mut values| values.remove(key)) {
            None if optional == Some(true) => Ok(None),
            None => Err(format!("couldn't find key {key} in {what} {name:?}")),
            value => Ok(value),
        }
    }

    /// Reads a ConfigMap or a Secret.
    fn values(&self, what: &str, name: &str) -> Option<Variables> {
        let namespace = self.pod["metadata"]["namespace"].as_str().unwrap_or_default();
        let object = self.core.store.get(what, &format!("{namespace}/{name}"))?;
        let object = object.value("v1", "").ok()?;
        let data = object["data"].as_object().cloned().unwrap_or_default();
        let read = data.into_iter().filter_map(|(key, value)| {
            let text = value.as_str()?;
            if what == "configmaps" {
                return Some((key, text.to_owned()));
            }
            let bytes = base64::engine::general_purpose::STANDARD.decode(text).ok()?;
            Some((key, String::from_utf8_lossy(&bytes).into_owned()))
        });
        Some(read.collect())
    }

    fn field(&self, field: &ObjectFieldSelector) -> Result<String, String> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (pod, path) = (self.pod, field.field_path.as_str());
        for list in ["labels", "annotations"] {
            let key = path
                .strip_prefix(&format!("metadata.{list}['"))
                .and_then(|rest| rest.strip_suffix("']"));
            if let Some(key) = key {
                return Ok(text(&pod["metadata"][list][key]));
            }
        }
        Ok(match path {
            "metadata.name" => text(&pod["metadata"]["name"]),
            "metadata.namespace" => text(&pod["metadata"]["namespace"]),
            "metadata.uid" => text(&pod["metadata"]["uid"]),
            "spec.nodeName" => text(&pod["spec"]["nodeName"]),
            "spec.serviceAccountName" => text(&pod["spec"]["serviceAccountName"]),
            "status.hostIP" | "status.hostIPs" => self.host_ip.clone(),
            "status.podIP" | "status.podIPs" => self.pod_ip.clone(),
            _ => return Err(format!("fieldRef {path:?} is not known")),
        })
    }
}

/// Gives a limit or request of a container in units of the divisor, rounded up; nothing asked is 0.
fn resource(container: &Container, field: &ResourceFieldSelector) -> String {
    let (kind, name) = field.resource.split_once('.').unwrap_or(("", &field.resource));
    let resources = container.resources.as_ref();
    let amounts = match kind {
        "limits" => resources.and_then(|r| r.limits.as_ref()),
        _ => resources.and_then(|r| r.requests.as_ref()),
    };
    let milli = |text: &str| Quantity::parse(text).map(Quantity::milli).unwrap_or(0);
    let amount = amounts.and_then(|a| a.get(name)).map_or(0, |quantity| milli(&quantity.0));
    let unit = field.divisor.as_ref().map_or(0, |divisor| milli(&divisor.0));
    let unit = if unit > 0 { unit } else { 1000 };
    (amount.max(0) + unit - 1).div_euclid(unit).to_string()
}

/// Fills in `$(NAME)` where there is such a variable; `$$` is one `$`.
pub(super) fn expand(text: &str, variables: &Variables) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        let after = &rest[at + 1..];
        if let Some(after) = after.strip_prefix('$') {
            out.push('$');
            rest = after;
            continue;
        }
        let name = after.strip_prefix('(').and_then(|inner| inner.split_once(')'));
        match name {
            Some((name, after)) => {
                match variables.get(name) {
                    Some(value) => out.push_str(value),
                    None => out.push_str(&format!("$({name})")),
                }
                rest = after;
            }
            None => {
                out.push('$');
                rest = after;
            }
        }
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_in_units_rounded_up() {
        let container = serde_json::json!({
            "name": "c", "resources": {"limits": {"cpu": "1500m", "memory": "64Mi"}}
        });
        let container: Container = serde_json::from_value(container).unwrap();
        for (resource, divisor, wanted) in [
            ("limits.cpu", None, "2"),
            ("limits.cpu", Some("1m"), "1500"),
            ("limits.memory", None, "67108864"),
            ("limits.memory", Some("1Mi"), "64"),
            ("requests.cpu", None, "0"),
        ] {
            let field = serde_json::json!({"resource": resource, "divisor": divisor});
            let field = serde_json::from_value(field).unwrap();
            assert_eq!(super::resource(&container, &field), wanted, "{resource} {divisor:?}");
        }
    }

    #[test]
    fn variables_are_filled_in_where_they_are_known() {
        let variables: Variables = [("A".to_owned(), "1".to_owned())].into();
        for (text, wanted) in [
            ("$(A)", "1"),
            ("x$(A)y$(A)", "x1y1"),
            ("$(B)", "$(B)"),
            ("$$(A)", "$(A)"),
            ("$$$(A)", "$1"),
            ("$A $", "$A $"),
            ("$(A", "$(A"),
        ] {
            assert_eq!(expand(text, &variables), wanted, "{text}");
        }
    }
}
