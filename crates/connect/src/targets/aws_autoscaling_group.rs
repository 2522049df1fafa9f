//! An Auto Scaling group of AWS: its desired capacity.
//!
//! AWS has no versions: the desired capacity is read again before it is changed.

use std::sync::Arc;

use futures::future::BoxFuture;

use super::{Target, TargetError, TargetRef, TargetStatus, Version};
use crate::aws::autoscaling::{AutoScaling, AutoScalingGroup};
use crate::aws::{AwsService, Failure};
use crate::registry::Context;

struct AutoscalingGroup {
    name: String,
    service: AutoScaling,
}

pub(super) fn open(context: &Context, target: &TargetRef) -> Result<Arc<dyn Target>, String> {
    let group = target.spec.aws_autoscaling_group.clone().unwrap_or_default();
    if group.name.is_empty() {
        return Err("name: required".to_owned());
    }
    let (region, endpoint) = (group.region.as_deref(), group.endpoint.as_deref());
    let service = AwsService::open(&context.clock, "autoscaling", region, endpoint)?;
    Ok(Arc::new(AutoscalingGroup { name: group.name, service: AutoScaling::new(service) }))
}

impl Target for AutoscalingGroup {
    fn status(&self) -> BoxFuture<'_, Result<TargetStatus, TargetError>> {
        Box::pin(async move {
            let names = std::slice::from_ref(&self.name);
            let found = self.service.groups_named(names).await;
            let found = found.map_err(|failure| self.error(failure))?;
            status(found.first()).map_err(|problem| TargetError::Refused {
                target: self.to_string(),
                message: problem.to_owned(),
            })
        })
    }

    fn scale<'a>(
        &'a self,
        to: u32,
        version: &'a Version,
    ) -> BoxFuture<'a, Result<(), TargetError>> {
        Box::pin(async move {
            let now = self.status().await?;
            if now.version != *version {
                let message = format!("its desired capacity is {}", now.count);
                return Err(TargetError::Conflict { target: self.to_string(), message });
            }
            let done = self.service.update_desired_capacity(&self.name, to).await;
            done.map_err(|failure| self.error(failure))
        })
    }
}

impl AutoscalingGroup {
    fn error(&self, failure: Failure) -> TargetError {
        let target = self.to_string();
        match failure {
            Failure::Refused(message) => TargetError::Refused { target, message },
            Failure::Unavailable(message) => TargetError::Unavailable { target, message },
            Failure::Conflict(message) => TargetError::Conflict { target, message },
            Failure::Open(message) => TargetError::Unknown { target, message },
        }
    }
}

impl std::fmt::Display for AutoscalingGroup {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Auto Scaling group {}", self.name)
    }
}

fn status(group: Option<&AutoScalingGroup>) -> Result<TargetStatus, &'static str> {
    let group = group.ok_or("there is no such group")?;
    if group.is_being_deleted() {
        return Err("the group is being deleted");
    }
    let count = group.desired_capacity;
    let ready = group.instances.iter().filter(|instance| instance.is_in_service()).count();
    let ready = u32::try_from(ready).unwrap_or(u32::MAX);
    Ok(TargetStatus { count, ready, version: Version::new(count.to_string()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_is_the_desired_capacity_and_instances_in_service_are_ready() {
        let instance = |state: &str| {
            format!(
                "<member><InstanceId>i</InstanceId><AvailabilityZone>a</AvailabilityZone>\
                 <LifecycleState>{state}</LifecycleState></member>"
            )
        };
        let group = |more: &str| {
            let xml = format!(
                "<member><AutoScalingGroupName>web</AutoScalingGroupName><MinSize>0</MinSize><MaxSize>9</MaxSize>\
                 <DesiredCapacity>3</DesiredCapacity>{more}</member>"
            );
            quick_xml::de::from_str::<AutoScalingGroup>(&xml).unwrap()
        };
        let instances = instance("InService") + &instance("Pending");
        let found = status(Some(&group(&format!("<Instances>{instances}</Instances>")))).unwrap();
        assert_eq!((found.count, found.ready, found.version.as_str()), (3, 1, "3"));
        assert_eq!(status(None), Err("there is no such group"));
        assert!(status(Some(&group("<Status>Delete in progress</Status>"))).is_err());
    }
}
