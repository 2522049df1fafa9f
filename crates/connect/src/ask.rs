//! What does the webhook or the Wasm module of a policy say?

use std::error::Error;

use api::autoscaling::{FleetAutoscaleRequest, FleetAutoscaleReview, Policy, PolicyType};
use decide::fleet::Reply;

use crate::call::Callers;
#[cfg(feature = "wasm")]
use crate::wasm::Modules;
use crate::webhook;

/// Asks webhooks and Wasm modules. Connections, compiled modules and what modules remember are kept between questions.
#[derive(Default)]
pub struct Ask {
    callers: Callers,
    #[cfg(feature = "wasm")]
    modules: Modules,
}

impl Ask {
    /// Starts without connections and modules.
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks whom `policy` names, for the policy of a schedule too. `who` names the autoscaler (and the entry of its
    /// chain) to which what a module remembers belongs. A failure is an answer too: it says what went wrong.
    pub async fn about(&self, who: &str, policy: &Policy, request: FleetAutoscaleRequest) -> Reply {
        let question = FleetAutoscaleReview { request: Some(request), response: None };
        let answer = match policy.type_ {
            PolicyType::Webhook => match &policy.webhook {
                Some(config) => webhook::ask(&self.callers, config, &question).await.map_err(why),
                None => return Reply::None,
            },
            PolicyType::Wasm => self.module(who, policy, &question).await,
            PolicyType::Schedule => match &policy.schedule {
                Some(schedule) => {
                    let request = question.request.unwrap_or_default();
                    return Box::pin(self.about(who, &schedule.policy, request)).await;
                }
                None => return Reply::None,
            },
            PolicyType::Buffer | PolicyType::Counter | PolicyType::List | PolicyType::Chain => {
                return Reply::None;
            }
        };
        answer.map_or_else(|why| Reply::Failed(why.into()), |review| review.reply())
    }

    /// Forgets what the modules of an autoscaler remember.
    pub fn forget(&self, who: &str) {
        #[cfg(feature = "wasm")]
        self.modules.forget(who);
        #[cfg(not(feature = "wasm"))]
        let _ = who;
    }

    #[cfg(feature = "wasm")]
    async fn module(
        &self,
        who: &str,
        policy: &Policy,
        question: &FleetAutoscaleReview,
    ) -> Result<FleetAutoscaleReview, String> {
        let Some(wasm) = &policy.wasm else { return Err("it has no `wasm` block".to_owned()) };
        self.modules.ask(&self.callers, who, wasm, question).await.map_err(why)
    }

    #[cfg(not(feature = "wasm"))]
    #[expect(clippy::unused_async, reason = "with modules it waits for them")]
    async fn module(
        &self,
        _: &str,
        _: &Policy,
        _: &FleetAutoscaleReview,
    ) -> Result<FleetAutoscaleReview, String> {
        Err("this build has no Wasm modules; build it with the feature `wasm`".to_owned())
    }
}

/// Writes an error with all that caused it.
pub(crate) fn why(err: impl Error) -> String {
    let mut text = err.to_string();
    let mut cause = err.source();
    while let Some(err) = cause {
        let said = err.to_string();
        if !text.ends_with(&said) {
            text.push_str(": ");
            text.push_str(&said);
        }
        cause = err.source();
    }
    text
}
