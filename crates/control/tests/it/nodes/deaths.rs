//! A controller that dies before or after any of its writes, to the cluster or to the provider, is replaced by one that completes its work.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use connect::providers::{Group, NodeGroupProvider, ProviderError};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::{Method, Request};
use kube::client::Body;
use plimsoll_control::NodeProviders;
use tokio::sync::Notify;

use super::removals::machines;
use super::*;

/// The most writes that a story is expected to need.
const MOST: u32 = 80;

/// Stops a controller at one of its writes: that one is carried out or not, and the controller learns nothing any more.
struct Fault {
    at: u32,
    is_carried_out: bool,
    count: AtomicU32,
    has_died: AtomicBool,
    death: Notify,
}

impl Fault {
    fn new(at: u32, is_carried_out: bool) -> Arc<Self> {
        let (count, has_died) = (AtomicU32::new(0), AtomicBool::new(false));
        Arc::new(Self { at, is_carried_out, count, has_died, death: Notify::new() })
    }

    async fn read<T>(&self, work: impl Future<Output = T>) -> T {
        if self.has_died.load(Ordering::SeqCst) {
            std::future::pending::<()>().await;
        }
        work.await
    }

    async fn write<T>(&self, work: impl Future<Output = T>) -> T {
        let number = self.count.fetch_add(1, Ordering::SeqCst);
        if number < self.at {
            return self.read(work).await;
        }
        if number == self.at && self.is_carried_out {
            drop(work.await);
        }
        self.has_died.store(true, Ordering::SeqCst);
        self.death.notify_one();
        std::future::pending().await
    }
}

/// Returns a client that stops at the fault. Events and the journal are written beside, and do not count.
fn client(client: Client, fault: &Arc<Fault>) -> Client {
    let fault = Arc::clone(fault);
    let service = tower::service_fn(move |request: Request<Body>| {
        let (client, fault) = (client.clone(), Arc::clone(&fault));
        async move {
            let path = request.uri().path();
            let is_beside = ["/events", "/decisions"].iter().any(|kind| path.contains(kind));
            match request.method() == Method::GET || is_beside {
                true => fault.read(client.send(request)).await,
                false => fault.write(client.send(request)).await,
            }
        }
    });
    Client::new(service, "default")
}

/// A provider that stops at the fault.
struct Mortal {
    inner: Arc<dyn NodeGroupProvider>,
    fault: Arc<Fault>,
}

impl NodeGroupProvider for Mortal {
    fn snapshot(&self) -> BoxFuture<'_, Result<Vec<Group>, ProviderError>> {
        self.fault.read(self.inner.snapshot()).boxed()
    }

    fn increase<'a>(&'a self, group: &'a str, by: u32) -> BoxFuture<'a, Result<(), ProviderError>> {
        self.fault.write(self.inner.increase(group, by)).boxed()
    }

    fn delete_nodes<'a>(
        &'a self,
        group: &'a str,
        instances: &'a [String],
    ) -> BoxFuture<'a, Result<(), ProviderError>> {
        self.fault.write(self.inner.delete_nodes(group, instances)).boxed()
    }

    fn decrease_target<'a>(
        &'a self,
        group: &'a str,
        by: u32,
    ) -> BoxFuture<'a, Result<(), ProviderError>> {
        self.fault.write(self.inner.decrease_target(group, by)).boxed()
    }
}

/// Starts a controller that dies at the fault, and then one that lives on. Both end when the returned guard is dropped.
fn controllers(
    world: &World,
    inner: &Arc<dyn NodeGroupProvider>,
    fault: &Arc<Fault>,
) -> JoinSet<()> {
    let mortal: Arc<dyn NodeGroupProvider> =
        Arc::new(Mortal { inner: Arc::clone(inner), fault: Arc::clone(fault) });
    let with = |provider: &Arc<dyn NodeGroupProvider>| {
        let all = BTreeMap::from([(world.provider.to_owned(), Arc::clone(provider))]);
        Settings { node_providers: NodeProviders(all), ..world.cluster.settings() }
    };
    let first = control(client(world.client(), fault), with(&mortal));
    let second = control(world.client(), with(inner));
    let fault = Arc::clone(fault);
    JoinSet::from_iter([async move {
        tokio::select! {
            () = first => {}
            () = fault.death.notified() => {}
        }
        second.await;
    }])
}

/// Three pods get two nodes. When one of them ends, another one fits on the other node, and its own is drained.
async fn round(world: &World, number: u32, what: &str) {
    let [stays, moves, ends] = ["stays", "moves", "ends"].map(|name| format!("{name}-{number}"));
    let safe = json!({"annotations": {"cluster-autoscaler.kubernetes.io/safe-to-evict": "true"}});
    world.pod(&ends, "2500m", safe.clone()).await;
    world.pod(&moves, "1", safe.clone()).await;
    until(&format!("{what}: two pods have a node"), async || world.bound().await == 2).await;
    world.pod(&stays, "2500m", safe).await;
    until(&format!("{what}: the pods have nodes"), async || world.bound().await == 3).await;
    world.delete_pod(&ends).await;
    until(&format!("{what}: one node is left"), async || {
        let nodes = world.nodes("g").await;
        let is_free = |node: &Node| {
            let spec = node.spec.clone().unwrap_or_default();
            spec.unschedulable != Some(true)
                && !spec.taints.iter().flatten().any(|taint| taint.key == TO_BE_DELETED)
        };
        let target = &world.group_status("g").await["target"];
        assert!(target.as_i64().is_none_or(|target| target >= 1), "{what}: below the minimum");
        nodes.len() == 1 && nodes.iter().all(is_free) && *target == 1
    })
    .await;
    world.delete_pod(&stays).await;
    until(&format!("{what}: the pods are gone"), async || {
        world.cluster.list::<Pod>().await.is_empty()
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_death_before_or_after_any_write_is_made_up_for() {
    let spec = json!({"scaleDown": {"unneededFor": "30s", "delayAfterTaint": "1s", "utilizationThreshold": 0.6}});
    let world = World::idle(spec).await;
    world.group("g", json!({"min": 1, "max": 3}), json!({"startAfter": "5s"})).await;
    let inner = machines(&world);
    let mut number = 0;
    for at in 0..=MOST {
        let mut has_died = false;
        for is_carried_out in [false, true] {
            let fault = Fault::new(at, is_carried_out);
            let running = controllers(&world, &inner, &fault);
            let what = format!("write {at}, carried out: {is_carried_out}");
            round(&world, number, &what).await;
            number += 1;
            has_died |= fault.has_died.load(Ordering::SeqCst);
            drop(running);
        }
        if !has_died {
            eprintln!("a round needs {at} writes");
            assert!(at > 5, "the faults are reached");
            world.end().await;
            return;
        }
    }
    panic!("a round needs more than {MOST} writes");
}
