//! A Cluster Autoscaler in the same cluster: two autoscalers of nodes would undo each other's work, so that nothing is changed while
//! another process renews its Lease.

use std::time::Duration;

use cluster::error::{explain, status_code};
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::Api;
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::context::Context;
use crate::node_settings::NodeSource;

/// The name of Cluster Autoscaler's Lease.
pub(super) const LEASE: &str = "cluster-autoscaler";
/// How often the Lease is read.
pub(super) const RECHECK: Duration = Duration::from_secs(2);
/// How long a holder that does not renew counts as active, unless the Lease sets a duration.
const DURATION: Duration = Duration::from_secs(15);

/// The observed state of the Lease.
#[derive(Default)]
pub(super) struct Rival(Mutex<KnownLease>);

#[derive(Default)]
struct KnownLease {
    read_at: Option<Instant>,
    /// The version of the Lease, and since when it has been the same by the clock of this process: clocks need not agree.
    version: Option<(String, Instant)>,
    holder: Option<String>,
    /// Whether a failure to read it was logged.
    is_failure_logged: bool,
}

impl Rival {
    /// Returns the holder of the Lease, if it is another process that renews it. A Lease that is read for the first time counts as renewed.
    /// Where the settings are values, this process is the Cluster Autoscaler, and holds the Lease itself.
    pub(super) async fn holder(&self, cx: &Context) -> Option<String> {
        if let NodeSource::Values(_) = cx.settings.nodes.source {
            return None;
        }
        let mut known = self.0.lock().await;
        if known.read_at.is_none_or(|at| at.elapsed() >= RECHECK) {
            known.read(cx).await;
        }
        known.holder.clone()
    }
}

impl KnownLease {
    async fn read(&mut self, cx: &Context) {
        let api: Api<Lease> =
            Api::namespaced(cx.client.clone(), &cx.settings.cluster_autoscaler_namespace);
        let lease = match api.get_opt(LEASE).await {
            Ok(lease) => lease,
            Err(error) => {
                self.failed(&error);
                return;
            }
        };
        (self.read_at, self.is_failure_logged) = (Some(Instant::now()), false);
        let own = cx.settings.lease.as_ref().map(|lease| lease.identity.as_str());
        self.holder = lease.and_then(|lease| self.active_holder(lease, own));
    }

    /// Without the right to read it nothing is held. Other failures leave the answer as it was.
    fn failed(&mut self, error: &kube::Error) {
        if status_code(error) == Some(403) {
            (self.read_at, self.holder) = (Some(Instant::now()), None);
        }
        if !self.is_failure_logged {
            let error = explain(error);
            tracing::warn!(lease = LEASE, error, "could not read the lease of Cluster Autoscaler");
            self.is_failure_logged = true;
        }
    }

    fn active_holder(&mut self, lease: Lease, own: Option<&str>) -> Option<String> {
        let version = lease.metadata.resource_version.unwrap_or_default();
        if self.version.as_ref().is_none_or(|(known, _)| *known != version) {
            self.version = Some((version, Instant::now()));
        }
        let spec = lease.spec?;
        let seconds = spec.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok());
        let expires_after = seconds.map_or(DURATION, Duration::from_secs);
        let has_expired =
            self.version.as_ref().is_some_and(|(_, since)| since.elapsed() >= expires_after);
        let holder = spec.holder_identity.filter(|holder| !holder.is_empty());
        holder.filter(|holder| !has_expired && Some(holder.as_str()) != own)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn lease(version: &str, holder: &str) -> Lease {
        let lease = json!({
            "metadata": {"name": LEASE, "resourceVersion": version},
            "spec": {"holderIdentity": holder, "leaseDurationSeconds": 15},
        });
        serde_json::from_value(lease).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn another_holder_counts_for_as_long_as_it_renews() {
        let mut known = KnownLease::default();
        let other = Some("other".to_owned());
        for (seconds, version, holder, active) in [
            (0, "1", "other", other.clone()),
            (14, "1", "other", other.clone()),
            (2, "1", "other", None),
            (2, "2", "other", other),
            (2, "3", "own", None),
            (2, "4", "", None),
        ] {
            tokio::time::advance(Duration::from_secs(seconds)).await;
            let found = known.active_holder(lease(version, holder), Some("own"));
            assert_eq!(found, active, "version {version}");
        }
    }
}
