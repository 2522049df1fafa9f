//! Clusters with the kinds of Cluster API and the stand-in for its controllers: embedded engines, or a real Kubernetes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use engine::Engine;
use k8s_openapi::api::core::v1::{Namespace, Node};
use kube::api::{Api, DeleteParams, ListParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config, ResourceExt as _};
use plimsoll_connect::Context;
use plimsoll_connect::providers::{self, Group, Instance, InstanceState, NodeGroupProvider};
use process::{Clock, Random, Supervisor};
use serde_json::{Value, json};

use super::stand_in::{GROUP, Parts, StandIn, define_kinds};
use crate::engine;
use crate::real::variable;

pub(crate) const MAX: &str = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size";
pub(crate) const MIN: &str = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size";

/// The clusters of a test, the stand-in, and the provider's view of them.
pub(crate) struct Site {
    pub(crate) context: Context,
    pub(crate) parts: Parts,
    pub(crate) stand_in: StandIn,
    pub(crate) engines: Vec<Engine>,
}

impl Site {
    /// Starts an embedded engine that is both clusters.
    pub(crate) async fn embedded(version: &'static str) -> Self {
        let (engine, context) = engine().await;
        let management = engine.client();
        Self::on(context, management, version, vec![engine]).await
    }

    /// Starts an engine for each cluster.
    pub(crate) async fn two_clusters(version: &'static str) -> Self {
        let (management, _) = engine().await;
        let (workload, context) = engine().await;
        let client = management.client();
        Self::on(context, client, version, vec![management, workload]).await
    }

    /// Uses the real Kubernetes that tests are given, as both clusters.
    pub(crate) async fn real(version: &'static str) -> Option<Self> {
        let path = variable("PLIMSOLL_TEST_KUBECONFIG")?;
        let kubeconfig = Kubeconfig::read_from(path).unwrap();
        let options = KubeConfigOptions::default();
        let config = Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap();
        let client = Client::try_from(config).unwrap();
        let (random, supervisor, clock) = (Random::seeded(1), Supervisor::new(), Clock::system());
        let context = Context::new(client.clone(), clock, random, supervisor);
        Some(Self::on(context, client, version, Vec::new()).await)
    }

    async fn on(
        context: Context,
        management: Client,
        version: &'static str,
        engines: Vec<Engine>,
    ) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let namespace = format!("capi-{}-{number}", std::process::id());
        define_kinds(&management).await;
        let namespaces: Api<Namespace> = Api::all(management.clone());
        let object = serde_json::from_value(json!({"metadata": {"name": namespace}})).unwrap();
        namespaces.create(&PostParams::default(), &object).await.unwrap();
        let workload = context.client.clone();
        let labels = json!({"test": namespace, "topology.kubernetes.io/zone": "zone-1"});
        let parts = Parts { management, workload, namespace, version, labels };
        let stand_in = StandIn::start(parts.clone());
        Self { context, parts, stand_in, engines }
    }

    /// Deletes what a real cluster would keep.
    pub(crate) async fn end(self) {
        drop(self.stand_in);
        if !self.engines.is_empty() {
            return;
        }
        let all = ListParams::default();
        for machine in self.parts.list("Machine").await.unwrap() {
            let change = json!({"metadata": {"finalizers": null}});
            let _ = self.parts.merge("Machine", &machine.name_any(), change).await;
        }
        for kind in
            ["MachineDeployment", "MachineSet", "MachinePool", "Machine", "TestMachineTemplate"]
        {
            let _ = self.parts.api(kind).delete_collection(&DeleteParams::background(), &all).await;
        }
        let nodes: Api<Node> = self.parts.nodes();
        let own = all.labels(&format!("test={}", self.parts.namespace));
        for node in nodes.list(&own).await.unwrap() {
            let _ = nodes.delete(&node.name_any(), &DeleteParams::default()).await;
        }
        let namespaces: Api<Namespace> = Api::all(self.parts.management.clone());
        let _ = namespaces.delete(&self.parts.namespace, &DeleteParams::default()).await;
    }

    /// Opens the provider, with the groups of the namespace discovered.
    pub(crate) fn open(&self) -> Arc<dyn NodeGroupProvider> {
        self.open_with(&self.context, json!({"discover": [{"namespace": self.parts.namespace}]}))
    }

    pub(crate) fn open_with(
        &self,
        context: &Context,
        mut settings: Value,
    ) -> Arc<dyn NodeGroupProvider> {
        settings["apiVersion"] = self.parts.version.into();
        let opened = providers::open(context, "clusterApi", &settings);
        opened.map_err(|error| error.to_string()).unwrap()
    }

    /// Returns the id of a group.
    pub(crate) fn id(&self, kind: &str, name: &str) -> String {
        format!("{kind}/{}/{name}", self.parts.namespace)
    }

    /// Creates a MachineDeployment with an infrastructure template, of up to 5 machines.
    pub(crate) async fn deployment(&self, name: &str, replicas: u32, annotations: Value) -> String {
        let infrastructure = match self.parts.version {
            "v1beta1" => {
                json!({"apiVersion": "infrastructure.cluster.x-k8s.io/v1", "kind": "TestMachineTemplate", "name": "small"})
            }
            _ => {
                json!({"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "TestMachineTemplate", "name": "small"})
            }
        };
        let mut all = json!({MAX: "5"});
        all.as_object_mut().unwrap().extend(annotations.as_object().unwrap().clone());
        let template = json!({"spec": {"infrastructureRef": infrastructure}, "metadata": {"labels": {"node-role.kubernetes.io/worker": ""}}});
        let spec = json!({"replicas": replicas, "clusterName": "c", "template": template});
        self.parts
            .create("MachineDeployment", json!({"name": name, "annotations": all}), spec)
            .await;
        self.id("MachineDeployment", name)
    }

    /// Describes the machines of MachineDeployments.
    pub(crate) async fn infrastructure(&self) {
        self.parts.create("TestMachineTemplate", json!({"name": "small"}), json!({})).await;
        let status = json!({"capacity": {"cpu": "2", "memory": "4Gi"}, "nodeInfo": {"architecture": "arm64"}});
        self.parts.status("TestMachineTemplate", "small", status).await.unwrap();
    }

    /// Returns the names of the nodes.
    pub(crate) async fn nodes(&self) -> Vec<String> {
        let own = ListParams::default().labels(&format!("test={}", self.parts.namespace));
        self.parts.nodes().list(&own).await.unwrap().iter().map(|node| node.name_any()).collect()
    }

    /// Returns the machines with a mark for deletion.
    pub(crate) async fn marked(&self) -> Vec<String> {
        let key = format!("{GROUP}/delete-machine");
        let machines = self.parts.list("Machine").await.unwrap();
        let marked = machines.iter().filter(|machine| machine.annotations().contains_key(&key));
        marked.map(|machine| machine.name_any()).collect()
    }
}

/// Waits until a group is as it should be, and returns it.
pub(crate) async fn until(
    provider: &Arc<dyn NodeGroupProvider>,
    id: &str,
    holds: impl Fn(&Group) -> bool,
) -> Group {
    for _ in 0..1200 {
        let groups = provider.snapshot().await.unwrap();
        if let Some(group) = groups.into_iter().find(|group| group.id == id)
            && holds(&group)
        {
            return group;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("waited in vain for {id}: {:?}", provider.snapshot().await);
}

/// Waits until a group has this many machines, all of them in one state.
pub(crate) async fn until_all(
    provider: &Arc<dyn NodeGroupProvider>,
    id: &str,
    count: usize,
    state: InstanceState,
) -> Vec<Instance> {
    let is_there = |group: &Group| {
        group.instances.len() == count && group.instances.iter().all(|it| it.state == state)
    };
    until(provider, id, is_there).await.instances
}
