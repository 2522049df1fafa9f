//! The engine answers as the real kube-apiserver does.
//!
//! Each sequence of requests in `differential/*.yaml` goes to both, each in a namespace of its own. Codes, `Status`
//! objects and objects are compared after removing what must differ: uids, times, versions and names made up by the
//! server. The format of the files is described in [`script`].

mod compare;
mod script;
mod send;

use std::collections::BTreeMap;

use futures::stream::{self, StreamExt};
use serde_json::Value;

use crate::{ephemeral, real_client};
use script::{Sequence, Step};
use send::{Answer, Side};

/// The sequences that the engine answers differently, on purpose or because it cannot know better, each with the reason.
const KNOWN: &[(&str, &str)] = &[
    (
        "basics: refusals that quote what was sent",
        "the same codes, reasons and fields; the real texts quote structures of its own",
    ),
    (
        "basics: unknown accept types are refused",
        "answers are never protobuf, and the refusal does not offer it",
    ),
    (
        "cluster: a node gets its defaults",
        "a new node is not tainted as not ready: nothing here would take the taint off",
    ),
    ("crds: a custom kind in two versions", "a deprecated version is served without its warning"),
    ("crds: a definition is checked", "the real text quotes structures of its own"),
    (
        "crds: a deleted definition takes its objects with it",
        "the answer shows the definition as it is then; the end is the same",
    ),
    (
        "crds: generation of custom kinds",
        "a subresource that is not served is not found under another text",
    ),
    (
        "crds: lists and discovery of a custom kind",
        "verbs stand in another order, and there is no hash of the stored version",
    ),
    (
        "delete: a finalizer keeps an object until it is removed",
        "the real one names the same fault twice",
    ),
    (
        "lists: bad continue tokens are refused",
        "the same refusal; a control character is quoted in another way",
    ),
    (
        "lists: tables that cannot be had",
        "answers are never protobuf, and a list whose root is nothing is empty there",
    ),
    (
        "patches: a strategic patch of tolerations and volumes",
        "the refusal to change a pod quotes a difference of the real server's own structures",
    ),
    ("pods: a budget is checked", "the real text quotes structures of its own"),
    (
        "pods: most of a pod's spec cannot be changed",
        "the real text quotes a difference of structures of its own",
    ),
    (
        "services: a service's address is fixed",
        "refused by another field: addresses of both families are not planned for",
    ),
    (
        "workloads: a daemon set gets its defaults",
        "the deprecated annotation of its template's generation has no owner",
    ),
    ("workloads: a deployment is checked", "the real text quotes structures of its own"),
    (
        "workloads: a replica set gets its defaults",
        "counts in a status are not compared with each other",
    ),
    (
        "workloads: events are checked",
        "the same codes; the group of events is checked under its own fields' names",
    ),
    ("workloads: events of both groups are one", "times that are null are owned"),
];

/// The sequences whose answers differ or not, depending on the state of the real server, each with the reason.
const KNOWN_AT_TIMES: &[(&str, &str)] = &[(
    "watch: a watch from version 1 is too old",
    "the real server refuses version 1 after its first compaction, some minutes after its start; the engine has just started, and still \
     has all changes",
)];

#[tokio::test(flavor = "multi_thread")]
async fn the_engine_answers_as_the_real_api_server() {
    let Some(real) = real_client().await else { return };
    let engine = ephemeral().await;
    let embedded = engine.client();
    let only = std::env::var("PLIMSOLL_TEST_ONLY").unwrap_or_default();
    let sequences: Vec<Sequence> =
        script::all().into_iter().filter(|s| s.name.contains(&only)).collect();
    let count = sequences.len();
    assert!(count >= 200 || !only.is_empty(), "{count} sequences are too few to judge by");
    let run = |(index, sequence): (usize, Sequence)| {
        let (real, embedded) = (real.clone(), embedded.clone());
        async move {
            let mut tries = 3;
            loop {
                // Each try has a namespace of its own.
                let place = index + tries * 1000;
                let sides =
                    [Side::new(real.clone(), "r", place), Side::new(embedded.clone(), "e", place)];
                let found = play(&sequence, sides).await;
                tries -= 1;
                // On a busy disk the real server gives up on its own store, which is no difference.
                let is_busy = found.iter().any(|difference| difference.contains("etcdserver: "));
                if !is_busy || tries == 0 {
                    return (sequence.name, found);
                }
            }
        }
    };
    let answers = stream::iter(sequences.into_iter().enumerate()).map(run).buffer_unordered(12);
    let answers: Vec<(String, Vec<String>)> = answers.collect().await;
    let wrong = judge(answers);
    assert!(wrong.is_empty(), "{} of {count} sequences differ:\n{}", wrong.len(), wrong.join("\n"));
}

/// Returns the sequences that differ and are not known to, and prints the known ones that no longer differ.
fn judge(answers: Vec<(String, Vec<String>)>) -> Vec<String> {
    let mut wrong = Vec::new();
    for (name, found) in answers {
        let is_in = |list: &[(&str, &str)]| list.iter().any(|(known, _)| *known == name);
        match (is_in(KNOWN), found.is_empty()) {
            (false, false) if is_in(KNOWN_AT_TIMES) => {}
            (false, false) => wrong.push(format!("{name}:\n    {}", found.join("\n    "))),
            (true, true) => eprintln!("{name}: listed as known, but it does not differ"),
            (false, true) | (true, false) => {}
        }
    }
    wrong.sort();
    wrong
}

/// Sends a sequence to both sides, and returns every difference.
async fn play(sequence: &Sequence, [mut real, mut ours]: [Side; 2]) -> Vec<String> {
    let mut found = Vec::new();
    let set_up = [real.make_namespace().await, ours.make_namespace().await];
    if let Some(err) = set_up.into_iter().find_map(Result::err) {
        return vec![format!("no namespace: {err}")];
    }
    for (index, step) in sequence.steps.iter().enumerate() {
        let differences = both(step, &mut real, &mut ours).await;
        found.extend(
            differences
                .into_iter()
                .map(|d| format!("step {} {} {}: {d}", index + 1, step.verb, step.path)),
        );
    }
    for cleanup in &sequence.cleanup {
        real.forget(cleanup).await;
        ours.forget(cleanup).await;
    }
    real.drop_namespace().await;
    ours.drop_namespace().await;
    found
}

/// Sends one step to both sides, repeatedly if the step states that the answer takes time.
async fn both(step: &Step, real: &mut Side, ours: &mut Side) -> Vec<String> {
    let mut tries = if step.eventually && step.reads() { 600 } else { 1 };
    loop {
        let (mut theirs, mut mine) = tokio::join!(real.send(step), ours.send(step));
        // What is saved from an answer may be a name that the server made up, so it is known before comparing.
        for (side, answer) in [(&mut *real, &mut theirs), (&mut *ours, &mut mine)] {
            answer.iter_mut().for_each(|answer| side.remember(step, answer));
        }
        let differences = match (&theirs, &mine) {
            (Ok(theirs), Ok(mine)) => {
                let mut differences = compare::answers(theirs, mine);
                differences.extend(absent(step, [theirs, mine]));
                differences
            }
            (Err(err), _) => vec![format!("the real one did not answer: {err}")],
            (_, Err(err)) => vec![format!("the engine did not answer: {err}")],
        };
        tries -= 1;
        if differences.is_empty() || tries == 0 {
            return differences;
        }
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    }
}

/// Reports the field that a step waits for, while one of the answers does not have it.
fn absent(step: &Step, answers: [&Answer; 2]) -> Option<String> {
    let field = step.present.as_deref()?;
    let is_absent = answers.iter().any(|answer| at(&answer.body, field).is_none());
    is_absent.then(|| format!("{field} is absent"))
}

/// The variables of a side: names in braces, and their values.
type Memory = BTreeMap<String, String>;

/// Takes a value at a dotted path, where numbers are places in a list.
fn at<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').try_fold(value, |value, part| match part.parse::<usize>() {
        Ok(index) if value.is_array() => value.get(index),
        Ok(_) | Err(_) => value.get(part),
    })
}

#[test]
fn sequences_have_distinct_names() {
    let mut names: Vec<String> = script::all().into_iter().map(|s| s.name).collect();
    for (known, _) in KNOWN.iter().chain(KNOWN_AT_TIMES) {
        assert!(names.iter().any(|name| name == known), "{known} is no sequence");
    }
    let count = names.len();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), count);
}
