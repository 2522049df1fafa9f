//! Deployments, ReplicaSets, Jobs and DaemonSets on the embedded engine, as Kubernetes' controller manager keeps them on a cluster.

mod claim;
mod conditions;
mod daemon_set;
mod deployment;
mod job;
mod pod;
mod replica_set;
mod template;
mod watch;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use cluster::{Cache, CacheEntry, WorkQueue};
use decide::workload::daemon::Failures;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::{ControllerRevision, DaemonSet, Deployment, ReplicaSet};
use k8s_openapi::api::batch::v1::Job;
use kube::runtime::watcher;
use kube::{Api, Resource};
use process::Supervised;

use crate::context::Context;
use claim::Orphans;
use pod::WorkloadPod;

/// What the controllers of workloads share.
struct Workloads {
    cx: Arc<Context>,
    deployments: Cache<Deployment>,
    sets: Cache<ReplicaSet>,
    jobs: Cache<Job>,
    daemon_sets: Cache<DaemonSet>,
    revisions: Cache<ControllerRevision>,
    /// All pods but those of game servers.
    pods: Cache<WorkloadPod>,
    orphan_pods: Arc<Orphans>,
    orphan_sets: Arc<Orphans>,
    queues: Queues,
    /// The failed pods of DaemonSets, by uid.
    daemon_failures: Mutex<HashMap<String, Failures>>,
}

/// The objects to reconcile, by kind.
#[derive(Default)]
struct Queues {
    deployments: Arc<WorkQueue>,
    sets: Arc<WorkQueue>,
    jobs: Arc<WorkQueue>,
    daemon_sets: Arc<WorkQueue>,
    /// Pods that hold the finalizer of a Job that no longer exists.
    abandoned_pods: Arc<WorkQueue>,
}

/// Runs the workload controllers for as long as they are polled.
pub(crate) async fn run(cx: Arc<Context>) {
    let limit = cx.settings.concurrency;
    let workloads = Arc::new(Workloads {
        cx,
        deployments: Cache::default(),
        sets: Cache::default(),
        jobs: Cache::default(),
        daemon_sets: Cache::default(),
        revisions: Cache::default(),
        pods: Cache::default(),
        orphan_pods: Arc::default(),
        orphan_sets: Arc::default(),
        queues: Queues::default(),
        daemon_failures: Mutex::default(),
    });
    let _following = workloads.follow();
    workloads.synced().await;
    let _subscriptions = watch::subscribe(&workloads);
    let shared = || Arc::clone(&workloads);
    let queues = &workloads.queues;
    tokio::join!(
        queues.deployments.run(limit, |key| deployment::reconcile(key, shared())),
        queues.sets.run(limit, |key| replica_set::reconcile(key, shared())),
        queues.jobs.run(limit, |key| job::reconcile(key, shared())),
        queues.daemon_sets.run(limit, |key| daemon_set::reconcile(key, shared())),
        queues.abandoned_pods.run(limit, |key| job::release_abandoned(key, shared())),
    );
}

impl Workloads {
    /// Follows every kind, each in a supervised task that ends when its guard is dropped.
    fn follow(self: &Arc<Self>) -> Vec<Supervised> {
        // The pods of game servers have a cache of their own, and are not decoded here again.
        let of_workloads = watcher::Config::default().labels("agones.dev/role!=gameserver");
        let all = watcher::Config::default;
        vec![
            self.spawn("Deployment", all(), |this| &this.deployments),
            self.spawn("ReplicaSet", all(), |this| &this.sets),
            self.spawn("Job", all(), |this| &this.jobs),
            self.spawn("DaemonSet", all(), |this| &this.daemon_sets),
            self.spawn("ControllerRevision", all(), |this| &this.revisions),
            self.spawn("Pod", of_workloads, |this| &this.pods),
        ]
    }

    fn spawn<E>(
        self: &Arc<Self>,
        kind: &str,
        config: watcher::Config,
        cache: fn(&Self) -> &Cache<E>,
    ) -> Supervised
    where
        E: CacheEntry,
        E::Object: Resource<Scope = NamespaceResourceScope>,
    {
        let this = Arc::clone(self);
        let supervisor = &self.cx.settings.supervisor;
        supervisor.spawn(format!("watch of kind {kind} for workloads"), move || {
            let (this, config) = (Arc::clone(&this), config.clone());
            async move {
                let api = Api::all(this.cx.client.clone());
                cache(&this).run(api, config, &this.cx.settings.random).await;
            }
        })
    }

    /// Waits until all caches are complete.
    async fn synced(&self) {
        self.deployments.synced().await;
        self.sets.synced().await;
        self.jobs.synced().await;
        self.daemon_sets.synced().await;
        self.revisions.synced().await;
        self.pods.synced().await;
    }
}
