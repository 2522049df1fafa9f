//! Targets of ScalingPolicies.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::Checks;

/// The target of a policy: an object with a scale subresource, or exactly one of the others.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct TargetSpec {
    /// The group and version of the object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_version: Option<String>,
    /// The kind of the object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// The name of the object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// A service of a container engine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub docker: Option<Docker>,
    /// A task group of a Nomad job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nomad: Option<Nomad>,
    /// A service of Rancher.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rancher: Option<Rancher>,
    /// An Auto Scaling group of AWS.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aws_autoscaling_group: Option<Aws>,
    /// A webhook.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub webhook: Option<Webhook>,
    /// A NodeGroup.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_group: Option<NodeGroupName>,
    /// A target plugin of Nomad Autoscaler that has no field of its own here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub named: Option<Named>,
}

/// A service of a container engine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Docker {
    /// Its name.
    pub service: String,
    /// The compose project; absent: the only one that has such a service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// Whether it is a service of swarm mode.
    #[serde(default, skip_serializing_if = "is_false")]
    pub swarm: bool,
    /// The MetricSource with the connection; absent: `docker`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
}

/// A task group of a Nomad job.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Nomad {
    /// The job.
    pub job: String,
    /// The task group.
    pub group: String,
    /// The job's namespace; default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The MetricSource with the connection; absent: `nomad`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
}

/// A service of Rancher.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Rancher {
    /// Its id, such as `1s5`.
    pub service: String,
    /// The MetricSource with the connection; absent: `rancher`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
}

/// An Auto Scaling group of AWS.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Aws {
    /// Its name.
    pub name: String,
    /// The URL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
    /// The address of the service, if it is not AWS's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// Further settings of Nomad Autoscaler's plugin.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub config: BTreeMap<String, String>,
}

/// A webhook.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Webhook {
    /// The address.
    pub url: String,
    /// The query for the current size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count_from: Option<CountFrom>,
    /// The key that requests are signed with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_from: Option<SecretKey>,
}

/// A query for the present size of a target.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CountFrom {
    /// The name of the MetricSource.
    pub source: String,
    /// The query, in the language of the source.
    #[serde(default)]
    pub query: String,
}

/// A key of a Secret in the controller's namespace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecretKey {
    /// The name of the Secret.
    pub name: String,
    /// The key in the Secret.
    pub key: String,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(value: &bool) -> bool {
    !*value
}

/// A NodeGroup.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeGroupName {
    /// Its name.
    pub name: String,
}

/// A target plugin of Nomad Autoscaler.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Named {
    /// The plugin's name.
    pub name: String,
    /// The plugin's settings.
    #[serde(default)]
    pub config: BTreeMap<String, String>,
}

pub(super) fn check(checks: &mut Checks, target: &TargetSpec) {
    let path = "spec.target";
    let object = [&target.api_version, &target.kind, &target.name];
    let others = [
        target.docker.is_some(),
        target.nomad.is_some(),
        target.rancher.is_some(),
        target.aws_autoscaling_group.is_some(),
        target.webhook.is_some(),
        target.node_group.is_some(),
        target.named.is_some(),
    ];
    let is_object = object.iter().any(|part| part.is_some());
    let count = others.iter().filter(|is| **is).count() + usize::from(is_object);
    let choice = "an object by apiVersion, kind and name, or one of docker, nomad, rancher, awsAutoscalingGroup, webhook, \
                  nodeGroup, named";
    checks.require(count > 0, path, format!("is empty; name {choice}"));
    checks.require(count < 2, path, format!("names more than one; it takes {choice}"));
    if is_object {
        for (field, part) in [("kind", &target.kind), ("name", &target.name)] {
            let is_given = part.as_ref().is_some_and(|text| !text.is_empty());
            checks.require(
                is_given,
                &format!("{path}.{field}"),
                "required: which object is scaled",
            );
        }
    }
}
