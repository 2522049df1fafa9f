use super::*;

fn now() -> Timestamp {
    "2024-01-01T00:10:00Z".parse().unwrap()
}

fn cells(group: &str, kind: &str, object: &Value) -> Vec<Value> {
    let mut object = object.clone();
    object["metadata"]["creationTimestamp"] = json!("2024-01-01T00:00:00Z");
    let columns = Columns::BuiltIn { group: group.into(), kind: kind.into() };
    let table = columns.table_of_one(&object, Include::None, true, now());
    let cells = table["rows"][0]["cells"].as_array().unwrap().clone();
    assert_eq!(cells.len(), table["columnDefinitions"].as_array().unwrap().len(), "{kind}");
    cells
}

#[test]
fn a_pods_status_summarizes_its_containers() {
    for (status, deleted, ready, shown, restarts) in [
        (json!({"phase": "Pending"}), false, "0/1", "Pending", "0"),
        (json!({"phase": "Failed", "reason": "Evicted"}), false, "0/1", "Evicted", "0"),
        (json!({"phase": "Running"}), true, "0/1", "Terminating", "0"),
        (json!({"phase": "Succeeded"}), true, "0/1", "Succeeded", "0"),
        (
            json!({"phase": "Running", "containerStatuses": [{"ready": true, "restartCount": 2, "state": {"running": {}},
                "lastState": {"terminated": {"finishedAt": "2024-01-01T00:05:00Z"}}}]}),
            false,
            "1/1",
            "Running",
            "2 (5m ago)",
        ),
        (
            json!({"phase": "Running", "containerStatuses": [{"state": {"waiting": {"reason": "CrashLoopBackOff"}}}]}),
            false,
            "0/1",
            "CrashLoopBackOff",
            "0",
        ),
        (
            json!({"phase": "Failed", "containerStatuses": [{"state": {"terminated": {"exitCode": 3}}}]}),
            false,
            "0/1",
            "ExitCode:3",
            "0",
        ),
        (
            json!({"phase": "Pending", "initContainerStatuses": [{"state": {"running": {}}}]}),
            false,
            "0/1",
            "Init:0/1",
            "0",
        ),
        (
            json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "reason": "SchedulingGated"}]}),
            false,
            "0/1",
            "SchedulingGated",
            "0",
        ),
    ] {
        let mut pod = json!({"metadata": {"name": "p"}, "status": status,
            "spec": {"containers": [{"name": "c"}], "initContainers": [{"name": "i"}]}});
        if deleted {
            pod["metadata"]["deletionTimestamp"] = json!("2024-01-01T00:00:00Z");
        }
        let cells = cells("", "Pod", &pod);
        assert_eq!(
            cells[..5],
            [json!("p"), json!(ready), json!(shown), json!(restarts), json!("10m")],
            "{pod}"
        );
    }
}

#[test]
fn cells_of_many_kinds_match_kube_apiserver() {
    let name = json!({"name": "n"});
    for (group, kind, object, wanted) in [
        (
            "",
            "Node",
            json!({"metadata": {"name": "n", "labels": {"node-role.kubernetes.io/worker": ""}},
                   "spec": {"unschedulable": true}, "status": {"conditions": [{"type": "Ready", "status": "True"}],
                   "nodeInfo": {"kubeletVersion": "v1", "kernelVersion": "6", "architecture": "amd64"}}}),
            json!([
                "n",
                "Ready,SchedulingDisabled",
                "worker",
                "10m",
                "v1",
                "<none>",
                "<none>",
                "<unknown>",
                "6 (amd64)",
                "<unknown>"
            ]),
        ),
        (
            "",
            "Service",
            json!({"metadata": name, "spec": {"type": "NodePort", "clusterIPs": ["10.0.0.1"], "selector": {"a": "b"},
                   "ports": [{"port": 80, "protocol": "TCP", "nodePort": 30000}, {"port": 81, "protocol": "UDP"}]}}),
            json!(["n", "NodePort", "10.0.0.1", "<none>", "80:30000/TCP,81/UDP", "10m", "a=b"]),
        ),
        (
            "apps",
            "Deployment",
            json!({"metadata": name, "spec": {"replicas": 3, "selector": {"matchLabels": {"a": "b"}}, "template": {"spec":
                   {"containers": [{"name": "c", "image": "i"}, {"name": "d", "image": "j"}]}}}, "status": {"readyReplicas": 1}}),
            json!(["n", "1/3", 0, 0, "10m", "c,d", "i,j", "a=b"]),
        ),
        (
            "policy",
            "PodDisruptionBudget",
            json!({"metadata": name, "spec": {"minAvailable": "50%"}, "status": {"disruptionsAllowed": 2}}),
            json!(["n", "50%", "N/A", 2, "10m"]),
        ),
        (
            "",
            "ConfigMap",
            json!({"metadata": name, "data": {"a": "b"}, "binaryData": {"c": ""}}),
            json!(["n", 2, "10m"]),
        ),
        ("", "LimitRange", json!({"metadata": name}), json!(["n", "2024-01-01T00:00:00Z"])),
        (
            "",
            "Event",
            json!({"metadata": name, "involvedObject": {"kind": "Pod", "name": "p"}, "lastTimestamp": "2024-01-01T00:09:00Z",
                   "type": "Normal", "reason": "R", "message": " m ", "source": {"component": "c", "host": "h"}}),
            json!(["60s", "Normal", "R", "pod/p", "", "c, h", "m", "<unknown>", 1, "n"]),
        ),
    ] {
        assert_eq!(Value::Array(cells(group, kind, &object)), wanted, "{kind}");
    }
}

#[test]
fn custom_kinds_show_the_columns_they_declare() {
    let version = json!({"additionalPrinterColumns": [
        {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
        {"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status", "priority": 1},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}]});
    let object = json!({"metadata": {"name": "n", "creationTimestamp": "2024-01-01T00:00:00Z", "resourceVersion": "7"},
        "spec": {"size": 3}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    let columns = Columns::Custom(PrinterColumn::all(&version));
    let table = columns.table_of_one(&object, Include::Metadata, true, now());
    assert_eq!(table["rows"][0]["cells"], json!(["n", 3, "True", "10m"]));
    assert_eq!(table["rows"][0]["object"]["kind"], "PartialObjectMetadata");
    assert_eq!(table["metadata"], json!({"resourceVersion": "7"}));
    assert_eq!(table["columnDefinitions"][2]["priority"], 1);
    let plain = Columns::Custom(PrinterColumn::all(&json!({})));
    let table = plain.table(json!({}), [&object], Include::None, false, now());
    assert_eq!(table["rows"][0], json!({"cells": ["n", "10m"], "object": null}));
    assert_eq!(table["columnDefinitions"], Value::Null);
}

#[test]
fn published_descriptions_are_found() {
    let columns = Columns::BuiltIn { group: String::new(), kind: "Pod".into() };
    for column in columns.definitions().as_array().unwrap() {
        assert_ne!(column["description"], "", "{column}");
    }
}

#[test]
fn an_empty_table_of_a_kind_without_a_printer_has_no_rows_at_all() {
    for (kind, rows) in [("LimitRange", Value::Null), ("Pod", json!([]))] {
        let columns = Columns::BuiltIn { group: String::new(), kind: kind.into() };
        assert_eq!(
            columns.table(json!({}), [], Include::None, false, now())["rows"],
            rows,
            "{kind}"
        );
    }
}
