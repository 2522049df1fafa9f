//! Writes to game servers: sent for the claims that share them, one at a time for each server.

use std::sync::Arc;

use api::agones::GameServer;
use cluster::{CachedGameServer, Key};
use jiff::Timestamp;
use kube::Api;

use super::Shared;
use super::claims::{Claim, ClaimOutcome, PendingWrite, WriteOutcome};
use super::write::{self, SendOutcome, Write};

impl Shared {
    pub(super) fn now(&self) -> Timestamp {
        self.settings.clock.now()
    }

    /// Sends a write, and then spawns a task for the claims that wait for the same server.
    pub(super) async fn send_writes(self: Arc<Self>, first: PendingWrite) {
        if let Some(next) = self.send_write(first).await {
            tokio::spawn(async move {
                let mut next = Some(next);
                while let Some(pending) = next {
                    next = self.send_write(pending).await;
                }
            });
        }
    }

    /// Writes to a server once, answers the claims, and returns the next write to that server.
    async fn send_write(
        &self,
        PendingWrite { base, mut claims }: PendingWrite,
    ) -> Option<PendingWrite> {
        claims.retain(|claim| !claim.answer.is_closed());
        let (write, claimed) = match claims.as_slice() {
            [] => (WriteOutcome::NotSent, ClaimOutcome::Lost),
            claims => process::catch_panic(self.write(&base, claims)).await.unwrap_or_else(|cause| {
                // Otherwise the write would stay in flight forever.
                tracing::error!(
                    namespace = &*base.view.namespace,
                    name = &*base.view.name,
                    cause,
                    "a write to a game server panicked; it is not allocated again until it is observed"
                );
                (WriteOutcome::Unknown, ClaimOutcome::Lost)
            }),
        };
        self.update_cache(&base, &write);
        let (leave, next) = self.claims().complete_write(&base, write, self.now());
        claims.into_iter().for_each(|claim| answer(claim, claimed.clone()));
        leave.into_iter().for_each(|claim| answer(claim, ClaimOutcome::Lost));
        next
    }

    /// Updates the shared cache with the outcome of a write, so that the controllers see it at once. The cache calls the claim table,
    /// which must not be locked.
    fn update_cache(&self, base: &CachedGameServer, write: &WriteOutcome) {
        match write {
            WriteOutcome::Observed(server) => self.caches.servers.insert_entry(Arc::clone(server)),
            WriteOutcome::Gone => {
                let metadata = &base.object.metadata;
                self.caches.servers.remove(&Key::from_meta(metadata), metadata.uid.as_deref());
            }
            WriteOutcome::Unknown | WriteOutcome::NotSent => {}
        }
    }

    /// Sends one write for all claims that share it.
    async fn write(
        &self,
        base: &CachedGameServer,
        claims: &[Claim],
    ) -> (WriteOutcome, ClaimOutcome) {
        let write = Write::new(base, claims.iter().map(|c| &*c.request), self.now());
        let api = Api::namespaced(self.client.clone(), &base.view.namespace);
        match write.send(&api, &self.caches.servers, base).await {
            SendOutcome::Written(server) => {
                self.events.record(&server, &write.warnings);
                (WriteOutcome::Observed(Arc::clone(&server)), ClaimOutcome::Won(server))
            }
            SendOutcome::Conflict(Some(server)) => {
                (WriteOutcome::Observed(server), ClaimOutcome::Lost)
            }
            SendOutcome::Conflict(None) => (self.refresh(&api, base).await, ClaimOutcome::Lost),
            SendOutcome::Gone => (WriteOutcome::Gone, ClaimOutcome::Lost),
            SendOutcome::Failed(err) => {
                (WriteOutcome::Unknown, ClaimOutcome::Failed(Arc::new(err)))
            }
        }
    }

    /// Reads a server that has changed, unless the claim table has the change already.
    async fn refresh(&self, api: &Api<GameServer>, base: &CachedGameServer) -> WriteOutcome {
        if self.claims().has_newer(base) {
            return WriteOutcome::NotSent;
        }
        match write::read(api, &self.caches.servers, &base.view.name).await {
            Ok(Some(server)) => WriteOutcome::Observed(server),
            Ok(None) => WriteOutcome::Gone,
            Err(_) => WriteOutcome::Unknown,
        }
    }
}

/// Sends a claim its outcome, if its caller still waits.
fn answer(claim: Claim, outcome: ClaimOutcome) {
    drop(claim.permit);
    let _ = claim.answer.send(outcome);
}
