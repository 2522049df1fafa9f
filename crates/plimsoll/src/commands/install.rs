//! `plimsoll install`: what a cluster needs to run Plimsoll, as manifests.
//!
//! Nothing is contacted. The webhooks' certificate is made on the spot, so every run prints another one; all else is the same.

mod access;
mod certificate;
mod games;
mod webhooks;
mod workload;

use std::io::Write as _;
use std::process::ExitCode;

use serde_json::{Value, json};

use crate::args::Install;
use certificate::Keys;

/// The name of everything that is there once.
const NAME: &str = "plimsoll";
/// The Secret with the webhooks' certificate.
const SECRET: &str = "plimsoll-webhook-tls";
/// The Service that webhooks are called by.
const SERVICE: &str = "plimsoll-webhook";

pub(crate) fn run(args: &Install) -> anyhow::Result<ExitCode> {
    let mut out = std::io::stdout().lock();
    for object in manifests(args)? {
        writeln!(out, "---\n{}", serde_saphyr::to_string(&object)?.trim_end())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Lists everything in the order in which it can be applied.
fn manifests(args: &Install) -> anyhow::Result<Vec<Value>> {
    let namespace = args.namespace.as_str();
    let keys = Keys::make(&format!("{SERVICE}.{namespace}.svc"))?;
    let mut all = vec![json!({
        "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace},
    })];
    for crd in api::KINDS.iter().filter_map(|kind| kind.crd) {
        all.push(serde_json::to_value(crd())?);
    }
    all.extend(access::controllers(namespace));
    all.extend(games::cluster());
    for game in &args.game_namespaces {
        all.extend(games::in_namespace(game));
    }
    all.push(keys.secret(namespace));
    all.extend(workload::all(namespace, &args.image, args.replicas));
    // Last, so that nothing waits for a server that is not there yet.
    all.extend(webhooks::all(namespace, &keys.ca_bundle()));
    Ok(all)
}

/// Makes the metadata of something in a namespace.
fn named(name: &str, namespace: &str) -> Value {
    json!({"name": name, "namespace": namespace, "labels": {"app.kubernetes.io/name": NAME}})
}

/// Makes the metadata of something that the whole cluster has.
fn global(name: &str) -> Value {
    json!({"name": name, "labels": {"app.kubernetes.io/name": NAME}})
}
