//! A stand-in for a cloud: groups in memory, whose machines are Node objects that name no group. The embedded engine simulates their pods.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use connect::providers::{Group, Instance, InstanceState, NodeGroupProvider, ProviderError};
use decide::nodes::{Resources, Template};
use futures::future::BoxFuture;
use jiff::Timestamp;
use plimsoll_control::NodeProviders;

use super::*;

/// The provider whose name the stand-in takes.
pub(super) const NAME: &str = "externalGrpc";

/// The groups of a cloud.
pub(super) struct Cloud {
    client: Client,
    /// The label of the test, which all machines carry.
    pool: String,
    groups: Mutex<BTreeMap<String, Group>>,
    /// Whether it answers nothing at present.
    pub(super) is_down: AtomicBool,
}

impl Cloud {
    /// Starts a cloud with groups of these names and at most 5 machines each.
    pub(super) fn start(world: &World, ids: &[&str]) -> Arc<Self> {
        let groups = ids.iter().map(|id| {
            let amounts = |resources: &mut Resources| {
                (resources.cpu, resources.memory, resources.pods) = (4000, 16 << 30, 20);
            };
            let mut template = Template::default();
            amounts(&mut template.capacity);
            amounts(&mut template.allocatable);
            let kind = id.replace('/', "-");
            template.labels =
                [("pool", world.name.as_str()), ("kind", kind.as_str())].into_iter().collect();
            let id = (*id).to_owned();
            let template = Some(template);
            (id.clone(), Group { id, max: 5, template, ..Group::default() })
        });
        let groups = Mutex::new(groups.collect());
        let (client, pool) = (world.client(), world.name.clone());
        Arc::new(Self { client, pool, groups, is_down: AtomicBool::new(false) })
    }

    /// Returns settings with this cloud as a provider.
    pub(super) fn settings(self: &Arc<Self>, settings: Settings) -> Settings {
        let provider: Arc<dyn NodeGroupProvider> = Arc::clone(self) as _;
        let node_providers = NodeProviders(BTreeMap::from([(NAME.to_owned(), provider)]));
        Settings { node_providers, ..settings }
    }

    pub(super) fn groups(&self) -> MutexGuard<'_, BTreeMap<String, Group>> {
        self.groups.lock().unwrap()
    }

    /// The number of machines of a group.
    pub(super) fn count(&self, id: &str) -> usize {
        self.groups()[id].instances.len()
    }

    /// The name of a machine's Node.
    pub(super) fn node(&self, id: &str) -> String {
        self.groups()[id].instances[0].id.trim_start_matches("cloud:///").to_owned()
    }

    fn change(
        &self,
        id: &str,
        change: impl FnOnce(&mut Group) -> Vec<Instance>,
    ) -> Result<Vec<Instance>, ProviderError> {
        if self.is_down.load(Ordering::SeqCst) {
            return Err(ProviderError::Unavailable { message: "down".to_owned() });
        }
        let unknown = || ProviderError::UnknownGroup { group: id.to_owned() };
        self.groups().get_mut(id).map(change).ok_or_else(unknown)
    }

    async fn create(&self, group: &str, id: &str) {
        let (now, kind) = (Timestamp::now().to_string(), group.replace('/', "-"));
        let node: Node = serde_json::from_value(json!({
            "metadata": {
                "name": id.trim_start_matches("cloud:///"),
                "labels": {"pool": self.pool, "kind": kind, "plimsoll.dev/simulated": "true"},
            },
            "spec": {"providerID": id},
            "status": {
                "capacity": {"cpu": "4", "memory": "16Gi", "pods": "20"},
                "allocatable": {"cpu": "4", "memory": "16Gi", "pods": "20"},
                "conditions": [{
                    "type": "Ready", "status": "True", "reason": "KubeletReady",
                    "lastHeartbeatTime": now, "lastTransitionTime": now,
                }],
                "addresses": [{"type": "InternalIP", "address": "10.250.0.1"}],
            },
        }))
        .unwrap();
        let api: Api<Node> = Api::all(self.client.clone());
        api.create(&PostParams::default(), &node).await.unwrap();
    }
}

impl NodeGroupProvider for Cloud {
    fn snapshot(&self) -> BoxFuture<'_, Result<Vec<Group>, ProviderError>> {
        Box::pin(async {
            if self.is_down.load(Ordering::SeqCst) {
                return Err(ProviderError::Unavailable { message: "down".to_owned() });
            }
            Ok(self.groups().values().cloned().collect())
        })
    }

    fn increase<'a>(&'a self, group: &'a str, by: u32) -> BoxFuture<'a, Result<(), ProviderError>> {
        Box::pin(async move {
            let new = self.change(group, |found| {
                found.target += by;
                let id = |_| format!("cloud:///m-{:08x}", fastrand::u32(..));
                let state = InstanceState::Running;
                let new = (0..by).map(id).map(|id| Instance { id, state, error: None });
                let new: Vec<Instance> = new.collect();
                found.instances.extend(new.clone());
                new
            })?;
            for instance in new {
                self.create(group, &instance.id).await;
            }
            Ok(())
        })
    }

    fn delete_nodes<'a>(
        &'a self,
        group: &'a str,
        instances: &'a [String],
    ) -> BoxFuture<'a, Result<(), ProviderError>> {
        let deleted = self.change(group, |found| {
            found.instances.retain(|instance| !instances.contains(&instance.id));
            found.target = u32::try_from(found.instances.len()).unwrap();
            Vec::new()
        });
        Box::pin(async move { deleted.map(drop) })
    }

    fn decrease_target<'a>(
        &'a self,
        group: &'a str,
        by: u32,
    ) -> BoxFuture<'a, Result<(), ProviderError>> {
        let lowered = self.change(group, |found| {
            found.target -= by;
            Vec::new()
        });
        Box::pin(async move { lowered.map(drop) })
    }
}
