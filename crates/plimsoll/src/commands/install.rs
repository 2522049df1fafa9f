//! `plimsoll install`: prints the manifests to install Plimsoll on a cluster.
//!
//! It makes no network calls. Every run generates new certificates; the rest of the output is deterministic.

mod access;
mod allocations;
mod certificate;
mod games;
mod uninstall;
mod webhooks;
mod workload;

use std::io::Write as _;
use std::process::ExitCode;

use serde_json::{Value, json};

use crate::args::Install;
use certificate::Authority;

/// The name of all objects that exist once, including the Service that the API server calls.
const NAME: &str = "plimsoll";
/// The Service that matchmakers call.
const ALLOCATOR: &str = "plimsoll-allocator";
/// The Secrets: the server certificate for the API server, the one for matchmakers, the CAs of matchmakers, and a matchmaker's client certificate.
const TLS: &str = "plimsoll-tls";
const ALLOCATOR_TLS: &str = "plimsoll-allocator-tls";
const CALLERS: &str = "plimsoll-allocator-callers";
const CLIENT: &str = "plimsoll-allocator-client";

pub(crate) fn run(args: &Install) -> anyhow::Result<ExitCode> {
    let mut out = std::io::stdout().lock();
    if args.uninstall {
        write!(out, "{}", uninstall::script(&manifests(args)?))?;
        return Ok(ExitCode::SUCCESS);
    }
    for object in manifests(args)? {
        writeln!(out, "---\n{}", serde_saphyr::to_string(&object)?.trim_end())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns all manifests in the order in which they can be applied.
fn manifests(args: &Install) -> anyhow::Result<Vec<Value>> {
    let namespace = args.namespace.as_str();
    let authority = Authority::make()?;
    let mut all = vec![json!({
        "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace},
    })];
    for crd in api::KINDS.iter().filter_map(|kind| kind.crd) {
        all.push(serde_json::to_value(crd())?);
    }
    all.extend(access::controllers(namespace));
    all.push(access::aggregated(namespace));
    all.extend(games::cluster());
    for game in &args.game_namespaces {
        all.extend(games::in_namespace(game));
        all.extend(access::other_clusters(&args.cluster_secrets, game, namespace));
        all.push(authority.caller(game)?.secret(CLIENT, game));
    }
    all.push(authority.server(NAME, namespace)?.secret(TLS, namespace));
    all.push(authority.server(ALLOCATOR, namespace)?.secret(ALLOCATOR_TLS, namespace));
    all.push(authority.secret(CALLERS, namespace));
    all.extend(workload::all(namespace, &args.image, args.replicas));
    // Last, so that the API server does not call a server that does not exist yet.
    all.push(allocations::group(namespace, &authority.bundle()));
    all.extend(webhooks::all(namespace, &authority.bundle()));
    Ok(all)
}

/// Returns the metadata of a namespaced object.
fn named(name: &str, namespace: &str) -> Value {
    json!({"name": name, "namespace": namespace, "labels": {"app.kubernetes.io/name": NAME}})
}

/// Returns the metadata of a cluster-scoped object.
fn global(name: &str) -> Value {
    json!({"name": name, "labels": {"app.kubernetes.io/name": NAME}})
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::args::{Args, Command};

    fn deployment() -> Value {
        let Command::Install(args) = Args::parse_from(["plimsoll", "install"]).command else {
            panic!("expected `install`");
        };
        let all = manifests(&args).unwrap();
        all.into_iter().find(|object| object["kind"] == "Deployment").unwrap()
    }

    fn rules(all: &[Value]) -> Vec<&Value> {
        let is_role = |object: &&Value| object["kind"] == "ClusterRole" || object["kind"] == "Role";
        let rules = all.iter().filter(is_role).flat_map(|role| role["rules"].as_array());
        rules.flatten().collect()
    }

    #[test]
    fn roles_grant_only_the_permissions_that_are_used() {
        let flags = ["plimsoll", "install", "--cluster-secret=to-other"];
        let Command::Install(args) = Args::parse_from(flags).command else {
            panic!("expected `install`");
        };
        let all = manifests(&args).unwrap();
        for rule in rules(&all) {
            let has = |list: &str, word: &str| {
                rule[list].as_array().unwrap().iter().any(|value| value == word)
            };
            assert!(!has("verbs", "*") && !has("resources", "*"), "{rule}");
            assert!(!has("verbs", "deletecollection"), "{rule}");
            if has("resources", "secrets") {
                assert_eq!(rule["resourceNames"], json!(["to-other"]), "{rule}");
            }
            if has("resources", "leases") && !has("verbs", "create") {
                let name = cluster::LeaderElection::new("ns", "id").name;
                assert_eq!(rule["resourceNames"], json!([name]), "{rule}");
            }
        }
        let cluster_wide = all.iter().filter(|object| object["kind"] == "ClusterRole");
        for role in cluster_wide.map(ToString::to_string) {
            assert!(!role.contains("secrets") && !role.contains("leases"), "{role}");
        }
        let Command::Install(args) = Args::parse_from(["plimsoll", "install"]).command else {
            panic!("expected `install`");
        };
        let text: String =
            rules(&manifests(&args).unwrap()).iter().map(|r| r.to_string()).collect();
        assert!(!text.contains("secrets"), "no Secret without --cluster-secret");
    }

    #[test]
    fn run_accepts_the_flags_of_the_deployment() {
        let container = &deployment()["spec"]["template"]["spec"]["containers"][0];
        let flags = container["args"].as_array().unwrap().iter().map(|arg| arg.as_str().unwrap());
        let Command::Run(run) = Args::parse_from(["plimsoll"].into_iter().chain(flags)).command
        else {
            panic!("expected `run`");
        };
        let addresses = [run.webhooks, run.aggregated_api, run.allocator.allocator, run.metrics];
        let ports = container["ports"].as_array().unwrap();
        for (address, port) in addresses.into_iter().zip(ports) {
            assert_eq!(address.unwrap().port(), port["containerPort"]);
        }
        let folders = [
            run.certificates,
            run.allocator.allocator_certificates,
            run.allocator.allocator_callers,
        ];
        let mounts = container["volumeMounts"].as_array().unwrap();
        for folder in folders {
            let folder = folder.unwrap();
            assert!(mounts.iter().any(|mount| mount["mountPath"] == *folder.to_str().unwrap()));
        }
        assert_eq!(run.sidecar_image.as_deref(), container["image"].as_str());
    }
}
