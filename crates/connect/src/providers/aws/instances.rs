//! The instances of a group: those that AWS lists, and placeholders for those that it has not launched yet.

use jiff::Timestamp;

use crate::aws::autoscaling::{Activity, AutoScalingGroup, GroupInstance};
use crate::providers::{Instance, InstanceError, InstanceState};

/// The longest message of AWS that is passed on.
const LONGEST_MESSAGE: usize = 500;

/// Returns the instances of a group. `failure` is why those that are missing could not be launched.
pub(super) fn of(group: &AutoScalingGroup, failure: Option<&Activity>) -> Vec<Instance> {
    let listed = group.instances.iter().map(|instance| {
        let is_terminating = instance.is_terminating();
        let state = if is_terminating { InstanceState::Deleting } else { InstanceState::Running };
        Instance { id: provider_id(instance), state, error: None }
    });
    let error = failure.map(error);
    let placeholders = (0..count_missing(group)).map(|number| Instance {
        id: format!("{}{number}", placeholder_prefix(&group.name)),
        state: InstanceState::Creating,
        error: error.clone(),
    });
    listed.chain(placeholders).collect()
}

/// Returns the `providerID` of the Node of an instance.
pub(super) fn provider_id(instance: &GroupInstance) -> String {
    format!("aws:///{}/{}", instance.availability_zone, instance.instance_id)
}

/// Returns what the ids of placeholders of a group begin with.
pub(super) fn placeholder_prefix(group: &str) -> String {
    format!("i-placeholder-{group}-")
}

/// Returns how many instances the desired capacity is made of at present.
pub(super) fn count_present(group: &AutoScalingGroup) -> u32 {
    let present = group.instances.iter().filter(|instance| instance.counts_toward_capacity());
    u32::try_from(present.count()).unwrap_or(u32::MAX)
}

/// Returns how many instances are still to be launched.
pub(super) fn count_missing(group: &AutoScalingGroup) -> u32 {
    group.desired_capacity.saturating_sub(count_present(group))
}

/// Returns whether all instances are there and in service.
pub(super) fn is_settled(group: &AutoScalingGroup) -> bool {
    count_missing(group) == 0 && group.instances.iter().all(GroupInstance::is_in_service)
}

/// Returns the newest activity that ended, if it is a launch that failed since a time.
pub(super) fn failure(
    newest_first: impl IntoIterator<Item = Activity>,
    since: Timestamp,
) -> Option<Activity> {
    let is_ended = |activity: &Activity| {
        matches!(activity.status_code.as_str(), "Failed" | "Successful")
            && !activity.description.starts_with("Terminating")
    };
    let mut ended = newest_first.into_iter().filter(is_ended);
    // AWS writes whole seconds.
    let since = since.as_second();
    ended.next().filter(|last| last.status_code == "Failed" && last.start_time.as_second() >= since)
}

fn error(activity: &Activity) -> InstanceError {
    let text = match activity.status_message.as_str() {
        "" => &activity.description,
        message => message,
    };
    let message: String = text.chars().take(LONGEST_MESSAGE).collect();
    let lower = message.to_lowercase();
    let is_out_of_resources =
        ["capacity", "insufficient", "limit"].iter().any(|word| lower.contains(word));
    InstanceError { is_out_of_resources, message }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(desired: u32, states: &[&str]) -> AutoScalingGroup {
        let instances: String = (0..)
            .zip(states)
            .map(|(number, state)| {
                format!(
                    "<member><InstanceId>i-{number}</InstanceId><AvailabilityZone>eu-west-1a</AvailabilityZone>\
                     <LifecycleState>{state}</LifecycleState></member>"
                )
            })
            .collect();
        let xml = format!(
            "<member><AutoScalingGroupName>web</AutoScalingGroupName><MinSize>0</MinSize><MaxSize>9</MaxSize>\
             <DesiredCapacity>{desired}</DesiredCapacity><Instances>{instances}</Instances></member>"
        );
        quick_xml::de::from_str(&xml).unwrap()
    }

    fn activity(at: &str, status: &str, description: &str) -> Activity {
        let xml = format!(
            "<member><StartTime>{at}</StartTime><StatusCode>{status}</StatusCode>\
             <StatusMessage>no capacity</StatusMessage><Description>{description}</Description></member>"
        );
        quick_xml::de::from_str(&xml).unwrap()
    }

    #[test]
    fn what_is_missing_has_placeholders_and_what_is_leaving_is_replaced() {
        let group = group(4, &["InService", "Pending:Wait", "Terminating:Proceed", "Standby"]);
        assert_eq!((count_present(&group), count_missing(&group)), (2, 2));
        let found: Vec<_> = of(&group, None).into_iter().map(|i| (i.id, i.state)).collect();
        let wanted = [
            ("aws:///eu-west-1a/i-0", InstanceState::Running),
            ("aws:///eu-west-1a/i-1", InstanceState::Running),
            ("aws:///eu-west-1a/i-2", InstanceState::Deleting),
            ("aws:///eu-west-1a/i-3", InstanceState::Running),
            ("i-placeholder-web-0", InstanceState::Creating),
            ("i-placeholder-web-1", InstanceState::Creating),
        ];
        assert_eq!(found, wanted.map(|(id, state)| (id.to_owned(), state)));
        assert!(!is_settled(&group));
    }

    #[test]
    fn only_the_outcome_of_the_last_launch_since_the_request_counts() {
        let since = "2026-01-01T00:10:00.9Z".parse().unwrap();
        let failed = activity("2026-01-01T00:10:00Z", "Failed", "Launching");
        let found = failure([failed.clone()], since).unwrap();
        let error = of(&group(1, &[]), Some(&found)).remove(0).error.unwrap();
        assert_eq!((error.is_out_of_resources, &*error.message), (true, "no capacity"));
        let with = |newer: Activity| failure([newer, failed.clone()], since).is_some();
        assert!(with(activity("2026-01-01T00:11:00Z", "InProgress", "Launching")));
        assert!(with(activity("2026-01-01T00:11:00Z", "Successful", "Terminating")));
        assert!(!with(activity("2026-01-01T00:11:00Z", "Successful", "Launching")));
        let earlier = activity("2026-01-01T00:09:59Z", "Failed", "Launching");
        assert!(failure([earlier], since).is_none());
    }
}
