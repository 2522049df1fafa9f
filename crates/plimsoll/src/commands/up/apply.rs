//! Applies objects from files, in the order they are written.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use kube::Client;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::core::GroupVersionKind;
use kube::discovery::{ApiCapabilities, ApiResource, Scope, pinned_kind};
use serde_json::Value;

use crate::commands::evaluate::load;

/// How long a kind may take to be served after its definition was applied.
const TRIES: u32 = 50;

/// Applies every object of the files, and names each.
pub(crate) async fn files(client: &Client, paths: &[PathBuf]) -> anyhow::Result<Vec<String>> {
    let mut applied = Vec::new();
    for path in paths {
        let documents =
            load::file(path).map_err(|err| anyhow::anyhow!("{}: {err}", path.display()))?;
        let documents =
            documents.into_iter().flat_map(|document| match document["items"].as_array() {
                Some(items) if document["kind"].as_str().is_some_and(|k| k.ends_with("List")) => {
                    items.clone()
                }
                _ => vec![document],
            });
        for document in documents {
            let object: DynamicObject = serde_json::from_value(document.clone())
                .with_context(|| format!("{}: not a Kubernetes object", path.display()))?;
            let name = name_of(&document);
            one(client, object).await.with_context(|| format!("could not apply {name}"))?;
            applied.push(name);
        }
    }
    Ok(applied)
}

fn name_of(object: &Value) -> String {
    let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
    format!("{}/{}", text(&object["kind"]).to_lowercase(), text(&object["metadata"]["name"]))
}

async fn one(client: &Client, object: DynamicObject) -> anyhow::Result<()> {
    let types = object.types.clone().context("it has no apiVersion and kind")?;
    let kind = GroupVersionKind::try_from(&types)?;
    let (resource, capabilities) = served(client, &kind).await?;
    let api: Api<DynamicObject> = match capabilities.scope {
        Scope::Cluster => Api::all_with(client.clone(), &resource),
        Scope::Namespaced => {
            let namespace = object.metadata.namespace.as_deref().unwrap_or("default");
            Api::namespaced_with(client.clone(), namespace, &resource)
        }
    };
    let name = object.metadata.name.clone().context("it has no name")?;
    api.patch(&name, &PatchParams::apply("plimsoll").force(), &Patch::Apply(&object)).await?;
    Ok(())
}

/// Finds out how a kind is served; a definition that was just applied may take a moment.
async fn served(
    client: &Client,
    kind: &GroupVersionKind,
) -> anyhow::Result<(ApiResource, ApiCapabilities)> {
    let mut tries = 0;
    loop {
        match pinned_kind(client, kind).await {
            Ok(found) => return Ok(found),
            Err(err) if tries == TRIES => return Err(err.into()),
            Err(_) => tries += 1,
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
