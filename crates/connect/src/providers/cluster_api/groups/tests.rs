use serde_json::{Value, json};

use super::super::objects::{MACHINE_DEPLOYMENT, MACHINE_SET};
use super::*;
use crate::providers::InstanceError;

const REVISION: &str = "machinedeployment.clusters.x-k8s.io/revision";
const MAX: &str = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size";
const MIN: &str = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size";
const CPU: &str = "capacity.cluster-autoscaler.kubernetes.io/cpu";
const MEMORY: &str = "capacity.cluster-autoscaler.kubernetes.io/memory";

fn scalable(kind: &'static str, name: &str, annotations: Value, spec: Value) -> Scalable {
    let metadata = json!({"name": name, "namespace": "n", "uid": name, "annotations": annotations});
    let object = json!({"metadata": metadata, "spec": spec});
    Scalable { kind, ..serde_json::from_value(object).unwrap() }
}

fn deployment_of(name: &str, annotations: Value) -> Scalable {
    scalable(MACHINE_DEPLOYMENT, name, annotations, json!({"replicas": 2}))
}

/// A MachineSet of a MachineDeployment.
fn set(name: &str, deployment: &str, revision: &str, replicas: u32) -> Scalable {
    let mut set =
        scalable(MACHINE_SET, name, json!({REVISION: revision}), json!({"replicas": replicas}));
    let owners = json!([{"kind": MACHINE_DEPLOYMENT, "name": deployment}]);
    let metadata = json!({"namespace": "n", "name": name, "uid": name, "ownerReferences": owners,
                          "annotations": {REVISION: revision}});
    set.metadata = serde_json::from_value(metadata).unwrap();
    set
}

fn machine(name: &str, set: &str, rest: Value) -> Machine {
    let mut object = json!({"metadata": {
        "name": name, "namespace": "n", "uid": name, "ownerReferences": [{"kind": MACHINE_SET, "name": set}],
    }});
    for (key, value) in rest.as_object().unwrap() {
        match value.as_object().filter(|_| key == "metadata") {
            Some(more) => object["metadata"].as_object_mut().unwrap().extend(more.clone()),
            None => object[key] = value.clone(),
        }
    }
    serde_json::from_value(object).unwrap()
}

fn find(objects: &Objects, named: &[&str]) -> Vec<Group> {
    let settings = serde_json::from_value(json!({"discover": [{}]})).unwrap();
    let named = named.iter().map(|&id| id.to_owned()).collect();
    groups(objects, &settings, &named).into_iter().map(|found| found.group).collect()
}

#[test]
fn an_object_is_a_group_if_it_may_grow_and_nothing_pauses_it() {
    let from_zero =
        |annotations| scalable(MACHINE_DEPLOYMENT, "zero", annotations, json!({"replicas": 0}));
    for (object, is_group) in [
        (deployment_of("a", json!({MAX: "5"})), true),
        (deployment_of("a", json!({})), false),
        (deployment_of("a", json!({MAX: "0"})), false),
        (deployment_of("a", json!({MAX: "5", "cluster.x-k8s.io/paused": ""})), false),
        (from_zero(json!({MAX: "5"})), false),
        (from_zero(json!({MAX: "5", CPU: "1", MEMORY: "1Gi"})), true),
        (set("a", "owner", "1", 1), false),
    ] {
        let text = format!("{object:?}");
        let objects = Objects { scalables: vec![object], ..Objects::default() };
        assert_eq!(find(&objects, &[]).len(), usize::from(is_group), "{text}");
    }
}

#[test]
fn a_mistake_is_the_problem_of_its_own_group() {
    let scalables = vec![
        deployment_of("bad", json!({MAX: "many"})),
        deployment_of("crossed", json!({MIN: "3", MAX: "2"})),
        deployment_of("negative", json!({MIN: "-1", MAX: "2"})),
        scalable(MACHINE_POOL, "unset", json!({MAX: "2"}), json!({})),
        deployment_of("good", json!({MIN: "1", MAX: "5"})),
    ];
    let groups = find(&Objects { scalables, ..Objects::default() }, &[]);
    let found: Vec<_> = groups.iter().map(|it| (it.id.as_str(), it.problem.as_deref())).collect();
    let wanted = [
        (
            "MachineDeployment/n/bad",
            Some(format!("annotation {MAX}: `many` is not a whole number from 0")),
        ),
        (
            "MachineDeployment/n/crossed",
            Some(format!("annotation {MAX}: 2 is less than the min size, which is 3")),
        ),
        (
            "MachineDeployment/n/negative",
            Some(format!("annotation {MIN}: `-1` is not a whole number from 0")),
        ),
        (
            "MachinePool/n/unset",
            Some("spec.replicas: required; set it to the present number of machines".to_owned()),
        ),
        ("MachineDeployment/n/good", None),
    ];
    let wanted: Vec<_> = wanted.iter().map(|(id, problem)| (*id, problem.as_deref())).collect();
    assert_eq!(found, wanted);
    let sizes = |it: &Group| (it.min, it.max, it.target);
    let found: Vec<_> = groups.iter().map(sizes).collect();
    assert_eq!(found, [(2, 2, 2), (2, 2, 2), (2, 2, 2), (0, 2, 0), (1, 5, 2)]);
}

#[test]
fn a_named_group_needs_no_annotations_and_a_paused_one_has_no_nodes() {
    let paused = deployment_of("paused", json!({"cluster.x-k8s.io/paused": "true"}));
    let scalables = vec![
        deployment_of("plain", json!({})),
        paused,
        set("set", "paused", "1", 1),
        set("old", "plain", "1", 1),
    ];
    let machines = vec![machine(
        "m",
        "set",
        json!({"spec": {"providerID": "x://m"}, "status": {"nodeRef": {"name": "m"}}}),
    )];
    let objects = Objects { scalables, machines, ..Objects::default() };
    let found = find(
        &objects,
        &["MachineDeployment/n/plain", "MachineDeployment/n/paused", "MachineSet/n/old"],
    );
    let found: Vec<_> =
        found.iter().map(|it| (it.max, it.instances.len(), it.problem.as_deref())).collect();
    let wanted = [
        (UNLIMITED, 0, None),
        (UNLIMITED, 0, Some("it is paused: remove the annotation cluster.x-k8s.io/paused")),
        (UNLIMITED, 0, Some("it belongs to MachineDeployment plain; name that instead")),
    ];
    assert_eq!(found, wanted);
}

#[test]
fn the_state_of_a_machine_is_read_in_both_versions() {
    let failed = json!({"phase": "Failed", "failureMessage": "no quota"});
    let newer =
        json!({"phase": "Failed", "deprecated": {"v1beta1": {"failureMessage": "no quota"}}});
    let error = || {
        Some(InstanceError {
            is_out_of_resources: false,
            message: "Machine m: no quota".to_owned(),
        })
    };
    let going = json!({"deletionTimestamp": "2026-01-01T00:00:00Z"});
    let (creating, running, deleting) =
        (InstanceState::Creating, InstanceState::Running, InstanceState::Deleting);
    for (rest, id, state, error) in [
        (json!({}), "pending-machine-n_m", creating, None),
        (json!({"spec": {"providerID": "x://1"}}), "x://1", creating, None),
        (json!({"status": failed}), "failed-machine-n_m", creating, error()),
        (json!({"status": newer}), "failed-machine-n_m", creating, error()),
        // The message alone may be of a failure that passes.
        (json!({"status": {"failureMessage": "no quota"}}), "pending-machine-n_m", creating, None),
        (json!({"metadata": going}), "deleting-machine-n_m", deleting, None),
        (json!({"metadata": going, "status": failed}), "failed-machine-n_m", deleting, None),
        (
            json!({"spec": {"providerID": "x://1"}, "status": {"nodeRef": {"name": "n", "kind": "Node"}}}),
            "x://1",
            running,
            None,
        ),
        (
            json!({"spec": {"providerID": "x://1"},
                   "status": {"nodeRef": {"name": "n"}, "phase": "Failed", "failureMessage": "x"}}),
            "x://1",
            running,
            None,
        ),
    ] {
        let wanted = Instance { id: id.to_owned(), state, error };
        assert_eq!(instance(&machine("m", "s", rest.clone())), wanted, "{rest}");
    }
}

#[test]
fn a_deployment_rolls_out_while_an_older_set_has_machines() {
    let is_rolling_out = |sets: Vec<Scalable>| {
        let mut scalables = vec![deployment_of("d", json!({MAX: "5"}))];
        scalables.extend(sets);
        find(&Objects { scalables, ..Objects::default() }, &[])[0].is_rolling_out
    };
    assert!(!is_rolling_out(vec![set("a", "d", "1", 2)]));
    assert!(is_rolling_out(vec![set("a", "d", "9", 1), set("b", "d", "10", 1)]));
    assert!(!is_rolling_out(vec![set("a", "d", "9", 0), set("b", "d", "10", 2)]));
    let mut leaving = set("a", "d", "9", 0);
    leaving.status.replicas = Some(1);
    assert!(is_rolling_out(vec![leaving, set("b", "d", "10", 2)]));
}

#[test]
fn a_pool_has_the_instances_of_its_list_and_of_its_machines() {
    let spec = json!({"replicas": 3, "providerIDList": ["x://1", "x://2"]});
    let scalables = vec![scalable(MACHINE_POOL, "p", json!({MAX: "5"}), spec)];
    let owner = json!([{"kind": MACHINE_POOL, "name": "p"}]);
    let machines = vec![
        machine(
            "a",
            "",
            json!({"metadata": {"ownerReferences": owner}, "spec": {"providerID": "x://2"},
                                "status": {"nodeRef": {"name": "a"}}}),
        ),
        machine("b", "", json!({"metadata": {"ownerReferences": owner}})),
    ];
    let found = find(&Objects { scalables, machines, ..Objects::default() }, &[]);
    let mut instances: Vec<_> =
        found[0].instances.iter().map(|it| (it.id.as_str(), it.state)).collect();
    instances.sort_by_key(|(id, _)| *id);
    let wanted = [
        ("pending-machine-n_b", InstanceState::Creating),
        ("x://1", InstanceState::Running),
        ("x://2", InstanceState::Running),
    ];
    assert_eq!(instances, wanted);
}
