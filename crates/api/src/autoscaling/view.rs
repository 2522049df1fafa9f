//! How an autoscaler looks to the decision about its fleet.

use decide::cron::{Cron, Dialect};
use decide::fleet::{self, Autoscaler, Buffer, Capacity, Link, Period, Reply, Schedule};
use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::{
    ActivePeriod, CapacityPolicy, FleetAutoscaleReview, FleetAutoscaler, Policy, PolicyType,
    SchedulePolicy,
};
use crate::agones::view::{amount, moment};
use crate::{Problem, decode, duration};

impl FleetAutoscaler {
    /// Gives what tells autoscalers of one fleet apart.
    pub fn view(&self) -> Autoscaler {
        Autoscaler {
            created_at: moment(self.metadata.creation_timestamp.as_ref(), Timestamp::MAX),
            name: self.metadata.name.as_deref().unwrap_or_default().into(),
        }
    }
}

impl Policy {
    /// Gives the policy with the reply of whoever it asks; `None` where the block that the type names is missing, which
    /// no admitted policy is.
    pub fn view(&self, reply: &Reply) -> Option<fleet::Policy> {
        self.view_with(|_| reply.clone())
    }

    /// Gives the policy with the replies of those whom the entries of its chain ask, by their ids. Outside of a chain the id
    /// is empty.
    pub fn view_with(&self, reply: impl Fn(&str) -> Reply) -> Option<fleet::Policy> {
        let PolicyType::Chain = self.type_ else { return self.single(&reply("")) };
        // A chain without entries is admitted, as upstream does; that it decides nothing is said with each decision.
        let entries = self.chain.as_deref().unwrap_or_default().iter();
        let link = |entry: &super::ChainEntry| {
            let policy = entry.policy().single(&reply(&entry.id))?;
            Some(Link { id: entry.id.as_str().into(), policy })
        };
        Some(fleet::Policy::Chain(entries.map(link).collect::<Option<_>>()?))
    }

    fn single(&self, reply: &Reply) -> Option<fleet::Policy> {
        Some(match self.type_ {
            PolicyType::Buffer => {
                let buffer = self.buffer.as_ref()?;
                fleet::Policy::Buffer(Buffer {
                    size: amount(&buffer.buffer_size),
                    min: buffer.min_replicas,
                    max: buffer.max_replicas,
                })
            }
            PolicyType::Counter => fleet::Policy::Counter(self.counter.as_ref()?.view()),
            PolicyType::List => fleet::Policy::List(self.list.as_ref()?.view()),
            PolicyType::Webhook => fleet::Policy::Webhook(reply.clone()),
            PolicyType::Wasm => fleet::Policy::Wasm(reply.clone()),
            PolicyType::Schedule => {
                fleet::Policy::Schedule(Box::new(self.schedule.as_ref()?.view(reply)?))
            }
            // A chain in a chain or in a schedule is refused at the door.
            PolicyType::Chain => return None,
        })
    }
}

impl CapacityPolicy {
    fn view(&self) -> Capacity {
        Capacity {
            key: self.key.as_str().into(),
            size: amount(&self.buffer_size),
            min: self.min_capacity,
            max: self.max_capacity,
        }
    }
}

impl SchedulePolicy {
    fn view(&self, reply: &Reply) -> Option<Schedule> {
        let between = fleet::Between {
            start: self.between.start.as_ref().map(|t| t.0),
            end: self.between.end.as_ref().map(|t| t.0),
        };
        let policy = self.policy.single(reply)?;
        Some(Schedule { between, period: self.active_period.view(), policy })
    }
}

impl ActivePeriod {
    /// Gives the period; none when it has no `startCron`, which means always.
    fn view(&self) -> Option<Period> {
        let start = Cron::parse(&self.start_cron, Dialect::Agones).ok()?;
        let zone = match self.timezone.as_str() {
            "" | "UTC" => TimeZone::UTC,
            "Local" => TimeZone::system(),
            name => TimeZone::get(name).unwrap_or(TimeZone::UTC),
        };
        Some(Period { start, zone, duration: duration::parse(&self.duration).ok() })
    }
}

impl FleetAutoscaleReview {
    /// Reads a review out of a file or an answer.
    pub fn read(value: &serde_json::Value) -> Result<Self, Vec<Problem>> {
        decode::lenient(value)
    }

    /// Gives what was answered.
    pub fn reply(&self) -> Reply {
        match &self.response {
            None => Reply::Failed("it has no `response`".into()),
            Some(response) if response.scale => Reply::Scale(response.replicas),
            Some(_) => Reply::Keep,
        }
    }
}
