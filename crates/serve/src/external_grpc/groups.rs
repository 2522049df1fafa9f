//! The NodeGroups of the cluster, with the state of their machines.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use api::plimsoll::{NodeAutoscaler, NodeGroup};
use cluster::Undecoded;
use cluster::error::api_message;
use connect::Context;
use connect::providers::{self, Group, NamedGroup, NodeGroupProvider, labels_nodes};
use decide::nodes::{GROUP_LABEL, Group as GroupSpec, GroupOptions, Template};
use futures::future::join_all;
use kube::ResourceExt as _;
use kube::api::{Api, ListParams};
use process::Supervisor;
use serde_json::{Map, Value};
use tokio::sync::Mutex;
use tokio::time::Instant;

/// How long a reading is used unless a change or Refresh comes first.
const KEEP_FOR: Duration = Duration::from_secs(10);
/// How long a provider may take to report its groups. Clients wait five seconds for an answer.
const PATIENCE: Duration = Duration::from_secs(4);

/// Providers by name.
pub type Providers = BTreeMap<String, Arc<dyn NodeGroupProvider>>;

/// The NodeGroups of a cluster.
pub struct NodeGroups {
    context: Context,
    /// Providers that are shared with the controller, and are not opened a second time.
    shared: Providers,
    /// The others, with the settings that they were opened with.
    opened: std::sync::Mutex<BTreeMap<String, OpenedProvider>>,
    /// The number of changes.
    changes: AtomicU64,
    last: Mutex<Option<LastReading>>,
}

/// A provider, and the settings of its connection.
type OpenedProvider = (Value, Arc<dyn NodeGroupProvider>);

struct LastReading {
    began_at: Instant,
    /// The number of changes when it began.
    changes: u64,
    reading: Arc<Reading>,
}

/// All groups as of one moment.
#[derive(Default)]
pub(super) struct Reading {
    /// By the names of their NodeGroups.
    pub(super) groups: BTreeMap<String, ServedGroup>,
    /// The names of the groups by the ids of their instances.
    by_instance: BTreeMap<String, String>,
}

/// A group, and the provider that scales it.
pub(super) struct ServedGroup {
    pub(super) spec: GroupSpec,
    pub(super) state: Group,
    pub(super) provider: Arc<dyn NodeGroupProvider>,
    pub(super) provider_name: String,
}

impl NodeGroups {
    /// Serves the groups of a cluster. Providers in `shared` are used in place of those that would be opened for the same names.
    pub fn new(context: Context, shared: Providers) -> Self {
        let (opened, last) = (std::sync::Mutex::default(), Mutex::default());
        Self { context, shared, opened, changes: AtomicU64::new(0), last }
    }

    pub(super) fn supervisor(&self) -> &Supervisor {
        &self.context.supervisor
    }

    /// Returns the last reading, or a new one if it is too old. Requests that come meanwhile wait for the same one.
    pub(super) async fn current(&self) -> Result<Arc<Reading>, String> {
        let mut last = self.last.lock().await;
        let (began_at, changes) = (Instant::now(), self.changes.load(Ordering::SeqCst));
        if let Some(last) = &*last
            && last.changes == changes
            && last.began_at.elapsed() < KEEP_FOR
        {
            return Ok(Arc::clone(&last.reading));
        }
        let reading = Arc::new(self.read().await?);
        *last = Some(LastReading { began_at, changes, reading: Arc::clone(&reading) });
        Ok(reading)
    }

    /// Has all groups read again by the next request.
    pub(super) fn expire(&self) {
        self.changes.fetch_add(1, Ordering::SeqCst);
    }

    async fn read(&self) -> Result<Reading, String> {
        let api: Api<Undecoded<NodeGroup>> = Api::all(self.context.client.clone());
        let objects = api.list(&ListParams::default()).await.map_err(|err| api_message(&err))?;
        let mut by_provider: BTreeMap<String, Vec<(NodeGroup, NamedGroup)>> = BTreeMap::new();
        for object in objects.items.iter().filter_map(Undecoded::decode) {
            match providers::named_group(&object) {
                Ok((provider, named)) => {
                    by_provider.entry(provider.to_owned()).or_default().push((object, named));
                }
                Err(error) => skip(&object.name_any(), &error.to_string()),
            }
        }
        let mut connections = self.connections().await?;
        let reading = by_provider.into_iter().map(|(name, groups)| {
            let settings = connections.remove(&name).unwrap_or_default();
            self.read_provider(name, settings, groups)
        });
        let groups = join_all(reading).await.into_iter().flatten();
        Ok(groups.collect())
    }

    /// Reads the connections to providers from the NodeAutoscaler.
    async fn connections(&self) -> Result<Map<String, Value>, String> {
        let api: Api<Undecoded<NodeAutoscaler>> = Api::all(self.context.client.clone());
        let all = api.list(&ListParams::default()).await.map_err(|err| api_message(&err))?;
        let mut autoscalers = all.items.iter().filter_map(Undecoded::decode);
        let connections = autoscalers.next().map(|object| object.spec.providers.connections());
        Ok(connections.unwrap_or_default())
    }

    /// Reads the groups of one provider. While it fails, its groups are left out, so that their nodes count as nobody's: the others must
    /// not suffer.
    async fn read_provider(
        &self,
        name: String,
        settings: Value,
        groups: Vec<(NodeGroup, NamedGroup)>,
    ) -> Vec<ServedGroup> {
        let named: Vec<NamedGroup> = groups.iter().map(|(_, named)| named.clone()).collect();
        let (provider, states) = match self.snapshot(&name, settings, &named).await {
            Ok(read) => read,
            Err(problem) => {
                skip(&format!("all of the provider {name}"), &problem);
                return Vec::new();
            }
        };
        let mut by_id: BTreeMap<String, Group> =
            states.into_iter().map(|state| (state.id.clone(), state)).collect();
        let serve = |(object, named): (NodeGroup, NamedGroup)| {
            let spec = api::nodes::group(&object);
            let Some(state) = by_id.remove(&named.id) else {
                skip(&spec.name, "the provider does not have the group");
                return None;
            };
            let (provider, provider_name) = (Arc::clone(&provider), name.clone());
            Some(ServedGroup { spec, state, provider, provider_name })
        };
        groups.into_iter().filter_map(serve).collect()
    }

    async fn snapshot(
        &self,
        name: &str,
        settings: Value,
        named: &[NamedGroup],
    ) -> Result<(Arc<dyn NodeGroupProvider>, Vec<Group>), String> {
        let provider = self.open(name, settings)?;
        provider.set_named_groups(named);
        let states = tokio::time::timeout(PATIENCE, provider.snapshot()).await;
        let states = states.map_err(|_| format!("no answer within {PATIENCE:?}"))?;
        Ok((provider, states.map_err(|error| error.to_string())?))
    }

    fn open(&self, name: &str, settings: Value) -> Result<Arc<dyn NodeGroupProvider>, String> {
        if let Some(provider) = self.shared.get(name) {
            return Ok(Arc::clone(provider));
        }
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((with, provider)) = opened.get(name)
            && *with == settings
        {
            return Ok(Arc::clone(provider));
        }
        let provider = providers::open(&self.context, name, &settings);
        let provider = provider.map_err(|error| error.to_string())?;
        opened.insert(name.to_owned(), (settings, Arc::clone(&provider)));
        Ok(provider)
    }
}

/// Logs that a group is left out.
fn skip(group: &str, problem: &str) {
    tracing::warn!(group, problem, "node group is not served");
}

impl FromIterator<ServedGroup> for Reading {
    fn from_iter<I: IntoIterator<Item = ServedGroup>>(groups: I) -> Self {
        let mut reading = Self::default();
        for group in groups {
            let name = group.spec.name.to_string();
            for instance in &group.state.instances {
                reading.by_instance.insert(instance.id.clone(), name.clone());
            }
            reading.groups.insert(name, group);
        }
        reading
    }
}

impl Reading {
    /// Returns the group that has an instance.
    pub(super) fn group_of(&self, instance: &str) -> Option<&ServedGroup> {
        self.groups.get(self.by_instance.get(instance)?)
    }
}

impl ServedGroup {
    /// Returns the shape of a new node.
    pub(super) fn template(&self) -> Option<Template> {
        let template = self.spec.template.as_ref().or(self.state.template.as_ref())?;
        let mut template = template.clone();
        if labels_nodes(&self.provider_name) {
            template.labels = template.labels.with(GROUP_LABEL, &self.spec.name);
        }
        Some(template)
    }

    /// Returns the group's own settings.
    pub(super) fn options(&self) -> GroupOptions {
        self.spec.options.or(&self.state.options)
    }

    /// Returns whether the group is scaled from 0 to max at once, and back.
    pub(super) fn is_all_or_nothing(&self) -> bool {
        self.spec.all_or_nothing || self.state.all_or_nothing
    }

    /// Returns the price of a node per hour.
    pub(super) fn price(&self) -> Option<f64> {
        self.spec.price.or(self.state.price)
    }
}
