//! Events and states as a real kubelet reports them.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Event, Node, Pod};
use kube::api::{Api, DeleteParams, ListParams};
use kubelet::Local;
use serde_json::json;

use super::{Machine, local, machine, shell};

/// Waits for an event about a pod with a reason, and returns it.
async fn event(machine: &Machine, pod: &str, reason: &str) -> Event {
    let events: Api<Event> = Api::default_namespaced(machine.client.clone());
    let about = ListParams::default().fields(&format!("involvedObject.name={pod},reason={reason}"));
    for _ in 0..1200 {
        if let Some(event) = events.list(&about).await.unwrap().items.pop() {
            return event;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("no event {reason} about {pod}");
}

#[tokio::test]
async fn events_name_the_kubelet_its_host_and_the_container() {
    let machine = machine(local()).await;
    machine.create("a", json!({"containers": [shell("c", "exec sleep 1000")]})).await;
    machine.until_phase("a", "Running").await;
    machine.pods().delete("a", &DeleteParams::default()).await.unwrap();
    for (reason, message) in [
        ("Created", "Container created"),
        ("Started", "Container started"),
        ("Killing", "Stopping container c"),
    ] {
        let event = event(&machine, "a", reason).await;
        assert_eq!(event.message.as_deref(), Some(message));
        assert_eq!(event.type_.as_deref(), Some("Normal"));
        let source = event.source.unwrap();
        assert_eq!(source.component.as_deref(), Some("kubelet"));
        assert_eq!(source.host.as_deref(), Some("local"));
        assert_eq!(event.involved_object.field_path.as_deref(), Some("spec.containers{c}"));
    }
}

#[tokio::test]
async fn a_container_that_keeps_failing_backs_off_and_its_last_run_is_shown() {
    let machine = machine(Local { restart_after: Duration::from_secs(10), ..local() }).await;
    machine.create("a", json!({"containers": [shell("c", "exit 3")]})).await;
    let backs_off = |pod: &Pod| {
        let statuses = pod.status.as_ref().and_then(|status| status.container_statuses.as_ref());
        let state = statuses.and_then(|statuses| statuses[0].state.as_ref());
        let waiting = state.and_then(|state| state.waiting.as_ref());
        waiting.is_some_and(|waiting| waiting.reason.as_deref() == Some("CrashLoopBackOff"))
    };
    let pod = machine.until("a", "backed off", backs_off).await;
    let long_name = format!("a_default({})", pod.metadata.uid.as_deref().unwrap());
    assert_eq!(super::phase(&pod), "Running");
    let status = pod.status.unwrap().container_statuses.unwrap().remove(0);
    let message = status.state.unwrap().waiting.unwrap().message.unwrap();
    let expected = format!("back-off 10s restarting failed container=c pod={long_name}");
    assert_eq!(message, expected);
    assert_eq!(status.restart_count, 1, "the first restart comes at once");
    let last = status.last_state.unwrap().terminated.unwrap();
    assert_eq!((last.exit_code, last.reason.as_deref()), (3, Some("Error")));
    assert_eq!(last.container_id, status.container_id);
    let event = event(&machine, "a", "BackOff").await;
    let expected = format!("Back-off restarting failed container c in pod {long_name}");
    assert_eq!(
        (event.message.as_deref(), event.type_.as_deref()),
        (Some(&*expected), Some("Warning"))
    );
}

#[tokio::test]
async fn a_pod_that_waits_for_its_init_containers_reports_it() {
    let machine = machine(local()).await;
    let spec = json!({
        "initContainers": [shell("first", "exec sleep 1000")], "containers": [shell("main", "true")],
    });
    machine.create("a", spec).await;
    let has_status =
        |pod: &Pod| pod.status.as_ref().is_some_and(|s| s.container_statuses.is_some());
    let status = machine.until("a", "had a status", has_status).await.status.unwrap();
    let waiting = status.container_statuses.unwrap().remove(0).state.unwrap().waiting.unwrap();
    assert_eq!(waiting.reason.as_deref(), Some("PodInitializing"));
    let conditions = status.conditions.unwrap();
    let initialized = conditions.iter().find(|c| c.type_ == "Initialized").unwrap();
    assert_eq!(initialized.status, "False");
    let message = initialized.message.as_deref();
    assert_eq!(message, Some("containers with incomplete status: [first]"));
}

#[tokio::test]
async fn a_container_whose_configuration_is_missing_waits_for_it() {
    let machine = machine(local()).await;
    let mut container = shell("c", "true");
    container["envFrom"] = json!([{"configMapRef": {"name": "absent"}}]);
    machine.create("a", json!({"containers": [container]})).await;
    let event = event(&machine, "a", "Failed").await;
    assert_eq!(event.message.as_deref(), Some("Error: configmap \"absent\" not found"));
    let waits = |pod: &Pod| {
        let statuses = pod.status.as_ref().and_then(|status| status.container_statuses.as_ref());
        let state = statuses.and_then(|statuses| statuses[0].state.as_ref());
        let reason = state.and_then(|state| state.waiting.as_ref()?.reason.as_deref());
        reason == Some("CreateContainerConfigError")
    };
    machine.until("a", "waited", waits).await;
}

#[tokio::test]
async fn the_node_is_ready_and_its_lease_is_held() {
    let machine = machine(local()).await;
    let nodes: Api<Node> = Api::all(machine.client.clone());
    let node = nodes.get("local").await.unwrap();
    let conditions = node.status.as_ref().unwrap().conditions.clone().unwrap();
    assert!(conditions.iter().any(|c| c.type_ == "Ready" && c.status == "True"));
    let leases: Api<Lease> = Api::namespaced(machine.client.clone(), "kube-node-lease");
    let lease = loop {
        match leases.get_opt("local").await.unwrap() {
            Some(lease) => break lease,
            None => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    };
    assert_eq!(lease.spec.unwrap().holder_identity.as_deref(), Some("local"));
    let owner = lease.metadata.owner_references.unwrap().remove(0);
    assert_eq!(Some(owner.uid), node.metadata.uid);
}
