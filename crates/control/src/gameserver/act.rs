//! Does what was decided about a game server, and says so.

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

use super::observe::{LEGACY_FINALIZER, Observed};
use super::{address, pod};
use crate::context::Context;
use cluster::write::{self, PatchTarget};

/// How long to wait where two caches contradict each other and one of them is about to change.
const SOON: std::time::Duration = std::time::Duration::from_millis(50);

/// Writes what admission would have written, had anything admitted the server. Who else reads it, such as its SDK server, finds nothing
/// missing then.
pub(super) async fn begin(seen: &Observed, cx: &Context) -> Result<RequeueAt, Error> {
    let Some(kind) = api::find(None, "GameServer") else { return Ok(None) };
    let mut object = serde_json::to_value(&seen.server.object).unwrap_or_default();
    let admission = api::Admission { old: None, now: cx.clock.now() };
    if let Err(problems) = (kind.admit)(&mut object, &admission) {
        let why: Vec<String> = problems.iter().map(ToString::to_string).collect();
        return refuse(seen, why.join("; "), cx).await;
    }
    let change = json!({
        "metadata": {
            "annotations": object["metadata"]["annotations"],
            "finalizers": object["metadata"]["finalizers"],
        },
        "spec": object["spec"],
        "status": object["status"],
    });
    patch(seen, change, "write the defaults", cx).await?;
    Ok(None)
}

/// Deletes a pod whose host ports are taken wherever it could go. The next one has others.
pub(super) async fn other_ports(seen: &Observed, cx: &Context) -> Result<RequeueAt, Error> {
    let Some(pod) = seen.pod.as_deref() else { return Ok(None) };
    let again = cx.ports().pick_again(&seen.server.object, pod, cx.clock.now());
    if let Err(at) = again {
        return Ok(Some(cx.clock.timer(at)));
    }
    write::delete(&cx.client, &cx.caches.pods, pod, "delete the pod").await?;
    let why = pod.unschedulable().unwrap_or_default();
    let note = format!("Picking other host ports: {why}");
    say(seen, cx, SOURCE, EventType::Warning, State::Starting, note);
    Ok(None)
}

/// Marks a server whose pod is being deleted, so that no more players are sent to it.
pub(super) async fn leave(seen: &Observed, cx: &Context) -> Result<RequeueAt, Error> {
    let change = json!({"metadata": {"annotations": {LEAVING_ANNOTATION: "true"}}});
    patch(seen, change, "mark the game server as leaving", cx).await?;
    let note = "Pod is being deleted; no more players are sent here".to_owned();
    say(seen, cx, "health-controller", EventType::Warning, seen.seen.state, note);
    Ok(None)
}

/// Makes the pod, with its host ports. Nothing is written to the server yet: it learns of its ports together with its address.
pub(super) async fn create_pod(seen: &Observed, cx: &Context) -> Result<RequeueAt, Error> {
    let server = &seen.server.object;
    let assigned = cx.ports().assign(server, None, cx.clock.now());
    let assigned = match assigned {
        Ok(ports) => ports,
        Err(error) => return refuse(seen, error.to_string(), cx).await,
    };
    let host_ports = host_ports(&server.spec.ports_view(), &assigned);
    let pod = match pod::build(server, &assigned, &host_ports, &cx.settings) {
        Ok(pod) => pod,
        Err(problem) => return refuse(seen, problem, cx).await,
    };
    match post(&pod, cx).await {
        Ok(pod) => {
            let note = format!("Pod {} created", pod.metadata.name.as_deref().unwrap_or_default());
            say(seen, cx, SOURCE, EventType::Normal, State::Creating, note);
            cx.caches.pods.insert(pod);
            Ok(None)
        }
        Err(error) => match status_code(&error) {
            Some(409) => adopt(seen, cx).await,
            Some(403 | 422) => refuse(seen, api_message(&error), cx).await,
            _ => {
                let name = seen.server.object.metadata.name.as_deref().unwrap_or_default();
                let note =
                    format!("error creating Pod for GameServer {name}: {}", api_message(&error));
                say(seen, cx, SOURCE, EventType::Warning, State::Creating, note);
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

/// A pod of this name is there: ours, if an earlier life of this controller made it.
async fn adopt(seen: &Observed, cx: &Context) -> Result<RequeueAt, Error> {
    let Some(pod) = look(seen, cx).await? else { return Ok(Some(Instant::now() + SOON)) };
    if cluster::owner(&pod) != seen.server.object.metadata.uid.as_deref() {
        return Err(Error::NotControlled { kind: "pod" });
    }
    cx.ports().take_over(&seen.server.object, &pod);
    cx.caches.pods.insert(pod);
    let note = "Pod already exists, reused".to_owned();
    say(seen, cx, SOURCE, EventType::Normal, State::Creating, note);
    Ok(Some(Instant::now() + SOON))
}

/// Asks the API itself for the pod.
async fn look(seen: &Observed, cx: &Context) -> Result<Option<CachedPod>, Error> {
    let key = Key::from_meta(&seen.server.object.metadata);
    let pods: Api<CachedPod> = write::api(&cx.client, &key);
    pods.get_opt(&key.name).await.map_err(Error::api("look for the pod"))
}

/// Gives a server up whose pod cannot be made.
async fn refuse(seen: &Observed, why: String, cx: &Context) -> Result<RequeueAt, Error> {
    let Some(state) = seen.seen.state.after(Event::PodRefused) else { return Ok(None) };
    cx.ports().release(seen.server.object.metadata.uid.as_deref().unwrap_or_default());
    let change = json!({
        "metadata": {"annotations": {ERRORED_AT_ANNOTATION: cx.clock.now().to_string()}},
        "status": {"state": state.as_str()},
    });
    patch(seen, change, "write the state Error", cx).await?;
    say(seen, cx, SOURCE, EventType::Warning, state, why);
    Ok(None)
}

/// Deletes the pod of a server that is going.
pub(super) async fn delete_pod(seen: &Observed, cx: &Context) -> Result<RequeueAt, Error> {
    let Some(pod) = seen.pod.as_deref() else { return Ok(None) };
    write::delete(&cx.client, &cx.caches.pods, pod, "delete the pod").await?;
    let note = format!("Deleting Pod {}", pod.metadata.name.as_deref().unwrap_or_default());
    say(seen, cx, SOURCE, EventType::Normal, seen.seen.state, note);
    Ok(None)
}

/// Deletes a server that was told to shut down.
pub(super) async fn delete(seen: &Observed, cx: &Context) -> Result<RequeueAt, Error> {
    write::delete(&cx.client, &cx.caches.servers, &*seen.server, "delete the game server").await?;
    say(seen, cx, SOURCE, EventType::Normal, State::Shutdown, "Deletion started".to_owned());
    Ok(None)
}

/// Lets a server go whose pod is gone.
pub(super) async fn let_go(seen: &Observed, cx: &Context) -> Result<RequeueAt, Error> {
    let finalizers = seen.server.object.metadata.finalizers.iter().flatten();
    let others: Vec<_> = finalizers.filter(|f| *f != FINALIZER && *f != LEGACY_FINALIZER).collect();
    let change = json!({"metadata": {"finalizers": others}});
    patch(seen, change, "let the game server go", cx).await?;
    Ok(None)
}

/// Writes a state, or only the address.
pub(super) async fn write(
    seen: &Observed,
    to: Option<(State, Event)>,
    cx: &Context,
) -> Result<RequeueAt, Error> {
    // Two watches are never at the same place: that a pod is gone is asked, not guessed.
    if to.is_some_and(|(_, because)| because == Event::PodLost)
        && let Some(pod) = look(seen, cx).await?
        && cluster::owner(&pod) == seen.server.object.metadata.uid.as_deref()
    {
        cx.caches.pods.insert(pod);
        return Ok(Some(Instant::now() + SOON));
    }
    let mut change = match to {
        // One that waits for a node may still get other ports.
        Some((State::Unhealthy | State::Shutdown | State::Starting, _)) => json!({}),
        Some(_) | None => place(seen, cx),
    };
    if let Some((state, _)) = to {
        change["status"]["state"] = json!(state.as_str());
    }
    patch(seen, change, "write the state", cx).await?;
    if let Some((state, because)) = to {
        record(seen, state, because, cx);
    }
    Ok(None)
}

/// Says what a move was about, and notes ports that a node turned out not to have.
fn record(seen: &Observed, state: State, because: Event, cx: &Context) {
    let (source, kind, note) = said(because);
    let pod = seen.pod.as_deref().filter(|_| because == Event::PodFailed);
    if let Some(pod) = pod.filter(|pod| pod.status.reason == "NodePorts") {
        cx.ports().avoid(&seen.server.object, Some(pod), cx.clock.now());
    }
    let why = pod.and_then(CachedPod::failure);
    let note = why.map_or_else(|| note.to_owned(), |why| format!("{note}: {why}"));
    // Why a pod waits is told apart, in the scheduler's words.
    if because != Event::PodCreated {
        say(seen, cx, source, kind, state, note);
    }
}

/// Gives the ports, and the address where it is known, as a change to the server.
fn place(seen: &Observed, cx: &Context) -> Value {
    let server = &seen.server.object;
    let mut status = server.status.clone().unwrap_or_default();
    // Whoever got this far without ports has a pod with ports, or needs none; a range that is gone since leaves them out.
    let assigned =
        cx.ports().assign(server, seen.pod.as_deref(), cx.clock.now()).unwrap_or_default();
    match (seen.dev_address(), seen.node.as_deref(), seen.pod.as_deref()) {
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
    seen: &Observed,
    change: Value,
    what: &'static str,
    cx: &Context,
) -> Result<(), Error> {
    write::patch(&cx.client, &cx.caches.servers, &*seen.server, PatchTarget::Object, change, what)
        .await
}

pub(super) const SOURCE: &str = "gameserver-controller";

/// Who says what about an event.
fn said(event: Event) -> (&'static str, EventType, &'static str) {
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

fn say(seen: &Observed, cx: &Context, source: &str, kind: EventType, reason: State, note: String) {
    cx.events.record(&seen.server.object, source, kind, reason.as_str(), note);
}
