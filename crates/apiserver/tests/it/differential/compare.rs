//! Compares two answers after removing what must differ.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

use super::Memory;
use super::send::Answer;

static UID: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new("[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}").unwrap()
});
static TIME: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z").unwrap());

/// Versions inside of texts: of objects quoted as JSON, and in the server's own words.
static VERSION: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r#"(resourceVersion\\*":\\*"|in record \(|current: )\d+"#).unwrap()
});
/// How old an object is, in a table.
static AGE: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"^\d+s$").unwrap());

/// Returns every difference between two answers.
pub(super) fn answers(real: &Answer, ours: &Answer) -> Vec<String> {
    let mut out = Vec::new();
    if real.code != ours.code {
        let text = |answer: &Answer| answer.body["message"].as_str().unwrap_or_default().to_owned();
        out.push(format!(
            "code: real {} ({}), ours {} ({})",
            real.code,
            text(real),
            ours.code,
            text(ours)
        ));
        return out;
    }
    let (theirs, mine) = (normal(&real.body, &real.memory), normal(&ours.body, &ours.memory));
    differences(&theirs, &mine, "", &mut out);
    if real.warnings != ours.warnings {
        out.push(format!("warnings: real {:?}, ours {:?}", real.warnings, ours.warnings));
    }
    out
}

/// Replaces what must differ by its name.
fn normal(value: &Value, memory: &Memory) -> Value {
    match value {
        Value::Object(map) => {
            map.iter().map(|(key, value)| (words(key, memory), field(key, value, memory))).collect()
        }
        Value::Array(items) => items.iter().map(|item| normal(item, memory)).collect(),
        Value::String(text) => Value::String(words(text, memory)),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

fn field(key: &str, value: &Value, memory: &Memory) -> Value {
    match (key, value) {
        (
            "resourceVersion" | "continue" | "clusterIP" | "storageVersionHash",
            Value::String(text),
        ) if !text.is_empty() && text != "None" => Value::String(format!("<{key}>")),
        ("serverAddress", Value::String(_)) => Value::String("<serverAddress>".to_owned()),
        // What the controllers beside a server own is theirs: on the real one they are programs of their own. Owners are in order of their
        // times, to the second, and a second may begin between the answers of the two.
        ("managedFields", Value::Array(entries)) => {
            let is_ours = |entry: &&Value| {
                !CONTROLLERS.contains(&entry["manager"].as_str().unwrap_or_default())
            };
            let mut entries: Vec<&Value> = entries.iter().filter(is_ours).collect();
            entries.sort_by_key(|entry| {
                ["operation", "manager", "apiVersion", "subresource"]
                    .map(|key| entry[key].to_string())
            });
            entries.into_iter().map(|entry| normal(entry, memory)).collect()
        }
        ("clusterIPs", Value::Array(_)) => Value::String("<clusterIPs>".to_owned()),
        // Columns that do not show a field are described in our own words.
        ("columnDefinitions", Value::Array(columns)) => {
            let mut columns = columns.clone();
            for column in &mut columns {
                column.as_object_mut().map(|column| column.remove("description"));
            }
            normal(&Value::Array(columns), memory)
        }
        ("nodePort", Value::Number(_)) => Value::String("<nodePort>".to_owned()),
        _ => normal(value, memory),
    }
}

/// The field managers that write besides the client.
const CONTROLLERS: [&str; 4] = ["kube-apiserver", "kube-controller-manager", "kwok", "plimsoll"];

/// Replaces uids, times and remembered values in a text.
fn words(text: &str, memory: &Memory) -> String {
    let text = UID.replace_all(text, "<uid>");
    let text = TIME.replace_all(&text, "<time>");
    let text = VERSION.replace_all(&text, "$1<version>");
    let text = AGE.replace_all(&text, "<age>").into_owned();
    let is_telling = |value: &&String| value.len() > 2;
    memory
        .iter()
        .filter(|(_, v)| is_telling(v))
        .fold(text, |text, (name, value)| text.replace(value.as_str(), &format!("<{name}>")))
}

fn differences(real: &Value, ours: &Value, path: &str, out: &mut Vec<String>) {
    match (real, ours) {
        (Value::Object(theirs), Value::Object(mine)) => {
            let mut keys: Vec<&String> = theirs.keys().chain(mine.keys()).collect();
            keys.sort();
            keys.dedup();
            for key in keys {
                let path = format!("{path}.{key}");
                match (theirs.get(key), mine.get(key)) {
                    (Some(a), Some(b)) => differences(a, b, &path, out),
                    (Some(a), None) => out.push(format!("{path}: real {a}, ours absent")),
                    (None, Some(b)) => out.push(format!("{path}: real absent, ours {b}")),
                    (None, None) => {}
                }
            }
        }
        (Value::Array(theirs), Value::Array(mine)) if theirs.len() == mine.len() => {
            for (index, (a, b)) in theirs.iter().zip(mine).enumerate() {
                differences(a, b, &format!("{path}[{index}]"), out);
            }
        }
        _ if real == ours => {}
        // 10 and 10.0 are one number to every client.
        (Value::Number(a), Value::Number(b)) if a.as_f64() == b.as_f64() => {}
        _ => out.push(format!("{path}: real {real}, ours {ours}")),
    }
}
