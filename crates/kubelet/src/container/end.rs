//! Stops a container that does not end by itself.

use cluster::EventType;
use futures::future::BoxFuture;
use tokio::time::Instant;

use super::ContainerRunner;
use crate::exec::Target;
use crate::instance::Handle;
use crate::probe::{ProbeKind, Unhealthy};
use crate::status::Exit;
use crate::{deadline, hooks};

/// Why a container is stopped before it ends by itself.
pub(super) enum StopReason {
    /// Its pod stops.
    Pod,
    /// A probe failed.
    Unhealthy(Unhealthy),
    /// Its `postStart` hook failed.
    PostStart,
}

impl ContainerRunner {
    /// Stops the container: runs its `preStop` hook, asks it to terminate, and kills it after the grace period.
    pub(super) async fn end(
        &mut self,
        mut exit: BoxFuture<'static, Exit>,
        handle: Handle,
        target: &Target,
        reason: StopReason,
    ) -> Exit {
        let name = &self.container.name;
        let (note, until) = match reason {
            StopReason::Pod => (format!("Stopping container {name}"), None),
            StopReason::PostStart => {
                let until = deadline::after(self.pod.grace());
                ("FailedPostStartHook".to_owned(), Some(until))
            }
            StopReason::Unhealthy(Unhealthy { kind, grace }) => {
                let then = if self.is_to_restart(137) { ", will be restarted" } else { "" };
                let note = format!("Container {name} failed {} probe{then}", kind.name());
                debug_assert!(kind != ProbeKind::Readiness, "a readiness probe stops no container");
                let grace = grace.unwrap_or_else(|| self.pod.grace());
                (note, Some(deadline::after(grace)))
            }
        };
        self.event(EventType::Normal, "Killing", note);
        tokio::select! {
            exit = &mut exit => return exit,
            () = hooks::pre_stop(target) => {}
            () = self.deadline(until) => {}
        }
        handle.terminate();
        tokio::select! {
            exit = &mut exit => return exit,
            () = self.deadline(until) => {}
        }
        handle.kill();
        exit.await
    }

    /// Waits until the container is to be killed: at the deadline of its pod, or at its own if that is earlier.
    async fn deadline(&mut self, own: Option<Instant>) {
        loop {
            let by_pod = *self.stop.borrow_and_update();
            let deadline = own.into_iter().chain(by_pod).min().unwrap_or_else(Instant::now);
            tokio::select! {
                () = tokio::time::sleep_until(deadline) => return,
                // The deadline of the pod may become earlier.
                changed = self.stop.changed() => if changed.is_err() { return },
            }
        }
    }
}
