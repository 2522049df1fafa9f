//! Pods of this machine: real processes and programs in this one.

pub(crate) mod docker;
mod endings;
mod faults;
mod hooks;
mod kubectl;
mod networks;
mod panics;
mod probes;
mod processes;
mod programs;
mod real;
mod server;
mod services;
mod sessions;
mod states;
mod volumes;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Event, Pod};
use kube::Client;
use kube::api::{Api, ListParams, PostParams};
use kubelet::{Launcher, Local, Settings};
use plimsoll_engine::{Engine, Runtime};
use serde_json::{Value, json};

use crate::ephemeral;

/// An engine whose pods run on this machine.
struct Machine {
    engine: Engine,
    client: Client,
    runtime: Runtime,
}

fn launcher() -> Launcher {
    Launcher { program: PathBuf::from(env!("CARGO_BIN_EXE_plimsoll-launch")), args: Vec::new() }
}

fn local() -> Local {
    Local { restart_after: Duration::from_millis(100), ..Local::new(launcher()) }
}

async fn machine(local: Local) -> Machine {
    let engine = ephemeral().await;
    let runtime = engine.run(Settings { local: Some(local), simulated: None }).await.unwrap();
    Machine { client: engine.client(), engine, runtime }
}

impl Machine {
    fn pods(&self) -> Api<Pod> {
        Api::default_namespaced(self.client.clone())
    }

    async fn create(&self, name: &str, spec: Value) {
        let pod = json!({"metadata": {"name": name}, "spec": spec});
        let pod = serde_json::from_value(pod).unwrap();
        self.pods().create(&PostParams::default(), &pod).await.unwrap();
    }

    /// Waits, for as long as a slow machine may need, until something is so for a pod.
    async fn until(&self, name: &str, what: &str, holds: impl Fn(&Pod) -> bool) -> Pod {
        for _ in 0..1200 {
            if let Some(pod) = self.pods().get_opt(name).await.unwrap().filter(|pod| holds(pod)) {
                return pod;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!(
            "{name} never {what}: {:#?}",
            self.pods().get_opt(name).await.unwrap().map(|p| p.status)
        );
    }

    async fn until_phase(&self, name: &str, wanted: &str) -> Pod {
        self.until(name, wanted, |pod| phase(pod) == wanted).await
    }

    async fn until_gone(&self, name: &str) {
        for _ in 0..1200 {
            if self.pods().get_opt(name).await.unwrap().is_none() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("{name} is still there");
    }

    /// Waits for an event that contains a text.
    async fn until_event(&self, text: &str) {
        let events: Api<Event> = Api::default_namespaced(self.client.clone());
        for _ in 0..1200 {
            let all = events.list(&ListParams::default()).await.unwrap();
            if all
                .items
                .iter()
                .any(|event| event.message.as_ref().is_some_and(|m| m.contains(text)))
            {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("no event contains {text:?}");
    }

    async fn logs(&self, name: &str) -> String {
        self.pods().logs(name, &Default::default()).await.unwrap()
    }
}

fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|s| s.phase.as_deref()).unwrap_or_default()
}

/// A container that runs a shell script. `$$$$` is what the shell sees as `$$`.
fn shell(name: &str, script: &str) -> Value {
    json!({"name": name, "image": "shell", "command": ["sh", "-c", script]})
}

/// Returns the states of the containers of a pod by name: exit code, if it has ended, and how often it was restarted.
fn states(pod: &Pod) -> BTreeMap<String, (Option<i32>, i32)> {
    let status = pod.status.as_ref().unwrap();
    let all = status
        .init_container_statuses
        .iter()
        .flatten()
        .chain(status.container_statuses.iter().flatten());
    all.map(|s| {
        let ended = s.state.as_ref().and_then(|state| state.terminated.as_ref());
        (s.name.clone(), (ended.map(|e| e.exit_code), s.restart_count))
    })
    .collect()
}
