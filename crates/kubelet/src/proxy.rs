//! Serves Services on this machine: the roles of kube-proxy and of a cloud's load balancer.
//!
//! Each port of a Service has listeners on loopback, which forward TCP connections and UDP packets to its ready endpoints, one after
//! the other. A connection in progress ends when its client or its pod ends it; a pod that terminates or is not ready gets no new one.

mod backend;
mod listeners;
mod names;
mod report;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use cluster::{Cache, CachedObject, Error, Key, RequeueAt, Subscription, WorkQueue};
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::Api;
use kube::runtime::watcher;
use process::Supervised;
use tokio::time::Instant;

use crate::machine::Machine;
use backend::Target;
use listeners::ServicePorts;

/// The label of a slice that names its Service.
const SERVICE_LABEL: &str = "kubernetes.io/service-name";
/// The most Services that are reconciled at the same time.
const CONCURRENCY: usize = 16;
/// How soon a port that could not be bound is tried again.
const BIND_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// Starts to serve Services, if the settings ask for it.
pub(crate) fn start(machine: &Arc<Machine>) -> Option<Supervised> {
    machine.local.as_ref().filter(|local| local.service_proxy)?;
    let machine = Arc::clone(machine);
    let supervisor = machine.context.supervisor.clone();
    Some(supervisor.spawn("service proxy", move || run(Arc::clone(&machine))))
}

/// What the proxy works with.
struct ServiceProxy {
    machine: Arc<Machine>,
    services: Cache<CachedObject<Service>>,
    slices: Cache<CachedObject<EndpointSlice>>,
    queue: WorkQueue,
    /// The listeners of each Service that is served.
    served: Mutex<BTreeMap<Key, ServicePorts>>,
}

async fn run(machine: Arc<Machine>) {
    let context = &machine.context;
    let (client, random) = (context.client.clone(), context.random.clone());
    let proxy = Arc::new(ServiceProxy {
        machine: Arc::clone(&machine),
        services: Cache::default(),
        slices: Cache::default(),
        queue: WorkQueue::default(),
        served: Mutex::default(),
    });
    let config = watcher::Config::default;
    tokio::join!(
        proxy.services.run(Api::all(client.clone()), config(), &random),
        proxy.slices.run(Api::all(client), config(), &random),
        reconcile_all(&proxy),
        names::serve(&proxy),
    );
}

async fn reconcile_all(proxy: &Arc<ServiceProxy>) {
    proxy.services.synced().await;
    proxy.slices.synced().await;
    let _subscriptions = watch(proxy);
    proxy.queue.run(CONCURRENCY, |key| reconcile(key, Arc::clone(proxy))).await;
}

/// Enqueues a Service when it or one of its slices changes.
fn watch(proxy: &Arc<ServiceProxy>) -> Vec<Subscription> {
    let this = Arc::downgrade(proxy);
    let services = proxy.services.subscribe(move |old, new| {
        if let (Some(this), Some(service)) = (this.upgrade(), new.or(old)) {
            this.queue.add(Key::from_meta(&service.metadata));
        }
    });
    let this = Arc::downgrade(proxy);
    let slices = proxy.slices.subscribe(move |old, new| {
        if let (Some(this), Some(service)) =
            (this.upgrade(), new.or(old).and_then(|s| service_of(s)))
        {
            this.queue.add(service);
        }
    });
    vec![services, slices]
}

fn service_of(slice: &EndpointSlice) -> Option<Key> {
    let name = slice.metadata.labels.as_ref()?.get(SERVICE_LABEL)?;
    Some(Key::new(slice.metadata.namespace.as_deref().unwrap_or_default(), name.as_str()))
}

/// Listens on the ports of one Service, updates their endpoints, and reports the addresses.
async fn reconcile(key: Key, proxy: Arc<ServiceProxy>) -> Result<RequeueAt, Error> {
    let Some(service) = proxy.services.get(&key).filter(|service| has_address(service)) else {
        proxy.served().remove(&key);
        return Ok(None);
    };
    let mut ports = proxy.served().remove(&key).unwrap_or_default();
    let slices = proxy.slices.all();
    let slices: Vec<&EndpointSlice> = slices
        .iter()
        .map(|slice| &slice.0)
        .filter(|slice| service_of(slice).as_ref() == Some(&key))
        .collect();
    ports.listen(&service, &proxy.machine).await;
    ports.set_targets(|name, protocol| backend::targets(&slices, name, protocol));
    let reported = report::report(&service, &mut ports, &proxy).await;
    let is_incomplete = ports.problems().next().is_some();
    proxy.served().insert(key, ports);
    reported?;
    Ok(is_incomplete.then(|| Instant::now() + BIND_AGAIN_AFTER))
}

/// Whether clients reach the Service by an address of its own.
fn has_address(service: &Service) -> bool {
    let spec = service.spec.as_ref();
    let address = spec.and_then(|spec| spec.cluster_ip.as_deref()).unwrap_or_default();
    service.metadata.deletion_timestamp.is_none() && !matches!(address, "" | "None")
}

impl ServiceProxy {
    fn served(&self) -> std::sync::MutexGuard<'_, BTreeMap<Key, ServicePorts>> {
        self.served.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
