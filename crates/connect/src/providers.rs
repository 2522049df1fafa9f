//! Node group providers: the systems that add and remove machines.
//!
//! A new provider is one file beside `simulated.rs`, one line in `PROVIDERS`, and its way to name groups in `named.rs`.

mod aws;
mod cluster_api;
mod cluster_error;
mod described;
mod external_grpc;
mod kwok;
mod named;
mod shared;
mod simulated;

use std::sync::Arc;

use api::plimsoll::NodeGroup;
use decide::nodes::{GroupOptions, Template};
use futures::future::BoxFuture;
use serde_json::Value;

use crate::registry::{Context, OpenError, Registry};

pub use kwok::kwok_templates;
pub use named::{NamedGroup, labels_nodes, named_group, node_group_block};
pub(crate) use shared::{SharedProvider, open_shared};

type Constructor = fn(&Context, &Value) -> Result<Arc<dyn NodeGroupProvider>, String>;

/// All providers by the name of their block in a NodeGroup's `provider`.
const PROVIDERS: Registry<Constructor> = Registry {
    what: "provider",
    constructors: &[
        ("aws", aws::open),
        ("clusterApi", cluster_api::open),
        ("externalGrpc", external_grpc::open),
        ("kwok", simulated::open_kwok),
        ("simulated", simulated::open),
    ],
};

/// A system with groups of machines. After an error that leaves the outcome open, read the groups again before repeating a call.
pub trait NodeGroupProvider: Send + Sync {
    /// Sets the groups that NodeGroups or flags name, in place of those set before: the next `snapshot` has them besides those that the
    /// provider discovers, each with the id that is given here. A provider that lists all its groups need not know them.
    fn set_named_groups(&self, _groups: &[NamedGroup]) {}

    /// Reads all groups and their instances. The id of an instance is the `providerID` of its Node: it tells which group a Node is in.
    fn snapshot(&self) -> BoxFuture<'_, Result<Vec<Group>, ProviderError>>;

    /// Raises the target of a group; its instances appear later.
    fn increase<'a>(&'a self, group: &'a str, by: u32) -> BoxFuture<'a, Result<(), ProviderError>>;

    /// Deletes instances by their ids, and lowers the target by as many. Instances that no longer exist are no error.
    fn delete_nodes<'a>(
        &'a self,
        group: &'a str,
        instances: &'a [String],
    ) -> BoxFuture<'a, Result<(), ProviderError>>;

    /// Lowers the target of a group to cancel instances that have not appeared. No instance is deleted.
    fn decrease_target<'a>(
        &'a self,
        group: &'a str,
        by: u32,
    ) -> BoxFuture<'a, Result<(), ProviderError>>;
}

/// A group of machines of one shape.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Group {
    /// The name of the group at its provider.
    pub id: String,
    /// The fewest instances.
    pub min: u32,
    /// The most instances.
    pub max: u32,
    /// The number of requested instances.
    pub target: u32,
    /// The instances that exist, or are being created or deleted.
    pub instances: Vec<Instance>,
    /// The shape of a new node, where the provider knows it.
    pub template: Option<Template>,
    /// The group's own settings.
    pub options: GroupOptions,
    /// Whether the group is scaled from 0 to max at once, and back.
    pub all_or_nothing: bool,
    /// The price of a node per hour, where the provider knows it.
    pub price: Option<f64>,
    /// Whether the provider is replacing the machines of the group at the moment: no node of it is removed.
    pub is_rolling_out: bool,
    /// Why the group cannot be scaled for now: a mistake in its own settings, which does not concern other groups.
    pub problem: Option<String>,
}

/// A machine of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instance {
    /// The provider's id of the machine: the providerID of its Node.
    pub id: String,
    /// Its lifecycle phase.
    pub state: InstanceState,
    /// Why it cannot be created.
    pub error: Option<InstanceError>,
}

/// Where an instance is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InstanceState {
    /// It was requested, and has no Node yet.
    Creating,
    /// It exists.
    Running,
    /// It is being deleted.
    Deleting,
}

/// Why an instance cannot be created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstanceError {
    /// Whether the provider has no such machine left, so that another group should be tried.
    pub is_out_of_resources: bool,
    /// The message of the provider.
    pub message: String,
}

/// Why a provider did not carry out a request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProviderError {
    /// The provider has no such group.
    #[error("the provider has no group `{group}`")]
    UnknownGroup {
        /// The name that was given.
        group: String,
    },
    /// The provider refused. Nothing was changed, and the same request will be refused again.
    #[error("group `{group}`: {message}")]
    Refused {
        /// The group.
        group: String,
        /// The cause.
        message: String,
    },
    /// The provider has no such machine left: another group should be tried. Nothing was changed.
    #[error("group `{group}` is out of resources: {message}")]
    OutOfResources {
        /// The group.
        group: String,
        /// The cause.
        message: String,
    },
    /// The provider could not be reached, or did not accept the request for the time being. Nothing was changed.
    #[error("the provider is unavailable: {message}")]
    Unavailable {
        /// The cause.
        message: String,
    },
    /// The request may or may not have been carried out: read the groups before asking again.
    #[error("group `{group}` may or may not have been changed: {message}")]
    Unknown {
        /// The group.
        group: String,
        /// The cause.
        message: String,
    },
}

/// Opens a provider with the settings of its connection: a block of `spec.providers` of a NodeAutoscaler, or null for the defaults. A
/// provider of the cluster itself needs none.
pub fn open(
    context: &Context,
    name: &str,
    connection: &Value,
) -> Result<Arc<dyn NodeGroupProvider>, OpenError> {
    let constructor = PROVIDERS.find(name)?;
    constructor(context, connection).map_err(PROVIDERS.settings_error(name))
}

/// Returns the name of the provider that scales a group.
pub fn provider_name(group: &NodeGroup) -> Result<&str, OpenError> {
    let (name, _) = PROVIDERS.only(&group.spec.provider)?;
    PROVIDERS.find(name)?;
    Ok(name)
}
