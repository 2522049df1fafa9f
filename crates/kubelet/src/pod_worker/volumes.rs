//! Sets up the volumes of a pod before its containers start, and keeps their files up to date.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use cluster::EventType;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::Instant;

use crate::container::{Stop, stopped};
use crate::env::Source;
use crate::pod::PodRun;
use crate::volumes::{ContentSource, SetUpError};

/// How long a pod waits before it tries again to set up its volumes: first, and at most.
const RETRY_AFTER: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(10));
/// How long it waits if files of a running pod cannot be updated, unless their objects change.
const UPDATE_AFTER: Duration = Duration::from_secs(60);

/// Sets up the volumes, and returns when a token has to be renewed. Meanwhile the containers wait. `Err`: the pod is to stop.
pub(super) async fn set_up(run: &Arc<PodRun>, stop: &mut Stop) -> Result<Option<Instant>, ()> {
    if run.volumes.is_empty() {
        return Ok(None);
    }
    let (mut wait, longest) = RETRY_AFTER;
    loop {
        match run.volumes.set_up(&source(run)).await {
            Ok(renew_at) => {
                run.set_public(false);
                return Ok(renew_at);
            }
            Err(error) => report(run, &error),
        }
        run.set_public(stop.borrow().is_none());
        run.publish();
        tokio::select! {
            () = tokio::time::sleep(wait) => wait = (wait * 2).min(longest),
            () = stopped(stop) => return Err(()),
        }
    }
}

/// Updates the files of volumes when the objects that they come from change, or the labels or annotations of the pod.
pub(super) async fn follow(run: &Arc<PodRun>, mut renew_at: Option<Instant>) -> Infallible {
    if !run.volumes.has_content() {
        return std::future::pending().await;
    }
    let (machine, context) = (&run.machine, &run.machine.context);
    let mut changes =
        machine.changes.subscribe(&context.client, &context.random, &context.supervisor);
    let shows_fields = run.volumes.shows_fields();
    let mut shown = Arc::clone(&run.pod);
    loop {
        let due = async {
            match renew_at {
                Some(at) => tokio::time::sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            changed = changes.recv() => match changed {
                Ok(changed) if !run.volumes.refers_to(&changed) => continue,
                Ok(_) | Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => return std::future::pending().await,
            },
            () = run.object.entry.updated.notified(), if shows_fields => {
                let latest = run.object.latest();
                let (old, new) = (&shown.metadata, &latest.metadata);
                if (&old.labels, &old.annotations) == (&new.labels, &new.annotations) {
                    continue;
                }
                shown = latest;
            }
            () = due => {}
        }
        renew_at = match run.volumes.set_up(&source(run)).await {
            Ok(renew_at) => renew_at,
            Err(error) => {
                report(run, &error);
                Some(Instant::now() + UPDATE_AFTER)
            }
        };
    }
}

fn source(run: &PodRun) -> ContentSource<'_> {
    let (machine, local) = (&run.machine, run.local());
    let source = Source {
        client: &machine.context.client,
        pod: run.object.latest(),
        host_ip: local.address.to_string(),
        pod_ip: run.network.pod_ip(local.address).to_string(),
    };
    ContentSource { source, clock: &machine.context.clock }
}

fn report(run: &PodRun, error: &SetUpError) {
    let SetUpError { volume, cause } = error;
    let note = format!("MountVolume.SetUp failed for volume {volume:?} : {cause}");
    run.object.event(None, EventType::Warning, "FailedMount", note);
}
