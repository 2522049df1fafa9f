//! What runs, and how is it reached?

use serde_json::{Value, json};

use super::{NAME, SECRET, SERVICE, named};

/// Where the webhooks' certificate is mounted.
const CERTIFICATES: &str = "/etc/plimsoll/tls";
const WEBHOOKS: u16 = 8443;
const METRICS: u16 = 8080;

/// Makes the Deployment and its Service.
pub(super) fn all(namespace: &str, image: &str, replicas: u32) -> Vec<Value> {
    let selector = json!({"app.kubernetes.io/name": NAME});
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": named(SERVICE, namespace),
        "spec": {
            "selector": selector,
            "ports": [{"name": "webhooks", "port": 443, "targetPort": "webhooks"}],
        },
    });
    let annotations =
        json!({"prometheus.io/scrape": "true", "prometheus.io/port": METRICS.to_string()});
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": named(NAME, namespace),
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": selector},
            "template": {
                "metadata": {"labels": selector, "annotations": annotations},
                "spec": {
                    "serviceAccountName": NAME,
                    "securityContext": {
                        "runAsNonRoot": true, "runAsUser": 1000,
                        "seccompProfile": {"type": "RuntimeDefault"},
                    },
                    "containers": [container(image)],
                    "volumes": [{"name": "tls", "secret": {"secretName": SECRET}}],
                },
            },
        },
    });
    vec![service, deployment]
}

fn container(image: &str) -> Value {
    let probe = json!({
        "httpGet": {"path": "/healthz", "port": "webhooks", "scheme": "HTTPS"},
        "periodSeconds": 3,
    });
    json!({
        "name": NAME,
        "image": image,
        "args": [
            "run", "--in-cluster",
            format!("--webhooks=0.0.0.0:{WEBHOOKS}"), format!("--certificates={CERTIFICATES}"),
            format!("--metrics=0.0.0.0:{METRICS}"),
        ],
        "env": [
            {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            {"name": "POD_NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}},
        ],
        "ports": [
            {"name": "webhooks", "containerPort": WEBHOOKS},
            {"name": "metrics", "containerPort": METRICS},
        ],
        "readinessProbe": probe,
        "livenessProbe": probe,
        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [{"name": "tls", "mountPath": CERTIFICATES, "readOnly": true}],
    })
}
