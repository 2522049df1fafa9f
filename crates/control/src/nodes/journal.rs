//! Records the decisions of a node autoscaler in the journal.

use api::plimsoll::{DecisionOutcome, NodeAutoscaler};
use cluster::{DecisionRecord, Signature};
use serde_json::{Map, Value};

use super::NodeController;
use super::inputs::Inputs;
use super::plan::Plan;
use super::scale_up::ScaleUpResult;

impl NodeController {
    /// Records an evaluation with what it was made from. One that repeats the last is only counted. Those of values are not recorded.
    pub(super) fn journal(
        &self,
        autoscaler: &NodeAutoscaler,
        plan: &Plan,
        growth: &ScaleUpResult,
        removed: usize,
        inputs: Inputs,
    ) {
        if self.values().is_some() {
            return;
        }
        let outcome = match (growth.failed.is_empty(), growth.has_grown() || removed > 0) {
            (false, _) => DecisionOutcome::Failed,
            (true, false) => DecisionOutcome::Held,
            (true, true) => DecisionOutcome::Applied,
        };
        let decision: &Map<String, Value> = &plan.description;
        let signature = Signature::of_decision(decision, outcome);
        self.cx.decisions.record(autoscaler, signature, inputs.at(), || {
            let autoscaler = autoscaler.clone();
            DecisionRecord {
                decision: decision.clone(),
                inputs: Box::new(move || inputs.objects(&autoscaler)),
                outcome,
                message: growth.failed.join("; "),
            }
        });
    }
}
