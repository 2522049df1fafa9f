//! What a NodeAutoscaler would do with the nodes, pods and groups in the files.

use std::fmt;

use api::plimsoll::NodeAutoscaler;
use control::Unreadable;
use control::nodes::observe::observe;
use decide::Reason;
use decide::nodes::{Keep, Removal, Resize, ScaleDown, ScaleUp, Turn, Unschedulable};
use serde_json::{Value, json};

use super::decision::Decision;
use super::world::{Object, World};

/// Decides about one autoscaler.
pub(crate) fn decide(object: &Object, world: &World) -> Result<Option<Decision>, Unreadable> {
    let autoscaler: NodeAutoscaler = object.read()?;
    let seen = observe(&autoscaler, world)?;
    let mut turn = Turn::new(&seen.cluster, &seen.settings, world.now);
    let added = turn.scale_up();
    let removed = turn.scale_down(&seen.status, &added);
    let decision = additions(Decision::about(object), &added, &turn);
    let decision = removals(decision, &removed, &turn);
    if turn.is_healthy {
        return Ok(Some(decision.because::<Halt>(&[])));
    }
    Ok(Some(decision.with("halted", Halt.code()).because(&[Halt])))
}

/// Why nothing at all is planned.
struct Halt;

impl Reason for Halt {
    fn code(&self) -> &'static str {
        "ClusterUnhealthy"
    }
}

impl fmt::Display for Halt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("too many nodes are not ready, so nothing is touched")
    }
}

fn additions(decision: Decision, plan: &ScaleUp, turn: &Turn<'_>) -> Decision {
    let grown: Vec<Value> = plan.resizes.iter().map(|r| resize(r, turn)).collect();
    let unschedulable: Vec<Value> =
        plan.unschedulable.iter().map(|u| without_place(u, turn)).collect();
    let mut decision = decision.with("scaleUp", grown).with("unschedulable", unschedulable);
    for resize in &plan.resizes {
        let group = &turn.cluster.groups[resize.group].name;
        let pods: usize = resize.nodes.iter().map(Vec::len).sum();
        let pods = if pods == 1 { "1 pod".to_owned() } else { format!("{pods} pods") };
        decision =
            decision.line(format!("grow {group} from {} to {} for {pods}", resize.from, resize.to));
    }
    for waiting in &plan.unschedulable {
        let pod = turn.cluster.pods[waiting.pod].full_name();
        let why = waiting.why.iter().map(|why| {
            let group = &turn.cluster.groups[why.group].name;
            format!("{group}: {}: {}", why.refusal.code(), why.refusal)
        });
        let why: Vec<String> = why.collect();
        let why = if why.is_empty() { "no groups".to_owned() } else { why.join("; ") };
        decision = decision.line(format!("no node for {pod}: {why}"));
    }
    decision
}

fn resize(resize: &Resize, turn: &Turn<'_>) -> Value {
    let pods = resize.nodes.iter().flatten();
    let pods: Vec<String> = pods.map(|pod| turn.cluster.pods[*pod].full_name()).collect();
    json!({
        "group": turn.cluster.groups[resize.group].name,
        "from": resize.from,
        "to": resize.to,
        "pods": pods,
    })
}

fn without_place(waiting: &Unschedulable, turn: &Turn<'_>) -> Value {
    let why = waiting.why.iter().map(|why| {
        json!({
            "group": turn.cluster.groups[why.group].name,
            "reason": why.refusal.code(),
            "message": why.refusal.to_string(),
        })
    });
    json!({
        "pod": turn.cluster.pods[waiting.pod].full_name(),
        "why": why.collect::<Vec<_>>(),
    })
}

fn removals(decision: Decision, plan: &ScaleDown, turn: &Turn<'_>) -> Decision {
    let unneeded: Vec<Value> = plan.unneeded.iter().map(|(node, _)| json!(node)).collect();
    let delete: Vec<Value> = plan.delete.iter().map(|r| removal(r, turn)).collect();
    let kept: Vec<Value> = plan.unremovable.iter().map(|(node, keep)| kept(node, keep)).collect();
    let mut decision =
        decision.with("unneeded", unneeded).with("delete", delete).with("unremovable", kept);
    for removal in &plan.delete {
        let node = &removal.node;
        decision = match removal.moves.len() {
            0 => decision.line(format!("remove {node}: it is empty")),
            1 => decision.line(format!("remove {node}: its pod has another place")),
            n => decision.line(format!("remove {node}: its {n} pods have another place")),
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

fn removal(removal: &Removal, turn: &Turn<'_>) -> Value {
    let pod = |pod: usize| turn.cluster.pods[pod].full_name();
    let moves = removal.moves.iter();
    let moves = moves.map(|(p, to)| json!({"pod": pod(*p), "to": turn.snapshot.name(*to)}));
    json!({
        "node": removal.node,
        "drain": removal.is_drain(),
        "moves": moves.collect::<Vec<_>>(),
    })
}

fn kept(node: &str, keep: &Keep) -> Value {
    let mut out = json!({"node": node, "reason": keep.code(), "message": keep.to_string()});
    if let Some(pod) = keep.pod() {
        out["pod"] = pod.into();
    }
    if let Some(blocking) = keep.blocking() {
        out["blocking"] = blocking.code().into();
    }
    out
}
