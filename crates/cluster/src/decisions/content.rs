//! The content of a recorded decision: short enough to be stored, and without credentials.

use serde_json::{Map, Value, json};

/// The most items of a list in a decision.
pub(super) const MAX_ITEMS: usize = 100;
/// The most bytes of all inputs together.
const MAX_INPUT_BYTES: usize = 256 * 1024;
/// The replacement of a credential.
const REDACTED: &str = "redacted";
/// Parts of field names, in lower case, that mark the value as a credential. A field that only names a Secret ends with `from`.
const CREDENTIALS: [&str; 8] =
    ["password", "passwd", "token", "secret", "credential", "authorization", "apikey", "accesskey"];
/// Fields whose values, by any name, may be credentials.
const OPAQUE: [&str; 5] = ["config", "headers", "data", "stringdata", "env"];
/// The fields of containers whose texts may be credentials.
const COMMAND_LINES: [&str; 2] = ["args", "command"];
/// Fields that are left out: certificates, and the copy of the whole object that `kubectl apply` keeps in an annotation.
const LEFT_OUT: [&str; 2] = ["caBundle", "kubectl.kubernetes.io/last-applied-configuration"];

/// Returns the decision with its long lists cut: the last item of a list that was cut is `{"more": N}`.
pub fn cut(decision: &Map<String, Value>) -> Map<String, Value> {
    decision.iter().map(|(field, value)| (field.clone(), cut_value(value))).collect()
}

fn cut_value(value: &Value) -> Value {
    match value {
        Value::Array(items) => {
            let kept = items.iter().take(MAX_ITEMS).map(cut_value);
            let more = items.len().saturating_sub(MAX_ITEMS);
            kept.chain((more > 0).then(|| json!({ "more": more }))).collect()
        }
        Value::Object(fields) => Value::Object(cut(fields)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

/// Returns the inputs without credentials; `None` where they are too large to be stored.
pub(super) fn bounded(mut inputs: Vec<Value>) -> Option<Vec<Value>> {
    inputs.iter_mut().for_each(redact);
    let mut size = ByteCount(0);
    serde_json::to_writer(&mut size, &inputs).ok()?;
    (size.0 <= MAX_INPUT_BYTES).then_some(inputs)
}

/// Counts the bytes that are written.
struct ByteCount(usize);

impl std::io::Write for ByteCount {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Takes the credentials out of an object: certificates and keys of webhooks, passwords and tokens, the command lines and the values of the
/// environment variables of containers, the settings of Wasm modules, the copy that `kubectl apply` keeps, and the user and query of every
/// URL.
pub fn redact(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|name, _| !LEFT_OUT.contains(&name.as_str()));
            for (name, value) in fields {
                redact_field(name, value);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(redact),
        Value::String(text) => *text = redact_urls(text),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn redact_field(name: &str, value: &mut Value) {
    let lower = name.to_lowercase();
    match value {
        Value::String(text) if is_credential(&lower) => REDACTED.clone_into(text),
        Value::Object(fields) if OPAQUE.contains(&lower.as_str()) => {
            let texts = fields.values_mut().filter(|value| value.is_string());
            texts.for_each(|value| *value = json!(REDACTED));
            fields.values_mut().for_each(redact);
        }
        Value::Array(variables) if lower == "env" => {
            for variable in variables.iter_mut() {
                if let Value::Object(variable) = variable {
                    variable.get_mut("value").into_iter().for_each(redact_text);
                } else {
                    // Docker's form, `NAME=value`.
                    redact_text(variable);
                }
            }
        }
        Value::Array(words) if COMMAND_LINES.contains(&lower.as_str()) => {
            words.iter_mut().for_each(redact_text);
        }
        Value::String(_) if COMMAND_LINES.contains(&lower.as_str()) => redact_text(value),
        Value::Object(_)
        | Value::Array(_)
        | Value::String(_)
        | Value::Null
        | Value::Bool(_)
        | Value::Number(_) => redact(value),
    }
}

fn redact_text(value: &mut Value) {
    *value = json!(REDACTED);
}

fn is_credential(lower: &str) -> bool {
    !lower.ends_with("from") && CREDENTIALS.iter().any(|part| lower.contains(part))
}

/// Returns a text with the user, query and fragment of each URL in it redacted.
pub fn redact_urls(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let (before, after) = rest.split_at(at + "://".len());
        out.push_str(before);
        let is_end = |c: char| c.is_whitespace() || "\"'`<>()[]{},;".contains(c);
        // A host in brackets is an IPv6 address.
        let authority_end =
            after.find(|c: char| "/?#".contains(c) || c.is_whitespace() || c == '"');
        let (authority, path) = after.split_at(authority_end.unwrap_or(after.len()));
        out.push_str(authority.rsplit_once('@').map_or(authority, |(_, host)| host));
        let (path, next) = path.split_at(path.find(is_end).unwrap_or(path.len()));
        let end = path.find(['?', '#']).unwrap_or(path.len());
        out.push_str(&path[..end]);
        if end < path.len() {
            out.push('?');
            out.push_str(REDACTED);
        }
        rest = next;
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_user_and_query_of_a_url_are_redacted_wherever_it_stands() {
        for (text, wanted) in [
            (
                "https://u:p@h.example:8443/scale?key=abc&b=c#x",
                "https://h.example:8443/scale?redacted",
            ),
            ("http://[::1]:80/a", "http://[::1]:80/a"),
            (
                "could not reach https://u:p@h/a?k=s: refused",
                "could not reach https://h/a?redacted refused",
            ),
            ("`http://t@h` and `http://h?t=1` failed", "`http://h` and `http://h?redacted` failed"),
            ("2 of 4 wanted spare", "2 of 4 wanted spare"),
            ("http://p@ss@h/", "http://h/"),
        ] {
            assert_eq!(redact_urls(text), wanted);
        }
    }

    #[test]
    fn credentials_are_taken_out_of_inputs() {
        let mut value = json!({
            "spec": {
                "policy": {
                    "webhook": {"url": "https://u:hunter2@h/scale?key=hunter2", "caBundle": "hunter2"},
                    "wasm": {"config": {"any": "hunter2"}, "from": {"url": {"url": "https://hunter2@h/m.wasm"}}},
                },
                "template": {"containers": [{"name": "game", "env": [{"name": "KEY", "value": "hunter2"}]}]},
                "basicAuth": {"username": "u", "password": "hunter2", "passwordFrom": {"name": "n", "key": "k"}},
                "bearerToken": "hunter2", "headers": {"X-Any": "hunter2"},
            },
        });
        redact(&mut value);
        assert!(!value.to_string().contains("hunter2"), "{value}");
        assert_eq!(value["spec"]["policy"]["webhook"]["url"], "https://h/scale?redacted");
        assert_eq!(value["spec"]["basicAuth"]["passwordFrom"]["key"], "k", "a name is no secret");
        assert_eq!(value["spec"]["template"]["containers"][0]["env"][0]["name"], "KEY");
    }

    #[test]
    fn a_pod_keeps_neither_its_command_lines_nor_what_kubectl_applied() {
        let container = json!({
            "name": "game", "image": "game:1", "command": ["/game", "--key", "hunter2"],
            "args": ["--token=hunter2", "hunter2"], "env": [{"name": "KEY", "value": "hunter2"}],
            "resources": {"requests": {"cpu": "1"}},
            "livenessProbe": {"exec": {"command": ["curl", "http://u:hunter2@localhost"]}},
        });
        let mut pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "p", "annotations": {
                "kubectl.kubernetes.io/last-applied-configuration": "{\"args\":[\"hunter2\"]}",
                "docs": "https://u:hunter2@docs/?t=hunter2", "plimsoll.dev/kept": "yes",
            }},
            "spec": {
                "containers": [container], "initContainers": [container],
                "ephemeralContainers": [container],
            },
        });
        redact(&mut pod);
        assert!(!pod.to_string().contains("hunter2"), "{pod:#}");
        let annotations = &pod["metadata"]["annotations"];
        assert_eq!(
            *annotations,
            json!({"docs": "https://docs/?redacted", "plimsoll.dev/kept": "yes"})
        );
        let container = &pod["spec"]["containers"][0];
        assert_eq!(container["args"], json!(["redacted", "redacted"]), "their number stays");
        assert_eq!((&container["name"], &container["image"]), (&json!("game"), &json!("game:1")));
        assert_eq!(container["resources"]["requests"]["cpu"], "1");
    }

    #[test]
    fn environments_of_other_forms_are_redacted_too() {
        let mut value = json!({
            "a": {"env": {"KEY": "hunter2"}}, "b": {"Env": ["KEY=hunter2"]},
            "c": {"env": ["KEY=hunter2"]}, "d": {"command": "serve --key hunter2"},
        });
        redact(&mut value);
        assert!(!value.to_string().contains("hunter2"), "{value:#}");
    }

    #[test]
    fn long_lists_end_with_the_number_of_omitted_entries() {
        let names: Vec<String> = (0..250).map(|n| n.to_string()).collect();
        let decision = json!({"to": 1, "delete": names, "nested": {"pods": names}});
        let cut = cut(decision.as_object().unwrap());
        let delete = cut["delete"].as_array().unwrap();
        assert_eq!((delete.len(), &delete[100]), (101, &json!({"more": 150})));
        assert_eq!(cut["nested"]["pods"][100], json!({"more": 150}));
        assert_eq!(cut["to"], 1);
    }

    #[test]
    fn inputs_are_kept_up_to_their_limit() {
        let object = |bytes: usize| vec![json!({"a": "x".repeat(bytes)})];
        assert!(bounded(object(MAX_INPUT_BYTES - 100)).is_some());
        assert!(bounded(object(MAX_INPUT_BYTES)).is_none());
    }
}
