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

use crate::args::{Install, Part, usage};
use crate::settings;
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
    let has_nodes = args.only.contains(&Part::Nodes);
    let reads_secrets = has_nodes || access::has_policies(&args.only);
    if !args.source_secrets.is_empty() && !reads_secrets {
        usage(
            "--source-secret: only scalingpolicy, autoscalepolicy and nodes read it, and --only has none of them",
        );
    }
    if args.cluster_api && !has_nodes {
        usage("--cluster-api: only nodes uses it, and --only does not have it");
    }
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
    all.extend(access::controllers(namespace, &args.only));
    all.extend(access::sources(&args.source_secrets, namespace));
    if args.cluster_api {
        all.extend(access::cluster_api(&args.machine_templates, namespace));
    }
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
    let mut flags = settings::game_server_args(&settings::game_servers(&args.game_servers));
    flags.extend(Part::only_arg(&args.only));
    all.extend(workload::all(namespace, &args.image, args.replicas, &flags));
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

    fn parse(flags: &[&str]) -> Install {
        let flags = ["plimsoll", "install"].into_iter().chain(flags.iter().copied());
        let Command::Install(args) = Args::parse_from(flags).command else {
            panic!("expected `install`")
        };
        args
    }

    fn deployment(flags: &[&str]) -> Value {
        let all = manifests(&parse(flags)).unwrap();
        all.into_iter().find(|object| object["kind"] == "Deployment").unwrap()
    }

    /// Returns what `plimsoll run` makes of the Deployment's arguments.
    fn running(deployment: &Value) -> crate::args::Run {
        let container = &deployment["spec"]["template"]["spec"]["containers"][0];
        let flags = container["args"].as_array().unwrap().iter().map(|arg| arg.as_str().unwrap());
        let all = ["plimsoll"].into_iter().chain(flags);
        let Command::Run(run) = Args::parse_from(all).command else { panic!("expected `run`") };
        run
    }

    fn rules(all: &[Value]) -> Vec<&Value> {
        let is_role = |object: &&Value| object["kind"] == "ClusterRole" || object["kind"] == "Role";
        let rules = all.iter().filter(is_role).flat_map(|role| role["rules"].as_array());
        rules.flatten().collect()
    }

    #[test]
    fn roles_grant_only_the_permissions_that_are_used() {
        let all = manifests(&parse(&["--cluster-secret=to-other"])).unwrap();
        for rule in rules(&all) {
            let has = |list: &str, word: &str| {
                rule[list].as_array().unwrap().iter().any(|value| value == word)
            };
            assert!(!has("verbs", "*") && !has("apiGroups", "*"), "{rule}");
            assert!(!has("verbs", "deletecollection"), "{rule}");
            if has("resources", "*") {
                // Their resources are the names of metrics.
                let groups = [json!(["custom.metrics.k8s.io"]), json!(["external.metrics.k8s.io"])];
                assert!(groups.contains(&rule["apiGroups"]), "{rule}");
                assert_eq!(rule["verbs"], json!(["get", "list"]), "{rule}");
            }
            if has("resources", "secrets") {
                assert_eq!(rule["resourceNames"], json!(["to-other"]), "{rule}");
            }
            if has("resources", "leases") && !has("verbs", "create") {
                let name = cluster::LeaderElection::new("ns", "id").name;
                let names = [json!([name]), json!(["cluster-autoscaler"])];
                assert!(names.contains(&rule["resourceNames"]), "{rule}");
            }
        }
        let cluster_wide = all.iter().filter(|object| object["kind"] == "ClusterRole");
        for role in cluster_wide.map(ToString::to_string) {
            assert!(!role.contains("secrets") && !role.contains("leases"), "{role}");
        }
        let text: String =
            rules(&manifests(&parse(&[])).unwrap()).iter().map(|r| r.to_string()).collect();
        assert!(!text.contains("secrets"), "no Secret without a flag that names it");
    }

    #[test]
    fn secrets_of_sources_can_be_read_in_their_own_namespace_wherever_plimsoll_runs() {
        let flags = ["--namespace=scalers", "--source-secret=prom", "--source-secret=redis"];
        let all = manifests(&parse(&flags)).unwrap();
        let find = |kind: &str| {
            let is_it =
                |o: &&Value| o["kind"] == kind && o["metadata"]["name"] == "plimsoll-sources";
            all.iter().find(is_it).unwrap()
        };
        let (role, binding) = (find("Role"), find("RoleBinding"));
        assert_eq!(role["metadata"]["namespace"], "plimsoll-system");
        assert_eq!(
            role["rules"],
            json!([{
                "apiGroups": [""], "resources": ["secrets"], "verbs": ["get"],
                "resourceNames": ["prom", "redis"],
            }])
        );
        assert_eq!(binding["metadata"]["namespace"], "plimsoll-system");
        assert_eq!(binding["subjects"][0]["namespace"], "scalers");
    }

    #[test]
    fn groups_of_cluster_api_can_be_scaled_only_with_a_flag() {
        const GROUP: &str = "cluster.x-k8s.io";
        const INFRASTRUCTURE: &str = "infrastructure.cluster.x-k8s.io";
        let plain = manifests(&parse(&[])).unwrap();
        assert!(!plain.iter().any(|object| object.to_string().contains(GROUP)));
        let granted = |flags: &[&str]| {
            let all = manifests(&parse(flags)).unwrap();
            let of_group = rules(&all).into_iter().filter(|rule| rule["apiGroups"][0] == GROUP);
            for rule in of_group {
                let verbs = rule["verbs"].to_string();
                assert!(!verbs.contains("delete") && !verbs.contains("patch"), "{rule}");
            }
            assert!(may(&all, "update", GROUP, "machinedeployments/scale"));
            assert!(!may(&all, "update", GROUP, "machinedeployments"));
            may(&all, "list", INFRASTRUCTURE, "awsmachinetemplates")
        };
        assert!(!granted(&["--cluster-api"]));
        assert!(granted(&["--cluster-api", "--machine-template=awsmachinetemplates"]));
    }

    /// Whether some rule grants a verb on a resource.
    fn may(all: &[Value], verb: &str, group: &str, resource: &str) -> bool {
        let has = |rule: &Value, list: &str, word: &str| {
            rule[list].as_array().unwrap().iter().any(|value| value == word)
        };
        rules(all).into_iter().any(|rule| {
            has(rule, "verbs", verb)
                && has(rule, "apiGroups", group)
                && (has(rule, "resources", resource) || has(rule, "resources", "*"))
        })
    }

    #[test]
    fn parts_that_do_not_run_get_no_permissions() {
        let of_nodes = [
            ("create", "", "nodes"),
            ("update", "", "nodes"),
            ("delete", "", "nodes"),
            ("create", "", "pods/eviction"),
            ("list", "policy", "poddisruptionbudgets"),
        ];
        let of_policies = [
            ("patch", "apps", "deployments/scale"),
            ("patch", "agones.dev", "fleets/scale"),
            ("get", "plimsoll.dev", "metricsources"),
            ("list", "metrics.k8s.io", "pods"),
            ("get", "custom.metrics.k8s.io", "pods/queue_length"),
            ("list", "external.metrics.k8s.io", "jobs"),
        ];
        let of_games = [
            ("create", "", "pods"),
            ("create", "agones.dev", "gameservers"),
            ("create", "agones.dev", "gameserversets"),
            ("patch", "autoscaling.agones.dev", "fleetautoscalers/status"),
        ];
        let games = "--only=gameserver,gameserverset,fleet,fleetautoscaler";
        for (flag, groups) in [
            (None, [true, true, true]),
            (Some(games), [true, false, false]),
            (Some("--only=scalingpolicy"), [false, true, false]),
            (Some("--only=autoscalepolicy"), [false, true, false]),
            (Some("--only=nodes"), [false, false, true]),
        ] {
            let flags: Vec<&str> = flag.into_iter().collect();
            let all = manifests(&parse(&flags)).unwrap();
            let wanted = [&of_games[..], &of_policies, &of_nodes].into_iter().zip(groups);
            for (granted, is_granted) in wanted {
                for (verb, group, resource) in granted {
                    let what = format!("{flag:?}: {verb} {resource}.{group}");
                    assert_eq!(may(&all, verb, group, resource), is_granted, "{what}");
                }
            }
            // The allocator runs in any case.
            assert!(may(&all, "update", "agones.dev", "gameservers"));
            let run = running(&deployment(&flags));
            let is_chosen = |part: &Part| flag.is_none_or(|_| parse(&flags).only.contains(part));
            let chosen: Vec<Part> = Part::ALL.into_iter().filter(is_chosen).collect();
            assert!(run.only == chosen, "{flag:?}");
        }
    }

    #[test]
    fn run_accepts_the_flags_of_the_deployment() {
        let deployment = deployment(&[]);
        let container = &deployment["spec"]["template"]["spec"]["containers"][0];
        let run = running(&deployment);
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
        assert_eq!(run.game_servers.port_ranges.len(), 1, "the default range is explicit");
    }
}
