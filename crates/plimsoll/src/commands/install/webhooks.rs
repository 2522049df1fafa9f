//! The admission webhook configurations.

use api::Kind;
use serde_json::{Value, json};

use super::workload::WEBHOOKS;
use super::{NAME, global};

/// Returns the webhook configurations, with a rule for every stored kind.
pub(super) fn all(namespace: &str, ca_bundle: &str) -> Vec<Value> {
    let stored = api::KINDS.iter().filter(|kind| kind.crd.is_some());
    let rules: Vec<Value> = stored.map(|kind| rule(kind)).collect();
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

fn rule(kind: &Kind) -> Value {
    let operations =
        if kind.asks_about_changes() { &["CREATE", "UPDATE"][..] } else { &["CREATE"] };
    json!({
        "apiGroups": [kind.group], "apiVersions": [kind.version], "resources": [kind.plural],
        "operations": operations, "scope": "*",
    })
}
