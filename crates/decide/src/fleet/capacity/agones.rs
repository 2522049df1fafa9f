//! Agones' implementation of the Counter and List policies, reproduced exactly.
//!
//! Its quirks are intentional here: the maximum is ignored while capacity is free, the minimum is reached regardless of the
//! buffer, a percentage of nothing is one server, and terminating servers are counted.

use std::cmp::Ordering;

use super::{Room, ceil_div, plus};
use crate::fleet::size::PolicySize;
use crate::fleet::{Amount, Reason, Refusal};
use crate::gameserver::GameServer;

/// The position of a fleet's capacity relative to its limits.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Below,
    Within,
    Above,
}

/// A new size, and the desired capacity if a limit changed it.
struct Step {
    to: i32,
    asked: Option<i64>,
}

impl Room<'_> {
    pub(super) fn upstream(&self) -> Result<PolicySize, Refusal> {
        let (min, max, capacity) = (self.policy.min, self.policy.max, self.sum.capacity);
        let nothing_used = self.sum.allocated_count <= 0 && self.template.capacity >= min;
        if matches!(self.policy.size, Amount::Percent(_)) && nothing_used {
            return Ok(PolicySize {
                to: 1,
                limited: true,
                reasons: vec![Reason::NothingAllocated],
            });
        }
        let side = if capacity < min {
            Side::Below
        } else if capacity > max {
            Side::Above
        } else {
            Side::Within
        };
        let spare = capacity.saturating_sub(self.sum.count);
        let wanted = self.wanted();
        let status = self.observed.fleet.status.replicas;
        let is_ample = spare > wanted;
        let step = match (spare.cmp(&wanted), side) {
            (_, Side::Below) => self.up_to_min()?,
            (Ordering::Greater, _) => self.down_to(wanted),
            (_, Side::Above) => self.down_to_max(),
            (Ordering::Equal, Side::Within) => Step { to: status, asked: None },
            (Ordering::Less, Side::Within) => self.up_to(wanted, spare)?,
        };
        let mut reasons = vec![Reason::buffer(spare, wanted)];
        reasons.extend(step.asked.map(|asked| {
            let by_min = side == Side::Below || is_ample;
            if by_min { Reason::AtMinimum { asked, min } } else { Reason::AtMaximum { asked, max } }
        }));
        Ok(PolicySize { to: step.to, limited: step.asked.is_some(), reasons })
    }

    fn up_to_min(&self) -> Result<Step, Refusal> {
        if self.template.capacity <= 0 {
            return Err(self.no_room());
        }
        let lacking = self.policy.min.saturating_sub(self.sum.capacity);
        let servers = ceil_div(lacking, self.template.capacity);
        let to = plus(self.observed.fleet.status.replicas, servers);
        Ok(Step { to, asked: Some(self.sum.capacity) })
    }

    fn up_to(&self, wanted: i64, spare: i64) -> Result<Step, Refusal> {
        if self.gain() <= 0 {
            return Err(self.no_room());
        }
        let replicas = self.observed.fleet.status.replicas;
        let servers = ceil_div(wanted.saturating_sub(spare), self.gain());
        let capacity = self.template.capacity.max(1);
        let total = servers.saturating_mul(capacity).saturating_add(self.sum.capacity);
        if total <= self.policy.max {
            return Ok(Step { to: plus(replicas, servers), asked: None });
        }
        let servers = self.policy.max.saturating_sub(self.sum.capacity) / capacity;
        Ok(Step { to: plus(replicas, servers), asked: Some(total) })
    }

    fn down_to_max(&self) -> Step {
        let (mut replicas, mut capacity) = (self.observed.fleet.status.replicas, self.sum.capacity);
        for server in self.walk() {
            if capacity <= self.policy.max {
                break;
            }
            replicas = replicas.saturating_sub(1);
            capacity = capacity.saturating_sub(self.value_on(server).map_or(0, |c| c.capacity));
        }
        Step { to: replicas.max(1), asked: Some(self.sum.capacity) }
    }

    fn down_to(&self, wanted: i64) -> Step {
        let min = self.policy.min;
        let (mut replicas, mut sum) = (self.observed.fleet.status.replicas, self.sum);
        let enough = sum.count.saturating_add(wanted);
        if sum.capacity == min {
            return Step { to: replicas, asked: Some(enough) };
        }
        for server in self.walk() {
            let before = replicas;
            replicas = replicas.saturating_sub(1);
            let Some(own) = self.value_on(server) else { continue };
            sum.count = sum.count.saturating_sub(own.count);
            sum.capacity = sum.capacity.saturating_sub(own.capacity);
            let spare = sum.capacity.saturating_sub(sum.count);
            if spare < wanted {
                return Step { to: before, asked: None };
            } else if sum.capacity < min {
                return Step { to: before, asked: Some(sum.capacity) };
            } else if spare == wanted {
                return Step { to: replicas, asked: None };
            } else if sum.capacity == min {
                return Step { to: replicas, asked: Some(enough) };
            }
        }
        Step { to: replicas.max(1), asked: None }
    }

    /// Returns servers that can be deleted, and those that are being deleted already.
    fn walk(&self) -> impl Iterator<Item = &GameServer> {
        self.in_order(self.observed.servers.iter().filter(|s| s.is_deletable()))
    }
}
