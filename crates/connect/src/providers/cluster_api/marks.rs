//! Marks Machines as the first ones that Cluster API deletes.

use std::collections::BTreeSet;

use cluster::error::{api_message, status_code};
use futures::future::join_all;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::change::{Change, Doomed, TRIES};
use super::groups::{KnownMachine, Mark, OWN_MARK};
use super::management::limited;
use super::objects::MACHINE;
use crate::providers::ProviderError;
use crate::providers::cluster_error::{refused, write_error};

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
            let Some(version) = self.version(machine).await? else {
                let message = format!("Machine {} is being deleted by someone else", machine.name);
                return Err(ProviderError::Unavailable { message });
            };
            let patch = self.mark_patch(json!(OWN_MARK), "resourceVersion", &version);
            match limited(api.patch(&machine.name, &PatchParams::default(), &patch)).await {
                Ok(_) => return Ok(()),
                Err(error) if status_code(&error) == Some(409) => {}
                Err(error) => return Err(unmarked(self.id, &error)),
            }
        }
        let message = format!("Machine {} changes too often", machine.name);
        Err(ProviderError::Unavailable { message })
    }

    /// Removes the mark of a machine, whatever its version. If that fails, the next change of the group tries again.
    pub(super) async fn unmark(&self, machine: &KnownMachine) {
        let Ok(api) = self.api(MACHINE) else { return };
        let patch = self.mark_patch(Value::Null, "uid", &machine.uid);
        match limited(api.patch_metadata(&machine.name, &PatchParams::default(), &patch)).await {
            Ok(_) => {}
            // It is gone, or another one has its name.
            Err(error) if matches!(status_code(&error), Some(404 | 409)) => {}
            Err(error) => {
                let error = api_message(&error);
                tracing::warn!(
                    machine = machine.name,
                    error,
                    "could not remove the mark for deletion; will retry"
                );
            }
        }
    }

    fn mark_patch(&self, mark: Value, precondition: &str, of: &str) -> Patch<Value> {
        Patch::Merge(
            json!({"metadata": {precondition: of, "annotations": {self.mark_key(): mark}}}),
        )
    }

    fn mark_key(&self) -> String {
        self.provider.settings.key("delete-machine")
    }
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
