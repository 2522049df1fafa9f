//! A panic while a pod runs fails that pod and no other.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::{Container, Pod};
use kube::api::{Api, DeleteParams};
use kubelet::{Program, ProgramContext, ProgramPort, Settings, Simulated, Simulation};
use serde_json::json;

use super::{Machine, local, machine, shell, states};
use crate::ephemeral;

/// Panics as soon as its pod gets a network.
struct NoPorts;

impl Program for NoPorts {
    fn ports(&self, _: &Pod, _: &Container) -> Vec<ProgramPort> {
        panic!("no ports today")
    }

    fn run(&self, _: ProgramContext) -> BoxFuture<'static, i32> {
        unreachable!("it has no network")
    }
}

/// Panics the first time that it is started, and then runs until it is stopped.
#[derive(Default)]
struct FalseStart(AtomicU32);

impl Program for FalseStart {
    fn ports(&self, _: &Pod, _: &Container) -> Vec<ProgramPort> {
        Vec::new()
    }

    fn run(&self, context: ProgramContext) -> BoxFuture<'static, i32> {
        assert!(self.0.fetch_add(1, Ordering::Relaxed) > 0, "a false start");
        Box::pin(async move {
            context.stop.cancelled().await;
            0
        })
    }
}

struct NoGame;

impl Simulation for NoGame {
    fn play(&self, _: &Arc<Pod>) -> Option<BoxFuture<'static, i32>> {
        panic!("no game today")
    }
}

/// Expects that a pod fails with a panic, reports it, and is removed when it is deleted.
async fn fails_and_is_removed(machine: &Machine, name: &str, cause: &str) {
    let failed = machine.until_phase(name, "Failed").await;
    let status = failed.status.unwrap();
    assert_eq!(status.reason.as_deref(), Some("TaskPanicked"));
    assert!(status.message.as_deref().is_some_and(|m| m.contains(cause)), "{status:?}");
    machine.until_event(cause).await;
    machine.pods().delete(name, &DeleteParams::default()).await.unwrap();
    machine.until_gone(name).await;
}

#[tokio::test]
async fn a_pod_whose_task_panics_has_failed_and_can_be_deleted() {
    let mut local = local();
    local.programs.add("no-ports", Arc::new(NoPorts));
    let machine = machine(local).await;
    let main = json!({"name": "main", "image": "no-ports"});
    machine.create("broken", json!({"containers": [main]})).await;
    machine.create("well", json!({"containers": [shell("main", "sleep 1000")]})).await;
    fails_and_is_removed(&machine, "broken", "no ports today").await;
    machine.until_phase("well", "Running").await;
}

#[tokio::test]
async fn a_simulated_pod_whose_task_panics_has_failed_and_can_be_deleted() {
    let engine = ephemeral().await;
    let simulated =
        Simulated { count: 1, simulation: Some(Arc::new(NoGame)), ..Simulated::default() };
    let settings = Settings { local: None, simulated: Some(simulated) };
    let runtime = engine.run(settings).await.unwrap();
    let machine = Machine { client: engine.client(), engine, runtime };
    machine.create("broken", json!({"containers": [{"name": "main", "image": "i"}]})).await;
    fails_and_is_removed(&machine, "broken", "no game today").await;
    let pods: Api<Pod> = machine.pods();
    assert!(pods.list(&Default::default()).await.unwrap().items.is_empty());
}

#[tokio::test]
async fn a_container_whose_task_panics_is_started_again_as_its_pod_specifies() {
    let mut local = local();
    local.programs.add("false-start", Arc::new(FalseStart::default()));
    let machine = machine(local).await;
    let main = json!({"name": "main", "image": "false-start"});
    machine.create("again", json!({"containers": [main]})).await;
    let is_again = |pod: &Pod| states(pod).get("main") == Some(&(None, 1));
    let pod = machine.until("again", "is restarted", is_again).await;
    let status = pod.status.unwrap().container_statuses.unwrap().remove(0);
    let ended = status.last_state.unwrap().terminated.unwrap();
    assert_eq!(ended.exit_code, 2);
    assert!(ended.message.is_some_and(|m| m.contains("a false start")));
}
