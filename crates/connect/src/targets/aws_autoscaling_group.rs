//! An Auto Scaling group of AWS: its desired capacity.
//!
//! AWS has no versions: the desired capacity is read again before it is changed.

use std::sync::Arc;

use futures::future::BoxFuture;
use reqwest::Url;

use super::{Target, TargetError, TargetRef, TargetStatus, Version, read_error, write_error};
use crate::aws::{AwsError, AwsService, element};
use crate::endpoint::HttpAnswer;
use crate::registry::Context;

const FORM: [(&str, &str); 1] = [("content-type", "application/x-www-form-urlencoded")];
const API_VERSION: &str = "2011-01-01";

struct AutoscalingGroup {
    name: String,
    service: AwsService,
}

pub(super) fn open(context: &Context, target: &TargetRef) -> Result<Arc<dyn Target>, String> {
    let group = target.spec.aws_autoscaling_group.clone().unwrap_or_default();
    if group.name.is_empty() {
        return Err("name: required".to_owned());
    }
    let (region, endpoint) = (group.region.as_deref(), group.endpoint.as_deref());
    let service = AwsService::open(&context.clock, "autoscaling", region, endpoint)?;
    Ok(Arc::new(AutoscalingGroup { name: group.name, service }))
}

impl Target for AutoscalingGroup {
    fn status(&self) -> BoxFuture<'_, Result<TargetStatus, TargetError>> {
        Box::pin(async move {
            let body = form(&[
                ("Action", "DescribeAutoScalingGroups"),
                ("AutoScalingGroupNames.member.1", &self.name),
                ("Version", API_VERSION),
            ]);
            let answer = self.service.post(&FORM, body).await;
            let answer = answer.map_err(|err| self.failed(&err, false))?;
            if !answer.status.is_success() {
                return Err(self.refused(&answer, false));
            }
            let text = String::from_utf8_lossy(&answer.body);
            status(&text).map_err(|problem| TargetError::Refused {
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
            let body = form(&[
                ("Action", "UpdateAutoScalingGroup"),
                ("AutoScalingGroupName", &self.name),
                ("DesiredCapacity", &to.to_string()),
                ("Version", API_VERSION),
            ]);
            let answer = self.service.post(&FORM, body).await;
            let answer = answer.map_err(|err| self.failed(&err, true))?;
            if answer.status.is_success() { Ok(()) } else { Err(self.refused(&answer, true)) }
        })
    }
}

impl AutoscalingGroup {
    fn failed(&self, error: &AwsError, is_write: bool) -> TargetError {
        let target = self.to_string();
        match error {
            AwsError::Connection(error) if is_write => write_error(&target, error),
            AwsError::Connection(error) => read_error(&target, error),
            AwsError::Credentials(error) => {
                TargetError::Unavailable { target, message: error.to_string() }
            }
        }
    }

    fn refused(&self, answer: &HttpAnswer, is_write: bool) -> TargetError {
        let text = String::from_utf8_lossy(&answer.body);
        let code = element(&text, "Code").unwrap_or_default();
        let detail = element(&text, "Message").map(|message| format!("{code}: {message}"));
        let message = detail.unwrap_or_else(|| format!("AWS answered {}", answer.status));
        let target = self.to_string();
        let is_busy = [
            "Throttling",
            "ThrottlingException",
            "RequestLimitExceeded",
            "ScalingActivityInProgress",
        ];
        match answer.status.as_u16() {
            429 | 503 => TargetError::Unavailable { target, message },
            _ if is_busy.contains(&code) => TargetError::Unavailable { target, message },
            _ if code == "ResourceContention" => TargetError::Conflict { target, message },
            400..=499 => TargetError::Refused { target, message },
            _ if is_write => TargetError::Unknown { target, message },
            _ => TargetError::Unavailable { target, message },
        }
    }
}

impl std::fmt::Display for AutoscalingGroup {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Auto Scaling group {}", self.name)
    }
}

fn form(fields: &[(&str, &str)]) -> String {
    let mut url = Url::parse("http://form").expect("a constant address");
    url.query_pairs_mut().extend_pairs(fields);
    url.query().unwrap_or_default().to_owned()
}

/// Reads the answer of DescribeAutoScalingGroups.
fn status(xml: &str) -> Result<TargetStatus, &'static str> {
    let count = element(xml, "DesiredCapacity").ok_or("there is no such group")?;
    let count: u32 = count.trim().parse().map_err(|_| "the desired capacity is not a number")?;
    if element(xml, "Status").is_some_and(|status| status.contains("Delete")) {
        return Err("the group is being deleted");
    }
    let ready = xml.matches("<LifecycleState>InService</LifecycleState>").count();
    let ready = u32::try_from(ready).unwrap_or(u32::MAX);
    Ok(TargetStatus { count, ready, version: Version::new(count.to_string()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_is_the_desired_capacity_and_instances_in_service_are_ready() {
        let instance =
            |state: &str| format!("<member><LifecycleState>{state}</LifecycleState></member>");
        let group =
            |more: &str| format!("<member><DesiredCapacity>3</DesiredCapacity>{more}</member>");
        let found = status(&group(&(instance("InService") + &instance("Pending")))).unwrap();
        assert_eq!((found.count, found.ready, found.version.as_str()), (3, 1, "3"));
        assert_eq!(status("<AutoScalingGroups/>"), Err("there is no such group"));
        assert!(status(&group("<Status>Delete in progress</Status>")).is_err());
        assert_eq!(form(&[("A", "b c"), ("D", "é")]), "A=b+c&D=%C3%A9");
    }
}
