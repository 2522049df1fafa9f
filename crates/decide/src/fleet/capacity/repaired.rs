//! The intended behaviour of the Counter and List policies: the smallest size that leaves the buffer free, within limits.
//!
//! The size only depends on the current state, so constant load leads to a constant size: growing stops as soon as the buffer is
//! free, and shrinking stops before the buffer would be used. Servers are removed in the order in which their set deletes them,
//! because an autoscaler cannot choose others.

use jiff::Timestamp;

use super::{Room, ceil_div, plus};
use crate::fleet::reconcile::is_lost;
use crate::fleet::size::PolicySize;
use crate::fleet::{Aggregate, Reason, Refusal};
use crate::gameserver::GameServer;

impl Room<'_> {
    pub(super) fn repaired(&self) -> Result<PolicySize, Refusal> {
        let wanted = self.wanted();
        let spare = self.sum.capacity.saturating_sub(self.sum.count);
        let mut found = if self.sum.capacity > self.policy.max {
            self.shrink(wanted)
        } else if spare < wanted || self.sum.capacity < self.policy.min {
            self.grow(wanted, spare)?
        } else {
            self.shrink(wanted)
        };
        found.reasons.insert(0, Reason::buffer(spare, wanted));
        Ok(found)
    }

    /// Adds servers until the buffer is free and the minimum reached, up to the maximum.
    fn grow(&self, wanted: i64, spare: i64) -> Result<PolicySize, Refusal> {
        let (min, max, each) = (self.policy.min, self.policy.max, self.template.capacity);
        let lacks_room = spare < wanted && self.gain() <= 0;
        let below = self.sum.capacity < min;
        if each <= 0 || (lacks_room && !below) {
            return Err(self.no_room());
        }
        let for_buffer = if spare < wanted && !lacks_room {
            ceil_div(wanted.saturating_sub(spare), self.gain())
        } else {
            0
        };
        let for_min = if below { ceil_div(min.saturating_sub(self.sum.capacity), each) } else { 0 };
        let servers = for_buffer.max(for_min);
        let replicas = self.observed.fleet.status.replicas;
        let within = max.saturating_sub(self.sum.capacity) / each;
        let fit = if replicas <= 0 { within.max(1) } else { within };
        let to = plus(replicas, servers.min(fit));
        let asked = self.sum.capacity.saturating_add(servers.saturating_mul(each));
        let mut reasons = Vec::new();
        if fit > within {
            reasons.push(Reason::OneServer { capacity: each, max });
        } else if servers > fit {
            reasons.push(Reason::AtMaximum { asked, max });
        } else if for_min > for_buffer {
            let asked = self.sum.capacity.saturating_add(for_buffer.saturating_mul(each));
            reasons.push(Reason::AtMinimum { asked, min });
        }
        Ok(PolicySize { to, limited: !reasons.is_empty(), reasons })
    }

    /// Removes servers while the maximum requires it, or while the buffer and the minimum allow it.
    fn shrink(&self, wanted: i64) -> PolicySize {
        let (min, max) = (self.policy.min, self.policy.max);
        let (mut to, mut sum) = (self.observed.fleet.status.replicas, self.sum);
        let mut reasons = Vec::new();
        for server in self.leaving(false) {
            let next = self.without(sum, server);
            let keeps_buffer = next.capacity.saturating_sub(next.count) >= wanted;
            // A maximum smaller than one server's capacity still allows one, or the fleet would flap.
            let is_beyond = sum.capacity > max && to > 1;
            let may_go = keeps_buffer && next.capacity >= min;
            if !is_beyond && !may_go {
                if keeps_buffer && sum.capacity <= max {
                    reasons.push(Reason::AtMinimum { asked: next.capacity, min });
                }
                break;
            }
            (to, sum) = (to.saturating_sub(1), next);
        }
        // Servers in use cannot be removed, but those beyond the maximum must not be replaced either.
        for server in self.leaving(true) {
            if sum.capacity <= max || to <= 1 {
                break;
            }
            (to, sum) = (to.saturating_sub(1), self.without(sum, server));
        }
        if sum.capacity > max && to == 1 {
            reasons.push(Reason::OneServer { capacity: sum.capacity, max });
        } else if self.sum.capacity > max {
            reasons.push(Reason::AtMaximum { asked: self.sum.capacity, max });
        }
        let short = sum.capacity.saturating_sub(sum.count) < wanted;
        let holds = |r: &Reason| matches!(r, Reason::AtMinimum { .. } | Reason::OneServer { .. });
        let held = reasons.iter().any(holds);
        let to = if to == self.observed.fleet.status.replicas { self.hold(to) } else { to };
        PolicySize { to: to.max(0), limited: short || held, reasons }
    }

    /// Keeps a scale-up in progress, up to the maximum: its servers just do not exist yet.
    fn hold(&self, to: i32) -> i32 {
        let coming = i64::from(self.observed.fleet.replicas) - i64::from(to);
        if coming <= 0 || self.template.capacity <= 0 {
            return to;
        }
        let fit = self.policy.max.saturating_sub(self.sum.capacity) / self.template.capacity;
        plus(to, coming.min(fit.max(0)))
    }

    /// Returns servers in deletion order: lost ones, then the others; or, if `in_use`, those that cannot be deleted.
    fn leaving(&self, in_use: bool) -> impl Iterator<Item = &GameServer> {
        let now: Timestamp = self.now;
        let stays = move |s: &&GameServer| !s.is_being_deleted() && s.is_deletable() != in_use;
        let (lost, rest): (Vec<_>, Vec<_>) =
            self.observed.servers.iter().filter(stays).partition(|s| is_lost(s, now));
        self.in_order(lost.into_iter()).chain(self.in_order(rest.into_iter()))
    }

    fn without(&self, mut sum: Aggregate, server: &GameServer) -> Aggregate {
        if let Some(own) = self.value_on(server) {
            sum.count = sum.count.saturating_sub(own.count);
            sum.capacity = sum.capacity.saturating_sub(own.capacity);
        }
        sum
    }
}
