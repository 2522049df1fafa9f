//! Reads a policy for the decision about its fleet, and collects what is wrong with it.
//!
//! There is one reading for new and for stored objects. Admission applies the rules that a schema cannot express as well; of a
//! stored policy, which may be older than a rule, only what cannot be read at all is a problem.

mod schedule;

use decide::fleet::{self, Amount, Buffer, Capacity, Link};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::{BufferPolicy, CapacityPolicy, Policy, PolicyType, address};
use crate::Problem;
use crate::agones::view::amount;

impl Policy {
    /// Returns the policy as decisions read it, or every field that cannot be read.
    pub fn parse(&self) -> Result<fleet::Policy, Vec<Problem>> {
        Parser { problems: Vec::new(), rules: None }.finish(self, "spec.policy")
    }
}

/// Returns the policy at `path` as decisions read it, or everything that is wrong with it. `now` is absent when the policy is
/// stored already and unchanged.
pub(super) fn admitted(
    policy: &Policy,
    path: &str,
    now: Option<Timestamp>,
) -> Result<fleet::Policy, Vec<Problem>> {
    Parser { problems: Vec::new(), rules: Some(Rules { now }) }.finish(policy, path)
}

/// The rules of admission.
#[derive(Clone, Copy)]
struct Rules {
    /// The moment after which a schedule has to end.
    now: Option<Timestamp>,
}

struct Parser {
    problems: Vec<Problem>,
    /// Absent where a policy only has to be readable.
    rules: Option<Rules>,
}

impl Parser {
    fn finish(mut self, policy: &Policy, path: &str) -> Result<fleet::Policy, Vec<Problem>> {
        match self.policy(policy, path) {
            Some(policy) if self.problems.is_empty() => Ok(policy),
            Some(_) | None => Err(self.problems),
        }
    }

    /// Notes a value that cannot be read.
    fn unreadable(&mut self, path: String, message: String) {
        self.problems.push(Problem::new(path, message));
    }

    /// Notes values that break a rule of admission.
    fn breach(&mut self, problems: impl IntoIterator<Item = Problem>) {
        if self.rules.is_some() {
            self.problems.extend(problems);
        }
    }

    fn policy(&mut self, policy: &Policy, path: &str) -> Option<fleet::Policy> {
        Some(match policy.type_ {
            PolicyType::Buffer => {
                let block = self.block(policy, policy.buffer.as_ref(), path, "buffer")?;
                let bounds = (i64::from(block.min_replicas), i64::from(block.max_replicas));
                self.bounds(bounds, &block.buffer_size, BufferPolicy::BOUNDS, path, "buffer");
                fleet::Policy::Buffer(self.buffer(block, path)?)
            }
            PolicyType::Counter => {
                let block = self.block(policy, policy.counter.as_ref(), path, "counter")?;
                let bounds = (block.min_capacity, block.max_capacity);
                self.bounds(bounds, &block.buffer_size, CapacityPolicy::BOUNDS, path, "counter");
                fleet::Policy::Counter(self.capacity(block, path, "counter")?)
            }
            PolicyType::List => {
                let block = self.block(policy, policy.list.as_ref(), path, "list")?;
                let bounds = (block.min_capacity, block.max_capacity);
                self.bounds(bounds, &block.buffer_size, CapacityPolicy::BOUNDS, path, "list");
                fleet::Policy::List(self.capacity(block, path, "list")?)
            }
            PolicyType::Webhook => {
                let block = self.block(policy, policy.webhook.as_ref(), path, "webhook")?;
                self.breach(address::problems(block, &format!("{path}.webhook")));
                fleet::Policy::Webhook
            }
            PolicyType::Wasm => {
                let block = self.block(policy, policy.wasm.as_ref(), path, "wasm")?;
                self.breach(match &block.from.url {
                    None => vec![Problem::required(format!("{path}.wasm.from"), "must have a url")],
                    Some(url) => address::problems(url, &format!("{path}.wasm.from.url")),
                });
                fleet::Policy::Wasm
            }
            PolicyType::Schedule => {
                let block = self.block(policy, policy.schedule.as_ref(), path, "schedule")?;
                let schedule = self.schedule(block, &format!("{path}.schedule"))?;
                fleet::Policy::Schedule(Box::new(schedule))
            }
            PolicyType::Chain => {
                fleet::Policy::Chain(self.chain(policy, &format!("{path}.chain"))?)
            }
        })
    }

    /// Returns the block that the type of a policy names.
    fn block<'p, T>(
        &mut self,
        policy: &Policy,
        block: Option<&'p T>,
        path: &str,
        name: &str,
    ) -> Option<&'p T> {
        if block.is_none() {
            let message = format!("must be given with the type {:?}", policy.type_);
            self.problems.push(Problem::required(format!("{path}.{name}"), message));
        }
        block
    }

    fn buffer(&mut self, block: &BufferPolicy, path: &str) -> Option<Buffer> {
        let size = self.share(&block.buffer_size, path, "buffer")?;
        Some(Buffer { size, min: block.min_replicas, max: block.max_replicas })
    }

    fn capacity(&mut self, block: &CapacityPolicy, path: &str, name: &str) -> Option<Capacity> {
        let size = self.share(&block.buffer_size, path, name)?;
        let key = block.key.as_str().into();
        Some(Capacity { key, size, min: block.min_capacity, max: block.max_capacity })
    }

    /// Reads `bufferSize`. A new one has to be written as a share between 1% and 99%, where it is one.
    fn share(&mut self, size: &IntOrString, path: &str, block: &str) -> Option<Amount> {
        let read = amount(size);
        if let IntOrString::String(text) = size
            && (read.is_none() || (self.rules.is_some() && !is_share(text)))
        {
            let message = format!("expected a share between 1% and 99%, found `{text}`");
            self.unreadable(format!("{path}.{block}.bufferSize"), message);
        }
        read
    }

    /// Checks the bounds of a buffer, whose names are `names`.
    fn bounds(
        &mut self,
        (min, max): (i64, i64),
        size: &IntOrString,
        names: (&str, &str),
        path: &str,
        block: &str,
    ) {
        let mut wrong = |field: &str, message: String| {
            self.breach([Problem::new(format!("{path}.{block}.{field}"), message)]);
        };
        if min > max {
            wrong(names.0, format!("expected at most {} ({max}), found {min}", names.1));
        }
        match size {
            IntOrString::Int(size) => {
                let size = i64::from(*size);
                if size <= 0 {
                    wrong("bufferSize", format!("expected at least 1, found {size}"));
                }
                if max < size {
                    wrong(names.1, format!("expected at least bufferSize ({size}), found {max}"));
                }
                if min != 0 && min < size {
                    let message =
                        format!("expected 0, or at least bufferSize ({size}), found {min}");
                    wrong(names.0, message);
                }
            }
            IntOrString::String(_) if min < 1 => {
                wrong(names.0, "expected at least 1 when bufferSize is a share".to_owned());
            }
            IntOrString::String(_) => {}
        }
    }

    /// Reads the entries of a chain. One without entries is admitted, as upstream does; each decision reports that it has no
    /// each decision.
    fn chain(&mut self, chain: &Policy, path: &str) -> Option<Vec<Link>> {
        let entries = chain.chain.as_deref().unwrap_or_default();
        let mut links = Vec::new();
        for (index, entry) in entries.iter().enumerate() {
            if entries[..index].iter().any(|other| other.id == entry.id) {
                let message = format!("duplicate id {:?}; ids must be unique", entry.id);
                self.breach([Problem::new(path, message)]);
            }
            if !entry.has_block() {
                let message = "must have the block that its type names";
                self.breach([Problem::required(format!("{path}[{index}]"), message)]);
            }
            if entry.type_ == PolicyType::Chain {
                let message = "expected another type than Chain inside a chain".to_owned();
                self.unreadable(format!("{path}[{index}].type"), message);
                continue;
            }
            // Upstream's paths have `.policy` here although the fields stand in the entry itself; tools match on them.
            let policy = self.policy(&entry.policy(), &format!("{path}[{index}].policy"));
            links.extend(policy.map(|policy| Link { id: entry.id.as_str().into(), policy }));
        }
        (links.len() == entries.len()).then_some(links)
    }
}

impl BufferPolicy {
    const BOUNDS: (&'static str, &'static str) = ("minReplicas", "maxReplicas");
}

impl CapacityPolicy {
    const BOUNDS: (&'static str, &'static str) = ("minCapacity", "maxCapacity");
}

fn is_share(text: &str) -> bool {
    let share = text.strip_suffix('%').and_then(|n| n.parse::<i64>().ok());
    share.is_some_and(|n| (1..=99).contains(&n))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn parsed(policy: Value) -> Result<fleet::Policy, Vec<String>> {
        let policy: Policy = serde_json::from_value(policy).unwrap();
        policy.parse().map_err(|all| all.iter().map(ToString::to_string).collect())
    }

    fn scheduled(period: &Value) -> Value {
        let buffer = json!({"type": "Buffer", "buffer": {"bufferSize": 1, "maxReplicas": 9}});
        json!({"type": "Schedule", "schedule": {"activePeriod": period, "policy": buffer}})
    }

    #[test]
    fn invalid_values_are_problems_and_never_defaults() {
        let in_period = |period: Value| scheduled(&period);
        for (policy, wanted) in [
            (
                in_period(json!({"startCron": "61 * * * *"})),
                "spec.policy.schedule.activePeriod.startCron: ",
            ),
            (
                in_period(json!({"startCron": "0 8 * * *", "timezone": "Mars/Base"})),
                "spec.policy.schedule.activePeriod.timezone: `Mars/Base` is not a time zone",
            ),
            (
                in_period(json!({"startCron": "0 8 * * *", "duration": "long"})),
                "spec.policy.schedule.activePeriod.duration: ",
            ),
            (
                json!({"type": "Buffer", "buffer": {"bufferSize": "some", "maxReplicas": 9}}),
                "spec.policy.buffer.bufferSize: expected a share between 1% and 99%, found `some`",
            ),
            (
                json!({"type": "Counter"}),
                "spec.policy.counter: must be given with the type Counter",
            ),
            (
                json!({"type": "Chain", "chain": [{"id": "a", "type": "Chain"}]}),
                "spec.policy.chain[0].type: expected another type than Chain",
            ),
        ] {
            let found = parsed(policy.clone()).unwrap_err();
            assert!(found[0].starts_with(wanted), "{policy}: {found:?}");
        }
    }

    #[test]
    fn a_stored_policy_that_breaks_a_newer_rule_is_still_decided_by() {
        for policy in [
            json!({"type": "Buffer", "buffer": {"bufferSize": "25", "maxReplicas": 9}}),
            json!({"type": "Buffer", "buffer": {"bufferSize": 5, "minReplicas": 9, "maxReplicas": 3}}),
            json!({"type": "Webhook", "webhook": {}}),
            scheduled(&json!({"startCron": "0 8 * * *", "timezone": "europe/berlin"})),
        ] {
            assert!(parsed(policy.clone()).is_ok(), "{policy}");
        }
    }
}
