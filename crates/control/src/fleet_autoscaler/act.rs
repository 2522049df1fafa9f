//! Resizes a fleet with a patch that applies only to the spec that the size was decided on.

use api::agones::Fleet;
use cluster::{Error, Key, error::status_code};
use decide::fleet::FleetDecision;
use kube::Resource as _;
use kube::api::{Patch, PatchParams, Request};
use serde_json::json;

use super::Autoscalers;

/// The outcome of a resize.
#[derive(Debug)]
pub(super) enum ResizeOutcome {
    /// There was nothing to do.
    Kept,
    /// The fleet has its new size.
    Resized,
    /// The fleet was changed or deleted in the meantime; a new evaluation follows.
    Overtaken,
    /// The API server refused it, or could not be reached.
    Failed(Error),
}

/// Sets the fleet to the size that was decided.
pub(super) async fn resize(
    decision: &FleetDecision,
    fleet: &Fleet,
    all: &Autoscalers,
) -> ResizeOutcome {
    let Ok(size) = &decision.outcome else { return ResizeOutcome::Kept };
    if size.to == decision.from {
        return ResizeOutcome::Kept;
    }
    match patch(fleet, size.to, all).await {
        Ok(resized) => {
            all.cx.caches.fleets.insert(resized);
            ResizeOutcome::Resized
        }
        Err(err) if matches!(status_code(&err), Some(404 | 409)) => ResizeOutcome::Overtaken,
        Err(err) if is_overtaken(fleet, all) => {
            tracing::debug!(error = %cluster::explain(&err), "the fleet has changed since it was observed; evaluating it again");
            ResizeOutcome::Overtaken
        }
        Err(err) => ResizeOutcome::Failed(Error::api("resize the fleet")(err)),
    }
}

/// Sets the size of the fleet if its spec is still the one that was observed. The status changes all the time and does not matter here,
/// so the patch tests the generation and not the resource version.
async fn patch(fleet: &Fleet, to: i32, all: &Autoscalers) -> Result<Fleet, kube::Error> {
    let key = Key::from_meta(&fleet.metadata);
    let change = json!([
        {"op": "test", "path": "/metadata/uid", "value": fleet.metadata.uid},
        {"op": "test", "path": "/metadata/generation", "value": fleet.metadata.generation},
        {"op": "add", "path": "/spec/replicas", "value": to},
    ]);
    let request = Request::new(Fleet::url_path(&(), Some(&key.namespace)));
    let built = request.patch(&key.name, &PatchParams::default(), &Patch::Merge(change));
    let mut request = built.map_err(kube::Error::BuildRequest)?;
    // It is a JSON patch, which kube knows only with a feature that brings a library along.
    let json_patch = "application/json-patch+json".parse().expect("it is a header's value");
    request.headers_mut().insert("content-type", json_patch);
    all.cx.client.request(request).await
}

/// Returns whether the cache has a newer spec by now.
fn is_overtaken(fleet: &Fleet, all: &Autoscalers) -> bool {
    let cached = all.cx.caches.fleets.get(&Key::from_meta(&fleet.metadata));
    cached.is_none_or(|cached| {
        cached.metadata.uid != fleet.metadata.uid
            || cached.metadata.generation != fleet.metadata.generation
    })
}
