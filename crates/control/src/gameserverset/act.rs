//! Creates and shuts down the game servers of a set, and marks those that exceed its size.

use std::borrow::Cow;
use std::sync::Arc;

use api::agones::{
    AllocationOverflow, FAILED_BEFORE_ANNOTATION, FLEET_LABEL, GAME_SERVER_SET_LABEL, GameServer,
    GameServerSet,
};
use cluster::{Error, EventType, Key};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource as _;
use kube::api::{Api, PostParams};
use serde_json::json;

use crate::context::Context;
use crate::writes::each;
use cluster::write::{self, PatchTarget};

pub(super) const SOURCE: &str = "gameserverset-controller";

/// Creates `count` game servers. The first of them replace failed ones; `failed_before` has the number of failures in a row for each.
pub(super) async fn create(
    set: &GameServerSet,
    count: u32,
    failed_before: &[u32],
    cx: &Context,
) -> Result<(), Error> {
    if count == 0 {
        return Ok(());
    }
    let Some(server) = &from_template(set) else { return Ok(()) };
    let servers: Api<GameServer> = write::api(&cx.client, &Key::from_meta(&set.metadata));
    let servers = &servers;
    each(0..count as usize, cx.settings.parallel_writes, |index| async move {
        let failed = failed_before.get(index).copied().unwrap_or_default();
        let server = &with_failures(server, failed);
        let made = servers.create(&PostParams::default(), &**server).await;
        let made = made.map_err(Error::api("create a game server"))?;
        let name = made.metadata.name.clone().unwrap_or_default();
        cx.caches.servers.insert(made);
        let note = format!("Created gameserver: {name}");
        cx.events.record(set, SOURCE, EventType::Normal, "SuccessfulCreate", note);
        Ok(())
    })
    .await
}

/// Returns the server with the number of failures in a row before it, where there were any.
fn with_failures(server: &GameServer, failed: u32) -> Cow<'_, GameServer> {
    if failed == 0 {
        return Cow::Borrowed(server);
    }
    let mut server = server.clone();
    let annotations = server.metadata.annotations.get_or_insert_default();
    annotations.insert(FAILED_BEFORE_ANNOTATION.to_owned(), failed.to_string());
    Cow::Owned(server)
}

/// Returns a new game server of the set; `None` for a set that is not stored.
fn from_template(set: &GameServerSet) -> Option<GameServer> {
    let template = &set.spec.template;
    let name = set.metadata.name.as_deref()?;
    let fleet = set.metadata.labels.as_ref().and_then(|labels| labels.get(FLEET_LABEL));
    let mut labels = template.metadata.labels.clone().unwrap_or_default();
    labels.insert(GAME_SERVER_SET_LABEL.to_owned(), name.to_owned());
    labels.insert(FLEET_LABEL.to_owned(), fleet.cloned().unwrap_or_default());
    let mut spec = template.spec.clone();
    if set.spec.scheduling.is_some() {
        spec.scheduling = set.spec.scheduling;
    }
    let metadata = ObjectMeta {
        generate_name: Some(format!("{name}-")),
        namespace: set.metadata.namespace.clone(),
        labels: Some(labels),
        annotations: template.metadata.annotations.clone(),
        finalizers: template.metadata.finalizers.clone(),
        owner_references: Some(vec![set.controller_owner_ref(&())?]),
        ..ObjectMeta::default()
    };
    Some(GameServer { metadata, spec, status: None })
}

/// Moves game servers to the state Shutdown. One that has changed since, and is perhaps in use now, is left for the next reconciliation.
pub(super) async fn shut_down(
    set: &GameServerSet,
    names: &[Arc<str>],
    cx: &Context,
) -> Result<(), Error> {
    each(names.iter().cloned(), cx.settings.parallel_writes, |name| async move {
        let key = Key::new(&*Key::from_meta(&set.metadata).namespace, name.clone());
        let Some(server) = cx.caches.servers.get(&key) else { return Ok(()) };
        let Some(state) = decide::fleet::shutdown(&server.view) else { return Ok(()) };
        let change = json!({"status": {"state": state.as_str()}});
        let what = "shut down a game server";
        write::patch(&cx.client, &cx.caches.servers, &*server, PatchTarget::Object, change, what)
            .await?;
        let note = format!("Deleted gameserver in state {}: {name}", server.view.state);
        cx.events.record(set, SOURCE, EventType::Normal, "SuccessfulDelete", note);
        Ok(())
    })
    .await
}

/// Marks Allocated game servers that exceed the size of the set.
pub(super) async fn mark(
    set: &GameServerSet,
    names: &[Arc<str>],
    cx: &Context,
) -> Result<(), Error> {
    let Some(AllocationOverflow { labels, annotations }) = &set.spec.allocation_overflow else {
        return Ok(());
    };
    each(names.iter().cloned(), cx.settings.parallel_writes, |name| async move {
        let key = Key::new(&*Key::from_meta(&set.metadata).namespace, name.clone());
        let Some(server) = cx.caches.servers.get(&key) else { return Ok(()) };
        let change = json!({"metadata": {"labels": labels, "annotations": annotations}});
        let what = "mark an excess game server";
        write::patch(&cx.client, &cx.caches.servers, &*server, PatchTarget::Object, change, what)
            .await
    })
    .await
}
