//! Converts horizontal pod autoscalers, which are stored as autoscaling/v2. In v1 the CPU target is a field; settings without a
//! field in v1 are in annotations, as in kube-apiserver.

use serde_json::{Value, json};

const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";
const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";

/// Converts a v2 autoscaler to v1.
pub(super) fn served(object: &mut Value) {
    let metrics = take(object, "/spec", "metrics");
    let mut others = Vec::new();
    for metric in metrics.as_ref().and_then(Value::as_array).into_iter().flatten() {
        let target = &metric["resource"]["target"];
        let is_cpu = metric["type"] == "Resource" && metric["resource"]["name"] == "cpu";
        match target["averageUtilization"].as_i64() {
            Some(percent) if is_cpu && target["type"] == "Utilization" => {
                object["spec"]["targetCPUUtilizationPercentage"] = percent.into();
            }
            _ => others.push(metric.clone()),
        }
    }
    if !others.is_empty() {
        annotate(object, METRICS, &Value::Array(others));
    }
    for (part, field, annotation) in
        [("/spec", "behavior", BEHAVIOR), ("/status", "conditions", CONDITIONS)]
    {
        if let Some(value) = take(object, part, field).filter(|v| !v.is_null()) {
            annotate(object, annotation, &value);
        }
    }
    if let Some(status) = object.get_mut("status").and_then(Value::as_object_mut) {
        status.entry("currentReplicas").or_insert_with(|| 0.into());
    }
    if let Some(current) = take(object, "/status", "currentMetrics") {
        let cpu = current.as_array().into_iter().flatten().find(|m| m["resource"]["name"] == "cpu");
        let percent = cpu.and_then(|m| m["resource"]["current"]["averageUtilization"].as_i64());
        if let Some(percent) = percent {
            object["status"]["currentCPUUtilizationPercentage"] = percent.into();
        }
    }
}

/// Converts a v1 autoscaler to v2.
pub(super) fn kept(object: &mut Value) {
    let mut metrics = match unannotate(object, METRICS) {
        Some(Value::Array(metrics)) => metrics,
        _ => Vec::new(),
    };
    if let Some(percent) = take(object, "/spec", "targetCPUUtilizationPercentage") {
        let target = json!({"type": "Utilization", "averageUtilization": percent});
        metrics.push(json!({"type": "Resource", "resource": {"name": "cpu", "target": target}}));
    }
    if !metrics.is_empty() {
        object["spec"]["metrics"] = metrics.into();
    }
    if let Some(behavior) = unannotate(object, BEHAVIOR) {
        object["spec"]["behavior"] = behavior;
    }
    if let Some(conditions) = unannotate(object, CONDITIONS) {
        object["status"]["conditions"] = conditions;
    }
    if object["status"].is_object() {
        object["status"]["currentMetrics"] = Value::Null;
        if object["status"]["currentReplicas"] == 0 {
            take(object, "/status", "currentReplicas");
        }
    }
    if let Some(percent) = take(object, "/status", "currentCPUUtilizationPercentage") {
        let current = json!({"averageUtilization": percent});
        object["status"]["currentMetrics"] =
            json!([{"type": "Resource", "resource": {"name": "cpu", "current": current}}]);
    }
}

fn take(object: &mut Value, part: &str, field: &str) -> Option<Value> {
    object.pointer_mut(part)?.as_object_mut()?.remove(field)
}

fn annotate(object: &mut Value, key: &str, value: &Value) {
    object["metadata"]["annotations"][key] = value.to_string().into();
}

fn unannotate(object: &mut Value, key: &str) -> Option<Value> {
    let text = take(object, "/metadata/annotations", key)?;
    let annotations = object["metadata"]["annotations"].as_object();
    if annotations.is_some_and(serde_json::Map::is_empty) {
        take(object, "/metadata", "annotations");
    }
    serde_json::from_str(text.as_str()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_that_v1_lacks_survive_in_annotations() {
        let cpu = json!({"type": "Resource", "resource": {
            "name": "cpu", "target": {"type": "Utilization", "averageUtilization": 70}}});
        let other = json!({"type": "External", "external": {"metric": {"name": "q"}}});
        let v2 = json!({"metadata": {"name": "a"}, "spec": {
            "metrics": [other, cpu], "behavior": {"scaleDown": {"selectPolicy": "Max"}}}});
        let mut v1 = v2.clone();
        served(&mut v1);
        assert_eq!(v1["spec"], json!({"targetCPUUtilizationPercentage": 70}));
        assert!(v1["metadata"]["annotations"][METRICS].is_string());
        kept(&mut v1);
        assert_eq!(v1, v2);
    }
}
