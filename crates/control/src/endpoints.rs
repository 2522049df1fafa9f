//! EndpointSlices and Endpoints: the pods that serve each Service.
//!
//! For the embedded engine only; on a cluster its controller manager writes these objects.

mod act;
mod legacy;
mod mirror;
mod pods;
mod ports;
mod slices;

use std::sync::Arc;
use std::time::Duration;

use cluster::{Cache, CachedObject, Error, Key, RequeueAt, Subscription, WorkQueue};
use k8s_openapi::api::core::v1::{Endpoints, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::runtime::watcher;
use kube::{Api, Client};
use process::Random;
use tokio::time::Instant;

use pods::EndpointPod;

/// How long changes of pods are collected, so that a burst is one write.
const BATCH: Duration = Duration::from_millis(10);
/// The most Services that are reconciled at the same time.
const CONCURRENCY: usize = 16;

/// The state of the controller.
struct Controller {
    client: Client,
    services: Cache<CachedObject<Service>>,
    pods: Cache<EndpointPod>,
    slices: Cache<CachedObject<EndpointSlice>>,
    endpoints: Cache<CachedObject<Endpoints>>,
    queue: WorkQueue,
}

/// Writes the EndpointSlices and the Endpoints of Services for as long as it is polled.
pub async fn run(client: Client, random: Random) {
    let controller = Arc::new(Controller {
        services: Cache::default(),
        pods: Cache::default(),
        slices: Cache::default(),
        endpoints: Cache::default(),
        queue: WorkQueue::default(),
        client: client.clone(),
    });
    let config = watcher::Config::default;
    let own_slices =
        [slices::MANAGED_BY_LABEL, " in (", slices::MANAGED_BY, ",", mirror::MANAGED_BY, ")"]
            .concat();
    let own_slices = config().labels(&own_slices);
    let (services, pods) = (Api::all(client.clone()), Api::all(client.clone()));
    let (all_slices, all_endpoints) = (Api::all(client.clone()), Api::all(client));
    tokio::join!(
        controller.services.run(services, config(), &random),
        controller.pods.run(pods, config(), &random),
        controller.slices.run(all_slices, own_slices, &random),
        controller.endpoints.run(all_endpoints, config(), &random),
        reconcile_all(&controller),
    );
}

async fn reconcile_all(controller: &Arc<Controller>) {
    controller.services.synced().await;
    controller.pods.synced().await;
    controller.slices.synced().await;
    controller.endpoints.synced().await;
    let _subscriptions = watch(controller);
    let reconcile = |key| reconcile(key, Arc::clone(controller));
    controller.queue.run(CONCURRENCY, reconcile).await;
}

/// Enqueues a Service when it, one of its pods, or an object that is written for it changes.
fn watch(controller: &Arc<Controller>) -> Vec<Subscription> {
    let this = Arc::downgrade(controller);
    let pods = controller.pods.subscribe(move |old, new| {
        let Some(this) = this.upgrade() else { return };
        let is_same = old.zip(new).is_some_and(|(old, new)| old.serves_like(new));
        let Some(pod) = new.or(old).filter(|_| !is_same) else { return };
        for service in this.services.all() {
            let is_in = |pod: &Arc<EndpointPod>| pods::selects(&service, pod);
            let is_concerned = service.metadata.namespace == pod.metadata.namespace
                && old.into_iter().chain(new).any(is_in);
            if is_concerned {
                this.queue.add_at(Key::from_meta(&service.metadata), Instant::now() + BATCH);
            }
        }
    });
    let this = Arc::downgrade(controller);
    let services = controller.services.subscribe(move |old, new| {
        if let (Some(this), Some(service)) = (this.upgrade(), new.or(old)) {
            this.queue.add(Key::from_meta(&service.metadata));
        }
    });
    let this = Arc::downgrade(controller);
    let slices = controller.slices.subscribe(move |old, new| {
        let service = new.or(old).and_then(|slice| slices::service_of(&slice.metadata));
        if let (Some(this), Some(service)) = (this.upgrade(), service) {
            this.queue.add(service);
        }
    });
    let this = Arc::downgrade(controller);
    let endpoints = controller.endpoints.subscribe(move |old, new| {
        if let (Some(this), Some(endpoints)) = (this.upgrade(), new.or(old)) {
            this.queue.add(Key::from_meta(&endpoints.metadata));
        }
    });
    vec![pods, services, slices, endpoints]
}

/// Writes what follows from one Service: from its pods, or without a selector from Endpoints written by other clients.
async fn reconcile(key: Key, controller: Arc<Controller>) -> Result<RequeueAt, Error> {
    let service = controller.services.get(&key);
    let existing = controller.slices.all().into_iter().filter(|slice| {
        slices::service_of(&slice.metadata).as_ref() == Some(&key) && !is_going(&slice.metadata)
    });
    let existing = existing.map(|slice| slice.0.clone());
    let (mirrored, own): (Vec<EndpointSlice>, Vec<EndpointSlice>) =
        existing.partition(|slice| slices::is_managed_by(slice, mirror::MANAGED_BY));
    let has_selector = service.as_ref().is_some_and(|service| pods::has_selector(service));
    let written = controller
        .endpoints
        .get(&key)
        .filter(|endpoints| service.is_some() && !has_selector && mirror::is_mirrored(endpoints));
    let plan = mirror::plan(written.as_ref().map(|endpoints| &endpoints.0), &mirrored);
    act::write_slices(plan, &controller).await?;
    let Some(service) = service else {
        // The garbage collector deletes the slices, which name their owner.
        act::delete_endpoints(&key, &controller).await?;
        return Ok(None);
    };
    if !has_selector || is_going(&service.metadata) {
        return Ok(None);
    }
    let pods = controller.pods.all();
    let pods: Vec<_> = pods.into_iter().filter(|pod| pods::selects(&service, pod)).collect();
    act::write_slices(slices::plan(&service, &pods, &own), &controller).await?;
    act::write_endpoints(&key, legacy::endpoints(&service, &pods), &controller).await?;
    Ok(None)
}

fn is_going(meta: &ObjectMeta) -> bool {
    meta.deletion_timestamp.is_some()
}
