//! Probes, and containers that fail them.

use std::time::Duration;

use serde_json::{Value, json};

use super::{local, machine, shell, states};

fn probed(script: &str, kind: &str, probe: Value) -> Value {
    let mut container = shell("c", script);
    container[kind] = probe;
    container[kind]["periodSeconds"] = 1.into();
    container
}

/// Serves HTTP with one status on a port.
fn web(status: u16) -> String {
    format!(
        "exec python3 -c \"\nimport http.server as h\nclass H(h.BaseHTTPRequestHandler):\n  def do_GET(s): s.send_response({status}); s.end_headers()\n\
         h.HTTPServer(('127.0.0.1', 8080), H).serve_forever()\""
    )
}

#[tokio::test]
async fn a_container_that_fails_its_liveness_probe_is_restarted_or_fails_as_its_pod_specifies() {
    let machine = machine(local()).await;
    let probe = json!({"httpGet": {"path": "/healthz", "port": 8080}, "failureThreshold": 2, "timeoutSeconds": 10});
    // A slow machine takes its time to start the server, and that is no failure.
    let startup =
        json!({"tcpSocket": {"port": 8080}, "periodSeconds": 1, "failureThreshold": 1000});
    for (name, status, policy) in
        [("good", 200, "Never"), ("bad", 500, "Never"), ("again", 500, "Always")]
    {
        let mut container = probed(&web(status), "livenessProbe", probe.clone());
        container["startupProbe"] = startup.clone();
        let spec = json!({
            "restartPolicy": policy, "terminationGracePeriodSeconds": 1, "containers": [container],
        });
        machine.create(name, spec).await;
    }
    let failed = machine.until_phase("bad", "Failed").await;
    assert_ne!(states(&failed)["c"].0, Some(0));
    machine.until_event("Liveness probe failed: HTTP probe failed with statuscode: 500").await;
    machine.until("again", "was restarted", |pod| states(pod)["c"].1 > 0).await;
    let good = machine.until_phase("good", "Running").await;
    assert_eq!(states(&good)["c"], (None, 0));
}

#[tokio::test]
async fn a_pod_is_ready_when_its_readiness_probe_succeeds_and_not_before_it_has_started() {
    let machine = machine(local()).await;
    let dir = tempfile::tempdir().unwrap();
    let (started, ready) = (dir.path().join("started"), dir.path().join("ready"));
    let mut container =
        probed("sleep 1000", "readinessProbe", json!({"exec": {"command": ["test", "-f", ready]}}));
    container["startupProbe"] = json!({"exec": {"command": ["test", "-f", started]}, "periodSeconds": 1, "failureThreshold": 1000});
    machine.create("a", json!({"containers": [container]})).await;
    let is_ready = |pod: &k8s_openapi::api::core::v1::Pod| {
        let status = &pod.status.as_ref().unwrap().container_statuses.as_ref().unwrap()[0];
        (status.started, status.ready)
    };
    let running = machine.until_phase("a", "Running").await;
    assert_eq!(is_ready(&running), (Some(false), false));
    std::fs::write(&ready, "").unwrap();
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert_eq!(is_ready(&machine.pods().get("a").await.unwrap()), (Some(false), false));
    std::fs::write(&started, "").unwrap();
    machine.until("a", "became ready", |pod| is_ready(pod) == (Some(true), true)).await;
    std::fs::remove_file(&ready).unwrap();
    machine.until("a", "stopped being ready", |pod| is_ready(pod) == (Some(true), false)).await;
}
