//! Granting rights, moving from Cluster Autoscaler and back, and fleets that opt out.

use serde_json::Value;

use crate::from_env;
use crate::kubectl::Up;
use crate::laptop::{Laptop, until};

use super::block;
use super::shell::{Shell, ok};

pub(super) const GRANT: &str = "plimsoll install --cluster-api";
pub(super) const FORTH: &str = "set image deployment/cluster-autoscaler";
pub(super) const BACK: &str = "rollout undo deployment/cluster-autoscaler";
pub(super) const OPT_OUT: &str = "plimsoll.dev/evacuation";

/// A Deployment of Cluster Autoscaler, as far as an image matters.
const DEPLOYMENT: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: cluster-autoscaler, namespace: kube-system}
spec:
  selector: {matchLabels: {app: cluster-autoscaler}}
  template:
    metadata: {labels: {app: cluster-autoscaler}}
    spec:
      terminationGracePeriodSeconds: 0
      containers: [{name: cluster-autoscaler, image: 'cluster-autoscaler:v1.36.1'}]
";

#[test]
fn an_image_is_changed_and_changed_back() {
    let Some(shell) = Shell::new() else { return };
    let Some(kubectl) = from_env("PLIMSOLL_TEST_KUBECTL") else { return };
    let up = Up::with(kubectl, &["--simulated-nodes", "1"]);
    up.write("deployment.yaml", DEPLOYMENT);
    up.ok(&["apply", "-f", "deployment.yaml"], &["created"]);
    let runs = |image: &str| {
        let of = ["-n", "kube-system", "deployment/cluster-autoscaler"];
        up.ok(&[&["rollout", "status", "--timeout=60s"], &of[..]].concat(), &["rolled out"]);
        let pods = ["get", "pods", "-n", "kube-system", "-l", "app=cluster-autoscaler"];
        let images = "--output=jsonpath={.items[*].spec.containers[0].image}";
        up.ok(&[&pods[..], &[images]].concat(), &[image]);
    };
    runs("cluster-autoscaler:v1.36.1");
    let line = block("sh", FORTH).replace("=IMAGE", "=plimsoll:1");
    let printed = ok(up.connect(shell.command(&line)));
    assert!(printed.contains("image updated"), "{printed}");
    runs("plimsoll:1");
    let printed = ok(up.connect(shell.command(&block("sh", BACK))));
    assert!(printed.contains("rolled back"), "{printed}");
    runs("cluster-autoscaler:v1.36.1");
}

#[test]
fn access_to_cluster_api_is_granted() {
    let Some(shell) = Shell::new() else { return };
    let Some(kubectl) = from_env("PLIMSOLL_TEST_KUBECTL") else { return };
    // Here the kinds are there from the start. On a cluster, the earlier ones are from `kubectl apply` as well.
    shell.define("kubectl", &format!("exec {} \"$@\" --force-conflicts", kubectl.display()));
    let up = Up::with(kubectl, &["--api-only"]);
    let printed = ok(up.connect(shell.command(&block("sh", GRANT))));
    let role = "clusterrole.rbac.authorization.k8s.io/plimsoll-cluster-api";
    assert!(printed.contains(&format!("{role} serverside-applied")), "{printed}");
    let rules =
        ["get", "clusterrole", "plimsoll-cluster-api", "-o", "jsonpath={.rules[*].resources}"];
    up.ok(&rules, &["machinedeployments/scale", "awsmachinetemplates"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fleet_opts_out_with_the_annotation_of_the_page() {
    let Some(shell) = Shell::new() else { return };
    let laptop = Laptop::start_with("nodes-live.yaml", |text| text.replace("battle", "arena"));
    shell.write("opt-out.yaml", &block("yaml", OPT_OUT));
    let apply = "kubectl apply --server-side --field-manager=page -f opt-out.yaml";
    ok(laptop.connect(shell.command(apply)));
    let annotated = async || {
        let printed = ok(laptop.connect(shell.command("kubectl get fleet arena -o json")));
        let fleet: Value = serde_json::from_str(&printed).unwrap();
        fleet["metadata"]["annotations"]["plimsoll.dev/evacuation"] == "false"
            && fleet["status"]["readyReplicas"].as_u64() >= Some(3)
    };
    until("the fleet runs with the annotation", annotated).await;
}
