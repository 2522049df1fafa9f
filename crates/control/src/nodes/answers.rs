//! The expander `grpc`: another process chooses among the groups that the expanders before it left.
//!
//! A plan ends at a question; it is made again with the answers so far until it has no further one.

use std::collections::HashMap;
use std::sync::Arc;

use api::plimsoll::NodeAutoscaler;
use cluster::Key;
use connect::expander::{ExpanderOption, GrpcExpander};
use decide::nodes::{Answer, Evaluation, Expander, Question};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use serde_json::{Value, json};

use super::NodeController;
use super::observe::Observation;

/// The most questions of one plan; after them the process keeps all groups.
const MAX_QUESTIONS: usize = 20;

/// The process that is asked, with the settings of the connection.
pub(super) struct OpenedExpander {
    settings: Value,
    client: Result<Arc<GrpcExpander>, String>,
}

impl NodeController {
    /// Has the questions of the next plan answered, if its expanders ask any.
    pub(super) async fn answer(&mut self, autoscaler: &NodeAutoscaler, observed: &mut Observation) {
        observed.answers.clear();
        if !observed.settings.expanders.contains(&Expander::Grpc) {
            return;
        }
        let now = self.cx.clock.now();
        loop {
            let plan = Evaluation::new(&observed.cluster, &observed.settings, now)
                .scale_up_answered(&observed.answers);
            let Some(question) = plan.question else { return };
            let answer = match observed.answers.len() < MAX_QUESTIONS {
                true => self.ask(autoscaler, &question, observed).await,
                false => Answer::new(),
            };
            observed.answers.push(answer);
        }
    }

    /// Asks the process. What it does not answer keeps all groups.
    async fn ask(
        &mut self,
        autoscaler: &NodeAutoscaler,
        question: &Question,
        observed: &Observation,
    ) -> Answer {
        let Some(client) = self.expander(autoscaler) else { return Answer::new() };
        let virtual_pods = self.additions.virtual_pods.iter();
        let virtual_pods: HashMap<Key, &Pod> =
            virtual_pods.map(|pod| (Key::from_meta(&pod.metadata), &pod.0)).collect();
        let pod = |pod: &usize| {
            let pod = &observed.cluster.pods[*pod];
            let key = Key::new(&*pod.spec.namespace, &*pod.name);
            let found = self.cx.caches.node_scaling.pods.get(&key);
            found.map(|found| found.0.clone()).or_else(|| virtual_pods.get(&key).copied().cloned())
        };
        let options = question.options.iter().map(|option| {
            let group = observed.cluster.groups[option.group].name.to_string();
            let pods: Vec<Pod> = option.pods.iter().filter_map(pod).collect();
            let debug = format!("{group}: {} nodes for {} pods", option.nodes, pods.len());
            let template = option.template.clone();
            ExpanderOption { group, node_count: option.nodes, debug, template, pods }
        });
        let options: Vec<ExpanderOption> = options.collect();
        client.best_options(&options).await.into_iter().map(Into::into).collect()
    }

    /// Returns the process, opened with its present settings.
    fn expander(&mut self, autoscaler: &NodeAutoscaler) -> Option<Arc<GrpcExpander>> {
        let settings = match self.values() {
            Some(values) => values.expander.clone(),
            None => autoscaler.spec.grpc_expander.as_ref().map(|settings| json!(settings)),
        };
        let settings = settings.unwrap_or_default();
        if self.expander.as_ref().is_none_or(|opened| opened.settings != settings) {
            let client = GrpcExpander::open(&self.cx.connect(), &settings).map(Arc::new);
            if let Err(problem) = &client {
                let autoscaler = autoscaler.name_any();
                tracing::warn!(
                    autoscaler,
                    problem,
                    "the expander `grpc` cannot be used; skipping it"
                );
            }
            self.expander = Some(OpenedExpander { settings, client });
        }
        self.expander.as_ref()?.client.clone().ok()
    }
}
