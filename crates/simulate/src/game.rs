//! What would a game server do that is not there?
//!
//! A pod on a simulated node runs nothing. What its game server would have said through the SDK is said here, by the
//! script in the pod's annotation, with the writes of an SDK server and none of its cost: thousands play in one process.

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

pub use script::{ANNOTATION, BadScript, Deed, Script};

/// How often a write is tried against somebody who is always faster.
const TRIES: usize = 10;

/// Plays the game servers of pods.
#[derive(Clone)]
pub struct Player {
    client: Client,
}

impl Player {
    /// Plays through a client.
    pub fn new(client: Client) -> Self {
        Self { client }
    }

    /// Plays the script of a pod that has just begun to run. Gives the code that its game server ends with, or never
    /// ends. The caller drops it when the pod goes away.
    pub async fn play(&self, pod: &Pod) -> i32 {
        let script = pod.annotations().get(ANNOTATION).map(|text| text.parse::<Script>());
        let script = script.transpose().unwrap_or_else(|problem| {
            tracing::warn!(pod = pod.name_any(), %problem, "playing the usual script instead");
            None
        });
        let mut played_for = Duration::ZERO;
        for (after, deed) in script.unwrap_or_default().deeds() {
            tokio::time::sleep(after.saturating_sub(played_for)).await;
            played_for = played_for.max(after);
            let said = match deed {
                Deed::Ready => Event::SdkReady,
                Deed::Shutdown => Event::SdkShutdown,
                Deed::FallSilent => {
                    tokio::time::sleep(self.patience(pod).await).await;
                    Event::SdkUnhealthy
                }
                Deed::Crash { code } => return code,
            };
            if let Err(error) = self.say(pod, said).await {
                tracing::warn!(pod = pod.name_any(), %error, "a simulated game server was not heard");
            }
        }
        std::future::pending().await
    }

    /// Writes what an SDK server would write after a call.
    async fn say(&self, pod: &Pod, event: Event) -> kube::Result<()> {
        let name = pod.name_any();
        let at = Request::new(GameServer::url_path(&(), pod.namespace().as_deref()));
        for _ in 0..TRIES {
            let seen = at.get(&name, &GetParams::default()).map_err(kube::Error::BuildRequest)?;
            let Seen { metadata, status } = match self.client.request(seen).await {
                Err(kube::Error::Api(status)) if status.is_not_found() => return Ok(()),
                seen => seen?,
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

    /// How long a silent server counts as healthy.
    async fn patience(&self, pod: &Pod) -> Duration {
        let server = self.servers(pod).get_opt(&pod.name_any()).await.ok().flatten();
        let health = server.map(|server| server.spec.health).unwrap_or_default();
        let seconds = health.period_seconds.saturating_mul(health.failure_threshold);
        Duration::from_secs(seconds.try_into().unwrap_or_default())
    }

    fn servers(&self, pod: &Pod) -> Api<GameServer> {
        Api::namespaced(self.client.clone(), &pod.namespace().unwrap_or_default())
    }
}

/// What a player looks at of its game server.
#[derive(Deserialize)]
struct Seen {
    metadata: SeenMetadata,
    #[serde(default)]
    status: SeenStatus,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SeenMetadata {
    resource_version: String,
    deletion_timestamp: Option<IgnoredAny>,
}

#[derive(Default, Deserialize)]
struct SeenStatus {
    #[serde(default)]
    state: String,
}

/// Lets the pods of simulated nodes play.
impl Simulation for Player {
    fn play(&self, pod: &Arc<Pod>) -> Option<BoxFuture<'static, i32>> {
        let (player, pod) = (self.clone(), Arc::clone(pod));
        Some(async move { player.play(&pod).await }.boxed())
    }
}
