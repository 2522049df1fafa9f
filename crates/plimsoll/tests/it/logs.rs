//! The standard error output of the binary: errors and log lines.

use std::process::Output;

use crate::plimsoll;

/// Applies an object of a kind that does not exist, which ends `up` with an error. It logs everything that it can.
fn unknown_kind(args: &[&str]) -> Output {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("object.yaml");
    let object = "apiVersion: example.com/v1\nkind: Unknown\nmetadata: {name: a}\n";
    std::fs::write(&file, object).unwrap();
    plimsoll()
        .args(["up", "--ephemeral", "--api-only", "--listen", "127.0.0.1:0", "--data"])
        .arg(dir.path())
        .args(args)
        .arg(&file)
        .env("PLIMSOLL_LOG", "debug")
        .env_remove("NO_COLOR")
        .output()
        .unwrap()
}

#[test]
fn an_unknown_kind_is_named_once_in_words_and_without_colours() {
    let output = unknown_kind(&[]);
    assert_eq!(output.status.code(), Some(1));
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(!stderr.contains('\u{1b}'), "a file is no terminal: {stderr}");
    let last = stderr.lines().last().unwrap();
    assert_eq!(
        last,
        "plimsoll: could not apply unknown/a: no kind `Unknown` is served at `example.com/v1`; check \
         apiVersion and kind, or apply its CustomResourceDefinition first"
    );
}

#[test]
fn log_lines_are_json_objects_where_that_is_asked_for() {
    let output = unknown_kind(&["--log-format", "json"]);
    let stderr = String::from_utf8(output.stderr).unwrap();
    let (error, logged): (Vec<_>, Vec<_>) =
        stderr.lines().partition(|line| line.starts_with("plimsoll: "));
    assert_eq!(error.len(), 1, "{stderr}");
    assert!(!logged.is_empty(), "{stderr}");
    for line in logged {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        assert!(line["message"].is_string() && line["level"].is_string(), "{line}");
    }
}
