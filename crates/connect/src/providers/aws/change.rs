//! Changes of one group.

use std::sync::Arc;

use super::instances::{self, provider_id};
use super::region::Region;
use crate::aws::Failure;
use crate::aws::autoscaling::{AutoScalingGroup, GroupInstance};
use crate::providers::ProviderError;

/// The group that is changed.
pub(super) struct Change<'a> {
    /// Its id at this provider, for messages.
    pub(super) id: &'a str,
    /// Its name at AWS.
    pub(super) name: String,
    pub(super) region: Arc<Region>,
}

impl Change<'_> {
    /// Raises the desired capacity.
    pub(super) async fn increase(&self, by: u32) -> Result<(), ProviderError> {
        let _turn = self.region.begin_change().await;
        let group = self.read().await?;
        let to = group.desired_capacity.saturating_add(by);
        if to > group.max_size {
            let max = group.max_size;
            return Err(self.refused(format!("{to} instances are more than max, which is {max}")));
        }
        self.set_desired(to).await
    }

    /// Lowers the desired capacity, but not below the instances that exist.
    pub(super) async fn decrease_target(&self, by: u32) -> Result<(), ProviderError> {
        let _turn = self.region.begin_change().await;
        let group = self.read().await?;
        let to = group.desired_capacity.saturating_sub(by);
        let present = instances::count_present(&group);
        if to < present {
            let problem = format!("a target of {to} would delete instances: {present} exist");
            return Err(self.refused(problem));
        }
        self.require_min(to, &group)?;
        self.set_desired(to).await
    }

    /// Terminates instances, and lowers the desired capacity by as many. A placeholder stands for all: AWS launches none of those that are
    /// missing, unless the group's minimum asks for them.
    pub(super) async fn delete(&self, ids: &[String]) -> Result<(), ProviderError> {
        let _turn = self.region.begin_change().await;
        let group = self.read().await?;
        let is_asked_for = |instance: &&GroupInstance| {
            !instance.is_terminating() && ids.contains(&provider_id(instance))
        };
        let doomed: Vec<_> = group.instances.iter().filter(is_asked_for).collect();
        let prefix = instances::placeholder_prefix(&group.name);
        let is_placeholder = |id: &String| id.starts_with(&prefix);
        let cancels = instances::count_missing(&group) > 0 && ids.iter().any(is_placeholder);
        let (min, desired) = (group.min_size, group.desired_capacity);
        let kept = if cancels { instances::count_present(&group).max(min) } else { desired };
        if cancels && kept == desired {
            let problem = format!("what is missing cannot be cancelled: min is {min}");
            return Err(self.refused(problem));
        }
        if !doomed.is_empty() {
            let deleted = u32::try_from(doomed.len()).unwrap_or(u32::MAX);
            self.require_min(kept.saturating_sub(deleted), &group)?;
        }
        if cancels {
            self.set_desired(kept).await?;
        }
        for (done, instance) in doomed.iter().enumerate() {
            let outcome = self.region.scaling.terminate(&instance.instance_id).await;
            outcome.map_err(|failure| self.partial(done, doomed.len(), cancels, failure))?;
        }
        Ok(())
    }

    async fn read(&self) -> Result<AutoScalingGroup, ProviderError> {
        let found = self.region.scaling.groups_named(std::slice::from_ref(&self.name)).await;
        let found = found.map_err(|failure| self.error(failure))?;
        let group = found.into_iter().find(|group| group.name == self.name);
        group.ok_or_else(|| ProviderError::UnknownGroup { group: self.id.to_owned() })
    }

    async fn set_desired(&self, to: u32) -> Result<(), ProviderError> {
        let outcome = self.region.set_desired(&self.name, to).await;
        outcome.map_err(|failure| self.error(failure))
    }

    fn require_min(&self, to: u32, group: &AutoScalingGroup) -> Result<(), ProviderError> {
        let min = group.min_size;
        let problem = || format!("{to} instances are fewer than min, which is {min}");
        if to < min { Err(self.refused(problem())) } else { Ok(()) }
    }

    /// Returns the error of a deletion after some of its calls were carried out.
    fn partial(&self, done: usize, of: usize, cancels: bool, failure: Failure) -> ProviderError {
        if done == 0 && !cancels {
            return self.error(failure);
        }
        let message = format!("{done} of {of} instances are being terminated: {failure}");
        ProviderError::Unknown { group: self.id.to_owned(), message }
    }

    fn error(&self, failure: Failure) -> ProviderError {
        let group = self.id.to_owned();
        match failure {
            Failure::Refused(message) => ProviderError::Refused { group, message },
            Failure::Unavailable(message) | Failure::Conflict(message) => {
                ProviderError::Unavailable { message: format!("group `{group}`: {message}") }
            }
            Failure::Open(message) => ProviderError::Unknown { group, message },
        }
    }

    fn refused(&self, message: String) -> ProviderError {
        ProviderError::Refused { group: self.id.to_owned(), message }
    }
}
