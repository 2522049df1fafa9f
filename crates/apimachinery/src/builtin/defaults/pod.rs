//! Fills in the defaults of pods and pod templates.

use api::quantity::Quantity;
use serde_json::{Value, json};

use crate::builtin::{fill, given, items, items_mut, text};

/// Fills in the defaults of a pod: those of every pod template, and those that only a pod has.
pub(super) fn pod(object: &mut Value) {
    spec(&mut object["spec"]);
    let spec = &mut object["spec"];
    for list in ["containers", "initContainers"] {
        for container in items_mut(spec, list) {
            requests_from_limits(container);
        }
    }
    fill(spec, "enableServiceLinks", true);
    if spec["hostNetwork"] == Value::Bool(true) {
        for list in ["containers", "initContainers"] {
            for container in items_mut(spec, list) {
                for port in items_mut(container, "ports") {
                    let same = port["containerPort"].clone();
                    fill(port, "hostPort", same);
                }
            }
        }
    }
}

/// Fills in the defaults of a pod template.
pub(super) fn template(template: &mut Value) {
    if template.is_object() {
        spec(&mut template["spec"]);
    }
}

fn spec(spec: &mut Value) {
    fill(spec, "dnsPolicy", "ClusterFirst");
    fill(spec, "restartPolicy", "Always");
    fill(spec, "securityContext", json!({}));
    fill(spec, "terminationGracePeriodSeconds", 30);
    fill(spec, "schedulerName", "default-scheduler");
    for list in ["containers", "initContainers", "ephemeralContainers"] {
        items_mut(spec, list).iter_mut().for_each(container);
    }
    items_mut(spec, "volumes").iter_mut().for_each(volume);
    if let Some(overhead) = spec.get_mut("overhead") {
        round_up(overhead);
    }
}

fn container(container: &mut Value) {
    let policy = pull_policy(text(container, "image"));
    fill(container, "imagePullPolicy", policy);
    fill(container, "terminationMessagePath", "/dev/termination-log");
    fill(container, "terminationMessagePolicy", "File");
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(probe) = container.get_mut(probe).filter(|p| p.is_object()) {
            fill_probe(probe);
        }
    }
    if let Some(lifecycle) = container.get_mut("lifecycle") {
        for hook in ["postStart", "preStop"] {
            if let Some(hook) = lifecycle.get_mut(hook) {
                http_get(hook);
            }
        }
    }
    for variable in items_mut(container, "env") {
        if let Some(from) = variable.get_mut("valueFrom") {
            field_ref(from);
            if let Some(file) = from.get_mut("fileKeyRef").filter(|f| f.is_object()) {
                fill(file, "optional", false);
            }
        }
    }
    for amounts in ["limits", "requests"] {
        if let Some(amounts) = container["resources"].get_mut(amounts) {
            round_up(amounts);
        }
    }
}

fn pull_policy(image: &str) -> &'static str {
    let name = image.rsplit('/').next().unwrap_or_default();
    match (name.contains('@'), name.rsplit_once(':')) {
        (true, _) => "IfNotPresent",
        (false, Some((_, tag))) if tag != "latest" => "IfNotPresent",
        (false, Some(_) | None) => "Always",
    }
}

fn fill_probe(probe: &mut Value) {
    http_get(probe);
    if let Some(grpc) = probe.get_mut("grpc").filter(|g| g.is_object())
        && grpc["service"].is_null()
    {
        grpc["service"] = "".into();
    }
    for (field, default) in [
        ("timeoutSeconds", 1),
        ("periodSeconds", 10),
        ("successThreshold", 1),
        ("failureThreshold", 3),
    ] {
        fill(probe, field, default);
    }
}

fn http_get(handler: &mut Value) {
    if let Some(get) = handler.get_mut("httpGet").filter(|g| g.is_object()) {
        fill(get, "path", "/");
        fill(get, "scheme", "HTTP");
    }
}

fn field_ref(holder: &mut Value) {
    if let Some(field) = holder.get_mut("fieldRef").filter(|f| f.is_object()) {
        fill(field, "apiVersion", "v1");
    }
}

fn volume(volume: &mut Value) {
    let has_source = volume.as_object().is_some_and(|v| v.keys().any(|k| k != "name"));
    if !has_source {
        volume["emptyDir"] = json!({});
    }
    if let Some(image) = volume.get_mut("image").filter(|i| i.is_object()) {
        let policy = pull_policy(text(image, "reference"));
        fill(image, "pullPolicy", policy);
    }
    for source in ["secret", "configMap", "downwardAPI", "projected"] {
        if let Some(source) = volume.get_mut(source).filter(|s| s.is_object()) {
            fill(source, "defaultMode", 420);
        }
    }
    if let Some(path) = volume.get_mut("hostPath").filter(|p| p.is_object())
        && path["type"].is_null()
    {
        path["type"] = "".into();
    }
    if let Some(downward) = volume.get_mut("downwardAPI") {
        items_mut(downward, "items").iter_mut().for_each(field_ref);
    }
    if let Some(projected) = volume.get_mut("projected") {
        items_mut(projected, "sources").iter_mut().for_each(projection);
    }
    let claim = volume.get_mut("ephemeral").and_then(|e| e.get_mut("volumeClaimTemplate"));
    if let Some(claim) = claim.filter(|c| c.is_object()) {
        fill(&mut claim["spec"], "volumeMode", "Filesystem");
    }
}

fn projection(source: &mut Value) {
    if let Some(token) = source.get_mut("serviceAccountToken").filter(|t| t.is_object()) {
        fill(token, "expirationSeconds", 3600);
    }
    if let Some(downward) = source.get_mut("downwardAPI") {
        items_mut(downward, "items").iter_mut().for_each(field_ref);
    }
}

fn requests_from_limits(container: &mut Value) {
    let limits = container["resources"].get("limits").and_then(Value::as_object).cloned();
    for (name, amount) in limits.unwrap_or_default() {
        fill(&mut container["resources"], "requests", json!({}));
        fill(&mut container["resources"]["requests"], &name, amount);
    }
}

/// Rounds amounts that are finer than thousandths up.
fn round_up(amounts: &mut Value) {
    for amount in amounts.as_object_mut().into_iter().flat_map(|m| m.values_mut()) {
        if let Some(quantity) = amount.as_str().and_then(|a| Quantity::parse(a).ok())
            && quantity.is_finer_than_milli()
            && let Ok(rounded) = Quantity::parse(&format!("{}m", quantity.milli()))
        {
            *amount = rounded.to_string().into();
        }
    }
}

/// Returns the pod's QoS class.
pub(crate) fn qos_class(spec: &Value) -> &'static str {
    let mut any = false;
    let mut guaranteed = true;
    for list in ["containers", "initContainers"] {
        for container in items(spec, list) {
            let resources = &container["resources"];
            let amount = |side: &str, name: &str| {
                let text = given(resources, side).map(|s| text(s, name)).unwrap_or_default();
                Quantity::parse(text).ok().filter(|q| !q.is_zero())
            };
            for name in ["cpu", "memory"] {
                let (request, limit) = (amount("requests", name), amount("limits", name));
                any |= request.is_some() || limit.is_some();
                guaranteed &=
                    limit.is_some() && request.map(Quantity::milli) == limit.map(Quantity::milli);
            }
        }
    }
    match (any, guaranteed) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_image_tag_selects_the_pull_policy() {
        for (image, policy) in [
            ("nginx", "Always"),
            ("nginx:latest", "Always"),
            ("nginx:1.2", "IfNotPresent"),
            ("host:5000/nginx", "Always"),
            ("nginx@sha256:0123", "IfNotPresent"),
        ] {
            assert_eq!(pull_policy(image), policy, "{image}");
        }
    }

    #[test]
    fn the_qos_class_follows_requests_and_limits() {
        let class =
            |resources: Value| qos_class(&json!({"containers": [{"resources": resources}]}));
        assert_eq!(class(json!({})), "BestEffort");
        assert_eq!(class(json!({"requests": {"cpu": "1"}})), "Burstable");
        let both = json!({"cpu": "1", "memory": "1Gi"});
        assert_eq!(class(json!({"requests": both, "limits": both})), "Guaranteed");
    }
}
