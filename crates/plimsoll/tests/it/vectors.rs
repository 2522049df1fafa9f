//! The program makes the decisions that the real systems made (`vectors/README.md` defines the comparison).

use std::fs;
use std::process::Output;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use crate::{plimsoll, root};

/// Checks one file of vectors. `on_purpose` lists the cases that are answered differently, with the reason for each;
/// a case listed there that does give the recorded answer is an error too, so that the list stays honest.
pub(crate) fn check(file: &str, on_purpose: &[(&str, &str)]) {
    let text = fs::read_to_string(root().join("vectors").join(file)).unwrap();
    let cases: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let cases: Vec<_> = cases.into_iter().filter(|case| case.get("made").is_none()).collect();
    assert!(!cases.is_empty(), "{file} has no cases");
    let wrong = Mutex::new(Vec::new());
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(2, usize::from) {
            scope.spawn(|| {
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let id = case["id"].as_str().unwrap();
                    let found = judge(case);
                    match on_purpose.iter().find(|(listed, _)| *listed == id) {
                        None if !found.is_empty() => {
                            wrong.lock().unwrap().push(format!("{id}: {}", found.join("; ")))
                        }
                        Some(_) if found.is_empty() => {
                            wrong
                                .lock()
                                .unwrap()
                                .push(format!("{id}: listed as different, but it is not"));
                        }
                        None | Some(_) => {}
                    }
                }
            });
        }
    });
    let mut wrong = wrong.into_inner().unwrap();
    wrong.sort();
    assert!(
        wrong.is_empty(),
        "{file}: {} of {} differ:\n{}",
        wrong.len(),
        cases.len(),
        wrong.join("\n")
    );
}

/// Returns what is wrong with the program's answer to a case.
fn judge(case: &Value) -> Vec<String> {
    let done = evaluate(case);
    let text = [done.stdout.as_slice(), done.stderr.as_slice()].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    let code = done.status.code();
    let mut want = case.get("expect").and_then(Value::as_object).cloned().unwrap_or_default();
    if let Some(part) = want.get("error").and_then(Value::as_str) {
        return match code {
            Some(2) if text.contains(part) => vec![],
            Some(2) => vec![format!("refused, but without `{part}`: {}", text.trim())],
            _ => vec![format!("accepted ({code:?}), want it refused because of `{part}`")],
        };
    }
    if code != Some(0) {
        return vec![format!("exit {code:?}: {}", text.trim())];
    }
    if want.get("valid") == Some(&json!(true)) {
        return vec![];
    }
    let printed: Value = serde_json::from_slice(&done.stdout).unwrap_or_default();
    let decision = pick(case, &printed);
    if want.remove("disabled") == Some(json!(true)) {
        let is_disabled = decision.as_ref().is_none_or(|d| d["disabled"] == json!(true));
        return if is_disabled { vec![] } else { vec!["decided, though disabled".to_owned()] };
    }
    let Some(mut decision) = decision else {
        return vec!["no decision about the subject".to_owned()];
    };
    if want.remove("decisionError") == Some(json!(true)) {
        return if decision["error"].is_null() {
            vec![format!("want an error, got {decision}")]
        } else {
            vec![]
        };
    }
    if let Some(bound) = case.get("atMost") {
        return exceeded(case, &decision, bound);
    }
    let server = decision["gameServer"].take();
    for (key, path) in [
        ("gameServerName", "/metadata/name"),
        ("counters", "/status/counters"),
        ("lists", "/status/lists"),
        ("labels", "/metadata/labels"),
        ("annotations", "/metadata/annotations"),
    ] {
        if want.contains_key(key) {
            decision[key] = server.pointer(path).cloned().unwrap_or_default();
        }
    }
    let mut found = Vec::new();
    differences(&decision, &Value::Object(want), case["ordered"] == json!(true), "", &mut found);
    found
}

fn evaluate(case: &Value) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let mut command = plimsoll();
    command.args(["evaluate", "-o", "json"]);
    if let Some(objects) =
        case.get("objects").filter(|o| o.as_array().is_some_and(|o| !o.is_empty()))
    {
        let path = folder.path().join("objects.json");
        fs::write(&path, json!({"apiVersion": "v1", "kind": "List", "items": objects}).to_string())
            .unwrap();
        command.arg("-f").arg(path);
    }
    for (name, text) in case.get("files").and_then(Value::as_object).into_iter().flatten() {
        let path = folder.path().join(name);
        fs::write(&path, text.as_str().unwrap()).unwrap();
        command.arg("-f").arg(path);
    }
    if let Some(now) = case["now"].as_str() {
        command.args(["--now", now]);
    }
    command.args(case["args"].as_array().into_iter().flatten().map(|a| a.as_str().unwrap()));
    command.output().unwrap()
}

fn pick(case: &Value, printed: &Value) -> Option<Value> {
    let wanted = case.get("subject").and_then(Value::as_object);
    let covers =
        |d: &&Value| wanted.is_none_or(|w| w.iter().all(|(k, v)| d["subject"].get(k) == Some(v)));
    printed["decisions"].as_array()?.iter().find(covers).cloned()
}

/// Compares a plan with a bound: at most so many nodes, at least so many pods placed.
fn exceeded(case: &Value, decision: &Value, bound: &Value) -> Vec<String> {
    let groups = decision["scaleUp"].as_array().cloned().unwrap_or_default();
    let added: i64 =
        groups.iter().map(|g| g["to"].as_i64().unwrap() - g["from"].as_i64().unwrap()).sum();
    let is_pending =
        |o: &&Value| o["kind"] == "Pod" && o["spec"]["nodeName"].as_str().unwrap_or("").is_empty();
    let pending = case["objects"].as_array().unwrap().iter().filter(is_pending).count();
    let placed = pending - decision["unschedulable"].as_array().map_or(0, Vec::len);
    let mut out = Vec::new();
    if let Some(nodes) = bound["nodes"].as_i64().filter(|nodes| added > *nodes) {
        out.push(format!("adds {added} nodes, the real one {nodes}"));
    }
    if let Some(least) = bound["placed"].as_u64().filter(|least| (placed as u64) < *least) {
        out.push(format!("places {placed} pods, the real one {least}"));
    }
    out
}

const SETS: [&str; 8] =
    ["unneeded", "unremovable", "unschedulable", "scaleUp", "delete", "why", "votes", "pods"];

/// Collects every place where `got` is not what `want` asks for; keys that `want` does not name are free.
fn differences(got: &Value, want: &Value, ordered: bool, path: &str, out: &mut Vec<String>) {
    let same = |got: &Value, want: &Value, path: &str| {
        let mut found = Vec::new();
        differences(got, want, ordered, path, &mut found);
        found.is_empty()
    };
    match want {
        Value::Object(map) if map.len() == 1 && map.contains_key("oneOf") => {
            if !map["oneOf"].as_array().unwrap().iter().any(|choice| same(got, choice, path)) {
                out.push(format!("{path}: got {got}, want {want}"));
            }
        }
        Value::Object(map) if got.is_object() => {
            for (key, value) in map {
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                differences(got.get(key).unwrap_or(&Value::Null), value, ordered, &path, out);
            }
        }
        Value::Array(items) if got.as_array().is_some_and(|g| g.len() == items.len()) => {
            let got = got.as_array().unwrap();
            let name = path.rsplit('.').next().unwrap().split('[').next().unwrap();
            if SETS.contains(&name) && !ordered {
                let mut left: Vec<_> = got.iter().collect();
                for value in items {
                    match left.iter().position(|g| same(g, value, path)) {
                        Some(index) => drop(left.remove(index)),
                        None => {
                            return out
                                .push(format!("{path}: nothing like {value} in {}", json!(got)));
                        }
                    }
                }
                return;
            }
            for (index, (g, w)) in got.iter().zip(items).enumerate() {
                differences(g, w, ordered, &format!("{path}[{index}]"), out);
            }
        }
        Value::Number(_) if got.is_number() => {
            let (g, w) = (got.as_f64().unwrap(), want.as_f64().unwrap());
            if (g - w).abs() >= 1e-9 * w.abs().max(1.0) {
                out.push(format!("{path}: got {got}, want {want}"));
            }
        }
        _ if got == want => {}
        Value::Null
        | Value::Bool(_)
        | Value::Number(_)
        | Value::String(_)
        | Value::Array(_)
        | Value::Object(_) => out.push(format!("{path}: got {got}, want {want}")),
    }
}
