//! A stand-in for the controllers of Cluster API and of an infrastructure provider, whose machines are Node objects.
//!
//! A MachineDeployment gets a MachineSet for each template, a MachineSet its Machines, and a Machine a providerID and a Node. Machines
//! are deleted in Cluster API's order: marked ones first, then those without a Node, then by name.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams,
};
use kube::core::GroupVersionKind;
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};
use tokio::task::JoinSet;

pub(crate) const GROUP: &str = "cluster.x-k8s.io";
const INFRASTRUCTURE: &str = "infrastructure.cluster.x-k8s.io";
const REVISION: &str = "machinedeployment.clusters.x-k8s.io/revision";
const FINALIZER: &str = "machine.cluster.x-k8s.io";

/// What the stand-in does differently.
#[derive(Clone, Copy, Default)]
pub(crate) struct Switches {
    /// No machine gets a Node.
    pub(crate) never_a_node: bool,
    /// Every new machine fails.
    pub(crate) fails: bool,
    /// Older MachineSets keep their machines.
    pub(crate) holds_rollouts: bool,
}

/// The running stand-in. It ends with this.
pub(crate) struct StandIn {
    switches: Arc<Mutex<Switches>>,
    _task: JoinSet<()>,
}

impl StandIn {
    pub(crate) fn start(parts: Parts) -> Self {
        let switches: Arc<Mutex<Switches>> = Arc::default();
        let (mut task, shared) = (JoinSet::new(), Arc::clone(&switches));
        task.spawn(async move {
            loop {
                // What fails now is done in the next round.
                let _ = parts.round(&shared).await;
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        });
        Self { switches, _task: task }
    }

    pub(crate) fn switch(&self, switches: Switches) {
        *self.switches.lock().unwrap() = switches;
    }
}

/// The clusters, and the namespace and version of the objects.
#[derive(Clone)]
pub(crate) struct Parts {
    pub(crate) management: Client,
    pub(crate) workload: Client,
    pub(crate) namespace: String,
    pub(crate) version: &'static str,
    /// The labels of nodes.
    pub(crate) labels: Value,
}

impl Parts {
    pub(crate) fn api(&self, kind: &str) -> Api<DynamicObject> {
        let group = if kind.starts_with("Test") { INFRASTRUCTURE } else { GROUP };
        let version = if kind.starts_with("Test") { "v1" } else { self.version };
        let resource = ApiResource::from_gvk_with_plural(
            &GroupVersionKind::gvk(group, version, kind),
            &format!("{}s", kind.to_lowercase()),
        );
        Api::namespaced_with(self.management.clone(), &self.namespace, &resource)
    }

    pub(crate) fn nodes(&self) -> Api<Node> {
        Api::all(self.workload.clone())
    }

    /// Creates an object.
    pub(crate) async fn create(&self, kind: &str, metadata: Value, spec: Value) -> DynamicObject {
        let group = if kind.starts_with("Test") { INFRASTRUCTURE } else { GROUP };
        let version = if kind.starts_with("Test") { "v1" } else { self.version };
        let object = json!({"apiVersion": format!("{group}/{version}"), "kind": kind, "metadata": metadata, "spec": spec});
        let object = serde_json::from_value(object).unwrap();
        self.api(kind).create(&PostParams::default(), &object).await.unwrap()
    }

    pub(crate) async fn merge(&self, kind: &str, name: &str, change: Value) -> kube::Result<()> {
        let patch = Patch::Merge(change);
        self.api(kind).patch(name, &PatchParams::default(), &patch).await.map(drop)
    }

    pub(crate) async fn status(&self, kind: &str, name: &str, status: Value) -> kube::Result<()> {
        let patch = Patch::Merge(json!({"status": status}));
        self.api(kind).patch_status(name, &PatchParams::default(), &patch).await.map(drop)
    }

    pub(crate) async fn list(&self, kind: &str) -> kube::Result<Vec<DynamicObject>> {
        Ok(self.api(kind).list(&ListParams::default()).await?.items)
    }

    async fn round(&self, switches: &Mutex<Switches>) -> kube::Result<()> {
        for deployment in self.list("MachineDeployment").await? {
            // Read after the object, so that a change of it after a switch was set never meets the switch as it was before.
            let switches = *switches.lock().unwrap();
            self.deployment(&deployment, switches).await?;
        }
        for set in self.list("MachineSet").await? {
            self.set(&set).await?;
        }
        for machine in self.list("Machine").await? {
            let switches = *switches.lock().unwrap();
            self.machine(&machine, switches).await?;
        }
        for pool in self.list("MachinePool").await? {
            self.pool(&pool).await?;
        }
        Ok(())
    }

    /// Moves all replicas to the newest template.
    async fn deployment(&self, deployment: &DynamicObject, switches: Switches) -> kube::Result<()> {
        let (name, wanted) = (deployment.name_any(), &deployment.data["spec"]["replicas"]);
        let template = &deployment.data["spec"]["template"];
        let sets = self.list("MachineSet").await?;
        let own = || sets.iter().filter(|set| owner(set) == Some(&name));
        if !own().any(|set| set.data["spec"]["template"] == *template) {
            let revision = (own().count() + 1).to_string();
            let metadata = json!({
                "name": format!("{name}-{revision}"), "annotations": {REVISION: revision},
                "labels": {format!("{GROUP}/deployment-name"): name}, "ownerReferences": [reference(deployment)],
            });
            let spec = json!({"replicas": wanted, "template": template});
            self.create("MachineSet", metadata, spec).await;
        }
        let mut replicas = 0;
        for set in own() {
            replicas += set.data["status"]["replicas"].as_u64().unwrap_or(0);
            let is_newest = set.data["spec"]["template"] == *template;
            let to = if is_newest { wanted.clone() } else { json!(0) };
            let is_held = !is_newest && switches.holds_rollouts;
            if set.data["spec"]["replicas"] != to && !is_held {
                self.merge("MachineSet", &set.name_any(), json!({"spec": {"replicas": to}}))
                    .await?;
            }
        }
        self.status("MachineDeployment", &name, json!({"replicas": replicas})).await
    }

    async fn set(&self, set: &DynamicObject) -> kube::Result<()> {
        let (name, mut machines) = (set.name_any(), self.list("Machine").await?);
        machines.retain(|machine| owner(machine) == Some(&name));
        let wanted = set.data["spec"]["replicas"].as_u64().unwrap_or(0) as usize;
        let all = machines.len();
        for _ in all..wanted {
            let metadata = json!({
                "generateName": format!("{name}-"), "finalizers": [FINALIZER], "ownerReferences": [reference(set)],
            });
            self.create("Machine", metadata, json!({"clusterName": "c"})).await;
        }
        machines.sort_by_key(|machine| (std::cmp::Reverse(priority(machine)), machine.name_any()));
        for machine in machines.iter().take(all.saturating_sub(wanted)) {
            self.api("Machine").delete(&machine.name_any(), &DeleteParams::default()).await?;
        }
        self.status("MachineSet", &name, json!({"replicas": all})).await
    }

    async fn machine(&self, machine: &DynamicObject, switches: Switches) -> kube::Result<()> {
        let name = machine.name_any();
        let id = format!("test://{}/{name}", self.namespace);
        if machine.metadata.deletion_timestamp.is_some() {
            let _ = self.nodes().delete(&name, &DeleteParams::default()).await;
            let change = json!({"metadata": {"finalizers": null}});
            return self.merge("Machine", &name, change).await;
        }
        let is_done = !machine.data["status"]["phase"].is_null();
        if is_done || switches.never_a_node {
            return Ok(());
        }
        if switches.fails {
            let failure = json!({"failureMessage": "no quota"});
            let status = match self.version {
                "v1beta1" => json!({"phase": "Failed", "failureMessage": "no quota"}),
                _ => json!({"phase": "Failed", "deprecated": {"v1beta1": failure}}),
            };
            return self.status("Machine", &name, status).await;
        }
        self.merge("Machine", &name, json!({"spec": {"providerID": id}})).await?;
        self.node(&name, &id).await?;
        let node = match self.version {
            "v1beta1" => json!({"apiVersion": "v1", "kind": "Node", "name": name}),
            _ => json!({"name": name}),
        };
        self.status("Machine", &name, json!({"phase": "Running", "nodeRef": node})).await
    }

    /// Brings the list of a pool to its size. Of too many machines the first one goes, whatever was asked for.
    async fn pool(&self, pool: &DynamicObject) -> kube::Result<()> {
        let name = pool.name_any();
        let Some(wanted) = pool.data["spec"]["replicas"].as_u64() else { return Ok(()) };
        let present = pool.data["spec"]["providerIDList"].as_array().cloned().unwrap_or_default();
        let last = present.iter().filter_map(|id| id.as_str()?.rsplit('-').next()?.parse().ok());
        let next: u64 = last.max().map_or(0, |last: u64| last + 1);
        let mut list = present.clone();
        for number in 0..wanted.saturating_sub(present.len() as u64) {
            let node = format!("{}-{name}-{}", self.namespace, next + number);
            let id = format!("test://pool/{node}");
            self.node(&node, &id).await?;
            list.push(json!(id));
        }
        while list.len() as u64 > wanted {
            let gone = list.remove(0);
            let node = gone.as_str().unwrap().rsplit('/').next().unwrap().to_owned();
            let _ = self.nodes().delete(&node, &DeleteParams::default()).await;
        }
        if list != present {
            self.merge("MachinePool", &name, json!({"spec": {"providerIDList": list}})).await?;
        }
        Ok(())
    }

    async fn node(&self, name: &str, id: &str) -> kube::Result<()> {
        let annotations = json!({format!("{GROUP}/machine"): name, format!("{GROUP}/cluster-namespace"): self.namespace});
        let capacity = json!({"cpu": "4", "memory": "16Gi", "pods": "20"});
        let ready = json!({"type": "Ready", "status": "True", "reason": "KubeletReady",
                           "lastTransitionTime": "2026-01-01T00:00:00Z", "lastHeartbeatTime": "2026-01-01T00:00:00Z"});
        let node = json!({
            "metadata": {"name": name, "labels": self.labels, "annotations": annotations}, "spec": {"providerID": id},
            "status": {"capacity": capacity, "allocatable": capacity, "conditions": [ready]},
        });
        let node = serde_json::from_value(node).unwrap();
        match self.nodes().create(&PostParams::default(), &node).await {
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
            outcome => outcome.map(drop),
        }
    }
}

fn reference(owner: &DynamicObject) -> Value {
    let types = owner.types.clone().unwrap();
    json!({"apiVersion": types.api_version, "kind": types.kind, "name": owner.name_any(), "uid": owner.uid(), "controller": true})
}

fn owner(object: &DynamicObject) -> Option<&String> {
    Some(&object.metadata.owner_references.as_ref()?.first()?.name)
}

/// Returns Cluster API's priority of deletion.
fn priority(machine: &DynamicObject) -> u32 {
    let is_marked = machine.annotations().contains_key(&format!("{GROUP}/delete-machine"));
    if machine.metadata.deletion_timestamp.is_some() {
        100
    } else if is_marked {
        80
    } else if machine.data["status"]["nodeRef"].is_null() {
        50
    } else {
        0
    }
}

/// Makes the kinds known, in both versions.
pub(crate) async fn define_kinds(client: &Client) {
    let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
    for kind in ["MachineDeployment", "MachineSet", "MachinePool", "Machine", "TestMachineTemplate"]
    {
        let is_infrastructure = kind.starts_with("Test");
        let group = if is_infrastructure { "infrastructure.cluster.x-k8s.io" } else { GROUP };
        let served: &[&str] = if is_infrastructure { &["v1"] } else { &["v1beta1", "v1beta2"] };
        let mut subresources = json!({"status": {}});
        if !matches!(kind, "Machine" | "TestMachineTemplate") {
            subresources["scale"] = json!({"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"});
        }
        let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
        let version = |name: &&str| {
            json!({
                "name": name, "served": true, "storage": Some(name) == served.last(),
                "schema": schema, "subresources": subresources,
            })
        };
        let plural = format!("{}s", kind.to_lowercase());
        let name = format!("{plural}.{group}");
        let crd = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": name},
            "spec": {"group": group, "scope": "Namespaced", "names": {"kind": kind, "plural": plural, "listKind": format!("{kind}List")},
                     "versions": served.iter().map(version).collect::<Vec<_>>()},
        });
        let apply = PatchParams::apply("plimsoll-tests").force();
        crds.patch(&name, &apply, &Patch::Apply(&crd)).await.unwrap();
    }
    for _ in 0..600 {
        let all = crds.list(&ListParams::default()).await.unwrap();
        let is_established = |crd: &CustomResourceDefinition| {
            let conditions =
                crd.status.iter().flat_map(|status| status.conditions.iter().flatten());
            conditions.clone().any(|it| it.type_ == "Established" && it.status == "True")
        };
        let own = all.iter().filter(|crd| crd.spec.group.ends_with(GROUP) && is_established(crd));
        if own.count() == 5 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("the kinds are not served");
}
