//! `--cloud-provider=clusterapi`, with the stand-in for the controllers of Cluster API that the tests of the provider use.

#[allow(dead_code, reason = "the tests of the provider use all of it")]
#[path = "../../../../connect/tests/it/cluster_api/stand_in.rs"]
mod stand_in;

use kube::ResourceExt as _;
use serde_json::{Value, json};

use super::stage::Stage;
use super::{nodes_come_and_go, rights};
use crate::laptop::until;
use stand_in::{Parts, StandIn, define_kinds};

/// The objects and the stand-in. Machines that a failed test leaves are let go with this.
struct Site {
    parts: Parts,
    _stand_in: StandIn,
}

impl Site {
    async fn new(stage: &Stage) -> Self {
        define_kinds(&stage.client).await;
        let parts = Parts {
            management: stage.client.clone(),
            workload: stage.client.clone(),
            namespace: stage.name.clone(),
            version: "v1beta2",
            labels: json!({"stage": stage.name}),
        };
        let stand_in = StandIn::start(parts.clone());
        Self { parts, _stand_in: stand_in }
    }

    /// Creates a group of up to 3 machines with 4 cores, whose infrastructure template the program has no right to read.
    async fn deployment(&self, name: &str) {
        let annotations = json!({
            "cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size": "0",
            "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size": "3",
            "capacity.cluster-autoscaler.kubernetes.io/cpu": "4",
            "capacity.cluster-autoscaler.kubernetes.io/memory": "16Gi",
            "capacity.cluster-autoscaler.kubernetes.io/labels": format!("stage={}", self.parts.namespace),
        });
        let infrastructure = json!({
            "apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "TestMachineTemplate", "name": "small",
        });
        let template = json!({"spec": {"infrastructureRef": infrastructure}});
        let spec = json!({"replicas": 0, "clusterName": "c", "template": template});
        let metadata = json!({"name": name, "annotations": annotations});
        self.parts.create("MachineDeployment", metadata, spec).await;
    }

    async fn replicas(&self, name: &str) -> Value {
        let found = self.parts.api("MachineDeployment").get(name).await.unwrap();
        found.data["spec"]["replicas"].clone()
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        let parts = self.parts.clone();
        let let_go = async move {
            let _ =
                parts.merge("MachineDeployment", "pool", json!({"spec": {"replicas": 0}})).await;
            for machine in parts.list("Machine").await.unwrap_or_default() {
                let change = json!({"metadata": {"finalizers": null}});
                let _ = parts.merge("Machine", &machine.name_any(), change).await;
            }
        };
        tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(let_go));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_the_rights_of_the_helm_chart_pods_get_nodes_of_cluster_api_and_unneeded_ones_go() {
    let Some(stage) = Stage::new("ca-capi", &rights::cluster_api()).await else { return };
    let site = Site::new(&stage).await;
    site.deployment("pool").await;
    let discovery = format!("--node-group-auto-discovery=clusterapi:namespace={}", stage.name);
    let program = stage.start("one", &["--cloud-provider=clusterapi", &discovery]);
    nodes_come_and_go(&stage, &program).await;
    until("its machines are gone", async || site.parts.list("Machine").await.unwrap().is_empty())
        .await;
    assert_eq!(site.replicas("pool").await, 0);
    assert!(program.log().contains("could not list TestMachineTemplate"), "{}", program.log());
    assert_eq!(program.terminate().code(), Some(0));
    stage.assert_requests_are_those_of_a_cluster_autoscaler();
}
