//! Changes of groups: sizes, and the deletion of machines by name.
//!
//! Cluster API has no call that deletes given machines and lowers the size. So each is first marked as the one to be deleted, and then
//! the size is lowered. A mark without a lower size would divert a later deletion: it is removed when the size cannot be lowered, and one
//! that a crash has left is removed before the next change of the group.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use cluster::error::status_code;
use futures::future::{join_all, try_join_all};
use k8s_openapi::api::autoscaling::v1::Scale;
use kube::api::{Api, DynamicObject, PostParams};

use super::ClusterApi;
use super::groups::{KnownGroup, KnownMachine};
use super::management::{ManagementCluster, limited};
use super::objects::MACHINE;
use crate::providers::cluster_error::{read_error, refused, write_error};
use crate::providers::{NodeGroupProvider as _, ProviderError};

/// How often an object is written that another client wrote in the meantime.
pub(super) const TRIES: u32 = 5;

/// A group that is being changed.
pub(super) struct Change<'a> {
    pub(super) provider: &'a ClusterApi,
    cluster: Arc<ManagementCluster>,
    pub(super) id: &'a str,
    pub(super) group: KnownGroup,
}

/// The machines that a call deletes.
#[derive(Default)]
pub(super) struct Doomed {
    pub(super) machines: Vec<KnownMachine>,
    /// ProviderIDs of a MachinePool without Machines.
    pooled: Vec<String>,
}

/// Counts changes, so that a snapshot knows whether one was in flight.
#[derive(Default)]
pub(super) struct Changes {
    begun: AtomicU64,
    ended: AtomicU64,
}

/// A change in flight. It ends with this, also when it is cancelled.
struct InFlight<'a>(&'a Changes);

impl Changes {
    fn begin(&self) -> InFlight<'_> {
        self.begun.fetch_add(1, Ordering::SeqCst);
        InFlight(self)
    }

    /// Returns the number of changes; `None` while one is in flight.
    pub(super) fn settled(&self) -> Option<u64> {
        let ended = self.ended.load(Ordering::SeqCst);
        Some(ended).filter(|ended| *ended == self.begun.load(Ordering::SeqCst))
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.0.ended.fetch_add(1, Ordering::SeqCst);
    }
}

impl ClusterApi {
    pub(super) async fn increase_target(&self, id: &str, by: u32) -> Result<(), ProviderError> {
        let lock = self.lock(id);
        let (_locked, _in_flight) = (lock.lock().await, self.changes.begin());
        let change = self.change(id).await?;
        change.resize(|from| change.up_to_max(from.saturating_add(by))).await
    }

    pub(super) async fn lower_target(&self, id: &str, by: u32) -> Result<(), ProviderError> {
        let lock = self.lock(id);
        let (_locked, _in_flight) = (lock.lock().await, self.changes.begin());
        // Of machines that have become nodes since the last snapshot, none may go.
        self.snapshot().await?;
        let change = self.change(id).await?;
        let with_node = change.group.machines.iter().filter(|it| it.has_node && !it.is_deleting);
        let nodes = u32::try_from(with_node.count() + change.group.pooled.len());
        let nodes = nodes.unwrap_or(u32::MAX);
        let lower = |from: u32| {
            let to = from.saturating_sub(by);
            if to < nodes {
                let problem = format!("a target of {to} would delete nodes: {nodes} exist");
                return Err(refused(id, problem));
            }
            change.down_to_min(to)
        };
        let (from, _) = change.size().await?;
        lower(from)?;
        change.clear_marks(&Doomed::default(), from).await?;
        change.resize(lower).await
    }

    pub(super) async fn delete_machines(
        &self,
        id: &str,
        instances: &[String],
    ) -> Result<(), ProviderError> {
        let lock = self.lock(id);
        let (_locked, _in_flight) = (lock.lock().await, self.changes.begin());
        let change = self.change(id).await?;
        let doomed = change.doomed(instances).await?;
        let count = u32::try_from(doomed.machines.len() + doomed.pooled.len()).unwrap_or(u32::MAX);
        if count == 0 {
            return Ok(());
        }
        if change.group.is_rolling_out {
            let message =
                format!("group `{id}` is rolling out: Cluster API would choose which machine goes");
            return Err(ProviderError::Unavailable { message });
        }
        let (from, _) = change.size().await?;
        change.down_to_min(from.saturating_sub(count))?;
        change.clear_marks(&doomed, from).await?;
        change.mark_all(&doomed).await?;
        let lower = |from: u32| change.down_to_min(from.saturating_sub(count));
        if let Err(error) = change.resize(lower).await {
            // With an open outcome the marks stay: without them Cluster API might delete other machines.
            if !matches!(error, ProviderError::Unknown { .. }) {
                join_all(doomed.machines.iter().map(|machine| change.unmark(machine))).await;
            }
            return Err(error);
        }
        let machines = doomed.machines.into_iter().map(|machine| machine.uid);
        self.remember_requested(id, machines.chain(doomed.pooled));
        Ok(())
    }

    async fn change<'a>(&'a self, id: &'a str) -> Result<Change<'a>, ProviderError> {
        let group = match self.known(id) {
            Some(group) => group,
            None => {
                self.snapshot().await?;
                let unknown = || ProviderError::UnknownGroup { group: id.to_owned() };
                self.known(id).ok_or_else(unknown)?
            }
        };
        Ok(Change { provider: self, cluster: self.connect().await?, id, group })
    }
}

impl Change<'_> {
    /// Writes the size that `change` returns for the present one. If someone else changes the size meanwhile, nothing is written.
    async fn resize(
        &self,
        change: impl Fn(u32) -> Result<u32, ProviderError>,
    ) -> Result<(), ProviderError> {
        let api = self.api(self.group.kind)?;
        let (mut from, mut scale) = self.size().await?;
        let to = change(from)?;
        for _ in 0..TRIES {
            if from == to {
                return Ok(());
            }
            // A Role of Cluster Autoscaler's Helm chart allows a size to be replaced, but not to be patched.
            let replicas = i32::try_from(to).unwrap_or(i32::MAX);
            scale.spec.get_or_insert_default().replicas = Some(replicas);
            let params = PostParams::default();
            match limited(api.replace_scale(&self.group.name, &params, &scale)).await {
                Ok(_) => return Ok(()),
                Err(error) if status_code(&error) == Some(409) => {}
                Err(error) => return Err(write_error(self.id, &error)),
            }
            let before = from;
            (from, scale) = self.size().await?;
            if from != before && from != to {
                let message = format!(
                    "the size of group `{}` was changed from {before} to {from} meanwhile",
                    self.id
                );
                return Err(ProviderError::Unavailable { message });
            }
        }
        let message = format!("group `{}` changes too often", self.id);
        Err(ProviderError::Unavailable { message })
    }

    /// Reads the size, and the object that has it and the version at which it was read.
    async fn size(&self) -> Result<(u32, Scale), ProviderError> {
        let api = self.api(self.group.kind)?;
        let scale = limited(api.get_scale(&self.group.name)).await;
        let scale = scale.map_err(|error| match status_code(&error) {
            Some(404) => ProviderError::UnknownGroup { group: self.id.to_owned() },
            Some(_) | None => read_error(&error),
        })?;
        let size = scale.spec.as_ref().and_then(|spec| spec.replicas);
        let size = size.and_then(|size| u32::try_from(size).ok()).unwrap_or(0);
        Ok((size, scale))
    }

    fn up_to_max(&self, to: u32) -> Result<u32, ProviderError> {
        match self.group.limits.max {
            Some(max) if to > max => {
                Err(refused(self.id, format!("{to} nodes are more than max, which is {max}")))
            }
            Some(_) | None => Ok(to),
        }
    }

    fn down_to_min(&self, to: u32) -> Result<u32, ProviderError> {
        match self.group.limits.min {
            Some(min) if to < min => {
                Err(refused(self.id, format!("{to} nodes are fewer than min, which is {min}")))
            }
            Some(_) | None => Ok(to),
        }
    }

    /// Returns those instances that exist and whose deletion was not requested yet.
    async fn doomed(&self, instances: &[String]) -> Result<Doomed, ProviderError> {
        let requested = self.provider.requested(self.id);
        let is_meant = |id: &str| instances.iter().any(|wanted| is_same(wanted, id));
        let pooled = self.group.pooled.iter().filter(|id| is_meant(id) && !requested.contains(*id));
        let meant = self.group.machines.iter().filter(|machine| {
            is_meant(&machine.instance) && !machine.is_deleting && !requested.contains(&machine.uid)
        });
        let present = try_join_all(meant.map(async |machine| {
            Ok::<_, ProviderError>(self.is_present(machine).await?.then(|| machine.clone()))
        }));
        let machines = present.await?.into_iter().flatten().collect();
        Ok(Doomed { machines, pooled: pooled.cloned().collect() })
    }

    /// Whether a machine exists and is not being deleted.
    async fn is_present(&self, machine: &KnownMachine) -> Result<bool, ProviderError> {
        let api = self.api(MACHINE)?;
        let found = limited(api.get_metadata_opt(&machine.name)).await;
        let found = found.map_err(|error| read_error(&error))?.map(|object| object.metadata);
        Ok(found.is_some_and(|metadata| {
            metadata.uid.as_ref() == Some(&machine.uid) && metadata.deletion_timestamp.is_none()
        }))
    }

    pub(super) fn api(&self, kind: &str) -> Result<Api<DynamicObject>, ProviderError> {
        let unknown = || ProviderError::UnknownGroup { group: self.id.to_owned() };
        self.cluster.api(kind, &self.group.namespace).ok_or_else(unknown)
    }
}

/// Whether two ids name the same instance: some infrastructure providers write the same id with and without an account or a zone.
fn is_same(a: &str, b: &str) -> bool {
    a == b || normalized(a) == normalized(b)
}

/// Returns the part of a providerID that names the machine. In an Azure scale set it is only a number, and the whole id counts.
fn normalized(id: &str) -> &str {
    if id.starts_with("azure://") && id.contains("virtualMachineScaleSets") {
        return id;
    }
    id.rsplit('/').next().unwrap_or(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instance_is_named_by_the_end_of_its_id_except_in_azure_scale_sets() {
        assert!(is_same("aws:///eu-1a/i-1", "aws:////i-1"));
        assert!(!is_same("aws:///eu-1a/i-1", "aws:///eu-1a/i-2"));
        let of = |set: &str| {
            format!("azure:///subscriptions/s/virtualMachineScaleSets/{set}/virtualMachines/0")
        };
        assert!(is_same(&of("a"), &of("a")) && !is_same(&of("a"), &of("b")));
    }
}
