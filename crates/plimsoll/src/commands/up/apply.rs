//! Applies objects from files, in file order.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use kube::Client;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::core::GroupVersionKind;
use kube::discovery::{ApiCapabilities, ApiResource, Scope, pinned_kind};
use kube::error::DiscoveryError;
use serde_json::Value;
use tokio::sync::mpsc;

use crate::input::{self, Content};

/// How often discovery is retried for a kind whose CustomResourceDefinition may just have been applied.
const TRIES: u32 = 50;
/// How many objects are read ahead.
const AHEAD: usize = 16;

/// Applies the objects while the files are being read, and calls `applied` with the name of each.
pub(crate) async fn files(
    client: &Client,
    paths: &[PathBuf],
    mut applied: impl FnMut(&str) -> std::io::Result<()>,
) -> anyhow::Result<()> {
    let mut objects = objects(paths.to_vec());
    let mut kinds = HashMap::new();
    while let Some(object) = objects.recv().await {
        let object = object?;
        let name = name_of(&object);
        let done = one(client, object, &mut kinds).await;
        done.with_context(|| format!("could not apply {name}"))?;
        applied(&name)?;
    }
    Ok(())
}

/// Reads the objects on a separate thread, at most `AHEAD` objects ahead of the receiver.
fn objects(paths: Vec<PathBuf>) -> mpsc::Receiver<anyhow::Result<Value>> {
    let (sender, receiver) = mpsc::channel(AHEAD);
    tokio::task::spawn_blocking(move || {
        for path in paths {
            input::read(&path, &mut |entry| {
                let object = match entry.content {
                    Ok(Content::Object(value) | Content::Policy(value)) => Ok(value),
                    Err(problem) => Err(anyhow!("{}: {}{problem}", path.display(), entry.place)),
                };
                match sender.blocking_send(object) {
                    Ok(()) => ControlFlow::Continue(()),
                    Err(_) => ControlFlow::Break(()),
                }
            });
        }
    });
    receiver
}

fn name_of(object: &Value) -> String {
    let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
    format!("{}/{}", text(&object["kind"]).to_lowercase(), text(&object["metadata"]["name"]))
}

/// The resource and capabilities of a kind, from discovery.
type Served = (ApiResource, ApiCapabilities);

async fn one(
    client: &Client,
    object: Value,
    kinds: &mut HashMap<GroupVersionKind, Served>,
) -> anyhow::Result<()> {
    let object: DynamicObject =
        serde_json::from_value(object).context("not a Kubernetes object")?;
    let types = object.types.as_ref().context("apiVersion and kind are required")?;
    let kind = GroupVersionKind::try_from(types)
        .map_err(|_| anyhow!("apiVersion: `{}` is not a group and version", types.api_version))?;
    let name = object.metadata.name.as_deref().context("metadata.name is required")?;
    let (resource, capabilities) = match kinds.get(&kind) {
        Some(known) => known,
        None => {
            let served = served(client, &kind).await?;
            kinds.entry(kind).or_insert(served)
        }
    };
    let api: Api<DynamicObject> = match capabilities.scope {
        Scope::Cluster => Api::all_with(client.clone(), resource),
        Scope::Namespaced => {
            let namespace = object.metadata.namespace.as_deref().unwrap_or("default");
            Api::namespaced_with(client.clone(), namespace, resource)
        }
    };
    let parameters = PatchParams::apply("plimsoll").force();
    api.patch(name, &parameters, &Patch::Apply(&object)).await.map_err(plain)?;
    Ok(())
}

/// Discovers a kind. Retries, because a CustomResourceDefinition that was just applied is served after a short delay.
async fn served(client: &Client, kind: &GroupVersionKind) -> anyhow::Result<Served> {
    let mut tries = 0;
    loop {
        match pinned_kind(client, kind).await {
            Ok(found) => return Ok(found),
            Err(err) if tries == TRIES => {
                let is_missing =
                    matches!(&err, kube::Error::Discovery(DiscoveryError::MissingKind(_)))
                        || matches!(&err, kube::Error::Api(status) if status.code == 404);
                if !is_missing {
                    return Err(plain(err));
                }
                let (at, kind) = (kind.api_version(), &kind.kind);
                return Err(anyhow!(
                    "no kind `{kind}` is served at `{at}`; check apiVersion and kind, or apply its \
                     CustomResourceDefinition first"
                ));
            }
            Err(_) => tries += 1,
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Returns the server's message, without the text that the client adds.
fn plain(err: kube::Error) -> anyhow::Error {
    if let kube::Error::Api(status) = err { anyhow!("{}", status.message) } else { err.into() }
}
