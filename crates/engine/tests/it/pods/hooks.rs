//! `postStart` and `preStop` hooks.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::api::DeleteParams;
use serde_json::{Value, json};

use super::{local, machine, shell, states};

fn hooked(script: &str, lifecycle: Value) -> Value {
    let mut container = shell("c", script);
    container["lifecycle"] = lifecycle;
    container
}

fn exec(script: &str) -> Value {
    json!({"exec": {"command": ["sh", "-c", script]}})
}

#[tokio::test]
async fn a_container_runs_once_its_post_start_hook_is_done() {
    let machine = machine(local()).await;
    let dir = tempfile::tempdir().unwrap();
    let (begun, go) = (dir.path().join("begun"), dir.path().join("go"));
    let hook = format!(
        "echo $HOOKED > {}; while ! test -f {}; do sleep 0.05; done",
        begun.display(),
        go.display()
    );
    let mut container = hooked("sleep 1000", json!({"postStart": exec(&hook)}));
    container["env"] = json!([{"name": "HOOKED", "value": "with its environment"}]);
    machine.create("a", json!({"containers": [container]})).await;
    while std::fs::read_to_string(&begun).unwrap_or_default().is_empty() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(std::fs::read_to_string(&begun).unwrap(), "with its environment\n");
    assert_ne!(super::phase(&machine.pods().get("a").await.unwrap()), "Running");
    std::fs::write(&go, "").unwrap();
    machine.until_phase("a", "Running").await;
}

#[tokio::test]
async fn a_failed_post_start_hook_kills_the_container() {
    let machine = machine(local()).await;
    for (name, hook) in [
        ("exec", exec("exit 1")),
        ("http", json!({"httpGet": {"port": 1, "path": "/"}})),
        ("tcp", json!({"tcpSocket": {"port": 1}})),
    ] {
        let container = hooked("exec sleep 1000", json!({"postStart": hook}));
        let spec = json!({
            "restartPolicy": "Never", "terminationGracePeriodSeconds": 5, "containers": [container],
        });
        machine.create(name, spec).await;
        let failed = machine.until_phase(name, "Failed").await;
        assert_eq!(states(&failed)["c"], (Some(143), 0), "{name}");
    }
    machine.until_event("PostStartHook failed").await;
}

#[tokio::test]
async fn a_pre_stop_hook_runs_before_the_signal_and_within_the_grace_period() {
    let machine = machine(local()).await;
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("order");
    let file = file.display();
    let script = format!("trap 'echo term >> {file}; exit 0' TERM; echo ready; sleep 1000 & wait");
    let polite = hooked(&script, json!({"preStop": exec(&format!("echo hook >> {file}"))}));
    machine.create("polite", json!({"containers": [polite]})).await;
    // Its hook would take far longer than its grace period.
    let slow = hooked("echo ready; exec sleep 1000", json!({"preStop": {"sleep": {"seconds": 1}}}));
    let spec = json!({"terminationGracePeriodSeconds": 2, "containers": [slow]});
    machine.create("slow", spec).await;
    let endless = hooked("echo ready; exec sleep 1000", json!({"preStop": exec("sleep 1000")}));
    let spec = json!({"terminationGracePeriodSeconds": 1, "containers": [endless]});
    machine.create("endless", spec).await;
    let bad = hooked("echo ready; exec sleep 1000", json!({"preStop": exec("exit 1")}));
    machine.create("bad", json!({"containers": [bad]})).await;
    for name in ["polite", "slow", "endless", "bad"] {
        machine.until_phase(name, "Running").await;
        while machine.logs(name).await.is_empty() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        machine.pods().delete(name, &DeleteParams::default()).await.unwrap();
        machine.until_gone(name).await;
    }
    assert_eq!(std::fs::read_to_string(dir.path().join("order")).unwrap(), "hook\nterm\n");
    machine.until_event("PreStopHook failed").await;
}

#[tokio::test]
async fn an_http_hook_calls_the_container() {
    let machine = machine(local()).await;
    let server = "exec python3 -c \"\nimport http.server as h\nclass H(h.BaseHTTPRequestHandler):\n  def do_GET(s): \
                  print('asked for', s.path, flush=True); s.send_response(200); s.end_headers()\n\
                  h.HTTPServer(('127.0.0.1', 8080), H).serve_forever()\"";
    let get = json!({"httpGet": {"port": 8080, "path": "/bye"}});
    let mut container = hooked(server, json!({"preStop": get}));
    container["startupProbe"] =
        json!({"tcpSocket": {"port": 8080}, "periodSeconds": 1, "failureThreshold": 1000});
    let spec = json!({"terminationGracePeriodSeconds": 60, "containers": [container]});
    machine.create("a", spec).await;
    let is_started = |pod: &Pod| {
        let statuses = pod.status.as_ref().and_then(|status| status.container_statuses.as_ref());
        statuses.is_some_and(|statuses| statuses[0].started == Some(true))
    };
    machine.until("a", "started", is_started).await;
    let followed = kube::api::LogParams { follow: true, ..Default::default() };
    let mut lines = machine.pods().log_stream("a", &followed).await.unwrap();
    machine.pods().delete("a", &DeleteParams::default()).await.unwrap();
    let mut output = String::new();
    futures::AsyncReadExt::read_to_string(&mut lines, &mut output).await.unwrap();
    assert!(output.contains("asked for /bye\n"), "{output}");
    machine.until_gone("a").await;
}
