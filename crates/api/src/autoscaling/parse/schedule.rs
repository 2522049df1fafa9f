//! Reads when a policy holds: a time zone, a cron expression, a duration, and the moments around them.

use decide::cron::{Cron, Dialect};
use decide::fleet::{self, Period, Schedule};
use jiff::SignedDuration;
use jiff::tz::TimeZone;

use super::Parser;
use crate::autoscaling::{ActivePeriod, Policy, PolicyType, SchedulePolicy};
use crate::{Problem, duration};

impl Parser {
    /// Reads a schedule and the policy in it.
    pub(super) fn schedule(&mut self, schedule: &SchedulePolicy, path: &str) -> Option<Schedule> {
        let zone = self.zone(&schedule.active_period.timezone, path);
        self.between(schedule, path);
        let start = self.cron(&schedule.active_period.start_cron, path);
        let duration = self.duration(&schedule.active_period, path);
        let policy = self.scheduled(&schedule.policy, &format!("{path}.policy"));
        let between = fleet::Between {
            start: schedule.between.start.as_ref().map(|t| t.0),
            end: schedule.between.end.as_ref().map(|t| t.0),
        };
        let (zone, duration) = (zone?, duration?);
        let period = start?.map(|start| Period { start, zone, duration });
        Some(Schedule { between, period, policy: policy? })
    }

    /// Reads a time zone. A new one has to be written as the database writes it.
    fn zone(&mut self, name: &str, path: &str) -> Option<TimeZone> {
        let zone = match name {
            "" | "UTC" => return Some(TimeZone::UTC),
            "Local" => return Some(TimeZone::system()),
            name => TimeZone::get(name).ok(),
        };
        let is_exact = zone.as_ref().is_some_and(|zone| zone.iana_name() == Some(name));
        if zone.is_none() || (self.rules.is_some() && !is_exact) {
            let message = format!("`{name}` is not a time zone; write it like `Europe/Berlin`");
            self.unreadable(format!("{path}.activePeriod.timezone"), message);
        }
        zone
    }

    fn between(&mut self, schedule: &SchedulePolicy, path: &str) {
        let now = self.rules.and_then(|rules| rules.now);
        let (start, end) = (&schedule.between.start, &schedule.between.end);
        match (start, end) {
            (_, Some(end)) if now.is_some_and(|now| end.0 <= now) => {
                let message = format!("expected a moment after now, found {}", end.0);
                self.breach([Problem::new(format!("{path}.between.end"), message)]);
            }
            (Some(start), Some(end)) if end.0 < start.0 => {
                let message =
                    format!("expected the end after the start, found {} to {}", start.0, end.0);
                self.breach([Problem::new(format!("{path}.between"), message)]);
            }
            (Some(_) | None, Some(_) | None) => {}
        }
    }

    /// Reads a cron expression; `Some(None)` where there is none, which means always. Its time zone has a field of its own.
    fn cron(&mut self, text: &str, path: &str) -> Option<Option<Cron>> {
        let read = match text {
            "" => return Some(None),
            text if text.contains("TZ") => {
                Err("the time zone belongs in the field timezone".to_owned())
            }
            text => Cron::parse(text, Dialect::Agones),
        };
        let wrong = |message| self.unreadable(format!("{path}.activePeriod.startCron"), message);
        read.map_err(wrong).ok().map(Some)
    }

    /// Reads a duration; `Some(None)` where there is none, which means for ever.
    fn duration(&mut self, period: &ActivePeriod, path: &str) -> Option<Option<SignedDuration>> {
        if period.duration.is_empty() {
            return Some(None);
        }
        let wrong = |message| self.unreadable(format!("{path}.activePeriod.duration"), message);
        duration::parse(&period.duration).map_err(wrong).ok().map(Some)
    }

    /// Reads the policy in a schedule. Upstream does not check it at all; we refuse only what nothing could be decided by.
    fn scheduled(&mut self, policy: &Policy, path: &str) -> Option<fleet::Policy> {
        Some(match policy.type_ {
            PolicyType::Buffer => {
                let block = self.block(policy, policy.buffer.as_ref(), path, "buffer")?;
                fleet::Policy::Buffer(self.buffer(block, path)?)
            }
            PolicyType::Counter => {
                let block = self.block(policy, policy.counter.as_ref(), path, "counter")?;
                fleet::Policy::Counter(self.capacity(block, path, "counter")?)
            }
            PolicyType::List => {
                let block = self.block(policy, policy.list.as_ref(), path, "list")?;
                fleet::Policy::List(self.capacity(block, path, "list")?)
            }
            PolicyType::Webhook => {
                self.block(policy, policy.webhook.as_ref(), path, "webhook")?;
                fleet::Policy::Webhook
            }
            PolicyType::Wasm => {
                self.block(policy, policy.wasm.as_ref(), path, "wasm")?;
                fleet::Policy::Wasm
            }
            PolicyType::Schedule | PolicyType::Chain => {
                self.block(policy, None::<&()>, path, "type")?;
                return None;
            }
        })
    }
}
