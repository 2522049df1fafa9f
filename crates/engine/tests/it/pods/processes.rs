//! Containers as child processes.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Event};
use kube::api::{Api, DeleteParams, ListParams, LogParams, PostParams};
use kubelet::{Local, Settings};
use plimsoll_engine::{Engine, Settings as EngineSettings};
use serde_json::json;

use super::{launcher, local, machine, phase, shell, states};

#[tokio::test]
async fn a_pod_runs_its_program_to_the_end_and_its_log_is_kept() {
    let machine = machine(local()).await;
    let spec = json!({"restartPolicy": "Never", "containers": [shell("c", "echo hello; echo world >&2; exit 3")]});
    machine.create("a", spec).await;
    let ended = machine.until_phase("a", "Failed").await;
    assert_eq!(states(&ended)["c"], (Some(3), 0));
    let logs = machine.logs("a").await;
    assert!(logs.contains("hello\n") && logs.contains("world\n"), "{logs}");
    let tail = LogParams { tail_lines: Some(1), timestamps: true, ..LogParams::default() };
    let tail = machine.pods().logs("a", &tail).await.unwrap();
    assert!(tail.lines().count() == 1 && tail.starts_with("20"), "{tail}");
}

#[tokio::test]
async fn containers_are_restarted_as_their_pod_specifies() {
    let machine = machine(local()).await;
    let counts = "echo x >> $0; test $(wc -l < $0) -ge 3";
    let dir = tempfile::tempdir().unwrap();
    for policy in ["Always", "OnFailure"] {
        let file = dir.path().join(policy);
        let container = json!({"name": "c", "image": "i", "command": ["sh", "-c", counts, file]});
        machine
            .create(
                &policy.to_lowercase(),
                json!({"restartPolicy": policy, "containers": [container]}),
            )
            .await;
    }
    let ended = machine.until_phase("onfailure", "Succeeded").await;
    assert_eq!(states(&ended)["c"], (Some(0), 2), "twice it failed");
    machine
        .until("always", "was restarted though it succeeded", |pod| states(pod)["c"].1 >= 3)
        .await;
    let previous = LogParams { previous: true, ..LogParams::default() };
    machine.pods().logs("always", &previous).await.unwrap();
}

#[tokio::test]
async fn the_environment_is_that_of_a_pod() {
    let machine = machine(local()).await;
    let maps: Api<ConfigMap> = Api::default_namespaced(machine.client.clone());
    let map = json!({"metadata": {"name": "m"}, "data": {"one": "1", "two": "2"}});
    maps.create(&PostParams::default(), &serde_json::from_value(map).unwrap()).await.unwrap();
    let container = json!({
        "name": "c", "image": "i", "command": ["sh", "-c", "echo $A,$B,$NAME,$FROM_one,$HOME_OF_TEST,$HOSTNAME,$PWD,$0"],
        "args": ["$(A)"], "workingDir": "/",
        "envFrom": [{"prefix": "FROM_", "configMapRef": {"name": "m"}}],
        "env": [
            {"name": "A", "value": "a"}, {"name": "B", "value": "$(A)b"},
            {"name": "NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        ],
    });
    machine.create("a", json!({"restartPolicy": "Never", "containers": [container]})).await;
    machine.until_phase("a", "Succeeded").await;
    assert_eq!(machine.logs("a").await, "a,ab,a,1,,a,/,a\n");
}

#[tokio::test]
async fn init_containers_run_in_order_and_sidecars_stay_until_the_end() {
    let machine = machine(local()).await;
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("order");
    let say =
        |name: &str, then: &str| shell(name, &format!("echo {name} >> {}; {then}", file.display()));
    let trap =
        format!("trap 'echo sidecar ends >> {}; exit 0' TERM; sleep 1000 & wait", file.display());
    let mut sidecar = say("sidecar", &trap);
    sidecar["restartPolicy"] = "Always".into();
    let spec = json!({
        "restartPolicy": "Never", "initContainers": [say("first", ""), sidecar, say("second", "sleep 0.2")],
        "containers": [say("main", "sleep 0.2")],
    });
    machine.create("a", spec).await;
    let ended = machine.until_phase("a", "Succeeded").await;
    let order = std::fs::read_to_string(&file).unwrap();
    let order: Vec<&str> = order.lines().collect();
    assert_eq!(order[0], "first");
    assert_eq!(order[3..], ["main", "sidecar ends"]);
    assert_eq!(states(&ended)["sidecar"], (Some(0), 0));
}

#[tokio::test]
async fn a_failing_init_container_keeps_the_others_from_starting() {
    let machine = machine(local()).await;
    let spec = json!({
        "restartPolicy": "Never", "initContainers": [shell("first", "exit 7")], "containers": [shell("main", "")],
    });
    machine.create("a", spec).await;
    let ended = machine.until_phase("a", "Failed").await;
    assert_eq!(states(&ended)["first"], (Some(7), 0));
    assert_eq!(states(&ended)["main"], (None, 0));
}

#[tokio::test]
async fn a_deleted_pod_is_asked_to_end_and_is_killed_when_its_time_is_up() {
    let machine = machine(local()).await;
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("asked");
    let polite =
        format!("trap 'echo yes > {}; exit 0' TERM; echo ready; sleep 1000 & wait", file.display());
    machine.create("polite", json!({"containers": [shell("c", &polite)]})).await;
    let deaf = "trap '' TERM; echo ready; while true; do sleep 0.1; done";
    let spec = json!({"terminationGracePeriodSeconds": 1, "containers": [shell("c", deaf)]});
    machine.create("deaf", spec).await;
    for name in ["polite", "deaf"] {
        machine.until_phase(name, "Running").await;
        while machine.logs(name).await.is_empty() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        machine.pods().delete(name, &DeleteParams::default()).await.unwrap();
        machine.until_gone(name).await;
    }
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "yes\n");
}

#[tokio::test]
async fn an_image_that_is_no_program_gets_a_helpful_message() {
    let machine = machine(local()).await;
    machine
        .create("a", json!({"containers": [{"name": "c", "image": "example.com/game:1"}]}))
        .await;
    let waiting = machine
        .until("a", "waited", |pod| {
            let statuses = pod.status.as_ref().and_then(|s| s.container_statuses.as_ref());
            statuses.and_then(|s| s[0].state.as_ref()?.waiting.as_ref()?.message.as_ref()).is_some()
        })
        .await;
    assert_eq!(phase(&waiting), "Pending");
    let state = waiting
        .status
        .unwrap()
        .container_statuses
        .unwrap()
        .remove(0)
        .state
        .unwrap()
        .waiting
        .unwrap();
    assert_eq!(state.reason.as_deref(), Some("ErrImagePull"));
    assert!(state.message.unwrap().contains("--image example.com/game:1=PROGRAM"));
}

#[tokio::test]
async fn an_image_is_mapped_to_a_program_with_its_first_arguments() {
    let mut local: Local = local();
    let program = ["sh", "-c", "echo $0 $1"].map(str::to_owned).to_vec();
    local.images.insert("example.com/game".to_owned(), program);
    let machine = machine(local).await;
    let container = json!({"name": "c", "image": "example.com/game:1", "command": ["/game", "-x"], "args": ["-y"]});
    machine.create("a", json!({"restartPolicy": "Never", "containers": [container]})).await;
    machine.until_phase("a", "Succeeded").await;
    assert_eq!(machine.logs("a").await, "-x -y\n");
}

#[tokio::test]
async fn what_ran_when_plimsoll_ended_has_failed_at_the_next_start() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let settings = || EngineSettings::in_directory(&data);
    let pid_file = dir.path().join("pid");
    {
        let engine = Engine::open(settings()).await.unwrap();
        let runtime = engine.run(Settings { local: Some(local()), simulated: None }).await.unwrap();
        let machine = super::Machine { client: engine.client(), engine, runtime };
        let script = format!("echo $$$$ > {}; exec sleep 1000", pid_file.display());
        machine.create("a", json!({"containers": [shell("c", &script)]})).await;
        machine.until_phase("a", "Running").await;
        while std::fs::read_to_string(&pid_file).unwrap_or_default().is_empty() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        machine.runtime.stop(Duration::from_secs(5)).await;
        assert_eq!(
            phase(&machine.engine.client().clone().pod("a").await),
            "Running",
            "objects stay"
        );
        machine.engine.stop();
    }
    let pid = std::fs::read_to_string(&pid_file).unwrap();
    assert!(!std::path::Path::new("/proc").join(pid.trim()).exists(), "the process has ended");
    let engine = Engine::open(settings()).await.unwrap();
    let local = Local::new(launcher());
    let _runtime = engine.run(Settings { local: Some(local), simulated: None }).await.unwrap();
    let failed = engine.client().pod("a").await;
    assert_eq!(phase(&failed), "Failed");
    assert_eq!(failed.status.unwrap().reason.as_deref(), Some("NodeRestarted"));
    // Events are sent in the background.
    let events: Api<Event> = Api::default_namespaced(engine.client());
    let is_recorded = async || {
        let events = events.list(&ListParams::default()).await.unwrap();
        events.items.iter().any(|e| e.reason.as_deref() == Some("NodeRestarted"))
    };
    while !is_recorded().await {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

trait GetPod {
    async fn pod(&self, name: &str) -> k8s_openapi::api::core::v1::Pod;
}

impl GetPod for kube::Client {
    async fn pod(&self, name: &str) -> k8s_openapi::api::core::v1::Pod {
        Api::default_namespaced(self.clone()).get(name).await.unwrap()
    }
}
