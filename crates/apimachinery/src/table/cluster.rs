//! Cells of nodes, namespaces, events, configuration and RBAC.

use super::age;
use super::cells::{Row, or_none, plain as shown};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Builds the cells of all other kinds.
pub(super) fn cells(group: &str, kind: &str, row: Row<'_>) -> Vec<Value> {
    match kind {
        "Node" if group.is_empty() => node(row),
        "Namespace" if group.is_empty() => {
            vec![row.name(), json!(row.text("/status/phase")), row.age()]
        }
        "Event" => event(row),
        "ConfigMap" if group.is_empty() => {
            vec![row.name(), json!(row.count("/data") + row.count("/binaryData")), row.age()]
        }
        "Secret" if group.is_empty() => {
            vec![row.name(), json!(row.text("/type")), json!(row.count("/data")), row.age()]
        }
        "ServiceAccount" if group.is_empty() => vec![row.name(), row.age()],
        "ResourceQuota" if group.is_empty() => quota(row),
        "PodDisruptionBudget" => budget(row),
        "HorizontalPodAutoscaler" => autoscaler(row),
        "Scale" => vec![
            row.name(),
            json!(row.number("/spec/replicas")),
            json!(row.number("/status/replicas")),
            row.age(),
        ],
        "Lease" => vec![row.name(), json!(row.text("/spec/holderIdentity")), row.age()],
        "PriorityClass" => vec![
            row.name(),
            json!(row.number("/value")),
            json!(row.boolean("/globalDefault")),
            row.age(),
            json!(row.text("/preemptionPolicy")),
        ],
        "RuntimeClass" => vec![row.name(), json!(row.text("/handler")), row.age()],
        "ValidatingWebhookConfiguration" | "MutatingWebhookConfiguration" => {
            vec![row.name(), json!(row.count("/webhooks")), row.age()]
        }
        "RoleBinding" | "ClusterRoleBinding" => role_binding(row),
        "CertificateSigningRequest" => signing_request(row),
        "APIService" => api_service(row),
        _ => plain(row),
    }
}

/// Builds the cells of a kind without a printer: a name and a time.
pub(super) fn plain(row: Row<'_>) -> Vec<Value> {
    vec![row.name(), json!(row.text("/metadata/creationTimestamp"))]
}

fn node(row: Row<'_>) -> Vec<Value> {
    let mut status = match row.condition("Ready") {
        Some("True") => "Ready".to_owned(),
        Some(_) => "NotReady".to_owned(),
        None => "Unknown".to_owned(),
    };
    if row.boolean("/spec/unschedulable") {
        status.push_str(",SchedulingDisabled");
    }
    let address = |kind: &str| {
        let all = row.list("/status/addresses").iter();
        let mut found =
            all.filter(|a| a["type"] == kind).map(|a| a["address"].as_str().unwrap_or_default());
        json!(found.next().unwrap_or("<none>"))
    };
    let info =
        |name: &str| row.text_or(&format!("/status/nodeInfo/{name}"), "<unknown>").to_owned();
    let architecture = row.text("/status/nodeInfo/architecture");
    let kernel = match architecture {
        "" => info("kernelVersion"),
        _ => format!("{} ({architecture})", info("kernelVersion")),
    };
    vec![
        row.name(),
        json!(status),
        json!(roles(row)),
        row.age(),
        json!(row.text("/status/nodeInfo/kubeletVersion")),
        address("InternalIP"),
        address("ExternalIP"),
        json!(info("osImage")),
        json!(kernel),
        json!(info("containerRuntimeVersion")),
    ]
}

fn roles(row: Row<'_>) -> String {
    let labels = row.at("/metadata/labels").as_object().into_iter().flatten();
    let roles =
        labels.filter_map(|(name, value)| match name.strip_prefix("node-role.kubernetes.io/") {
            Some(role) => Some(role),
            None if name == "kubernetes.io/role" => value.as_str(),
            None => None,
        });
    let roles: BTreeSet<&str> = roles.filter(|role| !role.is_empty()).collect();
    or_none(roles.into_iter().collect::<Vec<_>>().join(","))
}

/// Builds the cells of an event in either API group.
fn event(row: Row<'_>) -> Vec<Value> {
    let either =
        |one: &'static str, other: &'static str| if row.at(one).is_null() { other } else { one };
    let first = either("/firstTimestamp", "/deprecatedFirstTimestamp");
    let first = if row.at(first).is_null() { row.since("/eventTime") } else { row.since(first) };
    let last = either("/lastTimestamp", "/deprecatedLastTimestamp");
    let mut last = if row.at(last).is_null() { first.clone() } else { row.since(last) };
    let mut count = row.number(either("/count", "/deprecatedCount")).max(1);
    if row.at("/series").is_object() {
        last = row.since("/series/lastObservedTime");
        count = row.number("/series/count");
    }
    let about = either("/involvedObject", "/regarding");
    let part = |name: &str| row.text(&format!("{about}/{name}"));
    let kind = part("kind").to_lowercase();
    let target = if part("name").is_empty() { kind } else { format!("{kind}/{}", part("name")) };
    let source = either("/source", "/deprecatedSource");
    let reporter = row.text(either("/reportingComponent", "/reportingController"));
    let component = row.text_or(&format!("{source}/component"), reporter);
    let instance = row.text_or(&format!("{source}/host"), row.text("/reportingInstance"));
    let source =
        if instance.is_empty() { component.to_owned() } else { format!("{component}, {instance}") };
    vec![
        json!(last),
        json!(row.text("/type")),
        json!(row.text("/reason")),
        json!(target),
        json!(part("fieldPath")),
        json!(source),
        json!(row.text(either("/message", "/note")).trim()),
        json!(first),
        json!(count),
        row.name(),
    ]
}

fn quota(row: Row<'_>) -> Vec<Value> {
    let (mut requests, mut limits) = (Vec::new(), Vec::new());
    for (name, hard) in row.at("/status/hard").as_object().into_iter().flatten() {
        let used = row.at("/status/used").get(name).map_or_else(|| "0".into(), shown);
        let line = format!("{name}: {used}/{}", shown(hard));
        if name.starts_with("limits.") { limits.push(line) } else { requests.push(line) }
    }
    vec![row.name(), json!(requests.join(", ")), json!(limits.join(", ")), row.age()]
}

fn budget(row: Row<'_>) -> Vec<Value> {
    let bound = |path: &str| match row.at(path) {
        Value::Null => json!("N/A"),
        bound => json!(shown(bound)),
    };
    vec![
        row.name(),
        bound("/spec/minAvailable"),
        bound("/spec/maxUnavailable"),
        json!(row.number("/status/disruptionsAllowed")),
        row.age(),
    ]
}

fn autoscaler(row: Row<'_>) -> Vec<Value> {
    let least = row
        .at("/spec/minReplicas")
        .as_i64()
        .map_or_else(|| "<unset>".into(), |least| least.to_string());
    vec![
        row.name(),
        json!(format!(
            "{}/{}",
            row.text("/spec/scaleTargetRef/kind"),
            row.text("/spec/scaleTargetRef/name")
        )),
        json!(targets(row)),
        json!(least),
        json!(row.number("/spec/maxReplicas")),
        json!(row.number("/status/currentReplicas")),
        row.age(),
    ]
}

fn targets(row: Row<'_>) -> String {
    let metrics = row.list("/spec/metrics");
    // autoscaling/v1 has one metric only, in fields of its own.
    if let Some(target) = row.at("/spec/targetCPUUtilizationPercentage").as_i64() {
        let current = row.at("/status/currentCPUUtilizationPercentage").as_i64();
        let current = current.map_or_else(|| "<unknown>".into(), |current| format!("{current}%"));
        return format!("cpu: {current}/{target}%");
    }
    if metrics.is_empty() {
        return "<none>".into();
    }
    let current = row.list("/status/currentMetrics");
    let all: Vec<String> = metrics
        .iter()
        .enumerate()
        .map(|(i, m)| target(m, current.get(i).unwrap_or(&Value::Null)))
        .collect();
    let few = all[..all.len().min(2)].join(", ");
    if all.len() > 2 { format!("{few} + {} more...", all.len() - 2) } else { few }
}

fn target(metric: &Value, status: &Value) -> String {
    let (source, has_name) = match metric["type"].as_str().unwrap_or_default() {
        "External" => ("external", false),
        "Pods" => ("pods", false),
        "Object" => ("object", false),
        "Resource" => ("resource", true),
        "ContainerResource" => ("containerResource", true),
        _ => return "<unknown type>".into(),
    };
    let (wanted, now) = (&metric[source]["target"], &status[source]["current"]);
    let current = |name: &str| match &now[name] {
        Value::Null => "<unknown>".to_owned(),
        value => shown(value),
    };
    if has_name {
        let name = metric[source]["name"].as_str().unwrap_or_default();
        if !wanted["averageValue"].is_null() {
            return format!(
                "{name}: {}/{}",
                current("averageValue"),
                shown(&wanted["averageValue"])
            );
        }
        let percent = |value: &Value, unknown: &str| {
            value.as_i64().map_or_else(|| unknown.into(), |v| format!("{v}%"))
        };
        let (now, wanted) = (&now["averageUtilization"], &wanted["averageUtilization"]);
        return format!("{name}: {}/{}", percent(now, "<unknown>"), percent(wanted, "<auto>"));
    }
    match (source, &wanted["averageValue"]) {
        ("pods", average) => format!("{}/{}", current("averageValue"), shown(average)),
        (_, Value::Null) => format!("{}/{}", current("value"), shown(&wanted["value"])),
        (_, average) => format!("{}/{} (avg)", current("averageValue"), shown(average)),
    }
}

fn role_binding(row: Row<'_>) -> Vec<Value> {
    let of = |kind: &str, with_namespace: bool| {
        let subjects = row.list("/subjects").iter().filter(|subject| subject["kind"] == kind);
        let names = subjects.map(|subject| {
            let text = |name: &str| subject[name].as_str().unwrap_or_default();
            if with_namespace {
                format!("{}/{}", text("namespace"), text("name"))
            } else {
                text("name").to_owned()
            }
        });
        json!(names.collect::<Vec<_>>().join(", "))
    };
    vec![
        row.name(),
        json!(format!("{}/{}", row.text("/roleRef/kind"), row.text("/roleRef/name"))),
        row.age(),
        of("User", false),
        of("Group", false),
        of("ServiceAccount", true),
    ]
}

fn signing_request(row: Row<'_>) -> Vec<Value> {
    let has = |kind| row.condition(kind).is_some();
    let mut status = if has("Denied") {
        "Denied".to_owned()
    } else if has("Approved") {
        "Approved".to_owned()
    } else {
        "Pending".to_owned()
    };
    if has("Failed") {
        status.push_str(",Failed");
    }
    if !row.text("/status/certificate").is_empty() {
        status.push_str(",Issued");
    }
    let duration =
        row.at("/spec/expirationSeconds").as_i64().map_or_else(|| "<none>".into(), age::human);
    vec![
        row.name(),
        row.age(),
        json!(row.text_or("/spec/signerName", "<none>")),
        json!(row.text("/spec/username")),
        json!(duration),
        json!(status),
    ]
}

fn api_service(row: Row<'_>) -> Vec<Value> {
    let service = match row.at("/spec/service") {
        Value::Object(_) => {
            format!("{}/{}", row.text("/spec/service/namespace"), row.text("/spec/service/name"))
        }
        _ => "Local".into(),
    };
    let available =
        row.list("/status/conditions").iter().find(|condition| condition["type"] == "Available");
    let status = match available {
        None => "Unknown".to_owned(),
        Some(condition) if condition["status"] == "True" => "True".into(),
        Some(condition) => {
            let text = |name: &str| condition[name].as_str().unwrap_or_default();
            format!("{} ({})", text("status"), text("reason"))
        }
    };
    vec![row.name(), json!(service), json!(status), row.age()]
}
