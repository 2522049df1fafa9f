//! The end of a container that does not end by itself.

use cluster::EventType;
use futures::future::BoxFuture;
use tokio::time::Instant;

use super::ContainerRunner;
use crate::exec::Target;
use crate::instance::{Exit, Handle};
use crate::probe::{Kind, Unhealthy};
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
    /// Stops the container: with its `preStop` hook and a signal, and after the grace period with force.
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
                debug_assert!(kind != Kind::Readiness, "readiness ends no container");
                let grace = grace.unwrap_or_else(|| self.pod.grace());
                (note, Some(deadline::after(grace)))
            }
        };
        self.event(EventType::Normal, "Killing", note);
        tokio::select! {
            exit = &mut exit => return exit,
            () = hooks::pre_stop(target) => {}
            () = self.time_is_up(until) => {}
        }
        handle.terminate();
        tokio::select! {
            exit = &mut exit => return exit,
            () = self.time_is_up(until) => {}
        }
        handle.kill();
        exit.await
    }

    /// Waits until the container must be gone: when its pod must, or at a moment of its own if that is earlier.
    async fn time_is_up(&mut self, own: Option<Instant>) {
        loop {
            let by_pod = *self.stop.borrow_and_update();
            let deadline = own.into_iter().chain(by_pod).min().unwrap_or_else(Instant::now);
            tokio::select! {
                () = tokio::time::sleep_until(deadline) => return,
                // The time may become shorter.
                changed = self.stop.changed() => if changed.is_err() { return },
            }
        }
    }
}
