//! The environment of a container.

mod expand;

use std::collections::BTreeMap;
use std::sync::Arc;

use api::quantity::Quantity;
use cluster::LocalAddresses;
use k8s_openapi::api::core::v1::{
    ConfigMap, Container, EnvVar, EnvVarSource, ObjectFieldSelector, Pod, ResourceFieldSelector,
    Secret, Service,
};
use kube::{Api, Client};

pub(crate) use expand::expand;

/// Environment variables by name.
pub(crate) type Variables = BTreeMap<String, String>;

/// What the environment of a container is read from.
pub(crate) struct Source<'a> {
    pub(crate) client: &'a Client,
    /// The latest known version of the pod.
    pub(crate) pod: Arc<Pod>,
    pub(crate) host_ip: String,
    pub(crate) pod_ip: String,
}

/// The kinds of objects that variables are read from.
#[derive(Clone, Copy)]
enum Kind {
    ConfigMap,
    Secret,
}

impl Source<'_> {
    /// Returns every variable of a container, or a message that names what is missing. Those of `last` override all others.
    pub(crate) async fn variables(
        &self,
        container: &Container,
        last: Variables,
    ) -> Result<Variables, String> {
        let mut all = Variables::new();
        let hostname = self.pod.spec.as_ref().and_then(|spec| spec.hostname.clone());
        let hostname = hostname.or_else(|| self.pod.metadata.name.clone());
        all.insert("HOSTNAME".to_owned(), hostname.unwrap_or_default());
        for from in container.env_from.iter().flatten() {
            let prefix = from.prefix.as_deref().unwrap_or_default();
            let (kind, name, optional) = match (&from.config_map_ref, &from.secret_ref) {
                (Some(map), _) => (Kind::ConfigMap, &map.name, map.optional),
                (None, Some(secret)) => (Kind::Secret, &secret.name, secret.optional),
                (None, None) => continue,
            };
            match self.values(kind, name).await? {
                Some(values) => {
                    all.extend(values.into_iter().map(|(k, v)| (format!("{prefix}{k}"), v)))
                }
                None if optional == Some(true) => {}
                None => return Err(kind.missing(name)),
            }
        }
        for variable in container.env.iter().flatten() {
            if let Some(value) = self.value(variable, container, &all).await? {
                all.insert(variable.name.clone(), value);
            }
        }
        all.extend(last);
        Ok(all)
    }

    /// Returns the variables by which clients in the pod find the API server: at its cluster IP, or where that is served on this
    /// machine. There are none if nothing serves it.
    pub(crate) async fn api_server(&self, reaches_cluster_ips: bool) -> Variables {
        let services: Api<Service> = Api::namespaced(self.client.clone(), "default");
        // A pod that needs them will say so.
        let service = services.get_opt("kubernetes").await.ok().flatten();
        let address = service.and_then(|service| {
            let spec = service.spec.as_ref()?;
            let port = u16::try_from(spec.ports.as_ref()?.first()?.port).ok()?;
            let local = LocalAddresses::from_service(&service).get(port, "TCP")?;
            match reaches_cluster_ips {
                true => Some((spec.cluster_ip.clone()?, port)),
                false => Some((local.ip().to_string(), local.port())),
            }
        });
        let Some((host, port)) = address else { return Variables::new() };
        let variables =
            [("HOST", host), ("PORT", port.to_string()), ("PORT_HTTPS", port.to_string())];
        let named = |(name, value)| (format!("KUBERNETES_SERVICE_{name}"), value);
        variables.into_iter().map(named).collect()
    }

    async fn value(
        &self,
        variable: &EnvVar,
        container: &Container,
        before: &Variables,
    ) -> Result<Option<String>, String> {
        match (&variable.value, &variable.value_from) {
            (Some(value), _) => Ok(Some(expand(value, before))),
            (None, None) => Ok(Some(String::new())),
            (None, Some(source)) => self.sourced(source, container).await,
        }
    }

    async fn sourced(
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
        let (kind, name, key, optional) = match (&source.config_map_key_ref, &source.secret_key_ref)
        {
            (Some(map), _) => (Kind::ConfigMap, &map.name, &map.key, map.optional),
            (None, Some(secret)) => (Kind::Secret, &secret.name, &secret.key, secret.optional),
            (None, None) => return Ok(Some(String::new())),
        };
        let is_optional = optional == Some(true);
        match self.values(kind, name).await? {
            None if is_optional => Ok(None),
            None => Err(kind.missing(name)),
            Some(mut values) => match values.remove(key) {
                None if is_optional => Ok(None),
                None => {
                    let kind = kind.name();
                    Err(format!("couldn't find key {key} in {kind} {}/{name}", self.namespace()))
                }
                value => Ok(value),
            },
        }
    }

    fn namespace(&self) -> &str {
        self.pod.metadata.namespace.as_deref().unwrap_or_default()
    }

    /// Reads a ConfigMap or a Secret; `None`: it does not exist.
    async fn values(&self, kind: Kind, name: &str) -> Result<Option<Variables>, String> {
        let client = self.client.clone();
        let failed = |error: kube::Error| {
            format!("could not read the {} {name:?}: {}", kind.name(), cluster::explain(&error))
        };
        match kind {
            Kind::ConfigMap => {
                let maps: Api<ConfigMap> = Api::namespaced(client, self.namespace());
                let map = maps.get_opt(name).await.map_err(failed)?;
                Ok(map.map(|map| map.data.unwrap_or_default()))
            }
            Kind::Secret => {
                let secrets: Api<Secret> = Api::namespaced(client, self.namespace());
                let secret = secrets.get_opt(name).await.map_err(failed)?;
                let text = |(key, bytes): (String, k8s_openapi::ByteString)| {
                    (key, String::from_utf8_lossy(&bytes.0).into_owned())
                };
                Ok(secret.map(|s| s.data.unwrap_or_default().into_iter().map(text).collect()))
            }
        }
    }

    /// Returns a field of the pod.
    pub(crate) fn field(&self, field: &ObjectFieldSelector) -> Result<String, String> {
        let (meta, path) = (&self.pod.metadata, field.field_path.as_str());
        for (list, values) in [("labels", &meta.labels), ("annotations", &meta.annotations)] {
            let key = path
                .strip_prefix(&format!("metadata.{list}['"))
                .and_then(|rest| rest.strip_suffix("']"));
            if let Some(key) = key {
                let value = values.as_ref().and_then(|values| values.get(key));
                return Ok(value.cloned().unwrap_or_default());
            }
        }
        let spec = self.pod.spec.as_ref();
        let text = |text: Option<&String>| text.cloned().unwrap_or_default();
        Ok(match path {
            "metadata.name" => text(meta.name.as_ref()),
            "metadata.namespace" => text(meta.namespace.as_ref()),
            "metadata.uid" => text(meta.uid.as_ref()),
            "spec.nodeName" => text(spec.and_then(|spec| spec.node_name.as_ref())),
            "spec.serviceAccountName" => {
                text(spec.and_then(|spec| spec.service_account_name.as_ref()))
            }
            "status.hostIP" | "status.hostIPs" => self.host_ip.clone(),
            "status.podIP" | "status.podIPs" => self.pod_ip.clone(),
            _ => return Err(format!("fieldRef {path:?} is not supported")),
        })
    }
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::ConfigMap => "ConfigMap",
            Self::Secret => "Secret",
        }
    }

    fn missing(self, name: &str) -> String {
        format!("{} {name:?} not found", self.name().to_lowercase())
    }
}

/// Returns a limit or request of a container in units of the divisor, rounded up; 0 if it has none.
pub(crate) fn resource(container: &Container, field: &ResourceFieldSelector) -> String {
    let (kind, name) = field.resource.split_once('.').unwrap_or(("", &field.resource));
    let resources = container.resources.as_ref();
    let amounts = match kind {
        "limits" => resources.and_then(|r| r.limits.as_ref()),
        _ => resources.and_then(|r| r.requests.as_ref()),
    };
    let milli = |text: &str| Quantity::parse(text).map_or(0, |q| i128::from(q.milli_value()));
    let amount = amounts.and_then(|a| a.get(name)).map_or(0, |quantity| milli(&quantity.0));
    let unit = field.divisor.as_ref().map_or(0, |divisor| milli(&divisor.0));
    let unit = if unit > 0 { unit } else { 1000 };
    (amount.max(0) + unit - 1).div_euclid(unit).to_string()
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
}
