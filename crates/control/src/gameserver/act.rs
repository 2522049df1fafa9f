//! Carries out what was decided about a game server, and records it as events.

use api::agones::{ERRORED_AT_ANNOTATION, FINALIZER, LEAVING_ANNOTATION};
use cluster::{
    CachedPod, Error, EventType, Key, RequeueAt, error::api_message, error::status_code,
};
use decide::gameserver::ports::host_ports;
use decide::gameserver::{Event, State};
use kube::Resource as _;
use kube::api::{Api, PostParams};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::observe::{LEGACY_FINALIZER, ObservedGameServer};
use super::{address, pod};
use crate::context::Context;
use cluster::write::{self, PatchTarget};

/// How long to wait where two caches contradict each other and one of them is about to change.
const SOON: std::time::Duration = std::time::Duration::from_millis(50);

/// Writes the defaults of a server that no admission webhook has completed, so that other readers, such as its SDK server, find all
/// fields.
pub(super) async fn apply_defaults(
    observed: &ObservedGameServer,
    cx: &Context,
) -> Result<RequeueAt, Error> {
    let Some(kind) = api::find(None, "GameServer") else { return Ok(None) };
    let mut object = serde_json::to_value(&observed.server.object).unwrap_or_default();
    let admission = api::Admission { old: None, now: cx.clock.now() };
    if let Err(problems) = (kind.admit)(&mut object, &admission) {
        let why: Vec<String> = problems.iter().map(ToString::to_string).collect();
        return fail(observed, why.join("; "), cx).await;
    }
    let change = json!({
        "metadata": {
            "annotations": object["metadata"]["annotations"],
            "finalizers": object["metadata"]["finalizers"],
        },
        "spec": object["spec"],
        "status": object["status"],
    });
    patch(observed, change, "write the defaults", cx).await?;
    Ok(None)
}

/// Deletes a pod whose host ports are taken on all nodes that it could run on. The next pod gets other ports.
pub(super) async fn reassign_ports(
    observed: &ObservedGameServer,
    cx: &Context,
) -> Result<RequeueAt, Error> {
    let Some(pod) = observed.pod.as_deref() else { return Ok(None) };
    let reassigned = cx.ports().reassign(&observed.server.object, pod, cx.clock.now());
    if let Err(at) = reassigned {
        return Ok(Some(cx.clock.timer(at)));
    }
    write::delete(&cx.client, &cx.caches.pods, pod, "delete the pod").await?;
    let why = pod.unschedulable().unwrap_or_default();
    let note = format!("Picking other host ports: {why}");
    record_event(observed, cx, SOURCE, EventType::Warning, State::Starting, note);
    Ok(None)
}

/// Marks a server whose pod is being deleted, so that it is not allocated any more.
pub(super) async fn mark_leaving(
    observed: &ObservedGameServer,
    cx: &Context,
) -> Result<RequeueAt, Error> {
    let change = json!({"metadata": {"annotations": {LEAVING_ANNOTATION: "true"}}});
    patch(observed, change, "mark the game server as leaving", cx).await?;
    let note = "Pod is being deleted; no more players are sent here".to_owned();
    record_event(
        observed,
        cx,
        "health-controller",
        EventType::Warning,
        observed.observation.state,
        note,
    );
    Ok(None)
}

/// Creates the pod, with its host ports. The ports are written to the server later, together with its address.
pub(super) async fn create_pod(
    observed: &ObservedGameServer,
    cx: &Context,
) -> Result<RequeueAt, Error> {
    let server = &observed.server.object;
    let assigned = cx.ports().assign(server, None, cx.clock.now());
    let assigned = match assigned {
        Ok(ports) => ports,
        Err(error) => return fail(observed, error.to_string(), cx).await,
    };
    let host_ports = host_ports(&server.spec.ports_view(), &assigned);
    let pod = match pod::build(server, &assigned, &host_ports, &cx.settings) {
        Ok(pod) => pod,
        Err(problem) => return fail(observed, problem, cx).await,
    };
    match post(&pod, cx).await {
        Ok(pod) => {
            let note = format!("Pod {} created", pod.metadata.name.as_deref().unwrap_or_default());
            record_event(observed, cx, SOURCE, EventType::Normal, State::Creating, note);
            cx.caches.pods.insert(pod);
            Ok(None)
        }
        Err(error) => match status_code(&error) {
            Some(409) => adopt_pod(observed, cx).await,
            Some(403 | 422) => fail(observed, api_message(&error), cx).await,
            _ => {
                let name = observed.server.object.metadata.name.as_deref().unwrap_or_default();
                let note =
                    format!("error creating Pod for GameServer {name}: {}", api_message(&error));
                record_event(observed, cx, SOURCE, EventType::Warning, State::Creating, note);
                Err(Error::api("create the pod")(error))
            }
        },
    }
}

async fn post(pod: &Value, cx: &Context) -> Result<CachedPod, kube::Error> {
    let namespace = pod["metadata"]["namespace"].as_str().unwrap_or_default();
    let request = kube::core::Request::new(CachedPod::url_path(&(), Some(namespace)));
    let body = serde_json::to_vec(pod).map_err(kube::Error::SerdeError)?;
    let request =
        request.create(&PostParams::default(), body).map_err(kube::Error::BuildRequest)?;
    cx.client.request(request).await
}

/// Adopts a pod of this name that exists already, if this controller created it before a restart.
async fn adopt_pod(observed: &ObservedGameServer, cx: &Context) -> Result<RequeueAt, Error> {
    let Some(pod) = fetch_pod(observed, cx).await? else { return Ok(Some(Instant::now() + SOON)) };
    if cluster::owner(&pod) != observed.server.object.metadata.uid.as_deref() {
        return Err(Error::NotControlled { kind: "pod" });
    }
    cx.ports().take_over(&observed.server.object, &pod);
    cx.caches.pods.insert(pod);
    let note = "Pod already exists, reused".to_owned();
    record_event(observed, cx, SOURCE, EventType::Normal, State::Creating, note);
    Ok(Some(Instant::now() + SOON))
}

/// Reads the pod from the API server.
async fn fetch_pod(
    observed: &ObservedGameServer,
    cx: &Context,
) -> Result<Option<CachedPod>, Error> {
    let key = Key::from_meta(&observed.server.object.metadata);
    let pods: Api<CachedPod> = write::api(&cx.client, &key);
    pods.get_opt(&key.name).await.map_err(Error::api("get the pod"))
}

/// Moves a server whose pod cannot be created to the state Error.
async fn fail(
    observed: &ObservedGameServer,
    why: String,
    cx: &Context,
) -> Result<RequeueAt, Error> {
    let Some(state) = observed.observation.state.after(Event::PodRefused) else { return Ok(None) };
    cx.ports().release(observed.server.object.metadata.uid.as_deref().unwrap_or_default());
    let change = json!({
        "metadata": {"annotations": {ERRORED_AT_ANNOTATION: cx.clock.now().to_string()}},
        "status": {"state": state.as_str()},
    });
    patch(observed, change, "write the state Error", cx).await?;
    record_event(observed, cx, SOURCE, EventType::Warning, state, why);
    Ok(None)
}

/// Deletes the pod of a server that is being deleted.
pub(super) async fn delete_pod(
    observed: &ObservedGameServer,
    cx: &Context,
) -> Result<RequeueAt, Error> {
    let Some(pod) = observed.pod.as_deref() else { return Ok(None) };
    write::delete(&cx.client, &cx.caches.pods, pod, "delete the pod").await?;
    let note = format!("Deleting Pod {}", pod.metadata.name.as_deref().unwrap_or_default());
    record_event(observed, cx, SOURCE, EventType::Normal, observed.observation.state, note);
    Ok(None)
}

/// Deletes a server in the state Shutdown.
pub(super) async fn delete(
    observed: &ObservedGameServer,
    cx: &Context,
) -> Result<RequeueAt, Error> {
    write::delete(&cx.client, &cx.caches.servers, &*observed.server, "delete the game server")
        .await?;
    record_event(
        observed,
        cx,
        SOURCE,
        EventType::Normal,
        State::Shutdown,
        "Deletion started".to_owned(),
    );
    Ok(None)
}

/// Removes the finalizer of a server whose pod is gone.
pub(super) async fn remove_finalizer(
    observed: &ObservedGameServer,
    cx: &Context,
) -> Result<RequeueAt, Error> {
    let finalizers = observed.server.object.metadata.finalizers.iter().flatten();
    let others: Vec<_> = finalizers.filter(|f| *f != FINALIZER && *f != LEGACY_FINALIZER).collect();
    let change = json!({"metadata": {"finalizers": others}});
    patch(observed, change, "remove the finalizer", cx).await?;
    Ok(None)
}

/// Writes a state with the address, or only the address.
pub(super) async fn write_state(
    observed: &ObservedGameServer,
    to: Option<(State, Event)>,
    cx: &Context,
) -> Result<RequeueAt, Error> {
    // The watches of pods and game servers are independent: the API server has to confirm that the pod is gone.
    if to.is_some_and(|(_, because)| because == Event::PodLost)
        && let Some(pod) = fetch_pod(observed, cx).await?
        && cluster::owner(&pod) == observed.server.object.metadata.uid.as_deref()
    {
        cx.caches.pods.insert(pod);
        return Ok(Some(Instant::now() + SOON));
    }
    let mut change = match to {
        // The ports of a server without a node may still change.
        Some((State::Unhealthy | State::Shutdown | State::Starting, _)) => json!({}),
        Some(_) | None => address_change(observed, cx),
    };
    if let Some((state, _)) = to {
        change["status"]["state"] = json!(state.as_str());
    }
    patch(observed, change, "write the state", cx).await?;
    if let Some((state, because)) = to {
        record_transition(observed, state, because, cx);
    }
    Ok(None)
}

/// Records a transition as an event, and avoids ports that a node turned out not to have.
fn record_transition(observed: &ObservedGameServer, state: State, because: Event, cx: &Context) {
    let (source, kind, note) = transition_event(because);
    let pod = observed.pod.as_deref().filter(|_| because == Event::PodFailed);
    if let Some(pod) = pod.filter(|pod| pod.status.reason == "NodePorts") {
        cx.ports().avoid(&observed.server.object, Some(pod), cx.clock.now());
    }
    let why = pod.and_then(CachedPod::failure);
    let note = why.map_or_else(|| note.to_owned(), |why| format!("{note}: {why}"));
    // Why a pod has no node is reported separately, with the message of the scheduler.
    if because != Event::PodCreated {
        record_event(observed, cx, source, kind, state, note);
    }
}

/// Returns a patch with the ports, and with the address if it is known.
fn address_change(observed: &ObservedGameServer, cx: &Context) -> Value {
    let server = &observed.server.object;
    let mut status = server.status.clone().unwrap_or_default();
    // A server without ports has a pod with ports, or needs none. Ports of a range that was removed are left out.
    let assigned =
        cx.ports().assign(server, observed.pod.as_deref(), cx.clock.now()).unwrap_or_default();
    match (observed.dev_address(), observed.node.as_deref(), observed.pod.as_deref()) {
        (Some(address), _, _) => address::in_development(&mut status, address),
        (None, Some(node), Some(pod)) => address::on_node(&mut status, node, pod),
        (None, _, _) => {}
    }
    let mut change = json!({"status": {}});
    if !status.node_name.is_empty() {
        change["status"] = json!({
            "nodeName": status.node_name,
            "address": status.address,
            "addresses": status.addresses,
            "ports": address::ports(&assigned),
        });
    }
    let mut spec = server.spec.clone();
    spec.set_ports(&assigned);
    if spec.ports != server.spec.ports {
        change["spec"] = json!({"ports": spec.ports});
    }
    change
}

async fn patch(
    observed: &ObservedGameServer,
    change: Value,
    what: &'static str,
    cx: &Context,
) -> Result<(), Error> {
    write::patch(
        &cx.client,
        &cx.caches.servers,
        &*observed.server,
        PatchTarget::Object,
        change,
        what,
    )
    .await
}

pub(super) const SOURCE: &str = "gameserver-controller";

/// Returns the component, type and note of the event for a transition.
fn transition_event(event: Event) -> (&'static str, EventType, &'static str) {
    match event {
        Event::PodFailed => ("health-controller", EventType::Warning, "Issue with Gameserver pod"),
        Event::PodEndedEarly => (
            "health-controller",
            EventType::Warning,
            "Issue with Gameserver pod: it ended before the game server was ready",
        ),
        Event::PodLeaves => (
            "health-controller",
            EventType::Warning,
            "Issue with Gameserver pod: it is being deleted",
        ),
        Event::PodLost => ("missing-pod-controller", EventType::Warning, "Pod is missing"),
        Event::Moved => ("migration-controller", EventType::Warning, "Node migration occurred"),
        Event::PodSucceeded => {
            ("succeeded-controller", EventType::Normal, "Pod is in Succeeded state")
        }
        Event::PodScheduled => (SOURCE, EventType::Normal, "Address and port populated"),
        Event::ReadyConfirmed => (SOURCE, EventType::Normal, "SDK.Ready() complete"),
        Event::DevAddressKnown => (SOURCE, EventType::Normal, "Real GameServer is in development"),
        Event::PodCreated
        | Event::PortsAllocated
        | Event::PodRefused
        | Event::SdkReady
        | Event::SdkAllocate
        | Event::Allocated
        | Event::SdkReserve
        | Event::SdkShutdown
        | Event::SetDeletes
        | Event::SdkUnhealthy => (SOURCE, EventType::Normal, "State changed"),
    }
}

fn record_event(
    observed: &ObservedGameServer,
    cx: &Context,
    source: &str,
    kind: EventType,
    reason: State,
    note: String,
) {
    cx.events.record(&observed.server.object, source, kind, reason.as_str(), note);
}
