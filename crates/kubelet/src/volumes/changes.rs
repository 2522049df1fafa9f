//! Notifies pods of changed ConfigMaps and Secrets. They are watched once a pod has a volume of them.

use std::sync::{Arc, OnceLock};

use cluster::{Key, Undecoded, watch};
use futures::StreamExt as _;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client, Resource};
use process::{Random, Supervised, Supervisor};
use serde::de::DeserializeOwned;
use tokio::sync::broadcast;

/// How many changes a pod may be behind before it reads all of its objects again.
const BEHIND: usize = 256;

/// An object that was created, changed or deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Changed {
    pub(super) is_secret: bool,
    key: Arc<Key>,
}

impl Changed {
    pub(super) fn is_in(&self, namespace: &str) -> bool {
        &*self.key.namespace == namespace
    }

    pub(super) fn is_config_map(&self, name: &str) -> bool {
        !self.is_secret && &*self.key.name == name
    }

    pub(super) fn is_secret(&self, name: &str) -> bool {
        self.is_secret && &*self.key.name == name
    }
}

/// Watches ConfigMaps and Secrets for all pods.
pub(crate) struct Changes {
    sender: broadcast::Sender<Changed>,
    task: OnceLock<Supervised>,
}

impl Default for Changes {
    fn default() -> Self {
        Self { sender: broadcast::Sender::new(BEHIND), task: OnceLock::new() }
    }
}

impl Changes {
    /// Returns all changes from now on.
    pub(crate) fn subscribe(
        &self,
        client: &Client,
        random: &Random,
        supervisor: &Supervisor,
    ) -> broadcast::Receiver<Changed> {
        let receiver = self.sender.subscribe();
        self.task.get_or_init(|| {
            let (client, random, sender) = (client.clone(), random.clone(), self.sender.clone());
            supervisor.spawn("watch of ConfigMaps and Secrets", move || {
                let (client, random, sender) = (client.clone(), random.clone(), sender.clone());
                async move {
                    tokio::join!(
                        follow::<ConfigMap>(&client, &random, &sender, false),
                        follow::<Secret>(&client, &random, &sender, true),
                    );
                }
            })
        });
        receiver
    }
}

async fn follow<K>(
    client: &Client,
    random: &Random,
    sender: &broadcast::Sender<Changed>,
    is_secret: bool,
) where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + std::fmt::Debug
        + DeserializeOwned
        + Send
        + Sync
        + 'static,
{
    let api: Api<Undecoded<K>> = Api::all(client.clone());
    let mut events = std::pin::pin!(watch(api, watcher::Config::default(), random.clone()));
    while let Some(event) = events.next().await {
        if let Event::Apply(object) | Event::InitApply(object) | Event::Delete(object) = event {
            let key = Arc::new(Key::from_meta(object.meta()));
            // No pod may be interested at present.
            let _ = sender.send(Changed { is_secret, key });
        }
    }
}
