//! Marks Machines as the first ones that Cluster API deletes.

use std::collections::BTreeSet;

use cluster::error::{api_message, status_code};
use futures::future::join_all;
use kube::ResourceExt as _;
use kube::api::{Api, DynamicObject, PostParams};

use super::change::{Change, Doomed, TRIES};
use super::groups::{KnownMachine, Mark, OWN_MARK};
use super::management::limited;
use super::objects::MACHINE;
use crate::providers::ProviderError;
use crate::providers::cluster_error::{read_error, refused, write_error};

impl Change<'_> {
    /// Removes marks that a crash has left. Refuses while others have marked machines that would go in place of others.
    pub(super) async fn clear_marks(
        &self,
        doomed: &Doomed,
        size: u32,
    ) -> Result<(), ProviderError> {
        let requested = self.provider.requested(self.id);
        let doomed: BTreeSet<&str> = doomed.machines.iter().map(|it| it.uid.as_str()).collect();
        let others = || {
            let machines = self.group.machines.iter().filter(|machine| !machine.is_deleting);
            machines.filter(|it| !requested.contains(&it.uid) && !doomed.contains(it.uid.as_str()))
        };
        let is_settled = self.group.alive() <= size as usize;
        if let Some(marked) = others().find(|it| is_settled && it.mark == Mark::Foreign) {
            return Err(refused(
                self.id,
                format!(
                    "Machine {}/{} has the annotation {}, which is not ours: it would be deleted in place of another one; remove the annotation or the Machine",
                    self.group.namespace,
                    marked.name,
                    self.mark_key()
                ),
            ));
        }
        let stale = others().filter(|machine| machine.mark == Mark::Own);
        join_all(stale.map(|machine| self.unmark(machine))).await;
        Ok(())
    }

    /// Marks the machines. If one cannot be marked, none is.
    pub(super) async fn mark_all(&self, doomed: &Doomed) -> Result<(), ProviderError> {
        let marked = join_all(doomed.machines.iter().map(|machine| self.mark(machine))).await;
        let Some(error) = marked.into_iter().find_map(Result::err) else { return Ok(()) };
        join_all(doomed.machines.iter().map(|machine| self.unmark(machine))).await;
        Err(error)
    }

    /// Marks a machine as the first to be deleted.
    async fn mark(&self, machine: &KnownMachine) -> Result<(), ProviderError> {
        let api = self.api(MACHINE)?;
        for _ in 0..TRIES {
            let found = read(&api, machine).await.map_err(|error| read_error(&error))?;
            let Some(found) = found.filter(|it| it.metadata.deletion_timestamp.is_none()) else {
                let message = format!("Machine {} is being deleted by someone else", machine.name);
                return Err(ProviderError::Unavailable { message });
            };
            match self.write_mark(&api, found, Some(OWN_MARK)).await {
                Ok(()) => return Ok(()),
                Err(error) if status_code(&error) == Some(409) => {}
                Err(error) => return Err(unmarked(self.id, &error)),
            }
        }
        let message = format!("Machine {} changes too often", machine.name);
        Err(ProviderError::Unavailable { message })
    }

    /// Removes the mark of a machine. If that fails, the next change of the group tries again.
    pub(super) async fn unmark(&self, machine: &KnownMachine) {
        let Ok(api) = self.api(MACHINE) else { return };
        let mut problem = "it changes too often".to_owned();
        for _ in 0..TRIES {
            let removed = async {
                match read(&api, machine).await? {
                    Some(found) => self.write_mark(&api, found, None).await,
                    None => Ok(()),
                }
            };
            match removed.await {
                Ok(()) => return,
                Err(error) => match status_code(&error) {
                    Some(404) => return,
                    Some(409) => {}
                    Some(_) | None => {
                        problem = api_message(&error);
                        break;
                    }
                },
            }
        }
        let machine = &machine.name;
        tracing::warn!(machine, problem, "could not remove the mark for deletion; will retry");
    }

    /// Writes a machine with a mark or without one, unless it already is as it should be. The role of Cluster Autoscaler's Helm chart
    /// allows machines to be replaced, but not to be patched.
    async fn write_mark(
        &self,
        api: &Api<DynamicObject>,
        mut machine: DynamicObject,
        mark: Option<&str>,
    ) -> Result<(), kube::Error> {
        let (annotations, key) =
            (machine.metadata.annotations.get_or_insert_default(), self.mark_key());
        let before = match mark {
            Some(mark) => annotations.insert(key, mark.to_owned()),
            None => annotations.remove(&key),
        };
        if before.as_deref() == mark {
            return Ok(());
        }
        let params = PostParams::default();
        limited(api.replace(&machine.name_any(), &params, &machine)).await.map(drop)
    }

    fn mark_key(&self) -> String {
        self.provider.settings.key("delete-machine")
    }
}

/// Reads a machine; `None` if it is gone, or another one has its name.
async fn read(
    api: &Api<DynamicObject>,
    machine: &KnownMachine,
) -> Result<Option<DynamicObject>, kube::Error> {
    let found = limited(api.get_opt(&machine.name)).await?;
    Ok(found.filter(|found| found.metadata.uid.as_ref() == Some(&machine.uid)))
}

/// Returns the error of a machine that could not be marked: no size was changed, whatever became of the mark.
fn unmarked(group: &str, error: &kube::Error) -> ProviderError {
    match write_error(group, error) {
        ProviderError::Unknown { message, .. } => ProviderError::Unavailable { message },
        error @ (ProviderError::UnknownGroup { .. }
        | ProviderError::Refused { .. }
        | ProviderError::OutOfResources { .. }
        | ProviderError::Unavailable { .. }) => error,
    }
}
