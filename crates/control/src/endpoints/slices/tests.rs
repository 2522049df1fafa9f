use serde_json::{Value, json};

use super::*;
use crate::endpoints::legacy;

fn service(change: Value) -> Service {
    let mut object = json!({
        "metadata": {"name": "web", "namespace": "default", "uid": "s", "labels": {"tier": "front"}},
        "spec": {
            "clusterIP": "10.96.0.7",
            "selector": {"app": "web"},
            "ports": [{"name": "http", "port": 80, "targetPort": "http", "protocol": "TCP"}],
        },
    });
    for (field, value) in change.as_object().unwrap() {
        object["spec"][field] = value.clone();
    }
    serde_json::from_value(object).unwrap()
}

fn pod(number: usize, port: i32, change: Value) -> Arc<EndpointPod> {
    let mut object = json!({
        "metadata": {
            "name": format!("web-{number:03}"), "namespace": "default", "uid": format!("u{number}"),
            "labels": {"app": "web"},
        },
        "spec": {
            "nodeName": "local",
            "containers": [{"ports": [{"name": "http", "containerPort": port, "protocol": "TCP"}]}],
        },
        "status": {
            "phase": "Running", "podIP": format!("10.0.{}.{}", number / 250, number % 250),
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    });
    for (path, value) in change.as_object().unwrap() {
        *object.pointer_mut(path).unwrap() = value.clone();
    }
    Arc::new(serde_json::from_value(object).unwrap())
}

fn unready() -> Value {
    json!({"/status/conditions": [{"type": "Ready", "status": "False"}]})
}

fn terminating() -> Value {
    let meta = json!({
        "name": "web-002", "namespace": "default", "uid": "u2", "labels": {"app": "web"},
        "deletionTimestamp": "2026-01-01T00:00:00Z",
    });
    json!({"/metadata": meta})
}

/// Returns (ready, serving, terminating) of each endpoint.
fn conditions(slice: &EndpointSlice) -> Vec<(bool, bool, bool)> {
    let all = endpoints_of(slice).iter().filter_map(|endpoint| endpoint.conditions.as_ref());
    all.map(|c| (c.ready == Some(true), c.serving == Some(true), c.terminating == Some(true)))
        .collect()
}

fn endpoints_of(slice: &EndpointSlice) -> &[Endpoint] {
    slice.endpoints.as_deref().unwrap_or_default()
}

/// Stores what a plan creates, as the API server would.
fn stored(plan: SlicePlan) -> Vec<EndpointSlice> {
    let slices = plan.create.into_iter().enumerate().map(|(number, mut slice)| {
        slice.metadata.name = Some(format!("web-{number}"));
        slice.metadata.uid = Some(format!("slice-{number}"));
        slice
    });
    slices.collect()
}

#[test]
fn conditions_distinguish_ready_unready_and_terminating_pods() {
    let pods = [pod(0, 8080, json!({})), pod(1, 8080, unready()), pod(2, 8080, terminating())];
    let plan_of = |service: &Service| plan(service, &pods, &[]).create.remove(0);
    let slice = plan_of(&service(json!({})));
    let expected = [(true, true, false), (false, false, false), (false, true, true)];
    assert_eq!(conditions(&slice), expected);
    let slice = plan_of(&service(json!({"publishNotReadyAddresses": true})));
    let expected = [(true, true, false), (true, false, false), (true, true, true)];
    assert_eq!(conditions(&slice), expected);
    let endpoint = &endpoints_of(&slice)[0];
    assert_eq!(endpoint.node_name.as_deref(), Some("local"));
    let target = endpoint.target_ref.as_ref().unwrap();
    assert_eq!(
        (target.kind.as_deref(), target.name.as_deref(), target.uid.as_deref()),
        (Some("Pod"), Some("web-000"), Some("u0"))
    );
}

#[test]
fn pods_that_have_ended_or_have_no_address_are_no_endpoints() {
    let ended = ["Succeeded", "Failed"].map(|phase| pod(0, 8080, json!({"/status/phase": phase})));
    let pods = [&ended[..], &[pod(1, 8080, json!({"/status/podIP": ""}))]].concat();
    let plan = plan(&service(json!({})), &pods, &[]);
    assert_eq!(plan.create.len(), 1, "a Service always has a slice");
    assert!(endpoints_of(&plan.create[0]).is_empty() && plan.create[0].ports.is_none());
}

#[test]
fn a_slice_names_its_service_its_controller_and_its_owner() {
    let slice = plan(&service(json!({})), &[], &[]).create.remove(0);
    let labels = slice.metadata.labels.unwrap();
    let expected = [(MANAGED_BY_LABEL, MANAGED_BY), (SERVICE_LABEL, "web"), ("tier", "front")];
    assert_eq!(labels.iter().map(|(k, v)| (&**k, &**v)).collect::<Vec<_>>(), expected);
    let owner = &slice.metadata.owner_references.unwrap()[0];
    assert_eq!((&*owner.kind, &*owner.uid, owner.controller), ("Service", "s", Some(true)));
    let headless = plan(&service(json!({"clusterIP": "None"})), &[], &[]).create.remove(0);
    assert!(headless.metadata.labels.unwrap().contains_key(HEADLESS_LABEL));
}

#[test]
fn pods_are_grouped_by_the_numbers_of_named_ports() {
    let pods = [pod(0, 8080, json!({})), pod(1, 9090, json!({})), pod(2, 8080, json!({}))];
    let slices = plan(&service(json!({})), &pods, &[]).create;
    let found: Vec<_> =
        slices.iter().map(|s| (ports_of(s)[0].port, endpoints_of(s).len())).collect();
    assert_eq!(found, [(8080, 2), (9090, 1)]);
    let endpoints = legacy::endpoints(&service(json!({})), &pods);
    let subsets = endpoints.subsets.unwrap();
    let found: Vec<_> = subsets
        .iter()
        .map(|s| (s.ports.as_ref().unwrap()[0].port, s.addresses.as_ref().unwrap().len()))
        .collect();
    assert_eq!(found, [(8080, 2), (9090, 1)]);
}

#[test]
fn a_slice_has_at_most_a_hundred_endpoints_and_each_stays_in_its_own() {
    let service = service(json!({}));
    let pods: Vec<_> = (0..250).map(|number| pod(number, 8080, json!({}))).collect();
    let existing = stored(plan(&service, &pods, &[]));
    let sizes: Vec<_> = existing.iter().map(|slice| endpoints_of(slice).len()).collect();
    assert_eq!(sizes, [100, 100, 50]);
    let same = plan(&service, &pods, &existing);
    assert!(same.create.is_empty() && same.replace.is_empty() && same.delete.is_empty());

    let mut fewer = pods.clone();
    fewer.remove(120);
    fewer.push(pod(300, 8080, json!({})));
    let moved = plan(&service, &fewer, &existing);
    assert!(moved.create.is_empty() && moved.delete.is_empty());
    assert_eq!(moved.replace.len(), 1, "the new endpoint takes the place of the old one");
    assert_eq!(moved.replace[0].metadata.name.as_deref(), Some("web-1"));

    let few = plan(&service, &pods[..10], &existing);
    assert_eq!((few.replace.len(), few.delete.len()), (1, 2));
    let none = plan(&service, &[], &existing);
    assert_eq!((none.replace.len(), none.delete.len()), (1, 2), "an empty slice is kept");
}

#[test]
fn a_change_of_a_port_moves_endpoints_to_another_slice() {
    let before = service(json!({}));
    let pods = [pod(0, 8080, json!({}))];
    let existing = stored(plan(&before, &pods, &[]));
    let after = service(json!({"ports": [{"name": "http", "port": 80, "targetPort": 9999}]}));
    let plan = plan(&after, &pods, &existing);
    assert_eq!((plan.create.len(), plan.replace.len(), plan.delete.len()), (1, 0, 1));
    assert_eq!(ports_of(&plan.create[0])[0].port, 9999);
}

#[test]
fn endpoints_list_unready_pods_apart_and_leave_terminating_ones_out() {
    let pods = [pod(0, 8080, json!({})), pod(1, 8080, unready()), pod(2, 8080, terminating())];
    let names = |list: Option<Vec<k8s_openapi::api::core::v1::EndpointAddress>>| -> Vec<String> {
        let all = list.unwrap_or_default().into_iter();
        all.filter_map(|address| address.target_ref?.name).collect()
    };
    let subset = legacy::endpoints(&service(json!({})), &pods).subsets.unwrap().remove(0);
    assert_eq!(names(subset.addresses), ["web-000"]);
    assert_eq!(names(subset.not_ready_addresses), ["web-001"]);
    let published = service(json!({"publishNotReadyAddresses": true}));
    let subset = legacy::endpoints(&published, &pods).subsets.unwrap().remove(0);
    assert_eq!(names(subset.addresses), ["web-000", "web-001", "web-002"]);
    let headless = service(json!({"clusterIP": "None", "ports": null}));
    let subset = legacy::endpoints(&headless, &pods[..1]).subsets.unwrap().remove(0);
    assert_eq!((names(subset.addresses), subset.ports), (vec!["web-000".to_owned()], None));
}
