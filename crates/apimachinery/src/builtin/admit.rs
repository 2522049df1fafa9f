//! Applies the admission plugins that every cluster runs to a new object.

use serde_json::{Value, json};

use super::{BuiltIn, fill, items, text};

/// The PriorityClasses that admission needs besides the object.
pub struct PriorityClasses<'a> {
    /// Finds a PriorityClass by name.
    pub by_name: &'a dyn Fn(&str) -> Option<Value>,
    /// The PriorityClass with `globalDefault: true`.
    pub global_default: Option<Value>,
}

/// Completes a new object; the error is the reason for which it is forbidden.
pub fn admit(
    kind: BuiltIn<'_>,
    object: &mut Value,
    classes: &PriorityClasses<'_>,
) -> Result<(), String> {
    if (kind.group, kind.kind) == ("", "Pod") {
        if super::given(&object["spec"], "overhead").is_some()
            && text(&object["spec"], "runtimeClassName").is_empty()
        {
            let why = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead";
            return Err(why.to_owned());
        }
        tolerate_short_outages(&mut object["spec"]);
        return resolve_priority(&mut object["spec"], classes);
    }
    if (kind.group, kind.kind) == ("", "PersistentVolumeClaim") {
        protect(object, "kubernetes.io/pvc-protection");
    }
    if (kind.group, kind.kind) == ("", "PersistentVolume") {
        protect(object, "kubernetes.io/pv-protection");
    }
    Ok(())
}

/// Adds the DefaultTolerationSeconds: a pod stays on an unreachable node for five minutes unless it tolerates the taint itself.
fn tolerate_short_outages(spec: &mut Value) {
    for taint in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        let tolerates = items(spec, "tolerations").iter().any(|t| {
            (text(t, "key") == taint || text(t, "key").is_empty())
                && matches!(text(t, "effect"), "NoExecute" | "")
        });
        if !tolerates {
            fill(spec, "tolerations", json!([]));
            if let Some(list) = spec["tolerations"].as_array_mut() {
                list.push(json!({"key": taint, "operator": "Exists", "effect": "NoExecute",
                    "tolerationSeconds": 300}));
            }
        }
    }
}

fn resolve_priority(spec: &mut Value, classes: &PriorityClasses<'_>) -> Result<(), String> {
    let name = text(spec, "priorityClassName").to_owned();
    let class = match name.as_str() {
        "" => classes.global_default.clone(),
        "system-cluster-critical" => Some(system_class(&name, 2_000_000_000)),
        "system-node-critical" => Some(system_class(&name, 2_000_001_000)),
        _ => match (classes.by_name)(&name) {
            Some(class) => Some(class),
            None => return Err(format!("no PriorityClass with name {name} was found")),
        },
    };
    let class =
        class.unwrap_or_else(|| json!({"value": 0, "preemptionPolicy": "PreemptLowerPriority"}));
    let value = class["value"].as_i64().unwrap_or_default();
    let given = spec.get("priority").and_then(Value::as_i64);
    if given.is_some_and(|g| g != value) {
        return Err(format!(
            "the integer value of priority ({}) must not be provided in pod spec; priority admission controller \
             computed {value} from the given PriorityClass name",
            given.unwrap_or_default()
        ));
    }
    if name.is_empty()
        && let Some(default) = class["metadata"]["name"].as_str()
    {
        spec["priorityClassName"] = default.into();
    }
    spec["priority"] = value.into();
    let policy = text(&class, "preemptionPolicy");
    let policy = if policy.is_empty() { "PreemptLowerPriority" } else { policy };
    let asked = text(spec, "preemptionPolicy");
    if !asked.is_empty() && asked != policy {
        return Err(format!(
            "the string value of PreemptionPolicy ({asked}) must not be provided in pod spec; priority admission \
             controller computed {policy} from the given PriorityClass name"
        ));
    }
    spec["preemptionPolicy"] = policy.into();
    Ok(())
}

fn system_class(name: &str, value: i64) -> Value {
    json!({"metadata": {"name": name}, "value": value, "preemptionPolicy": "PreemptLowerPriority"})
}

fn protect(object: &mut Value, finalizer: &str) {
    let meta = &mut object["metadata"];
    if !items(meta, "finalizers").iter().any(|f| f == finalizer) {
        fill(meta, "finalizers", json!([]));
        if let Some(list) = meta["finalizers"].as_array_mut() {
            list.push(finalizer.into());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POD: BuiltIn<'_> = BuiltIn { group: "", kind: "Pod" };

    #[test]
    fn a_pod_gets_a_priority_and_tolerates_short_outages() {
        let classes = PriorityClasses { by_name: &|_| None, global_default: None };
        let mut pod = json!({"spec": {}});
        admit(POD, &mut pod, &classes).unwrap();
        assert_eq!(pod["spec"]["priority"], 0);
        assert_eq!(pod["spec"]["tolerations"].as_array().map(Vec::len), Some(2));
        let mut pod = json!({"spec": {"priorityClassName": "none"}});
        let error = admit(POD, &mut pod, &classes).unwrap_err();
        assert_eq!(error, "no PriorityClass with name none was found");
    }
}
