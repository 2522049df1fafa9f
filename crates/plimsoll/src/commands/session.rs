//! A connection to an API server, for the commands that show and change objects.

use std::io;
use std::process::ExitCode;

use anyhow::{Context as _, anyhow};
use kube::api::ListParams;
use kube::{Client, Error};
use serde_json::Value;

use crate::args::{Files, Selection, Server, usage};
use crate::resources::{ServedKind, ServedKinds};
use crate::{kubeconfig, manifest};

/// A client, the namespace of the command, and the served kinds.
pub(super) struct Session {
    pub(super) client: Client,
    pub(super) namespace: String,
    kinds: ServedKinds,
}

/// An object, or all objects of a kind that match the selectors.
#[derive(Clone, Debug)]
pub(super) struct Target {
    pub(super) kind: ServedKind,
    /// `None` for all namespaces, and for cluster-scoped kinds.
    pub(super) namespace: Option<String>,
    pub(super) name: Option<String>,
}

impl Target {
    /// Returns the path of the kind's objects.
    pub(super) fn path(&self) -> String {
        self.kind.path(self.namespace.as_deref())
    }
}

/// The kinds and names on a command line.
#[derive(Debug, PartialEq, Eq)]
enum Words<'w> {
    /// Kinds, and the names of objects of each; no name stands for all objects.
    Kinds(Vec<&'w str>, &'w [String]),
    /// Kinds and names in pairs.
    Objects(Vec<(&'w str, &'w str)>),
}

impl Session {
    pub(super) async fn connect(server: &Server) -> anyhow::Result<Self> {
        let (client, namespace) = kubeconfig::client(server.kubeconfig.as_deref()).await?;
        let namespace = server.namespace.clone().unwrap_or(namespace);
        let kinds = ServedKinds::discover(&client).await.map_err(unreachable)?;
        if kinds.is_empty() {
            return Err(anyhow!(
                "the server has no aggregated discovery documents; Kubernetes 1.26 or later is required"
            ));
        }
        Ok(Self { client, namespace, kinds })
    }

    /// Returns the targets of a command line, in its order.
    pub(super) async fn targets(&self, selection: &Selection) -> anyhow::Result<Vec<Target>> {
        if !selection.files.files.is_empty() {
            return self.targets_in_files(&selection.files).await;
        }
        let everywhere = selection.all_namespaces;
        let mut targets = Vec::new();
        match words(&selection.words).unwrap_or_else(|message| usage(&message)) {
            Words::Objects(objects) => {
                if everywhere {
                    usage("an object cannot be selected by name across all namespaces");
                }
                for (kind, name) in objects {
                    targets.push(self.target(self.one(kind)?, everywhere, Some(name)));
                }
            }
            Words::Kinds(kinds, names) => {
                if everywhere && !names.is_empty() {
                    usage("an object cannot be selected by name across all namespaces");
                }
                for kind in kinds {
                    for kind in self.named(kind)? {
                        match names {
                            [] => targets.push(self.target(kind, everywhere, None)),
                            names => targets.extend(
                                names.iter().map(|n| self.target(kind, everywhere, Some(n))),
                            ),
                        }
                    }
                }
            }
        }
        let has_selector = selection.selector.is_some() || selection.field_selector.is_some();
        if has_selector && targets.iter().any(|target| target.name.is_some()) {
            usage("objects can be selected by name or with a selector, not both");
        }
        Ok(targets)
    }

    fn target(&self, kind: &ServedKind, everywhere: bool, name: Option<&str>) -> Target {
        let is_in_namespace = kind.is_namespaced && !everywhere;
        Target {
            kind: kind.clone(),
            namespace: is_in_namespace.then(|| self.namespace.clone()),
            name: name.map(str::to_owned),
        }
    }

    /// Returns the kind of a name, or the kinds of a category.
    fn named(&self, word: &str) -> anyhow::Result<Vec<&ServedKind>> {
        let found = self.kinds.named(word);
        if found.is_empty() {
            return Err(anyhow!("the server doesn't have a resource type \"{word}\""));
        }
        Ok(found)
    }

    fn one(&self, word: &str) -> anyhow::Result<&ServedKind> {
        self.named(word)?.first().copied().context("a kind is required")
    }

    async fn targets_in_files(&self, files: &Files) -> anyhow::Result<Vec<Target>> {
        let mut objects = manifest::objects(files.files.clone(), files.recursive);
        let mut targets = Vec::new();
        while let Some(object) = objects.recv().await {
            let object = object?;
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let (api_version, kind) = (text(&object["apiVersion"]), text(&object["kind"]));
            let name = manifest::object_name(&object);
            let served = self.kinds.of_object(&api_version, &kind).with_context(|| {
                format!("{name}: no kind `{kind}` is served at `{api_version}`")
            })?;
            let metadata = &object["metadata"];
            let namespace = metadata["namespace"].as_str().unwrap_or(&self.namespace).to_owned();
            let name = metadata["name"]
                .as_str()
                .with_context(|| format!("{name}: metadata.name is required"))?;
            targets.push(Target {
                kind: served.clone(),
                namespace: served.is_namespaced.then_some(namespace),
                name: Some(name.to_owned()),
            });
        }
        if targets.is_empty() {
            return Err(anyhow!("the files contain no objects"));
        }
        Ok(targets)
    }
}

/// Returns the selectors of a command line, as the parameters of a list request.
pub(super) fn list_params(selection: &Selection) -> ListParams {
    ListParams {
        label_selector: selection.selector.clone(),
        field_selector: selection.field_selector.clone(),
        ..ListParams::default()
    }
}

/// Splits the words of a command line into kinds and names.
fn words(words: &[String]) -> Result<Words<'_>, String> {
    let [first, names @ ..] = words else { return Err("a kind is required".to_owned()) };
    if !words.iter().any(|word| word.contains('/')) {
        let kinds: Vec<&str> = first.split(',').filter(|kind| !kind.is_empty()).collect();
        return match kinds.is_empty() {
            true => Err("a kind is required".to_owned()),
            false => Ok(Words::Kinds(kinds, names)),
        };
    }
    let object = |word| match str::split_once(word, '/') {
        Some((kind, name)) if !kind.is_empty() && !name.is_empty() && !name.contains('/') => {
            Ok((kind, name))
        }
        _ => Err(format!("expected KIND/NAME, found `{word}`")),
    };
    words.iter().map(|word| object(word)).collect::<Result<_, _>>().map(Words::Objects)
}

/// Adds advice to the error of a server that does not answer.
pub(super) fn unreachable(err: Error) -> anyhow::Error {
    if matches!(err, Error::Api(_)) {
        return err.into();
    }
    let message = "could not reach the API server; is it running (`plimsoll up`)?";
    anyhow::Error::from(err).context(message)
}

/// Prints an error as kubectl does: `Error from server (NotFound): …`, or this program's own.
pub(super) fn report(err: &anyhow::Error, doing: &str) {
    match err.downcast_ref::<Error>() {
        Some(Error::Api(status)) if status.reason.is_empty() => {
            eprintln!("Error from server: {doing}{}", status.message);
        }
        Some(Error::Api(status)) => {
            eprintln!("Error from server ({}): {doing}{}", status.reason, status.message);
        }
        _ => eprintln!("plimsoll: {doing}{}", process::log::chain(&**err)),
    }
}

/// Returns whether the error is that an object does not exist.
pub(super) fn is_not_found(err: &anyhow::Error) -> bool {
    matches!(err.downcast_ref::<Error>(), Some(Error::Api(status)) if status.is_not_found())
}

/// Runs a command to its exit code. A reader that closed the pipe early is not an error.
pub(super) fn run(
    command: impl Future<Output = anyhow::Result<ExitCode>>,
) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let result = runtime.block_on(command);
    // Standard input may still be read on another thread.
    runtime.shutdown_background();
    match result {
        Ok(code) => Ok(code),
        Err(err) if is_closed_pipe(&err) => Ok(ExitCode::SUCCESS),
        Err(err) => {
            report(&err, "");
            Ok(ExitCode::FAILURE)
        }
    }
}

fn is_closed_pipe(err: &anyhow::Error) -> bool {
    err.downcast_ref::<io::Error>().is_some_and(|err| err.kind() == io::ErrorKind::BrokenPipe)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_kinds_with_names_or_pairs() {
        let split = |text: &str| {
            let list: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
            words(&list).map(|found| format!("{found:?}"))
        };
        for (text, found) in [
            ("po", r#"Kinds(["po"], [])"#),
            ("po,svc", r#"Kinds(["po", "svc"], [])"#),
            ("po a b", r#"Kinds(["po"], ["a", "b"])"#),
            ("po/a svc/b", r#"Objects([("po", "a"), ("svc", "b")])"#),
        ] {
            assert_eq!(split(text).as_deref(), Ok(found));
        }
        for text in ["", ",", "po/a b", "po/", "/a", "po/a/b"] {
            assert!(split(text).is_err(), "{text}");
        }
    }
}
