//! Looking at a cluster whose nodes come and go.

use crate::laptop::{Laptop, until};

use super::block;
use super::shell::{Shell, ok};

pub(super) const SAVE: &str = "> cluster.yaml";
pub(super) const UP: &str = "plimsoll up examples/nodes-live.yaml";
pub(super) const WHY: &str = "{.reason}: {.message}";

/// Returns the nodes of the example's fleet.
fn nodes(shell: &Shell, laptop: &Laptop) -> Vec<String> {
    let names = "kubectl get nodes -l pool=battle -o name";
    let printed = ok(laptop.connect(shell.command(names)));
    printed.lines().map(|line| line.trim_start_matches("node/").to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_saved_cluster_is_evaluated_and_a_live_one_says_why_its_nodes_stay() {
    let Some(shell) = Shell::new() else { return };
    let laptop = Laptop::start("nodes-live.yaml");
    until("the fleet has a node", async || !nodes(&shell, &laptop).is_empty()).await;
    let groups = std::fs::read_to_string(shell.path().join("examples/nodes-live.yaml")).unwrap();
    let is_of_nodes = |document: &&str| document.contains("kind: Node");
    let groups: Vec<&str> = groups.split("---\n").filter(is_of_nodes).collect();
    assert_eq!(groups.len(), 3, "{groups:?}");
    shell.write("groups.yaml", &groups.join("---\n"));
    until("the saved nodes are decided about", async || {
        let evaluated = ok(laptop.connect(shell.command(&block("sh", SAVE))));
        assert!(evaluated.starts_with("NodeAutoscaler default\n"), "{evaluated}");
        let mut all = nodes(&shell, &laptop).into_iter();
        all.any(|node| evaluated.contains(&format!("  keep {node}: ")))
    })
    .await;

    until("the last decision says why a node stays", async || {
        let why = ok(laptop.connect(shell.command(&block("sh", WHY))));
        let mut all = nodes(&shell, &laptop).into_iter();
        all.any(|node| {
            let reason = why.lines().find_map(|line| line.strip_prefix(&format!("{node}: ")));
            reason.is_some_and(|reason| {
                reason.split_once(": ").is_some_and(|(code, message)| {
                    code.chars().all(char::is_alphanumeric) && !message.is_empty()
                })
            })
        })
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_example_is_started_and_watched_as_typed() {
    let Some(shell) = Shell::new() else { return };
    let lines = block("sh", UP);
    let lines: Vec<&str> = lines.lines().collect();
    let [up, watch] = lines[..] else { panic!("{lines:?}") };
    // On a port and in a folder of the test.
    let program = env!("CARGO_BIN_EXE_plimsoll");
    let of_test = "--ephemeral --listen 127.0.0.1:0 --data data";
    shell.define("plimsoll", &format!("exec {program} \"$@\" {of_test}"));
    let up = shell.start(up, |command| command);
    until("it is up", async || up.printed().contains("export KUBECONFIG=")).await;
    let watch = shell.start(watch, |mut command| {
        command.env("KUBECONFIG", "data/kubeconfig");
        command
    });
    until("a node of a group is seen", async || {
        watch.printed().lines().any(|line| line.starts_with("small-") && line.contains(" Ready "))
    })
    .await;
}
