//! Fills in the defaults of a HorizontalPodAutoscaler.

use serde_json::{Value, json};

use crate::builtin::{fill, items};

pub(super) fn autoscaler(object: &mut Value) {
    let is_first_version = object["apiVersion"] == "autoscaling/v1";
    let spec = &mut object["spec"];
    fill(spec, "minReplicas", 1);
    if is_first_version {
        fill(spec, "targetCPUUtilizationPercentage", 80);
        return;
    }
    if items(spec, "metrics").is_empty() {
        spec["metrics"] = json!([{"type": "Resource", "resource": {
            "name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}}]);
    }
    if spec.get("behavior").is_some_and(Value::is_object) {
        let behavior = &mut spec["behavior"];
        let up = json!({"stabilizationWindowSeconds": 0, "selectPolicy": "Max", "policies": [
            {"type": "Pods", "value": 4, "periodSeconds": 15},
            {"type": "Percent", "value": 100, "periodSeconds": 15}]});
        let down = json!({"selectPolicy": "Max", "policies": [
            {"type": "Percent", "value": 100, "periodSeconds": 15}]});
        for (direction, defaults) in [("scaleUp", up), ("scaleDown", down)] {
            fill(behavior, direction, json!({}));
            for (field, default) in defaults.as_object().into_iter().flatten() {
                fill(&mut behavior[direction], field, default.clone());
            }
        }
    }
}
