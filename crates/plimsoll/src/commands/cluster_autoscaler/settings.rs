//! The meaning of Cluster Autoscaler's flags, its environment and the configuration file of its provider.
//!
//! Pure: what the process reads is passed in, so that a table of tests covers every flag that acts.

mod autoscaler;
mod provider;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use api::plimsoll::node_autoscaler::NodeAutoscalerSpec;
use control::nodes::LivenessLimits;

use crate::args::cluster_autoscaler::{Effect, Flags};

pub(crate) use provider::{Cloud, GroupBounds, Management};

/// What the flags mean.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Setup {
    pub(crate) process: ProcessSettings,
    /// The settings of all decisions, and the connection to the provider.
    pub(crate) autoscaler: NodeAutoscalerSpec,
    /// What the connection needs besides.
    pub(crate) cloud: Cloud,
    /// The certificates that the server of the expander `grpc` is trusted by.
    pub(crate) expander_ca: Option<PathBuf>,
    /// The groups of `--nodes`.
    pub(crate) groups: Vec<GroupBounds>,
    /// What is logged at the start.
    pub(crate) notices: Vec<String>,
}

/// The settings of the process around the decisions.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ProcessSettings {
    /// `HOST:PORT`; without a host, every address of the machine.
    pub(crate) address: String,
    pub(crate) kubeconfig: Option<PathBuf>,
    /// The address of the API server, in place of the kubeconfig's.
    pub(crate) api_server: Option<String>,
    pub(crate) user_agent: String,
    pub(crate) namespace: String,
    pub(crate) lease: Option<LeaseSettings>,
    /// The name of the status ConfigMap; `None`: there is none.
    pub(crate) status_map: Option<String>,
    /// The longest time between two evaluations.
    pub(crate) longest_pause: Duration,
    /// Whether log lines are JSON.
    pub(crate) logs_json: bool,
    pub(crate) health: LivenessLimits,
}

/// How one of several replicas becomes the leader.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LeaseSettings {
    pub(crate) name: String,
    pub(crate) duration: Duration,
    pub(crate) renew_within: Duration,
    pub(crate) retry_every: Duration,
}

/// What the process reads besides its flags.
#[derive(Clone, Debug, Default)]
pub(crate) struct Surroundings {
    /// The environment variables.
    pub(crate) environment: BTreeMap<String, String>,
    /// The content of the file that `--cloud-config` names.
    pub(crate) cloud_config: Option<String>,
}

impl Surroundings {
    /// Returns an environment variable that is not empty.
    fn variable(&self, name: &str) -> Option<&str> {
        self.environment.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }
}

/// Returns what the flags mean, or what is wrong with them.
pub(crate) fn setup(flags: &Flags, surroundings: &Surroundings) -> Result<Setup, String> {
    let mut notices = notices(flags);
    let process = process(flags, &mut notices)?;
    let mut autoscaler = autoscaler::spec(flags, &mut notices)?;
    let cloud = provider::cloud(flags, surroundings, &mut autoscaler.providers, &mut notices)?;
    autoscaler::check(&autoscaler)?;
    let groups = provider::groups(flags, &cloud, &mut notices)?;
    let expander_ca = Some(flags.text("grpc-expander-cert")).filter(|path| !path.is_empty());
    let expander_ca = expander_ca.map(PathBuf::from);
    Ok(Setup { process, autoscaler, cloud, expander_ca, groups, notices })
}

/// Returns the names of the flags that were given and have no effect, with the cause.
fn notices(flags: &Flags) -> Vec<String> {
    let given = flags.given().filter_map(|flag| match flag.effect {
        Effect::Acts => None,
        Effect::None | Effect::Log => Some(format!("--{} has no effect: {}", flag.name, flag.note)),
        Effect::Retired => Some(format!("--{} no longer exists: {}", flag.name, flag.note)),
    });
    let ignored = flags.ignored.iter().map(|arg| format!("the argument `{arg}` has no effect"));
    given.chain(ignored).collect()
}

fn process(flags: &Flags, notices: &mut Vec<String>) -> Result<ProcessSettings, String> {
    let some = |name: &str| Some(flags.text(name).to_owned()).filter(|text| !text.is_empty());
    let address = flags.text("address");
    if address.rsplit_once(':').is_none_or(|(_, port)| port.parse::<u16>().is_err()) {
        return Err(format!("--address: `{address}` is not an address; write it like `:8085`"));
    }
    let lock = flags.text("leader-elect-resource-lock");
    if lock != "leases" {
        notices.push(format!("--leader-elect-resource-lock={lock}: a Lease is used"));
    }
    let (inactive, failing) =
        (flags.duration("max-inactivity"), flags.duration("max-failing-time"));
    Ok(ProcessSettings {
        address: address.to_owned(),
        kubeconfig: some("kubeconfig").map(PathBuf::from),
        api_server: some("kubernetes"),
        user_agent: flags.text("user-agent").to_owned(),
        namespace: flags.text("namespace").to_owned(),
        lease: if flags.bool("leader-elect") { Some(lease(flags)?) } else { None },
        status_map: some("status-config-map-name").filter(|_| flags.bool("write-status-configmap")),
        longest_pause: positive(flags, "scan-interval")?,
        logs_json: flags.text("logging-format") == "json",
        health: LivenessLimits {
            max_inactivity: inactive,
            max_failing_time: failing,
            max_startup_time: flags.duration("max-startup-time").max(inactive).max(failing),
        },
    })
}

fn lease(flags: &Flags) -> Result<LeaseSettings, String> {
    let lease = LeaseSettings {
        name: flags.text("leader-elect-resource-name").to_owned(),
        duration: positive(flags, "leader-elect-lease-duration")?,
        renew_within: positive(flags, "leader-elect-renew-deadline")?,
        retry_every: positive(flags, "leader-elect-retry-period")?,
    };
    if lease.renew_within >= lease.duration {
        return Err("--leader-elect-renew-deadline must be less than the lease duration".to_owned());
    }
    if lease.retry_every >= lease.renew_within {
        return Err("--leader-elect-retry-period must be less than the renew deadline".to_owned());
    }
    Ok(lease)
}

fn positive(flags: &Flags, name: &str) -> Result<Duration, String> {
    let duration = Duration::try_from(flags.duration(name)).unwrap_or_default();
    if duration.is_zero() { Err(format!("--{name}: must be positive")) } else { Ok(duration) }
}

#[cfg(test)]
mod tests;
