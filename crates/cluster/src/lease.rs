//! Leader election with a Lease.
//!
//! Candidates measure the time since the Lease last changed with their own clock, so that clocks need not agree.

use std::future::Future;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::Client;
use kube::api::{Api, PostParams};
use process::{Clock, Random};
use tokio::time::Instant;

/// How one of several processes becomes the leader.
#[derive(Clone, Debug)]
pub struct LeaderElection {
    /// The namespace of the Lease.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The identity of this process, which no other may have.
    pub identity: String,
    /// How long the others wait for a leader that does not renew.
    pub duration: Duration,
    /// How long the leader tries to renew before it gives up. Less than `duration`.
    pub renew_within: Duration,
    /// The pause between two attempts.
    pub retry_every: Duration,
    /// Whether a leader that loses the Lease stops, instead of waiting to become the leader again.
    pub leads_once: bool,
}

impl LeaderElection {
    /// Returns an identity that no other process has: the host name, for people who read the Lease, and a random part, since hosts and
    /// containers share names.
    pub fn unique_identity(random: &Random) -> String {
        let uname = rustix::system::uname();
        format!("{}_{}", uname.nodename().to_string_lossy(), random.uuid())
    }

    /// Returns Agones' durations: 15 s, 10 s and 2 s. The name is our own, so that Plimsoll and an installation of Agones beside it do
    /// not wait for each other.
    pub fn new(namespace: impl Into<String>, identity: impl Into<String>) -> Self {
        Self {
            namespace: namespace.into(),
            name: "plimsoll-controller-lock".to_owned(),
            identity: identity.into(),
            duration: Duration::from_secs(15),
            renew_within: Duration::from_secs(10),
            retry_every: Duration::from_secs(2),
            leads_once: false,
        }
    }
}

/// Runs `work` while this process holds the Lease, and drops it as soon as the Lease is lost; for as long as it is polled, or until the
/// Lease is lost if this process is to lead only once.
pub async fn run_while_leader<F, Fut>(
    client: &Client,
    settings: &LeaderElection,
    clock: &Clock,
    work: F,
) where
    F: Fn() -> Fut,
    Fut: Future<Output = ()>,
{
    let mut candidate = Candidate::new(client, settings, clock);
    loop {
        candidate.acquire().await;
        tracing::info!(lease = settings.name, identity = settings.identity, "became leader");
        tokio::select! {
            () = work() => return,
            () = candidate.keep() => {}
        }
        if settings.leads_once {
            tracing::error!(lease = settings.name, "lost the lease");
            return;
        }
        tracing::warn!(lease = settings.name, "lost the lease; waiting to become leader again");
    }
}

/// Takes the Lease if it is free or already held by this identity, and returns whether it is held now. The embedded engine does so before
/// it listens, so that no other candidate can be faster.
pub async fn claim_lease(client: &Client, settings: &LeaderElection) -> bool {
    Candidate::new(client, settings, &Clock::system()).attempt().await
}

/// Releases the Lease, so that the next leader need not wait for it to expire.
pub async fn release_lease(client: &Client, settings: &LeaderElection, clock: &Clock) {
    let mut candidate = Candidate::new(client, settings, clock);
    let Ok(Some(lease)) = candidate.api.get_opt(&settings.name).await else { return };
    let holder = lease.spec.as_ref().and_then(|spec| spec.holder_identity.as_deref());
    if holder == Some(&settings.identity) {
        let free = LeaseSpec { holder_identity: None, ..lease.spec.clone().unwrap_or_default() };
        candidate.write(lease.metadata, free).await;
    }
}

struct Candidate<'a> {
    api: Api<Lease>,
    settings: &'a LeaderElection,
    clock: Clock,
    /// The version last observed, and since when.
    observed: Option<(String, Instant)>,
    /// The other holder, when last observed.
    held_by: Option<String>,
}

impl<'a> Candidate<'a> {
    fn new(client: &Client, settings: &'a LeaderElection, clock: &Clock) -> Self {
        let api = Api::namespaced(client.clone(), &settings.namespace);
        Self { api, settings, clock: clock.clone(), observed: None, held_by: None }
    }

    async fn acquire(&mut self) {
        let mut logged = None;
        while !self.attempt().await {
            if let Some(holder) =
                self.held_by.as_ref().filter(|holder| logged.as_ref() != Some(*holder))
            {
                tracing::info!(
                    lease = self.settings.name,
                    holder,
                    "another process is the leader; waiting for its lease"
                );
                logged = Some(holder.clone());
            }
            tokio::time::sleep(self.settings.retry_every).await;
        }
    }

    /// Renews the Lease until a renewal does not succeed in time.
    async fn keep(&mut self) {
        let mut renewed_at = Instant::now();
        loop {
            tokio::time::sleep(self.settings.retry_every).await;
            let give_up_at = renewed_at + self.settings.renew_within;
            let began_at = Instant::now();
            match tokio::time::timeout_at(give_up_at, self.attempt()).await {
                Ok(true) => renewed_at = began_at,
                Ok(false) if Instant::now() < give_up_at && self.held_by.is_none() => {}
                Ok(false) | Err(_) => return,
            }
        }
    }

    /// Tries once to acquire or renew the Lease.
    async fn attempt(&mut self) -> bool {
        let lease = match self.api.get_opt(&self.settings.name).await {
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
                ObjectMeta { name: Some(self.settings.name.clone()), ..ObjectMeta::default() };
            return self.write(metadata, self.spec(None)).await;
        };
        let version = lease.metadata.resource_version.clone().unwrap_or_default();
        if self.observed.as_ref().is_none_or(|(observed, _)| *observed != version) {
            self.observed = Some((version, Instant::now()));
        }
        let spec = lease.spec.unwrap_or_default();
        let holder = spec.holder_identity.clone().filter(|holder| !holder.is_empty());
        self.held_by = holder.filter(|holder| *holder != self.settings.identity);
        if self.held_by.is_some() && !self.has_expired(&spec) {
            return false;
        }
        let next = self.spec(Some(&spec));
        self.write(lease.metadata, next).await
    }

    /// Whether the holder has not renewed the Lease for its whole duration.
    fn has_expired(&self, spec: &LeaseSpec) -> bool {
        let seconds = spec.lease_duration_seconds.and_then(|s| u64::try_from(s).ok());
        let expires_after = seconds.map_or(self.settings.duration, Duration::from_secs);
        self.observed.as_ref().is_some_and(|(_, since)| since.elapsed() >= expires_after)
    }

    /// Returns the spec with this process as the holder.
    fn spec(&self, before: Option<&LeaseSpec>) -> LeaseSpec {
        let now = MicroTime(self.clock.now());
        let before = before.cloned().unwrap_or_default();
        let is_held = before.holder_identity.as_deref() == Some(&self.settings.identity);
        let transitions = before.lease_transitions.unwrap_or(0) + i32::from(!is_held);
        // The field has whole seconds.
        let seconds = self.settings.duration.as_millis().div_ceil(1000);
        LeaseSpec {
            holder_identity: Some(self.settings.identity.clone()),
            lease_duration_seconds: Some(i32::try_from(seconds).unwrap_or(i32::MAX)),
            acquire_time: before.acquire_time.filter(|_| is_held).or(Some(now.clone())),
            renew_time: Some(now),
            lease_transitions: Some(transitions),
            ..before
        }
    }

    /// Writes the Lease, unless another process wrote first.
    async fn write(&mut self, metadata: ObjectMeta, spec: LeaseSpec) -> bool {
        let params = PostParams::default();
        let is_new = metadata.resource_version.is_none();
        let lease = Lease { metadata, spec: Some(spec) };
        let written = if is_new {
            self.api.create(&params, &lease).await
        } else {
            self.api.replace(&self.settings.name, &params, &lease).await
        };
        match written {
            Ok(lease) => {
                let version = lease.metadata.resource_version.unwrap_or_default();
                self.observed = Some((version, Instant::now()));
                true
            }
            Err(error) => {
                tracing::debug!(
                    error = %crate::error::explain(&error),
                    "lease not written"
                );
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_processes_of_a_host_have_different_identities() {
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let random = Random::system();
        let (one, two) =
            (LeaderElection::unique_identity(&random), LeaderElection::unique_identity(&random));
        assert!(one.starts_with(&host), "{one}");
        assert_ne!(one, two);
    }
}
