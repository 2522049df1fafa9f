//! Decisions about nodes are those of Cluster Autoscaler, or better.

use std::fs;

use crate::plimsoll;
use crate::vectors::check;

#[test]
fn pods_fit_where_cluster_autoscaler_says() {
    check("nodes-predicates.jsonl", &[]);
}

#[test]
fn groups_grow_as_cluster_autoscaler_lets_them_or_by_less() {
    check("nodes-scaleup.jsonl", &[]);
}

#[test]
fn nodes_go_and_stay_as_cluster_autoscaler_says() {
    check("nodes-scaledown.jsonl", &[]);
}

#[test]
fn bad_objects_are_refused_by_their_field() {
    let folder = tempfile::tempdir().unwrap();
    for (text, wanted) in [
        (
            "apiVersion: plimsoll.dev/v1alpha1\nkind: NodeAutoscaler\nmetadata: {name: a}\nspec: {scaleDown: {unneededTime: 5m}}\n",
            "spec.scaleDown.unneededTime: unknown field, did you mean `",
        ),
        (
            "apiVersion: plimsoll.dev/v1alpha1\nkind: NodeGroup\nmetadata: {name: a}\nspec: {min: 3, max: 2}\n",
            "spec.max: 2 is less than min, which is 3",
        ),
        (
            "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: c, resources: {requests: {cpu: lots}}}]}\n",
            "spec.containers[0].resources.requests.cpu: `lots` is not a quantity",
        ),
        ("apiVersion: v1\nkind: Node\nmetadata: {name: [n]}\n", "metadata.name: invalid type"),
    ] {
        let path = folder.path().join("objects.yaml");
        fs::write(&path, text).unwrap();
        let done = plimsoll().args(["evaluate", "-f"]).arg(&path).output().unwrap();
        let said = String::from_utf8(done.stderr).unwrap();
        assert_eq!(done.status.code(), Some(2), "{said}");
        assert!(said.contains(wanted), "{said}");
    }
}
