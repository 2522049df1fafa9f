//! Schedules: the times at which a policy is active.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Policy, policy};

/// Another policy, at certain times.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SchedulePolicy {
    /// Before and after these moments the policy does not hold.
    #[serde(default)]
    pub between: Between,
    /// At which times between them it holds.
    #[serde(default)]
    pub active_period: ActivePeriod,
    /// The policy that then holds.
    #[schemars(schema_with = "policy::scheduled")]
    pub policy: Box<Policy>,
}

/// The first and last moment of a schedule.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Between {
    /// The first moment; absent: it has begun already.
    pub start: Option<Time>,
    /// The last moment; absent: it does not end.
    pub end: Option<Time>,
}

/// The times at which a schedule is active.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ActivePeriod {
    /// The time zone of `startCron`, such as `Europe/Berlin`; UTC unless given.
    pub timezone: String,
    /// When it becomes active, as five cron fields; always, unless given.
    pub start_cron: String,
    /// How long it then stays active, such as `2h30m`; for good, unless given.
    pub duration: String,
}
