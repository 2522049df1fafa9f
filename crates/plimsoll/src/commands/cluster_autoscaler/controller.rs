//! The settings of the node controller: everything that the flags ask for, as values.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::Context as _;
use cluster::LeaderElection;
use connect::providers::kwok_templates;
use control::nodes::{GroupValue, NodeSettings, NodeSource, NodeValues};
use control::{NodeProviders, Settings};
use kube::Client;
use process::{Clock, Random, Supervisor};
use serde_json::{Value, json};

use super::credentials::{Credential, Credentials};
use super::settings::{Cloud, Management, Setup};

/// The ConfigMap of the expander `priority`.
const PRIORITY_MAP: &str = "cluster-autoscaler-priority-expander";
/// Where a pod finds its token and the certificates of its API server.
const SERVICE_ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// Returns the settings of the controller, and the credentials that its client has to know.
pub(super) fn values(setup: &Setup) -> anyhow::Result<(NodeValues, Credentials)> {
    let mut credentials = Credentials::default();
    let provider = setup.cloud.provider();
    let mut connection =
        setup.autoscaler.providers.connections().remove(provider).unwrap_or_default();
    match &setup.cloud {
        Cloud::Aws | Cloud::Kwok { .. } | Cloud::ExternalGrpc { tls: None } => {}
        Cloud::ExternalGrpc { tls: Some(files) } => {
            let mut file = |key, path: &std::path::Path| {
                credentials.add(key, Credential::File(path.to_owned()))
            };
            connection["tls"] = json!({
                "caFrom": file("ca", &files.ca),
                "certFrom": file("cert", &files.certificate),
                "keyFrom": file("key", &files.key),
            });
        }
        Cloud::ClusterApi { management, group, version, architecture } => {
            let others =
                [("apiGroup", group), ("apiVersion", version), ("architecture", architecture)];
            for (field, value) in others {
                if let Some(value) = value {
                    connection[field] = json!(value);
                }
            }
            let kubeconfig = match management {
                Management::Workload => None,
                Management::Pod => Some(Credential::Text(pod_kubeconfig()?)),
                Management::Kubeconfig(path) => Some(Credential::File(path.clone())),
            };
            if let Some(kubeconfig) = kubeconfig {
                connection["kubeconfigFrom"] = credentials.add("kubeconfig", kubeconfig);
                // Unlike one in a Secret, it may name files and start programs.
                connection["trustedKubeconfig"] = json!(true);
            }
        }
    }
    let mut expander = setup.autoscaler.grpc_expander.as_ref().map(|expander| json!(expander));
    if let (Some(expander), Some(ca)) = (&mut expander, &setup.expander_ca) {
        let ca = credentials.add("expander-ca", Credential::File(ca.clone()));
        expander["tls"] = json!({"caFrom": ca});
    }
    let groups = setup.groups.iter().map(|group| GroupValue {
        provider: provider.to_owned(),
        id: group.id.clone(),
        min: group.min,
        max: group.max,
    });
    let mut values = NodeValues {
        autoscaler: setup.autoscaler.clone(),
        connections: BTreeMap::from([(provider.to_owned(), connection)]),
        expander,
        groups: groups.collect(),
        ..NodeValues::default()
    };
    if setup.autoscaler.expanders.iter().any(|name| name == "priority") {
        values.priority_map = Some(PRIORITY_MAP.to_owned());
    }
    Ok((values, credentials))
}

/// Returns a kubeconfig of the cluster that this process runs in as a pod. The token is read from its file, since it changes.
fn pod_kubeconfig() -> anyhow::Result<String> {
    let variable = |name: &str| {
        let missing = || {
            format!("--clusterapi-cloud-config-authoritative: {name} is not set; this is no pod")
        };
        std::env::var(name).with_context(missing)
    };
    let host = variable("KUBERNETES_SERVICE_HOST")?;
    let host = if host.contains(':') { format!("[{host}]") } else { host };
    let port = variable("KUBERNETES_SERVICE_PORT")?;
    let cluster = json!({
        "server": format!("https://{host}:{port}"),
        "certificate-authority": format!("{SERVICE_ACCOUNT}/ca.crt"),
    });
    let kubeconfig: Value = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "pod",
        "clusters": [{"name": "pod", "cluster": cluster}],
        "users": [{"name": "pod", "user": {"tokenFile": format!("{SERVICE_ACCOUNT}/token")}}],
        "contexts": [{"name": "pod", "context": {"cluster": "pod", "user": "pod"}}],
    });
    Ok(kubeconfig.to_string())
}

/// Returns the settings of the controller.
pub(super) fn settings(
    setup: &Setup,
    values: NodeValues,
    client: &Client,
    supervisor: &Supervisor,
) -> Settings {
    let (clock, random) = (Clock::system(), Random::system());
    let nodes = NodeSettings {
        source: NodeSource::Values(Arc::new(values)),
        longest_pause: setup.process.longest_pause,
        status_map: setup.process.status_map.clone(),
    };
    let mut settings = Settings {
        nodes,
        cluster_autoscaler_namespace: setup.process.namespace.clone(),
        supervisor: supervisor.clone(),
        clock: clock.clone(),
        random: random.clone(),
        ..Settings::default()
    };
    if let Cloud::Kwok { config_map, namespace } = &setup.cloud {
        let context = connect::Context::new(client.clone(), clock, random, supervisor.clone());
        let provider = kwok_templates(&context, namespace.clone(), config_map.clone());
        let name = setup.cloud.provider().to_owned();
        settings.node_providers = NodeProviders(BTreeMap::from([(name, provider)]));
    }
    settings
}

/// Returns how this replica becomes the leader; `None`: it is the only one.
pub(super) fn lease(setup: &Setup) -> Option<LeaderElection> {
    let lease = setup.process.lease.as_ref()?;
    Some(LeaderElection {
        namespace: setup.process.namespace.clone(),
        name: lease.name.clone(),
        identity: LeaderElection::unique_identity(&Random::system()),
        duration: lease.duration,
        renew_within: lease.renew_within,
        retry_every: lease.retry_every,
        leads_once: true,
    })
}

#[cfg(test)]
mod tests {
    use super::super::settings::{Surroundings, setup};
    use super::*;
    use crate::args::cluster_autoscaler::Flags;

    fn found(line: &str, file: &str, variables: &[(&str, &str)]) -> (NodeValues, Credentials) {
        let flags = Flags::parse(line.split_whitespace().map(str::to_owned)).unwrap();
        let variables = variables.iter().map(|(name, value)| ((*name).into(), (*value).into()));
        let surroundings =
            Surroundings { environment: variables.collect(), cloud_config: Some(file.to_owned()) };
        values(&setup(&flags, &surroundings).unwrap()).unwrap()
    }

    fn reference(key: &str) -> Value {
        json!({"name": "cluster-autoscaler-files", "key": key})
    }

    #[test]
    fn a_provider_gets_its_connection_and_the_groups_that_flags_name() {
        let (values, credentials) =
            found("--cloud-provider=aws --nodes=1:5:workers", "", &[("AWS_REGION", "eu-west-1")]);
        assert_eq!(values.connections["aws"], json!({"region": "eu-west-1"}));
        let group =
            |group: &GroupValue| (group.provider.clone(), group.id.clone(), group.min, group.max);
        let groups: Vec<_> = values.groups.iter().map(group).collect();
        assert_eq!(groups, [("aws".to_owned(), "workers".to_owned(), 1, 5)]);
        assert_eq!((values.priority_map, credentials), (None, Credentials::default()));
        let (values, _) = found("--cloud-provider=kwok --expander=priority,random", "", &[]);
        assert_eq!(values.connections["kwok"], Value::Null);
        assert_eq!(values.priority_map.as_deref(), Some("cluster-autoscaler-priority-expander"));
    }

    #[test]
    fn files_are_named_as_keys_of_a_secret() {
        let file = "address: h:1\ncert: /c\nkey: /k\ncacert: /ca\n";
        let (values, credentials) = found("--cloud-provider=externalgrpc", file, &[]);
        let tls = json!({
            "caFrom": reference("ca"), "certFrom": reference("cert"), "keyFrom": reference("key"),
        });
        let connection = json!({"address": "h:1", "discover": true, "tls": tls});
        assert_eq!(values.connections["externalGrpc"], connection);
        let mut wanted = Credentials::default();
        for (key, path) in [("ca", "/ca"), ("cert", "/c"), ("key", "/k")] {
            wanted.add(key, Credential::File(path.into()));
        }
        assert_eq!(credentials, wanted);

        let line =
            "--cloud-provider=kwok --expander=grpc --grpc-expander-url=e:1 --grpc-expander-cert=/e";
        let (values, _) = found(line, "", &[]);
        let tls = json!({"caFrom": reference("expander-ca")});
        assert_eq!(values.expander, Some(json!({"address": "e:1", "tls": tls})));

        let line = "--cloud-provider=clusterapi --cloud-config=/m";
        let (values, _) = found(line, "", &[("CAPI_GROUP", "g"), ("CAPI_VERSION", "v1beta1")]);
        assert_eq!(
            values.connections["clusterApi"],
            json!({
                "discover": [{}], "apiGroup": "g", "apiVersion": "v1beta1",
                "kubeconfigFrom": reference("kubeconfig"), "trustedKubeconfig": true,
            })
        );
    }
}
