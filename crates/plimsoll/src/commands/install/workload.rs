//! The Deployment and its Services.

use serde_json::{Value, json};

use super::{ALLOCATOR, ALLOCATOR_TLS, CALLERS, NAME, TLS, named};

/// The ports of the admission webhooks and of the aggregated API.
pub(super) const WEBHOOKS: u16 = 8443;
pub(super) const AGGREGATED: u16 = 8444;
const MATCHMAKERS: u16 = 8445;
const METRICS: u16 = 8080;

/// The mounted Secrets and their mount paths.
const MOUNTED: [(&str, &str); 3] = [
    (TLS, "/etc/plimsoll/tls"),
    (ALLOCATOR_TLS, "/etc/plimsoll/allocator"),
    (CALLERS, "/etc/plimsoll/callers"),
];

/// Returns the Deployment and its Services. `game_servers` are arguments of `plimsoll run`.
pub(super) fn all(
    namespace: &str,
    image: &str,
    replicas: u32,
    game_servers: &[String],
) -> Vec<Value> {
    let selector = json!({"app.kubernetes.io/name": NAME});
    let service = |name: &str, ports: Value| {
        json!({
            "apiVersion": "v1", "kind": "Service", "metadata": named(name, namespace),
            "spec": {"selector": selector, "ports": ports},
        })
    };
    let annotations =
        json!({"prometheus.io/scrape": "true", "prometheus.io/port": METRICS.to_string()});
    let volumes =
        MOUNTED.map(|(secret, _)| json!({"name": secret, "secret": {"secretName": secret}}));
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
                    "containers": [container(image, game_servers)],
                    "volumes": volumes,
                },
            },
        },
    });
    vec![
        service(NAME, json!([port("webhooks", WEBHOOKS), port("aggregated", AGGREGATED)])),
        service(ALLOCATOR, json!([port("allocator", 443)])),
        deployment,
    ]
}

fn port(name: &str, port: u16) -> Value {
    json!({"name": name, "port": port, "targetPort": name})
}

fn container(image: &str, game_servers: &[String]) -> Value {
    let probe = |path: &str| {
        let get = json!({"path": path, "port": "webhooks", "scheme": "HTTPS"});
        json!({"httpGet": get, "periodSeconds": 3})
    };
    let [tls, allocator, callers] = MOUNTED.map(|(_, folder)| folder);
    let mounts = MOUNTED
        .map(|(secret, folder)| json!({"name": secret, "mountPath": folder, "readOnly": true}));
    let mut args = vec![
        "run".to_owned(),
        "--in-cluster".to_owned(),
        format!("--webhooks=0.0.0.0:{WEBHOOKS}"),
        format!("--aggregated-api=0.0.0.0:{AGGREGATED}"),
        format!("--certificates={tls}"),
        format!("--allocator=0.0.0.0:{MATCHMAKERS}"),
        format!("--allocator-certificates={allocator}"),
        format!("--allocator-callers={callers}"),
        format!("--metrics=0.0.0.0:{METRICS}"),
        format!("--sidecar-image={image}"),
    ];
    args.extend_from_slice(game_servers);
    json!({
        "name": NAME,
        "image": image,
        "args": args,
        "env": [
            {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        ],
        "ports": [
            {"name": "webhooks", "containerPort": WEBHOOKS},
            {"name": "aggregated", "containerPort": AGGREGATED},
            {"name": "allocator", "containerPort": MATCHMAKERS},
            {"name": "metrics", "containerPort": METRICS},
        ],
        "readinessProbe": probe("/readyz"),
        "livenessProbe": probe("/healthz"),
        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": mounts,
    })
}
