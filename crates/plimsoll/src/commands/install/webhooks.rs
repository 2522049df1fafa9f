//! Which writes does the API server ask us about?

use serde_json::{Value, json};

use super::workload::WEBHOOKS;
use super::{NAME, global};

const GAMES: &str = "agones.dev";
const AUTOSCALERS: &str = "autoscaling.agones.dev";

/// Makes the webhook configurations. Every state of a game server is a write, and none of them is asked about: only its
/// creation is.
pub(super) fn all(namespace: &str, ca_bundle: &str) -> Vec<Value> {
    let create = ["CREATE"].as_slice();
    let both = ["CREATE", "UPDATE"].as_slice();
    let ours: Vec<&str> =
        api::KINDS.iter().filter(|k| k.group == "plimsoll.dev").map(|k| k.plural).collect();
    let rules = [
        rule(GAMES, "v1", &["gameservers"], create),
        rule(GAMES, "v1", &["gameserversets", "fleets"], both),
        rule(AUTOSCALERS, "v1", &["fleetautoscalers"], both),
        rule("multicluster.agones.dev", "v1", &["gameserverallocationpolicies"], both),
        rule("plimsoll.dev", "v1alpha1", &ours, both),
    ];
    let webhook = |name: &str, path: &str| {
        json!({
            "name": format!("{name}.plimsoll.dev"),
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "failurePolicy": "Fail",
            "matchPolicy": "Equivalent",
            "timeoutSeconds": 10,
            "clientConfig": {
                "caBundle": ca_bundle,
                "service": {"name": NAME, "namespace": namespace, "path": path, "port": WEBHOOKS},
            },
            "rules": rules,
        })
    };
    let group = "admissionregistration.k8s.io/v1";
    vec![
        json!({
            "apiVersion": group, "kind": "MutatingWebhookConfiguration",
            "metadata": global("plimsoll-mutate"), "webhooks": [webhook("mutate", "/mutate")],
        }),
        json!({
            "apiVersion": group, "kind": "ValidatingWebhookConfiguration",
            "metadata": global("plimsoll-validate"), "webhooks": [webhook("validate", "/validate")],
        }),
    ]
}

fn rule(group: &str, version: &str, resources: &[&str], operations: &[&str]) -> Value {
    json!({
        "apiGroups": [group], "apiVersions": [version], "resources": resources,
        "operations": operations, "scope": "*",
    })
}
