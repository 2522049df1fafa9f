//! Removes the values that clients write for unset fields.
//!
//! Agones' Go types write most fields whether they were set or not: `"scheduling": ""`, a status of zeros, nulls for lists and
//! maps. Agones takes an empty text for a missing one where its webhooks read and write an object, and never reads the status
//! of a kind that has it apart. Each kind lists here what it forgives, for every way by which its objects arrive.

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{Admission, Problem};

/// Texts in a game server's spec that are left out when they are empty.
pub(crate) const GAME_SERVER: [&str; 6] = [
    "scheduling",
    "ports[].portPolicy",
    "ports[].protocol",
    "ports[].range",
    "sdkServer.logLevel",
    "eviction.safe",
];

/// Removes the texts at `paths` below `prefix` that are empty; `[]` stands for every item of a list.
pub(crate) fn remove_empty(value: &mut Value, prefix: &str, paths: &[&str]) {
    let Some(part) = value.pointer_mut(prefix) else { return };
    for path in paths {
        remove_at(part, path);
    }
}

fn remove_at(value: &mut Value, path: &str) {
    let (name, rest) = path.split_once('.').unwrap_or((path, ""));
    let Some(map) = value.as_object_mut() else { return };
    if let Some(list) = name.strip_suffix("[]") {
        let items = map.get_mut(list).and_then(Value::as_array_mut);
        items.into_iter().flatten().for_each(|item| remove_at(item, rest));
    } else if rest.is_empty() {
        if map.get(name).is_some_and(|text| text == "") {
            map.remove(name);
        }
    } else if let Some(inner) = map.get_mut(name) {
        remove_at(inner, rest);
    }
}

/// Puts the status that is stored in place of the one that was sent, as the API does for a kind whose status is written apart. A new
/// object has none in the API; in a file it is what was observed, and stays if it can be read as `Status`.
pub(crate) fn keep_status<Status: DeserializeOwned>(value: &mut Value, admission: &Admission<'_>) {
    let Some(map) = value.as_object_mut() else { return };
    let kept = match admission.old {
        Some(old) => old.get("status").cloned(),
        None => map.remove("status").filter(|status| Status::deserialize(status).is_ok()),
    };
    match kept {
        Some(status) => drop(map.insert("status".to_owned(), status)),
        None => drop(map.remove("status")),
    }
}

/// Admits an object with `enter`, which does not see the status of a new one: the API drops it before anything is checked.
pub(crate) fn without_new_status(
    value: &mut Value,
    admission: &Admission<'_>,
    enter: impl FnOnce(&mut Value) -> Result<(), Vec<Problem>>,
) -> Result<(), Vec<Problem>> {
    if admission.old.is_some() {
        return enter(value);
    }
    let status = value.as_object_mut().and_then(|map| map.remove("status"));
    let entered = enter(value);
    if let (Some(status), Some(map)) = (status, value.as_object_mut()) {
        map.insert("status".to_owned(), status);
    }
    entered
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_empty_texts_at_the_listed_places_go() {
        let mut value = json!({"spec": {
            "scheduling": "", "container": "", "sdkServer": {"logLevel": "", "grpcPort": 0},
            "ports": [{"name": "", "portPolicy": ""}, {"portPolicy": "Static"}, 7], "eviction": null,
        }});
        remove_empty(&mut value, "/spec", &GAME_SERVER);
        assert_eq!(
            value,
            json!({"spec": {
                "container": "", "sdkServer": {"grpcPort": 0},
                "ports": [{"name": ""}, {"portPolicy": "Static"}, 7], "eviction": null,
            }})
        );
    }
}
