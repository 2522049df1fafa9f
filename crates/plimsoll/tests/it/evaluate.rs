//! `evaluate` with invalid input, and with unusual but valid input.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Output;

use serde_json::{Value, json};

use crate::plimsoll;

fn evaluate(path: &Path) -> Output {
    plimsoll().args(["evaluate", "-o", "json", "-f"]).arg(path).output().unwrap()
}

/// Evaluates a file, and returns the names of the subjects of its decisions, or its error output.
fn judge(name: &str, text: impl AsRef<[u8]>) -> Result<Vec<Value>, String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    fs::write(&path, text).unwrap();
    let done = evaluate(&path);
    let stderr = String::from_utf8(done.stderr).unwrap();
    match done.status.code() {
        Some(0) => {
            let printed: Value = serde_json::from_slice(&done.stdout).unwrap();
            let decisions = printed["decisions"].as_array().unwrap();
            Ok(decisions.iter().map(|decision| decision["subject"]["name"].clone()).collect())
        }
        Some(2) => {
            let file = format!("{}: ", path.display());
            assert!(stderr.lines().all(|line| line.starts_with(&file)), "{stderr}");
            Err(stderr.replace(&file, ""))
        }
        other => panic!("{name} ends with {other:?}: {stderr}"),
    }
}

#[track_caller]
fn is_refused(name: &str, text: impl AsRef<[u8]>, wanted: &str) {
    let text = text.as_ref();
    let shown = String::from_utf8_lossy(&text[..text.len().min(2000)]).into_owned();
    let stderr = judge(name, text).expect_err(&shown);
    assert!(stderr.contains(wanted), "{shown}\nis refused without `{wanted}`:\n{stderr}");
}

#[test]
fn problems_name_file_document_and_field() {
    is_refused("a.yaml", "kind: [\n", "document 1: kind");
    is_refused("a.yaml", "kind: [\n", "not YAML");
    is_refused("b.json", "{", "not JSON");
    is_refused("c.yaml", "a: 1\n---\n7\n", "document 1: kind: required");
    is_refused("c.yaml", "kind: ConfigMap\n---\n7\n", "document 2: expected an object");
    is_refused("d.json", "{\"kind\": 1}", "document 1: kind: required");
    is_refused("d.json", "", "not JSON");
    let list = json!({"apiVersion": "v1", "kind": "List", "items": [{"kind": "List", "apiVersion": "v1",
        "items": [{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a", "nmae": "b"}}]}]});
    is_refused(
        "e.json",
        list.to_string(),
        "document 1: items[0].items[0].metadata.nmae: unknown field",
    );
}

#[test]
fn a_key_that_stands_twice_is_refused() {
    let yaml = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n  name: b\n";
    is_refused("a.yaml", yaml, "document 1: metadata.name: duplicate key at line 5");
    is_refused("a.yaml", format!("{yaml}---\n{yaml}"), "document 2: metadata.name: duplicate key");
    let json =
        r#"{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "metadata": {}}"#;
    is_refused("a.json", json, "document 1: metadata: duplicate key at line 1");
    let list = r#"{"kind": "List", "apiVersion": "v1", "items": [{"kind": "Node"}, {"data": {"a": "1", "a": "1"}}]}"#;
    is_refused("a.json", list, "document 1: items[1].data.a: duplicate key");
    is_refused("a.json", r#"{"kind": "List", "items": [], "items": []}"#, "items: duplicate key");
}

/// Returns an object named `a`, with more fields or others.
fn object(api_version: &str, kind: &str, rest: &Value) -> String {
    let mut object = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "a"}});
    object.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
    object.to_string()
}

#[test]
fn input_that_the_api_rejects_is_rejected() {
    let containers = json!([{"name": "c", "image": "i"}]);
    for (api_version, kind, rest, wanted) in [
        (
            "agones.dev/v2",
            "Fleet",
            json!({}),
            "apiVersion: `agones.dev/v2` has no Fleet; expected agones.dev/v1",
        ),
        ("policy/v1beta1", "PodDisruptionBudget", json!({}), "apiVersion: `policy/v1beta1` has no"),
        ("plimsoll.dev/v1alpha1", "ScalingPolcy", json!({}), "did you mean `ScalingPolicy`?"),
        ("v1", "Node", json!({"metadata": {"name": "Not_A_Name"}}), "metadata.name: Invalid value"),
        (
            "agones.dev/v1",
            "Fleet",
            json!({"metadata": {"name": "Not_A_Name"}}),
            "metadata.name: Invalid value",
        ),
        (
            "v1",
            "Node",
            json!({"spec": {"taints": [{"key": "k", "effect": "NoSchedul"}]}}),
            "effect: Unsupported value: \"NoSchedul\"",
        ),
        (
            "v1",
            "Pod",
            json!({"spec": {"containers": containers, "restartPolicy": "Alway"}}),
            "spec.restartPolicy: Unsupported value: \"Alway\"",
        ),
        (
            "v1",
            "Pod",
            json!({"spec": {"containers": containers}, "status": {"phase": "Runing"}}),
            "status.phase: Unsupported value: \"Runing\"",
        ),
        ("v1", "Pod", json!({"spec": {"container": containers}}), "spec.container: unknown field"),
        (
            "policy/v1",
            "PodDisruptionBudget",
            json!({"spec": {"unhealthyPodEvictionPolicy": "Always"}}),
            "spec.unhealthyPodEvictionPolicy: Unsupported value",
        ),
        (
            "agones.dev/v1",
            "GameServer",
            json!({"spec": {"portz": [], "template": {"spec": {"containers": containers}}}}),
            "spec.portz: unknown field",
        ),
    ] {
        is_refused("a.json", object(api_version, kind, &rest), wanted);
    }
    is_refused(
        "a.yaml",
        "kind: Fleet\nmetadata: {name: a}\n",
        "apiVersion: required: the version, such as `agones.dev/v1`",
    );
}

#[test]
fn bounds_of_numbers_and_required_fields_are_checked_in_stored_objects_too() {
    for (api_version, kind, rest, wanted) in [
        (
            "plimsoll.dev/v1alpha1",
            "NodeAutoscaler",
            json!({"spec": {"seed": u64::MAX}}),
            "spec.seed: Invalid value: \"number\"",
        ),
        (
            "plimsoll.dev/v1alpha1",
            "NodeAutoscaler",
            json!({"metadata": {"name": "a", "uid": "u"}, "spec": {"seed": u64::MAX}}),
            "spec.seed: Invalid value: \"number\"",
        ),
        (
            "v1",
            "Pod",
            json!({"metadata": {"name": "a", "uid": "u"}, "spec": {}}),
            "spec.containers: Required value",
        ),
    ] {
        is_refused("a.json", object(api_version, kind, &rest), wanted);
    }
}

#[test]
fn two_different_objects_of_one_name_are_refused_and_identical_ones_are_one() {
    let node = "apiVersion: v1\nkind: Node\nmetadata: {name: node, labels: {a: LABEL}}\n";
    let (one, two) = (node.replace("LABEL", "one"), node.replace("LABEL", "two"));
    is_refused(
        "a.yaml",
        format!("{one}---\n{two}"),
        "document 2: metadata.name: there is another Node node",
    );
    assert_eq!(judge("a.yaml", format!("{one}---\n{one}")), Ok(vec![]));
    let other =
        two.replace("kind: Node", "kind: ConfigMap").replace("labels", "namespace: b, labels");
    assert_eq!(judge("a.yaml", format!("{one}---\n{other}")), Ok(vec![]));
}

/// Some objects, one of which is decided about.
fn fleet() -> String {
    fs::read_to_string(crate::root().join("examples/quickstart.yaml")).unwrap()
}

#[test]
fn byte_order_marks_line_ends_and_nested_lists_are_read() {
    let plain = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  text: |\n    é\n    --- no marker\n";
    let unread = "kind: ConfigMap\n";
    let utf16 = |text: &str| -> Vec<u8> {
        std::iter::once(0xfeff).chain(text.encode_utf16()).flat_map(u16::to_le_bytes).collect()
    };
    for text in [plain, &fleet()] {
        let marked = format!("\u{feff}{text}");
        let windows = text.replace('\n', "\r\n");
        let commented = format!("# nothing\n---\n{text}...\n%YAML 1.2\n---\n{text}---\n");
        for text in [marked.as_str(), &windows, &commented] {
            assert!(judge("a.yaml", text).is_ok(), "{text}: {:?}", judge("a.yaml", text));
        }
        assert!(judge("a.yaml", utf16(text)).is_ok(), "{text}");
        // It was read, and not passed over.
        is_refused("a.yaml", format!("{marked}---\r\n{unread}"), "apiVersion: required");
        is_refused("a.yaml", utf16(&format!("{text}---\n{unread}")), "apiVersion: required");
    }
    let node = |name: &str| json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}});
    let list = |items: Value| json!({"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": ""}, "items": items});
    let nested = list(json!([node("a"), list(json!([node("b"), list(json!([]))])), node("c")]));
    assert_eq!(judge("a.json", format!("\u{feff}{nested}")), Ok(vec![]));
    // The API's own lists do not repeat the kind.
    let of_kind = r#"{"kind": "NodeList", "apiVersion": "v1", "items": [{"metadata": {"name": "a"}}, {"metadata": {}}]}"#;
    is_refused("a.json", of_kind, "document 1: items[1].metadata.name: ");
    is_refused("a.json", list(json!([7])).to_string(), "items[0]: expected an object");
    is_refused(
        "a.json",
        json!({"kind": "Nodes", "apiVersion": "v1", "items": []}).to_string(),
        "kind: expected `List`",
    );
}

#[test]
fn kubectl_output_is_accepted() {
    let managed = json!([{"manager": "kubectl", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1",
        "fieldsV1": {"f:metadata": {"f:labels": {".": {}, "f:a": {}}}}}]);
    let meta = |name: &str| {
        json!({"name": name, "uid": "8a1b4a5c-0000-0000-0000-000000000000", "resourceVersion": "12",
        "creationTimestamp": "2026-01-01T00:00:00Z", "generation": 1, "managedFields": managed})
    };
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": meta("p"),
        "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i", "resources": {}}], "priority": 0,
                 "preemptionPolicy": "PreemptLowerPriority", "enableServiceLinks": true},
        "status": {"phase": "Running", "qosClass": "BestEffort", "conditions": [{"type": "Ready", "status": "True", "lastProbeTime": null}],
                   "containerStatuses": [{"name": "c", "image": "i", "imageID": "x", "ready": true, "restartCount": 0}]}});
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": meta("n"),
        "spec": {"providerID": "x://n", "taints": [{"key": "node.kubernetes.io/unreachable", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z"}]},
        "status": {"capacity": {"cpu": "4"}, "conditions": [{"type": "Ready", "status": "Unknown"}], "addresses": [{"type": "Hostname", "address": "n"}]}});
    let foreign = json!({"apiVersion": "serving.knative.dev/v1", "kind": "Service", "metadata": meta("s"), "spec": {"anything": 1}});
    let list = json!({"apiVersion": "v1", "items": [pod, node, foreign], "kind": "List", "metadata": {"resourceVersion": ""}});
    assert_eq!(judge("a.json", list.to_string()), Ok(vec![]));
    assert_eq!(judge("a.yaml", list.to_string()), Ok(vec![]));
}

#[test]
fn depth_and_aliases_are_bounded() {
    let deep = |open: &str, close: &str| format!("{}{}", open.repeat(5_000), close.repeat(5_000));
    is_refused("a.json", deep("[", "]"), "nested deeper than 100 levels");
    is_refused(
        "a.json",
        format!("{{\"a\":{}", deep("{\"a\":", "}")),
        "nested deeper than 100 levels",
    );
    is_refused("a.yaml", deep("[", "]"), "document 1: ");
    let indented = (0..300).fold(String::new(), |mut text, depth| {
        writeln!(text, "{}a:", " ".repeat(depth)).unwrap();
        text
    });
    is_refused("a.yaml", indented, "nested deeper than 100 levels");
    let laughs = (1..20).fold("a0: &a0 [x]\n".to_owned(), |mut text, n| {
        let last = format!("*a{}, ", n - 1).repeat(10);
        writeln!(text, "a{n}: &a{n} [{last}]").unwrap();
        text
    });
    is_refused("a.yaml", laughs, "document 1: ");
}

#[test]
fn arithmetic_in_policies_never_panics() {
    for expression in [
        "4 % 0",
        "4 / 0",
        "9223372036854775807 * 4",
        "18446744073709551615 + 1",
        "-18446744073709551615 - 9",
    ] {
        let file =
            format!("scaling \"a\" {{\nmax = {expression}\npolicy {{\ntarget \"t\" {{}}\n}}\n}}\n");
        is_refused("a.hcl", file, "line 2: ");
    }
}
