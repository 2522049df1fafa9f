//! What kube-apiserver answered to new objects, good and bad, and whether we say the same.

use serde_json::{Value, json};

use crate::builtin::{BuiltIn, admit, default, prepare_create, validate_create};
use crate::schema::{Types, decode};

const ANSWERS: &str = include_str!("../../../tests/data/admission.jsonl");

/// The fields that are wrong, and how.
type Faults = Vec<(String, String)>;

/// The object that a create leads to, or the fields that are wrong with it.
fn create(given: &Value, namespaced: bool) -> Result<Value, Faults> {
    let api_version = given["apiVersion"].as_str().unwrap();
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let kind = BuiltIn { group, kind: given["kind"].as_str().unwrap() };
    let shape = Types::builtin().kind(group, version, kind.kind);
    let mut object = decode::value(given, shape).unwrap().value;
    if namespaced {
        object["metadata"]["namespace"] = "es".into();
    }
    default(kind, shape, &mut object);
    let classes = admit::Classes { by_name: &|_| None, global_default: None };
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
fn new_objects_get_the_answers_that_the_real_server_gave() {
    let mut wrong = Vec::new();
    for (line, text) in ANSWERS.lines().enumerate() {
        let answer: Value = serde_json::from_str(text).unwrap();
        let said = create(&answer["object"], answer["namespaced"] == true);
        let name = format!("line {} ({})", line + 1, answer["object"]["kind"]);
        let expected = answer.get("result").cloned().ok_or_else(|| causes(&answer));
        match (expected, said) {
            (Ok(expected), Ok(said)) => {
                differences(&expected, &said, "", &mut |at| wrong.push(format!("{name}: {at}")));
            }
            (Err(expected), Err(said)) => {
                for (what, from, among) in [("lacks", &expected, &said), ("adds", &said, &expected)]
                {
                    for error in from.iter().filter(|e| !among.contains(e)) {
                        wrong.push(format!("{name} {what} {}: {}", error.0, error.1));
                    }
                }
            }
            (Ok(_), Err(said)) => wrong.push(format!("{name}: refused: {said:?}")),
            (Err(expected), Ok(_)) => wrong.push(format!("{name}: accepted, not {expected:?}")),
        }
    }
    assert!(wrong.is_empty(), "{} differences:\n{}", wrong.len(), wrong.join("\n"));
}

fn differences(expected: &Value, said: &Value, at: &str, found: &mut dyn FnMut(String)) {
    match (expected, said) {
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
        (a, b) if a != b => found(format!("{at}: expected {a}, said {b}")),
        _ => {}
    }
}

fn causes(answer: &Value) -> Faults {
    let text = |cause: &Value, field: &str| cause[field].as_str().unwrap_or_default().to_owned();
    let causes = answer["causes"].as_array().cloned().unwrap_or_default();
    if causes.is_empty() {
        let message = answer["message"].as_str().unwrap_or_default();
        let why = message.split_once(" is forbidden: ").map(|(_, why)| why).unwrap_or_default();
        return vec![("forbidden".to_owned(), why.to_owned())];
    }
    causes.iter().map(|c| (text(c, "field"), without_structs(&text(c, "message")))).collect()
}

/// The real server prints structs with the names of its internal fields; what is compared is the rest.
fn without_structs(message: &str) -> String {
    match (message.find("{\""), message.rfind('}')) {
        (Some(from), Some(to)) => format!("{}{{}}{}", &message[..from], &message[to + 1..]),
        _ => message.to_owned(),
    }
}

#[test]
fn an_object_without_a_name_is_told_so_first() {
    let errors = create(&json!({"apiVersion": "v1", "kind": "Pod"}), true).unwrap_err();
    assert_eq!(errors[0].0, "metadata.name");
    assert_eq!(errors[1], ("spec.containers".to_owned(), "Required value".to_owned()));
}
