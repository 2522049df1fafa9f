//! The scheduler's watches, as one stream of changes.

use std::collections::HashSet;

use cluster::{Key, Undecoded, watch};
use futures::stream::{BoxStream, select_all};
use futures::{Stream, StreamExt as _};
use k8s_openapi::api::core::v1::{Namespace, Node, PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::storage::v1::{CSINode, StorageClass};
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client, Resource};
use process::Random;

use crate::watched_pod::WatchedPod;

/// An event of one of the watches.
pub(crate) enum WatchEvent {
    Pod(Box<Event<Undecoded<WatchedPod>>>),
    Node(Box<Event<Undecoded<Node>>>),
    Namespace(Box<Event<Undecoded<Namespace>>>),
    Claim(Box<Event<Undecoded<PersistentVolumeClaim>>>),
    Volume(Box<Event<Undecoded<PersistentVolume>>>),
    StorageClass(Box<Event<Undecoded<StorageClass>>>),
    CsiNode(Box<Event<Undecoded<CSINode>>>),
    Budget(Box<Event<Undecoded<PodDisruptionBudget>>>),
}

/// Watches everything that scheduling depends on, without end.
pub(crate) fn watch_all(
    client: &Client,
    random: &Random,
) -> impl Stream<Item = WatchEvent> + Send + use<> {
    select_all([
        watch_kind(client, random, WatchEvent::Namespace),
        watch_kind(client, random, WatchEvent::CsiNode),
        watch_kind(client, random, WatchEvent::Budget),
        watch_kind(client, random, WatchEvent::Node),
        watch_kind(client, random, WatchEvent::StorageClass),
        watch_kind(client, random, WatchEvent::Volume),
        watch_kind(client, random, WatchEvent::Claim),
        watch_kind(client, random, WatchEvent::Pod),
    ])
}

fn watch_kind<K>(
    client: &Client,
    random: &Random,
    wrap: fn(Box<Event<Undecoded<K>>>) -> WatchEvent,
) -> BoxStream<'static, WatchEvent>
where
    K: Resource<DynamicType = ()>
        + Clone
        + std::fmt::Debug
        + serde::de::DeserializeOwned
        + Send
        + Sync
        + 'static,
{
    let api: Api<Undecoded<K>> = Api::all(client.clone());
    watch(api, watcher::Config::default(), random.clone())
        .map(move |event| wrap(Box::new(event)))
        .boxed()
}

/// What an event of a watch means for a cache.
pub(crate) enum Delta<K> {
    /// The object was created or changed.
    Upsert(Key, K),
    /// The object was deleted.
    Remove(Key),
    /// A list is complete: what it does not name no longer exists.
    Retain(HashSet<Key>),
}

/// Follows the lists of one watch.
#[derive(Default)]
pub(crate) struct ListTracker {
    /// The keys of the list in progress.
    listed: Option<HashSet<Key>>,
    is_synced: bool,
}

impl ListTracker {
    /// Whether the first list is complete.
    pub(crate) fn is_synced(&self) -> bool {
        self.is_synced
    }

    /// Returns what an event means, if it means anything. An object that cannot be decoded is skipped: its last known state stays.
    pub(crate) fn delta<K>(&mut self, event: Event<Undecoded<K>>) -> Option<Delta<K>>
    where
        K: Resource<DynamicType = ()> + serde::de::DeserializeOwned,
    {
        match event {
            Event::Init => {
                self.listed = Some(HashSet::new());
                None
            }
            Event::InitApply(object) => {
                let key = Key::from_meta(object.meta());
                self.listed.get_or_insert_default().insert(key.clone());
                Some(Delta::Upsert(key, object.decode()?))
            }
            Event::InitDone => {
                self.is_synced = true;
                self.listed.take().map(Delta::Retain)
            }
            Event::Apply(object) => {
                Some(Delta::Upsert(Key::from_meta(object.meta()), object.decode()?))
            }
            Event::Delete(object) => Some(Delta::Remove(Key::from_meta(object.meta()))),
        }
    }
}
