//! How much memory `evaluate` takes for large input.

use std::fs;
use std::io::Write as _;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::plimsoll;

/// Most of the input is what no decision looks at, so that what is left in memory is what reading takes.
#[test]
fn large_input_is_read_without_holding_it() {
    for form in [
        ("{\"apiVersion\": \"v1\", \"kind\": \"List\", \"items\": [", ",", "]}"),
        ("apiVersion: v1\nitems:\n- ", "\n- ", "\nkind: List\n"),
        ("---\n", "\n---\n", "\n"),
    ] {
        let (few, many) = (10, 300);
        let size = node_with_notes(0).len() * (many - few);
        let (little, much) = (peak_memory(form, few), peak_memory(form, many));
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

/// Returns the most memory that the program ever had when it had read so many objects.
fn peak_memory((head, between, tail): (&str, &str, &str), objects: usize) -> usize {
    let mut child = plimsoll().args(["evaluate", "-f", "-"]).stdin(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(head.as_bytes()).unwrap();
    for number in 0..objects {
        let separator = if number == 0 { "" } else { between };
        write!(input, "{separator}{}", node_with_notes(number)).unwrap();
    }
    // All but what the pipe holds has been read, and the end has not come.
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    input.write_all(tail.as_bytes()).unwrap();
    drop(input);
    assert!(child.wait().unwrap().success(), "{head}");
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    peak.trim().trim_end_matches(" kB").parse::<usize>().unwrap() * 1024
}
