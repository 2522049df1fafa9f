//! How is everything taken away again? In the order in which nothing waits for what is gone already.
//!
//! Game servers are held until their pods are gone, by the controllers. So they go first, while the controllers are there; and what is
//! left, because the controllers were not, is let go by hand.

use std::fmt::Write as _;

use serde_json::Value;

/// What users made, in the order in which it goes: nothing is made again behind it.
const OBJECTS: [&str; 4] = [
    "fleetautoscalers.autoscaling.agones.dev",
    "fleets.agones.dev",
    "gameserversets.agones.dev",
    "gameservers.agones.dev",
];

const HEADER: &str = "\
#!/bin/sh
# Takes Plimsoll off a cluster, with all fleets, game servers and other objects of its kinds:
#   plimsoll install --uninstall | sh
# Give it the flags that it was installed with. It may be run again, also after a `kubectl delete -f` that hangs.
kubectl=${KUBECTL:-kubectl}
patience=${PATIENCE:-120s}
";

const LET_GO: &str = "\
$kubectl get gameservers.agones.dev --all-namespaces --ignore-not-found \\
  -o 'jsonpath={range .items[*]}{.metadata.namespace} {.metadata.name}{\"\\n\"}{end}' |
  while read -r namespace name; do
    $kubectl patch gameservers.agones.dev \"$name\" --namespace \"$namespace\" --type merge \\
      --patch '{\"metadata\":{\"finalizers\":null}}'
  done
";

/// Writes a script that takes away what `manifests` made.
pub(super) fn script(manifests: &[Value]) -> String {
    let mut out = HEADER.to_owned();
    // Writing to a String does not fail.
    let mut step = |title: &str, lines: &str| {
        let _ = write!(out, "\n# {title}\n{lines}");
    };
    let objects: String = OBJECTS
        .iter()
        .map(|kind| format!("$kubectl delete {kind} --all --all-namespaces --timeout $patience\n"))
        .collect();
    step("1. Fleets and game servers, while the controllers are there to end them.", &objects);
    step(
        "2. Game servers that nobody let go, because the controllers were gone before them.",
        LET_GO,
    );
    let is_asked = |o: &&Value| {
        o["kind"] == "APIService" || o["kind"].as_str().is_some_and(|k| k.contains("Webhook"))
    };
    step("3. What the API server asks us about.", &deleted(manifests.iter().filter(is_asked)));
    let is_kind = |o: &&Value| o["kind"] == "CustomResourceDefinition";
    let is_ours = |o: &&Value| o["kind"] == "Namespace";
    let rest = manifests.iter().rev().filter(|o| !is_asked(o) && !is_kind(o) && !is_ours(o));
    step("4. The controllers, their rights and certificates.", &deleted(rest));
    step(
        "5. The kinds, with every object of them that is left.",
        &deleted(manifests.iter().filter(is_kind)),
    );
    step("6. The namespace.", &deleted(manifests.iter().filter(is_ours)));
    out
}

fn deleted<'a>(objects: impl Iterator<Item = &'a Value>) -> String {
    let line = |object: &Value| {
        let group = object["apiVersion"].as_str().and_then(|v| v.split_once('/'));
        let kind = object["kind"].as_str().unwrap_or_default().to_lowercase();
        let kind = group.map_or_else(|| kind.clone(), |(group, v)| format!("{kind}.{v}.{group}"));
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let namespace = object["metadata"]["namespace"].as_str();
        let namespace = namespace.map(|n| format!(" --namespace {n}")).unwrap_or_default();
        format!("$kubectl delete {kind} {name}{namespace} --ignore-not-found --timeout $patience\n")
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
    fn everything_that_is_installed_is_taken_away_and_game_servers_go_first() {
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
        assert_eq!(script.matches("delete namespace").count(), 1, "those of games stay");
    }
}
