//! The memory that `evaluate` uses for large input.

use std::fs;
use std::io::{Read as _, Write as _};
use std::process::{Child, Stdio};

use serde_json::{Value, json};

use crate::plimsoll;

/// Most of the input is irrelevant to the decisions, so that the peak is the memory that reading takes.
#[test]
fn large_input_is_read_without_holding_it() {
    for form in [
        ("{\"apiVersion\": \"v1\", \"kind\": \"List\", \"items\": [", ",", "]}"),
        ("apiVersion: v1\nitems:\n- ", "\n- ", "\nkind: List\n"),
        ("---\n", "\n---\n", "\n"),
    ] {
        let (few, many) = (10, 300);
        let size = node_with_notes(0).len() * (many - few);
        let peak = |objects| peak_memory(form, (0..objects).map(node_with_notes));
        let (little, much) = (peak(few), peak(many));
        let more = much.saturating_sub(little);
        assert!(more < size * 3 / 4, "{form:?}: {more} more bytes in memory for {size} of input");
    }
}

/// A node with 40 KB of what the API server notes for itself.
fn node_with_notes(number: usize) -> String {
    let note = |n: usize| {
        let fields = json!({"f:metadata": {"f:annotations": {format!("f:key-{n}"): {}}}});
        json!({"manager": format!("manager-{n}"), "fieldsV1": fields})
    };
    let notes: Vec<Value> = (0..400).map(note).collect();
    let meta = json!({"name": format!("n{number}"), "managedFields": notes});
    json!({"apiVersion": "v1", "kind": "Node", "metadata": meta}).to_string()
}

/// Returns the most memory that the program ever had when it had read these objects, but had not decided anything.
fn peak_memory(
    (head, between, tail): (&str, &str, &str),
    objects: impl Iterator<Item = String>,
) -> usize {
    let mut command = plimsoll();
    command.args(["evaluate", "-f", "-"]).stdin(Stdio::piped()).stdout(Stdio::null());
    let mut child = command.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(head.as_bytes()).unwrap();
    for (number, object) in objects.enumerate() {
        let separator = if number == 0 { "" } else { between };
        write!(input, "{separator}{object}").unwrap();
    }
    // All but what the pipe holds has been read, and the end has not come.
    let peak = peak_of(&child);
    input.write_all(tail.as_bytes()).unwrap();
    drop(input);
    assert!(child.wait().unwrap().success(), "{head}");
    peak
}

fn peak_of(child: &Child) -> usize {
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    peak.trim().trim_end_matches(" kB").parse::<usize>().unwrap() * 1024
}

/// All of the input is relevant, to two decisions.
#[test]
fn decisions_about_large_input_take_memory_in_proportion_to_its_text() {
    let objects = |servers: usize| {
        let each = (0..servers).flat_map(|number| [game_server(number), pod(number)]);
        deciders().into_iter().chain(each).map(|object| object.to_string())
    };
    let little = peak_memory(("", "\n", "\n"), objects(20));
    let servers = 1000;
    let input = objects(servers).collect::<Vec<_>>().join("\n");
    let mut child = plimsoll()
        .args(["evaluate", "-f", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let mut printed = child.stdout.take().unwrap();
    // All is decided before anything is printed, and more is printed than the pipe holds, so that the program is still there.
    printed.read_exact(&mut [0]).unwrap();
    let more = peak_of(&child).saturating_sub(little);
    let mut rest = String::new();
    printed.read_to_string(&mut rest).unwrap();
    assert!(child.wait().unwrap().success());
    assert!(rest.contains("NodeAutoscaler nodes\n"), "{rest}");
    assert_eq!(rest.matches("  deletes ").count(), servers - 1);
    assert!(more < input.len() * 3, "{more} more bytes in memory for {} of input", input.len());
}

/// A fleet that is to have one game server, and an autoscaler of nodes.
fn deciders() -> Vec<Value> {
    let template = json!({"spec": {"template": {"spec": {"containers": containers()}}}});
    vec![
        json!({"apiVersion": "agones.dev/v1", "kind": "Fleet", "metadata": {"name": "arena"},
               "spec": {"replicas": 1, "template": template}}),
        json!({"apiVersion": "plimsoll.dev/v1alpha1", "kind": "NodeAutoscaler", "metadata": {"name": "nodes"}, "spec": {}}),
    ]
}

fn game_server(number: usize) -> Value {
    json!({"apiVersion": "agones.dev/v1", "kind": "GameServer", "metadata": metadata(number),
           "spec": {"template": {"spec": {"containers": containers()}}},
           "status": {"state": "Ready", "nodeName": "node"}})
}

fn pod(number: usize) -> Value {
    let owner = json!([{"apiVersion": "agones.dev/v1", "kind": "GameServer", "controller": true,
                        "name": name(number), "uid": format!("uid-{number}")}]);
    let mut metadata = metadata(number);
    metadata["ownerReferences"] = owner;
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata,
           "spec": {"nodeName": "node", "containers": containers()}, "status": {"phase": "Running"}})
}

fn metadata(number: usize) -> Value {
    json!({"name": name(number), "uid": format!("uid-{number}"), "labels": {"agones.dev/fleet": "arena"}})
}

/// As long as a name may be.
fn name(number: usize) -> String {
    format!("{number:063}")
}

/// A container with 5 KB of environment.
fn containers() -> Value {
    let variable = |n: usize| json!({"name": format!("VARIABLE_{n}"), "value": "on"});
    let env: Vec<Value> = (0..130).map(variable).collect();
    json!([{"name": "game", "image": "example.com/game", "env": env}])
}
