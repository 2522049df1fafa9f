//! What a new instance of a group will be: found through its launch template or launch configuration, and kept for a while.
//!
//! What cannot be read is logged and left out: the group is scaled all the same, by the shape of its nodes and its tags.

use std::collections::BTreeMap;
use std::sync::Mutex;

use jiff::{SignedDuration, Timestamp};

use super::lock;
use super::template::{self, Machine};
use crate::aws::Failure;
use crate::aws::autoscaling::{
    AutoScaling, AutoScalingGroup, LaunchConfiguration, LaunchTemplateRef, Override,
};
use crate::aws::ec2::{Ec2, Image, InstanceRequirements, InstanceType, LaunchTemplate};
use crate::aws::eks::{Eks, ManagedNodeGroup};

/// For how long launch templates and launch configurations are kept.
const LAUNCHES: SignedDuration = SignedDuration::from_mins(10);
/// For how long EKS's managed node groups are kept.
const MANAGED: SignedDuration = SignedDuration::from_mins(6);
/// For how long types and images, which do not change, are kept.
const FIXED: SignedDuration = SignedDuration::from_hours(24);
/// When something is read again that could not be read.
const RETRY: SignedDuration = SignedDuration::from_mins(1);
/// How long after its time something is kept for the case that it cannot be read again.
const SPARE: SignedDuration = SignedDuration::from_hours(1);

/// The machines of a region.
pub(super) struct Machines {
    ec2: Ec2,
    eks: Eks,
    templates: Kept<LaunchTemplate>,
    configurations: Kept<LaunchConfiguration>,
    types: Kept<InstanceType>,
    images: Kept<Image>,
    managed: Kept<ManagedNodeGroup>,
}

/// Answers by their question, each for a while.
struct Kept<T> {
    answers: Mutex<BTreeMap<String, (Timestamp, Option<T>)>>,
}

impl<T> Default for Kept<T> {
    fn default() -> Self {
        Self { answers: Mutex::default() }
    }
}

impl<T: Clone> Kept<T> {
    /// Returns a kept answer, or reads it. One that cannot be read again is used a little longer.
    async fn get(
        &self,
        question: &str,
        now: Timestamp,
        keep_for: SignedDuration,
        read: impl Future<Output = Result<Option<T>, Failure>>,
    ) -> Option<T> {
        let last = lock(&self.answers).get(question).cloned();
        if let Some((_, answer)) = last.as_ref().filter(|(until, _)| now < *until) {
            return answer.clone();
        }
        let (answer, keep_for) = match read.await {
            Ok(answer) => (answer, keep_for),
            Err(error) => {
                tracing::warn!(%error, question, "AWS does not say what nodes of a group look like");
                (last.and_then(|(_, answer)| answer), RETRY)
            }
        };
        let after = |at: Timestamp, span| at.saturating_add(span).unwrap_or(Timestamp::MAX);
        let mut answers = lock(&self.answers);
        answers.retain(|_, (until, _)| now < after(*until, SPARE));
        answers.insert(question.to_owned(), (after(now, keep_for), answer.clone()));
        answer
    }
}

impl Machines {
    pub(super) fn new(ec2: Ec2, eks: Eks) -> Self {
        Self {
            ec2,
            eks,
            templates: Kept::default(),
            configurations: Kept::default(),
            types: Kept::default(),
            images: Kept::default(),
            managed: Kept::default(),
        }
    }

    /// Finds what a new instance of a group will be. Of several types, the first one counts.
    pub(super) async fn of(
        &self,
        group: &AutoScalingGroup,
        scaling: &AutoScaling,
        now: Timestamp,
    ) -> Option<Machine> {
        let mixed = group.mixed_instances_policy.as_ref().map(|policy| &policy.launch_template);
        let first = mixed.and_then(|mixed| mixed.overrides.first());
        if let Some(Override { instance_type, .. }) = first
            && !instance_type.is_empty()
        {
            return self.of_type(instance_type, now).await;
        }
        let own = first.and_then(|first| first.specification.as_ref());
        let template = own.or(mixed.map(|mixed| &mixed.specification));
        let launch = match template.or(group.launch_template.as_ref()) {
            Some(template) => self.launch_template(template, now).await,
            None => self.configuration(&group.launch_configuration_name, scaling, now).await,
        };
        let required = first.and_then(|first| first.instance_requirements.as_ref());
        let launch = launch.unwrap_or_default();
        match required.or(launch.instance_requirements.as_ref()) {
            Some(required) => Some(self.of_requirements(required, &launch.image_id, now).await),
            None => self.of_type(&launch.instance_type, now).await,
        }
    }

    /// Reads what EKS adds to the nodes of a group, if it is one of EKS's.
    pub(super) async fn managed(
        &self,
        group: &AutoScalingGroup,
        now: Timestamp,
    ) -> Option<ManagedNodeGroup> {
        let tag = |key: &str| group.tags.iter().find(|tag| tag.key == key).map(|tag| &tag.value);
        let (cluster, name) = (tag("eks:cluster-name")?, tag(template::MANAGED_GROUP_TAG)?);
        let read = async { self.eks.node_group(cluster, name).await.map(Some) };
        self.managed.get(&format!("{cluster}/{name}"), now, MANAGED, read).await
    }

    async fn launch_template(
        &self,
        template: &LaunchTemplateRef,
        now: Timestamp,
    ) -> Option<LaunchTemplate> {
        let question = format!("{}/{}/{}", template.id, template.name, template.version);
        self.templates.get(&question, now, LAUNCHES, self.ec2.launch_template(template)).await
    }

    async fn configuration(
        &self,
        name: &str,
        scaling: &AutoScaling,
        now: Timestamp,
    ) -> Option<LaunchTemplate> {
        if name.is_empty() {
            return None;
        }
        let read = scaling.launch_configuration(name);
        let LaunchConfiguration { image_id, instance_type } =
            self.configurations.get(name, now, LAUNCHES, read).await?;
        Some(LaunchTemplate { image_id, instance_type, instance_requirements: None })
    }

    async fn of_type(&self, name: &str, now: Timestamp) -> Option<Machine> {
        if name.is_empty() {
            return None;
        }
        let found = self.types.get(name, now, FIXED, self.ec2.instance_type(name)).await?;
        Some(Machine::of_type(name, &found))
    }

    async fn of_requirements(
        &self,
        required: &InstanceRequirements,
        image: &str,
        now: Timestamp,
    ) -> Machine {
        let image = match image {
            "" => None,
            id => self.images.get(id, now, FIXED, self.ec2.image(id)).await,
        };
        Machine::of_requirements(required, image.as_ref())
    }
}
