//! The kubelet as a client of a real API server.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Pod, ServiceAccount, Taint};
use kube::Client;
use kube::api::{Api, DeleteParams, PostParams};
use kubelet::{Context, Local, Settings};
use process::{Clock, Random, Supervisor};
use serde_json::json;

use super::{local, phase, shell, states};
use crate::real_client;

/// Creates a pod, as soon as its namespace has the account that pods need.
async fn create(pods: &Api<Pod>, pod: &Pod) {
    for _ in 0..600 {
        match pods.create(&PostParams::default(), pod).await {
            Ok(_) => return,
            Err(kube::Error::Api(status)) if status.code == 403 => {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            Err(other) => panic!("{other}"),
        }
    }
    panic!("the pod is forbidden");
}

async fn until(pods: &Api<Pod>, name: &str, wanted: &str) -> Pod {
    for _ in 0..1200 {
        if let Some(pod) = pods.get_opt(name).await.unwrap()
            && phase(&pod) == wanted
        {
            return pod;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("{name} is not {wanted}: {:#?}", pods.get_opt(name).await.unwrap());
}

async fn until_gone(pods: &Api<Pod>, name: &str) {
    for _ in 0..1200 {
        if pods.get_opt(name).await.unwrap().is_none() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("{name} is still there");
}

fn pod(name: &str, node: &str, script: &str) -> Pod {
    let spec = json!({
        "nodeName": node, "restartPolicy": "Never", "automountServiceAccountToken": false,
        "terminationGracePeriodSeconds": 5, "tolerations": [{"operator": "Exists"}],
        "containers": [shell("c", script)],
    });
    serde_json::from_value(json!({"metadata": {"name": name}, "spec": spec})).unwrap()
}

/// Adds a volume with a token of the pod's account.
fn with_token(pod: &Pod) -> Pod {
    let mut pod = serde_json::to_value(pod).unwrap();
    let sources = json!([{"serviceAccountToken": {"path": "token", "expirationSeconds": 600}}]);
    pod["spec"]["volumes"] = json!([{"name": "t", "projected": {"sources": sources}}]);
    pod["spec"]["serviceAccountName"] = "default".into();
    let mount = json!({"name": "t", "mountPath": "/plimsoll-test-token"});
    pod["spec"]["containers"][0]["volumeMounts"] = json!([mount]);
    serde_json::from_value(pod).unwrap()
}

async fn check(client: &Client, node: &str) {
    let nodes: Api<Node> = Api::all(client.clone());
    let registered = nodes.get(node).await.unwrap();
    let conditions = registered.status.as_ref().unwrap().conditions.as_ref().unwrap();
    assert!(conditions.iter().any(|c| c.type_ == "Ready" && c.status == "True"), "{conditions:?}");
    let taints = registered.spec.as_ref().unwrap().taints.as_ref().unwrap();
    assert!(taints.iter().any(|taint| taint.key == "plimsoll.dev/test"), "{taints:?}");
    let leases: Api<Lease> = Api::namespaced(client.clone(), "kube-node-lease");
    while leases.get_opt(node).await.unwrap().is_none() {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }

    let pods: Api<Pod> = Api::namespaced(client.clone(), "default");
    // Where no controller creates it.
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), "default");
    let account = json!({"metadata": {"name": "default"}});
    let account = serde_json::from_value(account).unwrap();
    let _ = accounts.create(&PostParams::default(), &account).await;
    let (once, on) = (format!("{node}-once"), format!("{node}-on"));
    create(&pods, &with_token(&pod(&once, node, "test -s /plimsoll-test-token/token"))).await;
    let ended = until(&pods, &once, "Succeeded").await;
    assert_eq!(states(&ended)["c"], (Some(0), 0));
    let status = ended.status.unwrap();
    assert_eq!(status.host_ip.as_deref(), Some("127.0.0.1"));
    assert!(status.pod_ip.is_some() && status.start_time.is_some());
    let condition = |kind: &str| {
        let conditions = status.conditions.iter().flatten();
        conditions.into_iter().find(|c| c.type_ == kind).map(|c| (&*c.status, c.reason.as_deref()))
    };
    assert_eq!(condition("Ready"), Some(("False", Some("PodCompleted"))));
    assert_eq!(condition("Initialized"), Some(("True", None)));
    let terminated =
        status.container_statuses.unwrap().remove(0).state.unwrap().terminated.unwrap();
    assert_eq!(terminated.reason.as_deref(), Some("Completed"));
    pods.delete(&once, &DeleteParams::default()).await.unwrap();
    until_gone(&pods, &once).await;

    create(&pods, &pod(&on, node, "exec sleep 1000")).await;
    until(&pods, &on, "Running").await;
    pods.delete(&on, &DeleteParams::default()).await.unwrap();
    until_gone(&pods, &on).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_kubelet_runs_the_pods_of_its_node_on_a_real_cluster() {
    let Some(client) = real_client().await else { return };
    let random = Random::system();
    let node = format!("kubelet-{:08x}", random.u64() & 0xffff_ffff);
    let taint = Taint {
        key: "plimsoll.dev/test".to_owned(),
        effect: "NoSchedule".to_owned(),
        ..Taint::default()
    };
    // KWOK, which simulates other nodes of test clusters, ignores nodes with this label.
    let labels = [("plimsoll.dev/test-kubelet".to_owned(), "true".to_owned())].into();
    let local = Local { node: node.clone(), labels, taints: vec![taint], ..local() };
    let context = Context {
        client: client.clone(),
        clock: Clock::system(),
        random,
        supervisor: Supervisor::new(),
        identity: node.clone(),
    };
    let kubelet = kubelet::start(context, Settings { local: Some(local), simulated: None });
    let kubelet = kubelet.await.unwrap();
    let checked = process::catch_panic(check(&client, &node)).await;
    kubelet.stop(Duration::from_secs(1)).await;
    let nodes: Api<Node> = Api::all(client.clone());
    nodes.delete(&node, &DeleteParams::default()).await.unwrap();
    let leases: Api<Lease> = Api::namespaced(client, "kube-node-lease");
    let _ = leases.delete(&node, &DeleteParams::default()).await;
    if let Err(failure) = checked {
        panic!("{failure}");
    }
}
