//! Reads the objects of files and directories, and applies them in file order.

use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use kube::Client;
use kube::api::{Api, DynamicObject, Patch, PatchParams, TypeMeta};
use serde_json::Value;
use tokio::sync::mpsc;

use crate::input::{self, Content};
use crate::resources::{ServedKind, ServedKinds};

/// How often discovery is retried for a kind whose CustomResourceDefinition was just applied.
const TRIES: u32 = 50;
/// How many objects are read ahead.
const AHEAD: usize = 16;
/// The extensions of the files that are read from a directory.
const EXTENSIONS: [&str; 3] = ["json", "yaml", "yml"];
/// The maximum depth of directories that are read recursively.
const MAX_DEPTH: usize = 32;

/// Reads the objects on a separate thread, at most `AHEAD` objects ahead of the receiver.
pub(crate) fn objects(
    paths: Vec<PathBuf>,
    recursive: bool,
) -> mpsc::Receiver<anyhow::Result<Value>> {
    let (sender, receiver) = mpsc::channel(AHEAD);
    tokio::task::spawn_blocking(move || {
        for path in paths {
            let files = match expand(&path, recursive) {
                Ok(files) => files,
                Err(err) => {
                    let unreadable = anyhow!("{}: could not be read: {err}", path.display());
                    if sender.blocking_send(Err(unreadable)).is_err() {
                        return;
                    }
                    continue;
                }
            };
            files.iter().for_each(|file| read(file, &sender));
        }
    });
    receiver
}

fn read(path: &Path, sender: &mpsc::Sender<anyhow::Result<Value>>) {
    input::read(path, &mut |entry| {
        let object = match entry.content {
            Ok(Content::Object(value) | Content::Policy(value)) => Ok(value),
            Err(problem) => Err(anyhow!("{}: {}{problem}", path.display(), entry.position)),
        };
        match sender.blocking_send(object) {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }
    });
}

/// Returns the files of a directory in the order of their names, or the path itself.
fn expand(path: &Path, recursive: bool) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    if path.is_dir() {
        expand_directory(path, if recursive { MAX_DEPTH } else { 0 }, &mut files)?;
    } else {
        files.push(path.to_owned());
    }
    Ok(files)
}

fn expand_directory(path: &Path, depth: usize, files: &mut Vec<PathBuf>) -> io::Result<()> {
    let entries = std::fs::read_dir(path)?.map(|entry| entry.map(|entry| entry.path()));
    let mut entries = entries.collect::<io::Result<Vec<_>>>()?;
    entries.sort();
    for entry in entries {
        let extension = entry.extension().and_then(|extension| extension.to_str());
        if entry.is_dir() && depth > 0 {
            expand_directory(&entry, depth - 1, files)?;
        } else if !entry.is_dir() && extension.is_some_and(|e| EXTENSIONS.contains(&e)) {
            files.push(entry);
        }
    }
    Ok(())
}

/// Returns kind and name of an object, such as `fleet/arena`.
pub(crate) fn object_name(object: &Value) -> String {
    let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
    format!("{}/{}", text(&object["kind"]).to_lowercase(), text(&object["metadata"]["name"]))
}

/// The effect of applying an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    Created,
    Configured,
    Unchanged,
}

impl Effect {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Configured => "configured",
            Self::Unchanged => "unchanged",
        }
    }
}

/// An object with kind and name.
struct Manifest {
    object: DynamicObject,
    types: TypeMeta,
    name: String,
}

impl Manifest {
    fn read(object: Value) -> anyhow::Result<Self> {
        let object: DynamicObject =
            serde_json::from_value(object).context("not a Kubernetes object")?;
        let types = object.types.clone().context("apiVersion and kind are required")?;
        let name = object.metadata.name.clone().context("metadata.name is required")?;
        Ok(Self { object, types, name })
    }
}

/// Applies objects one after the other.
pub(crate) struct Applier {
    client: Client,
    kinds: ServedKinds,
    /// The namespace of objects that name none.
    namespace: String,
    /// Whether a CustomResourceDefinition was applied, whose kind may not be served yet.
    has_new_kinds: bool,
}

impl Applier {
    pub(crate) async fn new(client: Client, namespace: &str) -> Result<Self, kube::Error> {
        let kinds = ServedKinds::discover(&client).await?;
        Ok(Self { client, kinds, namespace: namespace.to_owned(), has_new_kinds: false })
    }

    /// Applies an object.
    pub(crate) async fn apply(&mut self, object: Value) -> anyhow::Result<()> {
        let object = Manifest::read(object)?;
        let (api, _) = self.api(&object).await?;
        self.send(&api, &object).await?;
        Ok(())
    }

    /// Applies an object. Returns its full name, such as `fleet.agones.dev/arena`, and the effect.
    pub(crate) async fn apply_and_compare(
        &mut self,
        object: Value,
    ) -> anyhow::Result<(String, Effect)> {
        let object = Manifest::read(object)?;
        let (api, kind) = self.api(&object).await?;
        let before = api.get_metadata_opt(&object.name).await?;
        let before = before.map(|object| object.metadata.resource_version);
        let after = self.send(&api, &object).await?;
        let effect = match before {
            None => Effect::Created,
            Some(before) if before == after.metadata.resource_version => Effect::Unchanged,
            Some(_) => Effect::Configured,
        };
        Ok((format!("{}/{}", kind.qualified_name(), object.name), effect))
    }

    async fn send(
        &mut self,
        api: &Api<DynamicObject>,
        manifest: &Manifest,
    ) -> anyhow::Result<DynamicObject> {
        let parameters = PatchParams::apply("plimsoll").force();
        let applied =
            api.patch(&manifest.name, &parameters, &Patch::Apply(&manifest.object)).await?;
        self.has_new_kinds |= manifest.types.kind == "CustomResourceDefinition";
        Ok(applied)
    }

    /// Returns the kind of an object, and its API in the object's namespace.
    async fn api(
        &mut self,
        manifest: &Manifest,
    ) -> anyhow::Result<(Api<DynamicObject>, ServedKind)> {
        let kind = self.served(&manifest.types.api_version, &manifest.types.kind).await?;
        let namespace = manifest.object.metadata.namespace.as_deref().unwrap_or(&self.namespace);
        let api = if kind.is_namespaced {
            Api::namespaced_with(self.client.clone(), namespace, &kind.resource)
        } else {
            Api::all_with(self.client.clone(), &kind.resource)
        };
        Ok((api, kind))
    }

    /// Returns a kind. Retries if a CustomResourceDefinition was just applied, since it is served after a short delay.
    async fn served(&mut self, api_version: &str, kind: &str) -> anyhow::Result<ServedKind> {
        let tries = if self.has_new_kinds { TRIES } else { 0 };
        for number in 0..=tries {
            if let Some(found) = self.kinds.of_object(api_version, kind) {
                return Ok(found.clone());
            }
            if number < tries {
                tokio::time::sleep(Duration::from_millis(100)).await;
                self.kinds = ServedKinds::discover(&self.client).await?;
            }
        }
        Err(anyhow!(
            "no kind `{kind}` is served at `{api_version}`; check apiVersion and kind, or apply its \
             CustomResourceDefinition first"
        ))
    }
}

/// Removes the text that the client adds to a message of the server.
pub(crate) fn plain(err: anyhow::Error) -> anyhow::Error {
    match err.downcast_ref::<kube::Error>() {
        Some(kube::Error::Api(status)) => anyhow!("{}", status.message),
        _ => err,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_stands_for_its_manifests_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        std::fs::create_dir(path("more")).unwrap();
        for name in ["b.yaml", "a.json", "notes.txt", "c.yml", "more/d.yaml"] {
            std::fs::write(path(name), "").unwrap();
        }
        let flat = ["a.json", "b.yaml", "c.yml"].map(path);
        assert_eq!(expand(folder.path(), false).unwrap(), flat);
        let deep = ["a.json", "b.yaml", "c.yml", "more/d.yaml"].map(path);
        assert_eq!(expand(folder.path(), true).unwrap(), deep);
        assert_eq!(expand(&path("b.yaml"), false).unwrap(), [path("b.yaml")]);
    }
}
