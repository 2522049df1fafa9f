//! Simulated game servers.
//!
//! A pod on a simulated node runs no process. The script in its annotation replaces the SDK calls of its game server, with
//! the same writes as an SDK server and at little cost: thousands run in one process.

mod script;

use std::sync::Arc;
use std::time::Duration;

use api::agones::GameServer;
use decide::gameserver::{Event, State};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, GetParams, Patch, PatchParams};
use kube::core::Request;
use kube::{Client, Resource as _, ResourceExt as _};
use kubelet::Simulation;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::json;

pub use script::{ANNOTATION, BadScript, Script, Step};

/// The maximum number of attempts at a write that conflicts.
const MAX_ATTEMPTS: usize = 10;

/// Runs the scripts of simulated game servers.
#[derive(Clone)]
pub struct Player {
    client: Client,
}

impl Player {
    /// Returns a player that writes through a client.
    pub fn new(client: Client) -> Self {
        Self { client }
    }

    /// Runs the script of a pod that has just started. Returns the exit code of its game server, or never
    /// returns. The caller drops it when the pod goes away.
    pub async fn play(&self, pod: &Pod) -> i32 {
        let script = pod.annotations().get(ANNOTATION).map(|text| text.parse::<Script>());
        let script = script.transpose().unwrap_or_else(|problem| {
            tracing::warn!(pod = pod.name_any(), %problem, "invalid script; using the default");
            None
        });
        let mut played_for = Duration::ZERO;
        for (after, step) in script.unwrap_or_default().steps() {
            tokio::time::sleep(after.saturating_sub(played_for)).await;
            played_for = played_for.max(after);
            let event = match step {
                Step::Ready => Event::SdkReady,
                Step::Shutdown => Event::SdkShutdown,
                Step::StopHealthPings => {
                    tokio::time::sleep(self.unhealthy_after(pod).await).await;
                    Event::SdkUnhealthy
                }
                Step::Crash { code } => return code,
            };
            if let Err(error) = self.write_state(pod, event).await {
                let error = cluster::explain(&error);
                tracing::warn!(pod = pod.name_any(), %error, "could not write the state of a simulated game server");
            }
        }
        std::future::pending().await
    }

    /// Writes what an SDK server would write after a call.
    async fn write_state(&self, pod: &Pod, event: Event) -> kube::Result<()> {
        let name = pod.name_any();
        let at = Request::new(GameServer::url_path(&(), pod.namespace().as_deref()));
        for _ in 0..MAX_ATTEMPTS {
            let observed =
                at.get(&name, &GetParams::default()).map_err(kube::Error::BuildRequest)?;
            let ObservedServer { metadata, status } = match self.client.request(observed).await {
                Err(kube::Error::Api(status)) if status.is_not_found() => return Ok(()),
                observed => observed?,
            };
            let next = State::parse(&status.state).after(event);
            let Some(next) = next.filter(|_| metadata.deletion_timestamp.is_none()) else {
                return Ok(());
            };
            let change = json!({
                "metadata": {"resourceVersion": metadata.resource_version}, "status": {"state": next.as_str()},
            });
            let change = at.patch(&name, &PatchParams::default(), &Patch::Merge(change));
            let change = change.map_err(kube::Error::BuildRequest)?;
            match self.client.request::<IgnoredAny>(change).await {
                Err(kube::Error::Api(status)) if status.is_conflict() => {}
                done => return done.map(drop),
            }
        }
        Ok(())
    }

    /// Returns how long a server without health pings counts as healthy.
    async fn unhealthy_after(&self, pod: &Pod) -> Duration {
        let server = self.servers(pod).get_opt(&pod.name_any()).await.ok().flatten();
        let health = server.map(|server| server.spec.health).unwrap_or_default();
        let seconds = health.period_seconds.saturating_mul(health.failure_threshold);
        Duration::from_secs(seconds.try_into().unwrap_or_default())
    }

    fn servers(&self, pod: &Pod) -> Api<GameServer> {
        Api::namespaced(self.client.clone(), &pod.namespace().unwrap_or_default())
    }
}

/// What a player reads of its game server.
#[derive(Deserialize)]
struct ObservedServer {
    metadata: ObservedMetadata,
    #[serde(default)]
    status: ObservedStatus,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ObservedMetadata {
    resource_version: String,
    deletion_timestamp: Option<IgnoredAny>,
}

#[derive(Default, Deserialize)]
struct ObservedStatus {
    #[serde(default)]
    state: String,
}

/// Runs the scripts of pods on simulated nodes.
impl Simulation for Player {
    fn play(&self, pod: &Arc<Pod>) -> Option<BoxFuture<'static, i32>> {
        let (player, pod) = (self.clone(), Arc::clone(pod));
        Some(async move { player.play(&pod).await }.boxed())
    }
}
