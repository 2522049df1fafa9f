//! The calls of EC2 Auto Scaling.

use jiff::Timestamp;
use serde::Deserialize;

use super::AwsService;
use super::ec2::InstanceRequirements;
use super::query::{Failure, List, Parameters};

const VERSION: &str = "2011-01-01";
/// How many groups a call may name, and how many an answer has at most.
const PAGE: usize = 100;

/// EC2 Auto Scaling in a region.
pub(crate) struct AutoScaling {
    service: AwsService,
}

/// An Auto Scaling group.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct AutoScalingGroup {
    #[serde(rename = "AutoScalingGroupName")]
    pub(crate) name: String,
    pub(crate) min_size: u32,
    pub(crate) max_size: u32,
    pub(crate) desired_capacity: u32,
    /// Set while the group is being deleted.
    #[serde(default)]
    pub(crate) status: String,
    #[serde(default)]
    pub(crate) availability_zones: List<String>,
    #[serde(default)]
    pub(crate) instances: List<GroupInstance>,
    #[serde(default)]
    pub(crate) tags: List<Tag>,
    #[serde(default)]
    pub(crate) launch_configuration_name: String,
    pub(crate) launch_template: Option<LaunchTemplateRef>,
    pub(crate) mixed_instances_policy: Option<MixedInstancesPolicy>,
}

/// An instance of a group.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct GroupInstance {
    pub(crate) instance_id: String,
    pub(crate) availability_zone: String,
    pub(crate) lifecycle_state: String,
}

/// A tag of a group.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Tag {
    pub(crate) key: String,
    #[serde(default)]
    pub(crate) value: String,
}

/// The name of a launch template. AWS gives its id too, unless the group was made with the name alone.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(crate) struct LaunchTemplateRef {
    #[serde(rename = "LaunchTemplateId")]
    pub(crate) id: String,
    #[serde(rename = "LaunchTemplateName")]
    pub(crate) name: String,
    /// A number, `$Latest` or `$Default`; empty: `$Default`.
    pub(crate) version: String,
}

/// Several types of instances in one group.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct MixedInstancesPolicy {
    #[serde(default)]
    pub(crate) launch_template: MixedLaunchTemplate,
}

/// The launch template of a mixed group, and what differs from it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(crate) struct MixedLaunchTemplate {
    #[serde(rename = "LaunchTemplateSpecification")]
    pub(crate) specification: LaunchTemplateRef,
    pub(crate) overrides: List<Override>,
}

/// A type of instance of a mixed group.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(crate) struct Override {
    pub(crate) instance_type: String,
    #[serde(rename = "LaunchTemplateSpecification")]
    pub(crate) specification: Option<LaunchTemplateRef>,
    pub(crate) instance_requirements: Option<InstanceRequirements>,
}

/// A launch configuration, which older groups have instead of a launch template.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct LaunchConfiguration {
    #[serde(default)]
    pub(crate) image_id: String,
    #[serde(default)]
    pub(crate) instance_type: String,
}

/// Something that AWS did with a group, or tried to.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Activity {
    pub(crate) start_time: Timestamp,
    pub(crate) status_code: String,
    #[serde(default)]
    pub(crate) status_message: String,
    #[serde(default)]
    pub(crate) description: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct GroupsAnswer {
    #[serde(rename = "DescribeAutoScalingGroupsResult")]
    result: Groups,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Groups {
    #[serde(default)]
    auto_scaling_groups: List<AutoScalingGroup>,
    #[serde(default)]
    next_token: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ActivitiesAnswer {
    #[serde(rename = "DescribeScalingActivitiesResult")]
    result: Activities,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Activities {
    #[serde(default)]
    activities: List<Activity>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct LaunchConfigurationsAnswer {
    #[serde(rename = "DescribeLaunchConfigurationsResult")]
    result: LaunchConfigurations,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct LaunchConfigurations {
    #[serde(default)]
    launch_configurations: List<LaunchConfiguration>,
}

impl AutoScalingGroup {
    pub(crate) fn is_being_deleted(&self) -> bool {
        self.status.contains("Delete")
    }
}

impl GroupInstance {
    pub(crate) fn is_in_service(&self) -> bool {
        self.lifecycle_state == "InService"
    }

    /// Returns whether it is being terminated, or was.
    pub(crate) fn is_terminating(&self) -> bool {
        self.lifecycle_state.starts_with("Terminat")
    }

    /// Returns whether it is one of those that the desired capacity asks for.
    pub(crate) fn counts_toward_capacity(&self) -> bool {
        let state = self.lifecycle_state.as_str();
        let is_on_its_own = ["Detach", "EnteringStandby", "Standby", "Warmed"];
        !self.is_terminating() && !is_on_its_own.iter().any(|prefix| state.starts_with(prefix))
    }
}

impl AutoScaling {
    pub(crate) fn new(service: AwsService) -> Self {
        Self { service }
    }

    /// Reads groups by their names. One that does not exist is left out.
    pub(crate) async fn groups_named(
        &self,
        names: &[String],
    ) -> Result<Vec<AutoScalingGroup>, Failure> {
        let mut found = Vec::new();
        for names in names.chunks(PAGE) {
            found.extend(self.groups(list("AutoScalingGroupNames", names)).await?);
        }
        Ok(found)
    }

    /// Reads the groups that have all of some tags. A tag without a value stands for any value.
    pub(crate) async fn groups_tagged<'a>(
        &self,
        tags: impl IntoIterator<Item = (&'a String, &'a String)>,
    ) -> Result<Vec<AutoScalingGroup>, Failure> {
        let mut filters = Parameters::new();
        for (number, (key, value)) in (1..).zip(tags) {
            let (name, value) = match value.as_str() {
                "" => ("tag-key".to_owned(), key),
                _ => (format!("tag:{key}"), value),
            };
            filters.push((format!("Filters.member.{number}.Name"), name));
            filters.push((format!("Filters.member.{number}.Values.member.1"), value.clone()));
        }
        self.groups(filters).await
    }

    async fn groups(&self, mut parameters: Parameters) -> Result<Vec<AutoScalingGroup>, Failure> {
        parameters.push(("MaxRecords".to_owned(), PAGE.to_string()));
        let (mut found, mut token) = (Vec::new(), String::new());
        loop {
            let mut parameters = parameters.clone();
            if !token.is_empty() {
                parameters.push(("NextToken".to_owned(), token.clone()));
            }
            let answer = self.service.read(VERSION, "DescribeAutoScalingGroups", parameters);
            let GroupsAnswer { result } = answer.await?;
            found.extend(result.auto_scaling_groups);
            if result.next_token.is_empty() || result.next_token == token {
                return Ok(found);
            }
            token = result.next_token;
        }
    }

    /// Sets the desired capacity at once, also within the cooldown of the group's own policies.
    pub(crate) async fn set_desired_capacity(&self, group: &str, to: u32) -> Result<(), Failure> {
        let parameters = parameters(&[
            ("AutoScalingGroupName", group),
            ("DesiredCapacity", &to.to_string()),
            ("HonorCooldown", "false"),
        ]);
        self.service.change(VERSION, "SetDesiredCapacity", parameters).await
    }

    /// Sets the desired capacity by an update of the group.
    pub(crate) async fn update_desired_capacity(
        &self,
        group: &str,
        to: u32,
    ) -> Result<(), Failure> {
        let parameters =
            parameters(&[("AutoScalingGroupName", group), ("DesiredCapacity", &to.to_string())]);
        self.service.change(VERSION, "UpdateAutoScalingGroup", parameters).await
    }

    /// Terminates an instance, and lowers the desired capacity of its group by one.
    pub(crate) async fn terminate(&self, instance: &str) -> Result<(), Failure> {
        let parameters =
            parameters(&[("InstanceId", instance), ("ShouldDecrementDesiredCapacity", "true")]);
        self.service.change(VERSION, "TerminateInstanceInAutoScalingGroup", parameters).await
    }

    /// Reads the newest activities of a group, the newest first.
    pub(crate) async fn activities(&self, group: &str) -> Result<List<Activity>, Failure> {
        let parameters =
            parameters(&[("AutoScalingGroupName", group), ("MaxRecords", &PAGE.to_string())]);
        let answer = self.service.read(VERSION, "DescribeScalingActivities", parameters);
        let ActivitiesAnswer { result } = answer.await?;
        Ok(result.activities)
    }

    /// Reads a launch configuration; `None` where it does not exist.
    pub(crate) async fn launch_configuration(
        &self,
        name: &str,
    ) -> Result<Option<LaunchConfiguration>, Failure> {
        let names = list("LaunchConfigurationNames", &[name.to_owned()]);
        let answer = self.service.read(VERSION, "DescribeLaunchConfigurations", names);
        let LaunchConfigurationsAnswer { result } = answer.await?;
        Ok(result.launch_configurations.into_iter().next())
    }
}

fn parameters(given: &[(&str, &str)]) -> Parameters {
    given.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn list(name: &str, members: &[String]) -> Parameters {
    let numbered = (1..).zip(members);
    numbered.map(|(number, value)| (format!("{name}.member.{number}"), value.clone())).collect()
}
