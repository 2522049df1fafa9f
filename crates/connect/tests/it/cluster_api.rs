//! The node group provider `clusterApi` with a stand-in for Cluster API's controllers, on embedded engines and on a real Kubernetes.

mod refusing;
mod site;
mod stand_in;

use std::collections::BTreeSet;
use std::sync::Arc;

use api::plimsoll::NodeGroup;
use plimsoll_connect::providers::{
    Group, InstanceState, NamedGroup, NodeGroupProvider, ProviderError, named_group,
};
use serde_json::{Value, json};

use crate::real::secret;
use site::{MAX, MIN, Site, until, until_all};
use stand_in::Switches;

const VERSIONS: [&str; 2] = ["v1beta1", "v1beta2"];

/// Returns the sites of a test: an engine and a real Kubernetes, each with both versions.
async fn sites() -> Vec<Site> {
    let mut sites = Vec::new();
    for version in VERSIONS {
        sites.push(Site::embedded(version).await);
        sites.extend(Site::real(version).await);
    }
    sites
}

async fn find(provider: &Arc<dyn NodeGroupProvider>, id: &str) -> Option<Group> {
    provider.snapshot().await.unwrap().into_iter().find(|group| group.id == id)
}

#[tokio::test]
async fn a_group_grows_from_zero_and_named_machines_are_deleted() {
    for site in sites().await {
        site.infrastructure().await;
        let id = site.deployment("pool", 0, json!({MIN: "1"})).await;
        let provider = site.open();
        let group = find(&provider, &id).await.unwrap();
        assert_eq!((group.min, group.max, group.target, group.problem), (1, 5, 0, None));
        let template = group.template.unwrap();
        assert_eq!((template.capacity.cpu, template.capacity.memory >> 30), (2000, 4));
        assert_eq!(template.labels.get("kubernetes.io/arch"), Some("arm64"));
        assert_eq!(template.labels.get("node-role.kubernetes.io/worker"), Some(""));
        assert_eq!(template.labels.get("topology.kubernetes.io/zone"), None);

        provider.increase(&id, 4).await.unwrap();
        let refused = provider.increase(&id, 2).await.unwrap_err().to_string();
        assert_eq!(refused, format!("group `{id}`: 6 nodes are more than max, which is 5"));
        let machines = until_all(&provider, &id, 4, InstanceState::Running).await;
        let group = find(&provider, &id).await.unwrap();
        let zone = group.template.unwrap();
        assert_eq!(zone.labels.get("topology.kubernetes.io/zone"), Some("zone-1"));

        let ids: Vec<String> = machines.into_iter().map(|machine| machine.id).collect();
        let refused = provider.delete_nodes(&id, &ids).await.unwrap_err().to_string();
        assert_eq!(refused, format!("group `{id}`: 0 nodes are fewer than min, which is 1"));
        assert_eq!(site.marked().await, Vec::<String>::new());
        // Neither the first nor the last by name, and all at once.
        let doomed = &ids[1..3];
        for _ in 0..3 {
            // From the second time on, their deletion is already requested or done.
            provider.delete_nodes(&id, doomed).await.unwrap();
        }
        let left = until_all(&provider, &id, 2, InstanceState::Running).await;
        let left: BTreeSet<_> = left.into_iter().map(|machine| machine.id).collect();
        assert_eq!(left, [ids[0].clone(), ids[3].clone()].into());
        assert_eq!(find(&provider, &id).await.unwrap().target, 2);
        assert_eq!(site.nodes().await.len(), 2);
        let unknown = ProviderError::UnknownGroup { group: "MachineSet/x/y".to_owned() };
        assert_eq!(provider.increase("MachineSet/x/y", 1).await, Err(unknown));
        site.end().await;
    }
}

#[tokio::test]
async fn groups_are_discovered_by_any_of_several_entries_or_named() {
    for site in sites().await {
        let namespace = site.parts.namespace.clone();
        let label = |name: &str, value: &str| {
            let (name, change) =
                (name.to_owned(), json!({"metadata": {"labels": {"pool": value}}}));
            let parts = site.parts.clone();
            async move { parts.merge("MachineDeployment", &name, change).await.unwrap() }
        };
        for name in ["blue", "green", "other", "bad"] {
            site.deployment(name, 1, json!({})).await;
        }
        label("blue", "blue").await;
        label("green", "green").await;
        label("bad", "blue").await;
        let negative = json!({"metadata": {"annotations": {MIN: "-1"}}});
        site.parts.merge("MachineDeployment", "bad", negative).await.unwrap();
        let alone =
            json!({"name": "alone", "annotations": {MAX: "3"}, "labels": {"pool": "green"}});
        site.parts.create("MachineSet", alone, json!({"replicas": 1, "clusterName": "d"})).await;
        let entry = |more: Value| {
            let mut entry = more;
            entry["namespace"] = namespace.clone().into();
            entry
        };
        let settings = json!({"discover": [
            entry(json!({"labels": {"pool": "blue"}})), entry(json!({"clusterName": "d"})),
        ]});
        let provider = site.open_with(&site.context, settings);
        let found: BTreeSet<_> =
            provider.snapshot().await.unwrap().into_iter().map(|it| (it.id, it.problem)).collect();
        let problem = format!("annotation {MIN}: `-1` is not a whole number from 0");
        let mut wanted = BTreeSet::from([
            (site.id("MachineDeployment", "blue"), None),
            (site.id("MachineDeployment", "bad"), Some(problem)),
            (site.id("MachineSet", "alone"), None),
        ]);
        assert_eq!(found, wanted);

        let block = json!({"kind": "MachineDeployment", "namespace": namespace, "name": "other"});
        let group = json!({"metadata": {"name": "g"}, "spec": {"max": 1, "provider": {"clusterApi": block}}});
        let group: NodeGroup = serde_json::from_value(group).unwrap();
        let (_, named) = named_group(&group).unwrap();
        assert_eq!(
            named,
            NamedGroup { id: site.id("MachineDeployment", "other"), settings: block }
        );
        provider.set_named_groups(&[named]);
        let found = provider.snapshot().await.unwrap();
        wanted.insert((site.id("MachineDeployment", "other"), None));
        assert_eq!(
            found.into_iter().map(|it| (it.id, it.problem)).collect::<BTreeSet<_>>(),
            wanted
        );
        site.end().await;
    }
}

#[tokio::test]
async fn a_machine_that_failed_is_reported_and_can_be_deleted() {
    for site in sites().await {
        let id = site.deployment("pool", 1, json!({})).await;
        let provider = site.open();
        until_all(&provider, &id, 1, InstanceState::Running).await;
        site.stand_in.switch(Switches { fails: true, ..Switches::default() });
        provider.increase(&id, 1).await.unwrap();
        let has_failed = |group: &Group| group.instances.iter().any(|it| it.error.is_some());
        let group = until(&provider, &id, has_failed).await;
        let failed = group.instances.iter().find(|it| it.error.is_some()).unwrap();
        assert_eq!(failed.state, InstanceState::Creating);
        let message = &failed.error.as_ref().unwrap().message;
        assert!(message.ends_with(": no quota"), "{message}");
        assert!(failed.id.starts_with(&format!("failed-machine-{}_pool-1-", site.parts.namespace)));
        provider.delete_nodes(&id, std::slice::from_ref(&failed.id)).await.unwrap();
        until_all(&provider, &id, 1, InstanceState::Running).await;
        assert_eq!(find(&provider, &id).await.unwrap().target, 1);
        site.end().await;
    }
}

#[tokio::test]
async fn machines_that_get_no_node_are_cancelled_and_nodes_are_not() {
    for site in sites().await {
        let id = site.deployment("pool", 1, json!({})).await;
        let provider = site.open();
        let running = until_all(&provider, &id, 1, InstanceState::Running).await;
        site.stand_in.switch(Switches { never_a_node: true, ..Switches::default() });
        provider.increase(&id, 2).await.unwrap();
        let is_pending = |group: &Group| {
            group.instances.iter().filter(|it| it.state == InstanceState::Creating).count() == 2
        };
        until(&provider, &id, is_pending).await;
        let refused = provider.decrease_target(&id, 3).await.unwrap_err().to_string();
        assert_eq!(refused, format!("group `{id}`: a target of 0 would delete nodes: 1 exist"));
        provider.decrease_target(&id, 2).await.unwrap();
        assert_eq!(until_all(&provider, &id, 1, InstanceState::Running).await, running);
        site.end().await;
    }
}

#[tokio::test]
async fn the_cloud_chooses_which_machine_of_a_pool_goes() {
    for site in sites().await {
        let metadata = json!({"name": "pool", "annotations": {MAX: "5"}});
        site.parts
            .create("MachinePool", metadata, json!({"replicas": 1, "clusterName": "c"}))
            .await;
        let (id, provider) = (site.id("MachinePool", "pool"), site.open());
        provider.increase(&id, 2).await.unwrap();
        let machines = until_all(&provider, &id, 3, InstanceState::Running).await;
        let ids: Vec<String> = machines.into_iter().map(|machine| machine.id).collect();
        for _ in 0..2 {
            // The second request about the same machine lowers nothing.
            provider.delete_nodes(&id, &ids[2..]).await.unwrap();
        }
        let left = until_all(&provider, &id, 2, InstanceState::Running).await;
        let left: BTreeSet<_> = left.into_iter().map(|machine| machine.id).collect();
        assert_eq!(left, [ids[1].clone(), ids[2].clone()].into());
        assert_eq!(find(&provider, &id).await.unwrap().target, 2);
        site.end().await;
    }
}

#[tokio::test]
async fn no_machine_of_a_deployment_that_rolls_out_is_removed() {
    for site in sites().await {
        let id = site.deployment("pool", 2, json!({})).await;
        let provider = site.open();
        let machines = until_all(&provider, &id, 2, InstanceState::Running).await;
        site.stand_in.switch(Switches { holds_rollouts: true, ..Switches::default() });
        let template = json!({"spec": {"template": {"metadata": {"labels": {"new": "yes"}}}}});
        site.parts.merge("MachineDeployment", "pool", template).await.unwrap();
        until(&provider, &id, |group| group.is_rolling_out && group.instances.len() == 4).await;
        let refused = provider.delete_nodes(&id, std::slice::from_ref(&machines[0].id)).await;
        assert!(matches!(refused, Err(ProviderError::Unavailable { .. })), "{refused:?}");
        site.stand_in.switch(Switches::default());
        until(&provider, &id, |group| !group.is_rolling_out && group.instances.len() == 2).await;
        assert_eq!(find(&provider, &id).await.unwrap().target, 2);
        site.end().await;
    }
}

#[tokio::test]
async fn machines_of_a_management_cluster_are_nodes_of_another() {
    for version in VERSIONS {
        let site = Site::two_clusters(version).await;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kubeconfig");
        let listening = site.engines[0].listen(([127, 0, 0, 1], 0).into()).await.unwrap();
        site.engines[0].write_kubeconfig(&path, &listening).unwrap();
        let kubeconfig = std::fs::read_to_string(&path).unwrap();
        secret(&site.context, "management", "kubeconfig", &kubeconfig).await;
        secret(&site.context, "broken", "kubeconfig", "no: [kubeconfig").await;
        let id = site.deployment("pool", 0, json!({})).await;
        let from = |name: &str| {
            let from = json!({"name": name, "key": "kubeconfig"});
            let discover = json!([{"namespace": site.parts.namespace, "clusterName": "c"}]);
            site.open_with(&site.context, json!({"kubeconfigFrom": from, "discover": discover}))
        };
        let problem = from("broken").snapshot().await.unwrap_err().to_string();
        let wanted = "the provider is unavailable: Secret plimsoll-system/broken, key `kubeconfig`: expected a kubeconfig in YAML";
        assert_eq!(problem, wanted);
        let provider = from("management");
        // Nothing describes its nodes yet, and from zero it could not grow.
        assert!(find(&provider, &id).await.is_none());
        site.infrastructure().await;
        provider.increase(&id, 2).await.unwrap();
        let machines = until_all(&provider, &id, 2, InstanceState::Running).await;
        assert_eq!(site.nodes().await.len(), 2);
        let own = site.engines[0].client();
        let nodes: kube::Api<k8s_openapi::api::core::v1::Node> = kube::Api::all(own);
        assert!(nodes.list(&kube::api::ListParams::default()).await.unwrap().items.is_empty());
        provider.delete_nodes(&id, std::slice::from_ref(&machines[1].id)).await.unwrap();
        until_all(&provider, &id, 1, InstanceState::Running).await;
        let labels = find(&provider, &id).await.unwrap().template.unwrap().labels;
        assert_eq!(labels.get("topology.kubernetes.io/zone"), Some("zone-1"));
        let name = site.nodes().await;
        assert!(machines[0].id.ends_with(&name[0]));
        site.end().await;
    }
}

#[tokio::test]
async fn the_documented_machine_deployment_is_a_group_that_can_grow_from_zero() {
    let text = include_str!("../../../../examples/nodes/machine-deployment.yaml");
    let guide = include_str!("../../../../docs/guide/nodes.md");
    assert!(guide.contains(&format!("```yaml\n{text}```")), "the guide shows the example");
    let mut object: Value = serde_saphyr::from_str(text).unwrap();
    let site = Site::embedded("v1beta2").await;
    object["metadata"].as_object_mut().unwrap().remove("namespace");
    let (metadata, spec) = (object["metadata"].clone(), object["spec"].clone());
    site.parts.create("MachineDeployment", metadata, spec).await;
    let provider = site.open();
    let group = find(&provider, &site.id("MachineDeployment", "workers")).await.unwrap();
    assert_eq!((group.min, group.max, group.target), (0, 10, 0));
    assert_eq!(group.options.unneeded_for, Some(jiff::SignedDuration::from_mins(5)));
    let template = group.template.unwrap();
    assert_eq!((template.capacity.cpu, template.capacity.pods), (4000, 110));
    let labels: Vec<_> = template.labels.iter().map(|(key, _)| key).collect();
    let wanted =
        ["disk", "kubernetes.io/arch", "kubernetes.io/os", "node-role.kubernetes.io/worker"];
    assert_eq!(labels, wanted);
    site.end().await;
}

#[tokio::test]
async fn a_cluster_without_cluster_api_is_named_as_the_cause() {
    let (_engine, context) = crate::engine().await;
    let settings = json!({"discover": [{}]});
    let opened = plimsoll_connect::providers::open(&context, "clusterApi", &settings);
    let provider = opened.map_err(|error| error.to_string()).unwrap();
    let problem = provider.snapshot().await.unwrap_err().to_string();
    assert!(problem.contains("does not serve the API group cluster.x-k8s.io"), "{problem}");
    assert!(problem.ends_with("is Cluster API installed there?"), "{problem}");
    let wrong = json!({"discoverr": []});
    let refused = plimsoll_connect::providers::open(&context, "clusterApi", &wrong).map(drop);
    assert!(refused.unwrap_err().to_string().contains("unknown field `discoverr`"));
}
