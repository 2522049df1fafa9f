//! Calls the webhook or the Wasm module of a policy.

use std::error::Error;

use api::autoscaling::{FleetAutoscaleRequest, FleetAutoscaleReview, Policy, PolicyType};
use decide::fleet::Reply;
use process::{Clock, Random};

use crate::call::Callers;
#[cfg(feature = "wasm")]
use crate::wasm::{Modules, Surroundings};
use crate::webhook;

/// Calls webhooks and Wasm modules. Connections, compiled modules and their variables are kept between calls.
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

    /// Starts without connections and modules; the names of Services are resolved through the API instead of DNS.
    pub fn resolving_services(client: kube::Client) -> Self {
        Self { callers: Callers::resolving_services(client), ..Self::default() }
    }

    /// Lets modules read this time and these random numbers instead of the system's.
    #[must_use]
    pub fn with_surroundings(mut self, clock: Clock, random: Random) -> Self {
        #[cfg(feature = "wasm")]
        {
            self.modules = Modules::new(Surroundings { clock, random });
        }
        #[cfg(not(feature = "wasm"))]
        let _ = (clock, random);
        self
    }

    /// Calls the webhook or module of a policy, or of the policy in a schedule. `who` identifies the autoscaler (and the entry of
    /// its chain) that a module's variables belong to. A failure is a reply too, with its cause.
    pub async fn about(&self, who: &str, policy: &Policy, request: FleetAutoscaleRequest) -> Reply {
        let question = FleetAutoscaleReview { request: Some(request), response: None };
        let answer = match policy.type_ {
            PolicyType::Webhook => match &policy.webhook {
                Some(config) => webhook::post(&self.callers, config, &question).await.map_err(why),
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

    /// Stops the modules of an autoscaler and drops their variables.
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
        self.modules.call(&self.callers, who, wasm, question).await.map_err(why)
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

/// Formats an error with its causes.
pub(crate) fn why(err: impl Error) -> String {
    let mut text = err.to_string();
    let mut cause = err.source();
    while let Some(err) = cause {
        let cause_text = err.to_string();
        if !text.ends_with(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        cause = err.source();
    }
    text
}
