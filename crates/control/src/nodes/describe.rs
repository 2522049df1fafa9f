//! A decision about nodes as `plimsoll evaluate` prints it and as the journal keeps it.

use std::fmt;

use decide::Reason;
use decide::nodes::{
    Evaluation, Removal, Resize, ScaleDown, ScaleUp, UnremovableReason, Unschedulable,
};
use serde_json::{Value, json};

use crate::description::{Description, ObjectName};

/// Describes what is added and removed, and why the rest stays as it is.
pub fn describe(
    subject: &ObjectName,
    added: &ScaleUp,
    removed: &ScaleDown,
    evaluation: &Evaluation<'_>,
) -> Description {
    let decision = additions(Description::about(subject), added, evaluation);
    let decision = removals(decision, removed, evaluation);
    if evaluation.is_healthy {
        return decision.because::<Halt>(&[]);
    }
    decision.with("halted", Halt.code()).because(&[Halt])
}

/// Why nothing is planned.
struct Halt;

impl Reason for Halt {
    fn code(&self) -> &'static str {
        "ClusterUnhealthy"
    }
}

impl fmt::Display for Halt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("too many nodes are not ready; scaling is paused")
    }
}

fn additions(decision: Description, plan: &ScaleUp, evaluation: &Evaluation<'_>) -> Description {
    let grown: Vec<Value> = plan.resizes.iter().map(|r| resize(r, evaluation)).collect();
    let unschedulable: Vec<Value> =
        plan.unschedulable.iter().map(|u| without_place(u, evaluation)).collect();
    let mut decision = decision.with("scaleUp", grown).with("unschedulable", unschedulable);
    for resize in &plan.resizes {
        let group = &evaluation.cluster.groups[resize.group].name;
        let pods: usize = resize.nodes.iter().map(Vec::len).sum();
        let pods = if pods == 1 { "1 pod".to_owned() } else { format!("{pods} pods") };
        decision =
            decision.line(format!("grow {group} from {} to {} for {pods}", resize.from, resize.to));
    }
    for waiting in &plan.unschedulable {
        let pod = evaluation.cluster.pods[waiting.pod].full_name();
        let why = waiting.why.iter().map(|why| {
            let group = &evaluation.cluster.groups[why.group].name;
            format!("{group}: {}: {}", why.refusal.code(), why.refusal)
        });
        let why: Vec<String> = why.collect();
        let why = if why.is_empty() { "no groups".to_owned() } else { why.join("; ") };
        decision = decision.line(format!("no node for {pod}: {why}"));
    }
    decision
}

fn resize(resize: &Resize, evaluation: &Evaluation<'_>) -> Value {
    let pods = resize.nodes.iter().flatten();
    let pods: Vec<String> = pods.map(|pod| evaluation.cluster.pods[*pod].full_name()).collect();
    json!({
        "group": evaluation.cluster.groups[resize.group].name,
        "from": resize.from,
        "to": resize.to,
        "pods": pods,
    })
}

fn without_place(waiting: &Unschedulable, evaluation: &Evaluation<'_>) -> Value {
    let why = waiting.why.iter().map(|why| {
        json!({
            "group": evaluation.cluster.groups[why.group].name,
            "reason": why.refusal.code(),
            "message": why.refusal.to_string(),
        })
    });
    json!({
        "pod": evaluation.cluster.pods[waiting.pod].full_name(),
        "why": why.collect::<Vec<_>>(),
    })
}

fn removals(decision: Description, plan: &ScaleDown, evaluation: &Evaluation<'_>) -> Description {
    let unneeded: Vec<Value> = plan.unneeded.iter().map(|(node, _)| json!(node)).collect();
    let delete: Vec<Value> = plan.delete.iter().map(|r| removal(r, evaluation)).collect();
    let kept: Vec<Value> = plan.unremovable.iter().map(|(node, keep)| kept(node, keep)).collect();
    let mut decision =
        decision.with("unneeded", unneeded).with("delete", delete).with("unremovable", kept);
    for removal in &plan.delete {
        let node = &removal.node;
        decision = match removal.moves.len() {
            0 => decision.line(format!("remove {node}: it is empty")),
            1 => decision.line(format!("remove {node}: its pod fits on another node")),
            n => decision.line(format!("remove {node}: its {n} pods fit on other nodes")),
        };
        decision = match removal.replaced.len() {
            0 => decision,
            1 => decision.line(format!("move the idle game server of {node} first")),
            n => decision.line(format!("move the {n} idle game servers of {node} first")),
        };
    }
    for (node, keep) in &plan.unremovable {
        let code = match keep.blocking() {
            Some(blocking) => format!("{} ({})", keep.code(), blocking.code()),
            None => keep.code().to_owned(),
        };
        decision = decision.line(format!("keep {node}: {code}: {keep}"));
    }
    decision
}

fn removal(removal: &Removal, evaluation: &Evaluation<'_>) -> Value {
    let pod = |pod: usize| evaluation.cluster.pods[pod].full_name();
    let moves = removal.moves.iter();
    let moves = moves.map(|(p, to)| json!({"pod": pod(*p), "to": evaluation.snapshot.name(*to)}));
    let mut out = json!({
        "node": removal.node,
        "drain": removal.is_drain(),
        "moves": moves.collect::<Vec<_>>(),
    });
    if !removal.replaced.is_empty() {
        let replaced = removal.replaced.iter().map(|one| pod(*one));
        out["replaced"] = json!(replaced.collect::<Vec<_>>());
    }
    out
}

fn kept(node: &str, keep: &UnremovableReason) -> Value {
    let mut out = json!({"node": node, "reason": keep.code(), "message": keep.to_string()});
    if let Some(pod) = keep.pod() {
        out["pod"] = pod.into();
    }
    if let Some(blocking) = keep.blocking() {
        out["blocking"] = blocking.code().into();
    }
    out
}
