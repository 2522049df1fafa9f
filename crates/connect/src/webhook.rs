//! Calls of webhooks.

use api::autoscaling::{FleetAutoscaleReview, WebhookConfig};

use crate::call::{self, CallError, Callers};

/// The largest answer that is read.
const LIMIT: usize = 1 << 20;

/// Posts the review and reads the answer. The `uid` of the answer is not checked, as in Agones.
pub(crate) async fn post(
    callers: &Callers,
    config: &WebhookConfig,
    question: &FleetAutoscaleReview,
) -> Result<FleetAutoscaleReview, CallError> {
    let body = callers.call(config, LIMIT, |client, url| client.post(url).json(question)).await?;
    let url = call::url(config)?;
    review(&body).map_err(|problem| CallError::NotAReview { url, problem })
}

/// Parses an answer; the error describes what is wrong with it.
pub(crate) fn review(body: &[u8]) -> Result<FleetAutoscaleReview, String> {
    let value = serde_json::from_slice(body).map_err(|err| format!("not JSON: {err}"))?;
    let review = FleetAutoscaleReview::read(&value).map_err(|problems| {
        problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
    })?;
    match review.response {
        None => Err("it has no `response`".to_owned()),
        Some(_) => Ok(review),
    }
}
