//! The uninstall script: deletes everything in an order in which no deletion blocks another.
//!
//! Game servers have a finalizer that the controllers remove once the pod is gone. So game servers are deleted first, while the controllers
//! run. If the controllers were already gone, the script removes the finalizers.

use std::fmt::Write as _;

use serde_json::Value;

/// User objects in order of deletion, owners first, so that nothing is created again.
const OBJECTS: [&str; 4] = [
    "fleetautoscalers.autoscaling.agones.dev",
    "fleets.agones.dev",
    "gameserversets.agones.dev",
    "gameservers.agones.dev",
];

const HEADER: &str = "\
#!/bin/sh
# Removes Plimsoll from a cluster, with all fleets, game servers and other objects of its kinds:
#   plimsoll install --uninstall | sh
# Use the same flags as for the installation. You can run it again, also after a `kubectl delete -f` that hangs.
kubectl=${KUBECTL:-kubectl}
timeout=${PATIENCE:-120s}
";

const REMOVE_FINALIZERS: &str = "\
$kubectl get gameservers.agones.dev --all-namespaces --ignore-not-found \\
  -o 'jsonpath={range .items[*]}{.metadata.namespace} {.metadata.name}{\"\\n\"}{end}' |
  while read -r namespace name; do
    $kubectl patch gameservers.agones.dev \"$name\" --namespace \"$namespace\" --type merge \\
      --patch '{\"metadata\":{\"finalizers\":null}}'
  done
";

/// Returns a script that deletes the objects in `manifests`.
pub(super) fn script(manifests: &[Value]) -> String {
    let mut out = HEADER.to_owned();
    // Writing to a String does not fail.
    let mut step = |title: &str, lines: &str| {
        let _ = write!(out, "\n# {title}\n{lines}");
    };
    let objects: String = OBJECTS
        .iter()
        .map(|kind| format!("$kubectl delete {kind} --all --all-namespaces --timeout $timeout\n"))
        .collect();
    step("1. Fleets and game servers, while the controllers are running.", &objects);
    step(
        "2. Finalizers of remaining game servers, in case the controllers are not running.",
        REMOVE_FINALIZERS,
    );
    let is_called = |o: &&Value| {
        o["kind"] == "APIService" || o["kind"].as_str().is_some_and(|k| k.contains("Webhook"))
    };
    step("3. The APIService and webhooks.", &delete(manifests.iter().filter(is_called)));
    let is_crd = |o: &&Value| o["kind"] == "CustomResourceDefinition";
    let is_namespace = |o: &&Value| o["kind"] == "Namespace";
    let rest = manifests.iter().rev().filter(|o| !is_called(o) && !is_crd(o) && !is_namespace(o));
    step("4. The controllers, their roles and certificates.", &delete(rest));
    step(
        "5. The CRDs, with all remaining objects of their kinds.",
        &delete(manifests.iter().filter(is_crd)),
    );
    step("6. The namespace.", &delete(manifests.iter().filter(is_namespace)));
    out
}

/// Returns one `kubectl delete` line per object.
fn delete<'a>(objects: impl Iterator<Item = &'a Value>) -> String {
    let line = |object: &Value| {
        let group = object["apiVersion"].as_str().and_then(|v| v.split_once('/'));
        let kind = object["kind"].as_str().unwrap_or_default().to_lowercase();
        let kind = group.map_or_else(|| kind.clone(), |(group, v)| format!("{kind}.{v}.{group}"));
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let namespace = object["metadata"]["namespace"].as_str();
        let namespace = namespace.map(|n| format!(" --namespace {n}")).unwrap_or_default();
        format!("$kubectl delete {kind} {name}{namespace} --ignore-not-found --timeout $timeout\n")
    };
    objects.map(line).collect()
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::args::{Args, Command};
    use crate::commands::install::manifests;

    #[test]
    fn every_installed_object_is_deleted_and_game_servers_first() {
        let flags = ["plimsoll", "install", "--game-namespace=games", "--cluster-secret=s"];
        let Command::Install(args) = Args::parse_from(flags).command else {
            panic!("expected `install`");
        };
        let all = manifests(&args).unwrap();
        let script = script(&all);
        let at = |part: &str| script.find(part).unwrap_or_else(|| panic!("{part} in {script}"));
        for object in &all {
            at(&format!(" {} ", object["metadata"]["name"].as_str().unwrap()));
        }
        let order = [
            "delete fleetautoscalers.autoscaling.agones.dev --all",
            "delete fleets.agones.dev --all",
            "delete gameservers.agones.dev --all",
            "finalizers",
            "delete mutatingwebhookconfiguration",
            "delete deployment",
            "delete customresourcedefinition",
            "delete namespace plimsoll-system",
        ];
        assert!(order.map(at).is_sorted(), "{script}");
        assert_eq!(script.matches("delete namespace").count(), 1, "game-server namespaces stay");
    }
}
