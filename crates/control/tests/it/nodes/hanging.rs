//! A provider that does not answer delays only its own groups.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use connect::providers::{Group, NodeGroupProvider, ProviderError};
use futures::future::BoxFuture;
use plimsoll_control::NodeProviders;
use tokio::sync::watch;

use super::*;

/// A provider with one group, `slow`, whose machines never appear.
#[derive(Default)]
struct Hanging {
    target: AtomicU32,
    increases: AtomicUsize,
    /// Whether calls hang until this is false again.
    hangs: watch::Sender<bool>,
    snapshots_hang: watch::Sender<bool>,
}

impl Hanging {
    fn settings(self: &Arc<Self>, settings: Settings) -> Settings {
        let provider: Arc<dyn NodeGroupProvider> = Arc::clone(self) as _;
        let node_providers = NodeProviders(BTreeMap::from([("kwok".to_owned(), provider)]));
        Settings { node_providers, ..settings }
    }

    fn increases(&self) -> usize {
        self.increases.load(Ordering::SeqCst)
    }
}

async fn released(hangs: &watch::Sender<bool>) {
    drop(hangs.subscribe().wait_for(|hangs| !hangs).await);
}

impl NodeGroupProvider for Hanging {
    fn snapshot(&self) -> BoxFuture<'_, Result<Vec<Group>, ProviderError>> {
        Box::pin(async {
            released(&self.snapshots_hang).await;
            Ok(vec![Group {
                id: "slow".to_owned(),
                min: 0,
                max: 5,
                target: self.target.load(Ordering::SeqCst),
                instances: Vec::new(),
                ..Group::default()
            }])
        })
    }

    fn increase<'a>(&'a self, _: &'a str, by: u32) -> BoxFuture<'a, Result<(), ProviderError>> {
        Box::pin(async move {
            self.increases.fetch_add(1, Ordering::SeqCst);
            released(&self.hangs).await;
            self.target.fetch_add(by, Ordering::SeqCst);
            Ok(())
        })
    }

    fn delete_nodes<'a>(
        &'a self,
        _: &'a str,
        _: &'a [String],
    ) -> BoxFuture<'a, Result<(), ProviderError>> {
        Box::pin(async { Ok(()) })
    }

    fn decrease_target<'a>(
        &'a self,
        _: &'a str,
        by: u32,
    ) -> BoxFuture<'a, Result<(), ProviderError>> {
        Box::pin(async move {
            self.target.fetch_sub(by, Ordering::SeqCst);
            Ok(())
        })
    }
}

/// A world with a group of the provider and a simulated one.
async fn start(provider: &Arc<Hanging>) -> World {
    let mut world = World::idle(json!({"scaleDown": {"enabled": false}})).await;
    world.group_of("kwok", "slow", json!({"max": 5}), json!({})).await;
    world.group("fast", json!({"max": 5}), json!({"startAfter": "0s"})).await;
    let settings = provider.settings(world.cluster.settings());
    world.tasks.spawn(control(world.client(), settings));
    world
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_increase_that_hangs_is_asked_for_once_and_others_grow() {
    let provider = Arc::new(Hanging::default());
    provider.hangs.send_replace(true);
    let world = start(&provider).await;
    world.pod_of("slow", "waits").await;
    until("the increase hangs", async || provider.increases() == 1).await;
    for n in 0..2 {
        world.pod_of("fast", &format!("fast-{n}")).await;
        until("the other group grows", async || world.bound().await == n + 1).await;
    }
    let is_paused = async || world.has_condition("slow", "ProviderAvailable", "False").await;
    until("the group is paused", is_paused).await;
    assert!(!world.has_event("slow", "FailedToScaleUpGroup").await);
    provider.hangs.send_replace(false);
    until("the late success counts", async || world.has_event("slow", "ScaledUpGroup").await).await;
    let is_back = async || world.has_condition("slow", "ProviderAvailable", "True").await;
    until("the group goes on", is_back).await;
    world.pod_of("fast", "fast-2").await;
    until("the cluster was evaluated again", async || world.bound().await == 3).await;
    assert_eq!((provider.increases(), provider.target.load(Ordering::SeqCst)), (1, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_state_that_cannot_be_read_pauses_its_groups_and_others_grow() {
    let provider = Arc::new(Hanging::default());
    provider.snapshots_hang.send_replace(true);
    let world = start(&provider).await;
    world.pod_of("slow", "waits").await;
    world.pod_of("fast", "fast").await;
    until("the other group grows", async || world.bound().await == 1).await;
    let is_paused = async || world.has_condition("slow", "ProviderAvailable", "False").await;
    until("the group is paused", is_paused).await;
    assert_eq!(provider.increases(), 0);
    provider.snapshots_hang.send_replace(false);
    until("it grows once it is known", async || provider.increases() == 1).await;
}
