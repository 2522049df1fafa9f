//! Which of several controllers is the active one? The one that holds the Lease.
//!
//! The others count the time since the Lease last changed by their own clock, so that clocks need not agree.

use std::future::Future;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease as Object, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::Client;
use kube::api::{Api, PostParams};
use process::Clock;
use tokio::time::Instant;

use crate::settings::Lease;

/// Runs `work` whenever the Lease is ours, and drops it as soon as it is not; for as long as it is polled.
pub(crate) async fn while_held<F, Fut>(client: &Client, terms: &Lease, clock: &Clock, work: F)
where
    F: Fn() -> Fut,
    Fut: Future<Output = ()>,
{
    let mut candidate = Candidate::new(client, terms, clock);
    loop {
        candidate.acquire().await;
        tracing::info!(lease = terms.name, identity = terms.identity, "this controller is active");
        tokio::select! {
            () = work() => return,
            () = candidate.keep() => {}
        }
        tracing::warn!(lease = terms.name, "the lease is lost; another controller takes over");
    }
}

/// Takes the Lease if it is free or was ours, and returns whether it is ours now. An embedded API server does so before it listens: nobody
/// else can then be faster.
pub async fn claim_lease(client: &Client, terms: &Lease) -> bool {
    Candidate::new(client, terms, &Clock::system()).attempt().await
}

/// Gives the Lease back, so that another need not wait for it to run out.
pub(crate) async fn release(client: &Client, terms: &Lease, clock: &Clock) {
    let mut candidate = Candidate::new(client, terms, clock);
    let Ok(Some(lease)) = candidate.api.get_opt(&terms.name).await else { return };
    let holder = lease.spec.as_ref().and_then(|spec| spec.holder_identity.as_deref());
    if holder == Some(&terms.identity) {
        let free = LeaseSpec { holder_identity: None, ..lease.spec.clone().unwrap_or_default() };
        candidate.write(lease.metadata, free).await;
    }
}

struct Candidate<'a> {
    api: Api<Object>,
    terms: &'a Lease,
    clock: Clock,
    /// The version that was last seen, and since when.
    seen: Option<(String, Instant)>,
    /// Who else held it when it was last seen.
    taken_by: Option<String>,
}

impl<'a> Candidate<'a> {
    fn new(client: &Client, terms: &'a Lease, clock: &Clock) -> Self {
        let api = Api::namespaced(client.clone(), &terms.namespace);
        Self { api, terms, clock: clock.clone(), seen: None, taken_by: None }
    }

    async fn acquire(&mut self) {
        let mut told = None;
        while !self.attempt().await {
            if let Some(holder) =
                self.taken_by.as_ref().filter(|holder| told.as_ref() != Some(*holder))
            {
                tracing::info!(
                    lease = self.terms.name,
                    holder,
                    "another controller is active; waiting for its lease"
                );
                told = Some(holder.clone());
            }
            tokio::time::sleep(self.terms.retry_every).await;
        }
    }

    /// Renews until that does not work in time.
    async fn keep(&mut self) {
        let mut renewed_at = Instant::now();
        loop {
            tokio::time::sleep(self.terms.retry_every).await;
            let give_up_at = renewed_at + self.terms.renew_within;
            let began_at = Instant::now();
            match tokio::time::timeout_at(give_up_at, self.attempt()).await {
                Ok(true) => renewed_at = began_at,
                Ok(false) if Instant::now() < give_up_at && self.taken_by.is_none() => {}
                Ok(false) | Err(_) => return,
            }
        }
    }

    /// Tries once to take or renew the Lease.
    async fn attempt(&mut self) -> bool {
        let lease = match self.api.get_opt(&self.terms.name).await {
            Ok(lease) => lease,
            Err(error) => {
                tracing::warn!(
                    error = %crate::error::explain(&error),
                    "could not read the lease"
                );
                return false;
            }
        };
        let Some(lease) = lease else {
            let metadata =
                ObjectMeta { name: Some(self.terms.name.clone()), ..ObjectMeta::default() };
            return self.write(metadata, self.spec(None)).await;
        };
        let version = lease.metadata.resource_version.clone().unwrap_or_default();
        if self.seen.as_ref().is_none_or(|(seen, _)| *seen != version) {
            self.seen = Some((version, Instant::now()));
        }
        let spec = lease.spec.unwrap_or_default();
        let holder = spec.holder_identity.clone().filter(|holder| !holder.is_empty());
        self.taken_by = holder.filter(|holder| *holder != self.terms.identity);
        if self.taken_by.is_some() && !self.has_run_out(&spec) {
            return false;
        }
        let next = self.spec(Some(&spec));
        self.write(lease.metadata, next).await
    }

    /// Whether the holder has been silent for longer than it said it would be.
    fn has_run_out(&self, spec: &LeaseSpec) -> bool {
        let seconds = spec.lease_duration_seconds.and_then(|s| u64::try_from(s).ok());
        let silent_for = seconds.map_or(self.terms.duration, Duration::from_secs);
        self.seen.as_ref().is_some_and(|(_, since)| since.elapsed() >= silent_for)
    }

    /// Describes the Lease as ours.
    fn spec(&self, before: Option<&LeaseSpec>) -> LeaseSpec {
        let now = MicroTime(self.clock.now());
        let before = before.cloned().unwrap_or_default();
        let is_ours = before.holder_identity.as_deref() == Some(&self.terms.identity);
        let transitions = before.lease_transitions.unwrap_or(0) + i32::from(!is_ours);
        // The API takes whole seconds.
        let seconds = self.terms.duration.as_millis().div_ceil(1000);
        LeaseSpec {
            holder_identity: Some(self.terms.identity.clone()),
            lease_duration_seconds: Some(i32::try_from(seconds).unwrap_or(i32::MAX)),
            acquire_time: before.acquire_time.filter(|_| is_ours).or(Some(now.clone())),
            renew_time: Some(now),
            lease_transitions: Some(transitions),
            ..before
        }
    }

    /// Writes the Lease, unless someone else did so first.
    async fn write(&mut self, metadata: ObjectMeta, spec: LeaseSpec) -> bool {
        let params = PostParams::default();
        let is_new = metadata.resource_version.is_none();
        let lease = Object { metadata, spec: Some(spec) };
        let written = if is_new {
            self.api.create(&params, &lease).await
        } else {
            self.api.replace(&self.terms.name, &params, &lease).await
        };
        match written {
            Ok(lease) => {
                let version = lease.metadata.resource_version.unwrap_or_default();
                self.seen = Some((version, Instant::now()));
                true
            }
            Err(error) => {
                tracing::debug!(
                    error = %crate::error::explain(&error),
                    "the lease was not written"
                );
                false
            }
        }
    }
}
