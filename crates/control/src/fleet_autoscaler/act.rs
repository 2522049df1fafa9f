//! How is a fleet given its size? By a patch that holds only for the spec it was decided on.

use api::agones::Fleet;
use cluster::{Error, Key, error::status_code};
use decide::fleet::Decision;
use kube::Resource as _;
use kube::api::{Patch, PatchParams, Request};
use serde_json::json;

use super::Autoscalers;

/// What became of a decision.
#[derive(Debug)]
pub(super) enum Outcome {
    /// There was nothing to do.
    Kept,
    /// The fleet has its new size.
    Resized,
    /// Someone else changed the fleet meanwhile, or it is gone: a new look follows.
    Overtaken,
    /// The API did not take it.
    Failed(Error),
}

/// Moves the fleet to the size that was decided.
pub(super) async fn resize(decision: &Decision, fleet: &Fleet, all: &Autoscalers) -> Outcome {
    let Ok(size) = &decision.outcome else { return Outcome::Kept };
    if size.to == decision.from {
        return Outcome::Kept;
    }
    match patch(fleet, size.to, all).await {
        Ok(resized) => {
            all.cx.caches.fleets.insert(resized);
            Outcome::Resized
        }
        Err(err) if matches!(status_code(&err), Some(404 | 409)) => Outcome::Overtaken,
        Err(err) if is_overtaken(fleet, all) => {
            tracing::debug!(error = %cluster::explain(&err), "the fleet was newer");
            Outcome::Overtaken
        }
        Err(err) => Outcome::Failed(Error::api("resize the fleet")(err)),
    }
}

/// Sets the size of the fleet whose spec is still the one that was seen. Its status changes all the time, and changes nothing
/// about that, so the generation is named and not the version of the whole.
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

/// Whether a newer spec has arrived since.
fn is_overtaken(fleet: &Fleet, all: &Autoscalers) -> bool {
    let there = all.cx.caches.fleets.get(&Key::from_meta(&fleet.metadata));
    there.is_none_or(|there| {
        there.metadata.uid != fleet.metadata.uid
            || there.metadata.generation != fleet.metadata.generation
    })
}
