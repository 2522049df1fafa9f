//! Compares defaulting and validation of new objects with recorded answers of kube-apiserver.

use serde_json::{Value, json};

use crate::builtin::{BuiltIn, admit, default, prepare_create, validate_create};
use crate::schema::{Types, decode};

const ANSWERS: &str = include_str!("../../../tests/data/admission.jsonl");

/// The invalid fields and their messages.
type Violations = Vec<(String, String)>;

/// Returns the object that a create leads to, or its invalid fields.
fn create(given: &Value, namespaced: bool) -> Result<Value, Violations> {
    let api_version = given["apiVersion"].as_str().unwrap();
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let kind = BuiltIn { group, kind: given["kind"].as_str().unwrap() };
    let shape = Types::builtin().kind(group, version, kind.kind);
    let mut object = decode::value(given, shape).unwrap().value;
    if namespaced {
        object["metadata"]["namespace"] = "es".into();
    }
    default(kind, shape, &mut object);
    let classes = admit::PriorityClasses { by_name: &|_| None, global_default: None };
    if let Err(why) = admit::admit(kind, &mut object, &classes) {
        return Err(vec![("forbidden".to_owned(), why)]);
    }
    object["metadata"]["uid"] = "u".into();
    prepare_create(kind, &mut object, "now");
    let errors = validate_create(kind, namespaced, &object);
    if errors.is_empty() {
        object["metadata"].as_object_mut().unwrap().remove("uid");
        return Ok(object);
    }
    Err(errors.iter().map(|e| (e.field.clone(), without_structs(&e.body()))).collect())
}

#[test]
fn new_objects_get_kube_apiservers_answers() {
    let mut wrong = Vec::new();
    for (line, text) in ANSWERS.lines().enumerate() {
        let answer: Value = serde_json::from_str(text).unwrap();
        let actual = create(&answer["object"], answer["namespaced"] == true);
        let name = format!("line {} ({})", line + 1, answer["object"]["kind"]);
        let expected = answer.get("result").cloned().ok_or_else(|| causes(&answer));
        match (expected, actual) {
            (Ok(expected), Ok(actual)) => {
                differences(&expected, &actual, "", &mut |at| wrong.push(format!("{name}: {at}")));
            }
            (Err(expected), Err(actual)) => {
                for (what, from, among) in
                    [("lacks", &expected, &actual), ("adds", &actual, &expected)]
                {
                    for error in from.iter().filter(|e| !among.contains(e)) {
                        wrong.push(format!("{name} {what} {}: {}", error.0, error.1));
                    }
                }
            }
            (Ok(_), Err(actual)) => wrong.push(format!("{name}: refused: {actual:?}")),
            (Err(expected), Ok(_)) => wrong.push(format!("{name}: accepted, not {expected:?}")),
        }
    }
    assert!(wrong.is_empty(), "{} differences:\n{}", wrong.len(), wrong.join("\n"));
}

fn differences(expected: &Value, actual: &Value, at: &str, found: &mut dyn FnMut(String)) {
    match (expected, actual) {
        (Value::Object(a), Value::Object(b)) => {
            for key in a.keys().chain(b.keys().filter(|k| !a.contains_key(*k))) {
                let none = Value::String("(absent)".to_owned());
                let (a, b) = (a.get(key).unwrap_or(&none), b.get(key).unwrap_or(&none));
                differences(a, b, &format!("{at}/{key}"), found);
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (index, (a, b)) in a.iter().zip(b).enumerate() {
                differences(a, b, &format!("{at}/{index}"), found);
            }
        }
        (a, b) if a != b => found(format!("{at}: expected {a}, actual {b}")),
        _ => {}
    }
}

fn causes(answer: &Value) -> Violations {
    let text = |cause: &Value, field: &str| cause[field].as_str().unwrap_or_default().to_owned();
    let causes = answer["causes"].as_array().cloned().unwrap_or_default();
    if causes.is_empty() {
        let message = answer["message"].as_str().unwrap_or_default();
        let why = message.split_once(" is forbidden: ").map(|(_, why)| why).unwrap_or_default();
        return vec![("forbidden".to_owned(), why.to_owned())];
    }
    causes.iter().map(|c| (text(c, "field"), without_structs(&text(c, "message")))).collect()
}

/// Removes printed Go structs, whose internal field names differ from ours.
fn without_structs(message: &str) -> String {
    match (message.find("{\""), message.rfind('}')) {
        (Some(from), Some(to)) => format!("{}{{}}{}", &message[..from], &message[to + 1..]),
        _ => message.to_owned(),
    }
}

#[test]
fn a_missing_name_is_reported_first() {
    let errors = create(&json!({"apiVersion": "v1", "kind": "Pod"}), true).unwrap_err();
    assert_eq!(errors[0].0, "metadata.name");
    assert_eq!(errors[1], ("spec.containers".to_owned(), "Required value".to_owned()));
}
