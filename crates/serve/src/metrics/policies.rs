//! Gauges of scaling policies and metric sources, read from the caches at each scrape.

use std::fmt::Error;
use std::sync::Arc;

use api::plimsoll::scaling_policy::LastActionStatus;
use cluster::Caches;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;

use super::gauges::{Labels, Series, write};

/// Collects gauges of policies: their sizes, limits, conditions and actions.
pub(super) struct PolicyGauges(pub(super) Arc<Caches>);

impl std::fmt::Debug for PolicyGauges {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PolicyGauges")
    }
}

/// The gauges of one policy, of either kind.
struct Policy {
    labels: Labels,
    limits: (i64, i64),
    current: Option<i64>,
    desired: Option<i64>,
    last_action: Option<LastActionStatus>,
    conditions: Vec<Condition>,
}

impl Collector for PolicyGauges {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), Error> {
        let policies = self.policies();
        for (name, help, read) in GAUGES {
            let one = |policy: &Policy| Some((policy.labels.clone(), read(policy)?));
            write(&mut encoder, (name, help, policies.iter().filter_map(one).collect()))?;
        }
        let conditions = policies.iter().flat_map(conditions).collect();
        write(&mut encoder, ("policy_condition", "1 for each condition that is True", conditions))?;
        let help = "1 if the last query to the source was answered";
        write(&mut encoder, ("metric_source_reachable", help, self.sources()))
    }
}

/// The name, the help text and the value of a gauge.
type Gauge = (&'static str, &'static str, fn(&Policy) -> Option<i64>);

const GAUGES: [Gauge; 5] = [
    ("policy_current_count", "The size of the target at the last evaluation", |p| p.current),
    ("policy_desired_count", "The size that the last evaluation decided on", |p| p.desired),
    ("policy_min", "The smallest allowed size", |p| Some(p.limits.0)),
    ("policy_max", "The largest allowed size", |p| Some(p.limits.1)),
    ("policy_last_action_timestamp_seconds", "When the target was last scaled", |p| {
        p.last_action.as_ref().map(|action| action.at.0.as_second())
    }),
];

impl PolicyGauges {
    fn policies(&self) -> Vec<Policy> {
        let scaling = self.0.policies.all().into_iter().map(|policy| {
            let status = policy.status.clone().unwrap_or_default();
            Policy {
                labels: labels("ScalingPolicy", &policy.metadata),
                limits: (policy.spec.min, policy.spec.max),
                current: status.current_count,
                desired: status.desired_count,
                last_action: status.last_action,
                conditions: status.conditions,
            }
        });
        let services = self.0.service_policies.all().into_iter().map(|policy| {
            let status = policy.status.clone().unwrap_or_default();
            Policy {
                labels: labels("AutoScalePolicy", &policy.metadata),
                limits: (policy.spec.min, policy.spec.max),
                current: status.current_count,
                desired: None,
                last_action: status.last_action,
                conditions: status.conditions,
            }
        });
        let mut all: Vec<Policy> = scaling.chain(services).collect();
        all.sort_by(|a, b| a.labels.cmp(&b.labels));
        all
    }

    fn sources(&self) -> Series {
        let mut sources = self.0.sources.all();
        sources.sort_by_key(|source| source.metadata.name.clone());
        let series = sources.iter().filter_map(|source| {
            let mut conditions = source.status.iter().flat_map(|status| &status.conditions);
            let reachable = conditions.find(|condition| condition.type_ == "Reachable")?;
            let name = source.metadata.name.clone().unwrap_or_default();
            Some((vec![("name", name)], i64::from(reachable.status == "True")))
        });
        series.collect()
    }
}

fn conditions(policy: &Policy) -> Series {
    let one = |condition: &Condition| {
        let mut labels = policy.labels.clone();
        labels.push(("type", condition.type_.clone()));
        (labels, i64::from(condition.status == "True"))
    };
    policy.conditions.iter().map(one).collect()
}

fn labels(kind: &str, meta: &ObjectMeta) -> Labels {
    vec![
        ("kind", kind.to_owned()),
        ("name", meta.name.clone().unwrap_or_default()),
        ("namespace", meta.namespace.clone().unwrap_or_default()),
    ]
}
