//! Does what was decided about a game server, and says so.

use api::agones::{ERRORED_AT_ANNOTATION, FINALIZER};
use decide::gameserver::{Event, State};
use kube::Resource as _;
use kube::api::{Api, PostParams};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::observe::{LEGACY_FINALIZER, Observed};
use super::{address, pod};
use crate::context::Context;
use crate::error::code;
use crate::events::Kind;
use crate::pod::Pod;
use crate::queue::Again;
use crate::write::{self, Part};
use crate::{Error, Key, ports, store};

/// How long to wait where two stores contradict each other and one of them is about to change.
const SOON: std::time::Duration = std::time::Duration::from_millis(50);

/// Makes the pod, with its host ports. Nothing is written to the server yet: it learns of its ports together with its address.
pub(super) async fn create_pod(seen: &Observed, cx: &Context) -> Result<Again, Error> {
    let server = &seen.server.object;
    let assigned = cx.ports().assign(server, None);
    let assigned = match assigned {
        Ok(ports) => ports,
        Err(error) => return refuse(seen, error.to_string(), cx).await,
    };
    let found = ports::found(server, &assigned);
    let pod = match pod::build(server, &assigned, &found, &cx.settings) {
        Ok(pod) => pod,
        Err(problem) => return refuse(seen, problem, cx).await,
    };
    match post(&pod, cx).await {
        Ok(pod) => {
            let note = format!("Pod {} created", pod.metadata.name.as_deref().unwrap_or_default());
            say(seen, cx, SOURCE, Kind::Normal, State::Creating, note);
            cx.stores.pods.put(pod);
            Ok(None)
        }
        Err(error) => match code(&error) {
            Some(409) => adopt(seen, cx).await,
            Some(403 | 422) => refuse(seen, format!("could not create the pod: {error}"), cx).await,
            _ => {
                say(
                    seen,
                    cx,
                    SOURCE,
                    Kind::Warning,
                    State::Creating,
                    format!("Pod not created: {error}"),
                );
                Err(Error::api("create the pod")(error))
            }
        },
    }
}

async fn post(pod: &Value, cx: &Context) -> Result<Pod, kube::Error> {
    let namespace = pod["metadata"]["namespace"].as_str().unwrap_or_default();
    let request = kube::core::Request::new(Pod::url_path(&(), Some(namespace)));
    let body = serde_json::to_vec(pod).map_err(kube::Error::SerdeError)?;
    let request =
        request.create(&PostParams::default(), body).map_err(kube::Error::BuildRequest)?;
    cx.client.request(request).await
}

/// A pod of this name is there: ours, if an earlier life of this controller made it.
async fn adopt(seen: &Observed, cx: &Context) -> Result<Again, Error> {
    let Some(pod) = look(seen, cx).await? else { return Ok(Some(Instant::now() + SOON)) };
    if store::owner(&pod) != seen.server.object.metadata.uid.as_deref() {
        return Err(Error::NotOurs);
    }
    cx.ports().take_over(&seen.server.object, &pod);
    cx.stores.pods.put(pod);
    Ok(Some(Instant::now() + SOON))
}

/// Asks the API itself for the pod.
async fn look(seen: &Observed, cx: &Context) -> Result<Option<Pod>, Error> {
    let key = Key::of(&seen.server.object.metadata);
    let pods: Api<Pod> = write::api(&cx.client, &key);
    pods.get_opt(&key.name).await.map_err(Error::api("look for the pod"))
}

/// Gives a server up whose pod cannot be made.
async fn refuse(seen: &Observed, why: String, cx: &Context) -> Result<Again, Error> {
    let Some(state) = seen.seen.state.after(Event::PodRefused) else { return Ok(None) };
    cx.ports().release(seen.server.object.metadata.uid.as_deref().unwrap_or_default());
    let change = json!({
        "metadata": {"annotations": {ERRORED_AT_ANNOTATION: cx.clock.now().to_string()}},
        "status": {"state": state.as_str()},
    });
    patch(seen, change, "write the state Error", cx).await?;
    say(seen, cx, SOURCE, Kind::Warning, state, why);
    Ok(None)
}

/// Deletes the pod of a server that is going.
pub(super) async fn delete_pod(seen: &Observed, cx: &Context) -> Result<Again, Error> {
    let Some(pod) = seen.pod.as_deref() else { return Ok(None) };
    write::delete(&cx.client, &cx.stores.pods, pod, "delete the pod").await?;
    say(seen, cx, SOURCE, Kind::Normal, seen.seen.state, "Deleting Pod".to_owned());
    Ok(None)
}

/// Deletes a server that was told to shut down.
pub(super) async fn delete(seen: &Observed, cx: &Context) -> Result<Again, Error> {
    write::delete(&cx.client, &cx.stores.servers, &*seen.server, "delete the game server").await?;
    say(seen, cx, SOURCE, Kind::Normal, State::Shutdown, "Deletion started".to_owned());
    Ok(None)
}

/// Lets a server go whose pod is gone.
pub(super) async fn let_go(seen: &Observed, cx: &Context) -> Result<Again, Error> {
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
) -> Result<Again, Error> {
    // Two watches are never at the same place: that a pod is gone is asked, not guessed.
    if to.is_some_and(|(_, because)| because == Event::PodLost)
        && let Some(pod) = look(seen, cx).await?
        && store::owner(&pod) == seen.server.object.metadata.uid.as_deref()
    {
        cx.stores.pods.put(pod);
        return Ok(Some(Instant::now() + SOON));
    }
    let mut change = match to {
        Some((State::Unhealthy | State::Shutdown, _)) => json!({}),
        Some(_) | None => place(seen, cx),
    };
    if let Some((state, _)) = to {
        change["status"]["state"] = json!(state.as_str());
    }
    patch(seen, change, "write the state", cx).await?;
    if let Some((state, because)) = to {
        let (source, kind, note) = words(because);
        say(seen, cx, source, kind, state, note.to_owned());
    }
    Ok(None)
}

/// Gives the ports, and the address where it is known, as a change to the server.
fn place(seen: &Observed, cx: &Context) -> Value {
    let server = &seen.server.object;
    let mut status = server.status.clone().unwrap_or_default();
    // Whoever got this far without ports has a pod with ports, or needs none; a range that is gone since leaves them out.
    let assigned = cx.ports().assign(server, seen.pod.as_deref()).unwrap_or_default();
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
    write::patch(&cx.client, &cx.stores.servers, &*seen.server, Part::Whole, change, what).await
}

const SOURCE: &str = "gameserver-controller";

/// Who says what about an event.
fn words(event: Event) -> (&'static str, Kind, &'static str) {
    match event {
        Event::PodFailed => ("health-controller", Kind::Warning, "Issue with Gameserver pod"),
        Event::PodLost => ("missing-pod-controller", Kind::Warning, "Pod is missing"),
        Event::Moved => ("migration-controller", Kind::Warning, "Node migration occurred"),
        Event::PodSucceeded => ("succeeded-controller", Kind::Normal, "Pod succeeded"),
        Event::PodScheduled => (SOURCE, Kind::Normal, "Address and port populated"),
        Event::ReadyConfirmed => (SOURCE, Kind::Normal, "SDK.Ready() complete"),
        Event::DevAddressKnown => (SOURCE, Kind::Normal, "Real GameServer is in development"),
        Event::PodCreated => (SOURCE, Kind::Normal, "Pod waits for a node"),
        Event::PortsAllocated
        | Event::PodRefused
        | Event::SdkReady
        | Event::SdkAllocate
        | Event::Allocated
        | Event::SdkReserve
        | Event::SdkShutdown
        | Event::SetDeletes
        | Event::SdkUnhealthy => (SOURCE, Kind::Normal, "State changed"),
    }
}

fn say(seen: &Observed, cx: &Context, source: &str, kind: Kind, reason: State, note: String) {
    cx.events.record(&seen.server.object, source, kind, reason.as_str(), note);
}
