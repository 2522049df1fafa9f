//! A URL that receives the desired size by POST; a MetricSource returns the current one.
//!
//! A request is `{"count": 5, "from": 3}`. `Idempotency-Key` is the same when a request is repeated, so that the receiver can
//! recognise it; `X-Plimsoll-Signature` is `sha256=` and the HMAC of the body in hex, where `secretFrom` names a key.

use std::sync::Arc;
use std::time::Duration;

use decide::checks::Window;
use futures::future::BoxFuture;
use jiff::SignedDuration;
use reqwest::Url;
use reqwest::header::CONTENT_TYPE;
use ring::{digest, hmac};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{
    Target, TargetError, TargetRef, TargetStatus, Version, outcome, source_error, write_error,
};
use crate::call;
use crate::connection::ConnectionError;
use crate::endpoint::{Endpoint, EndpointSettings};
use crate::metric_source::SharedConnection;
use crate::registry::Context;
use crate::secret::SecretRef;
use crate::sources::{self, Answer, MetricSource, Query};

/// How long the receiver, and the source of the present size, have to answer.
const WITHIN: Duration = Duration::from_secs(15);

struct WebhookTarget {
    context: Context,
    endpoint: Endpoint,
    url: Url,
    source: SharedConnection<Arc<dyn MetricSource>>,
    query: String,
    secret: Option<SecretRef>,
}

pub(super) fn open(context: &Context, target: &TargetRef) -> Result<Arc<dyn Target>, String> {
    let spec = target.spec.webhook.clone().unwrap_or_default();
    let url = call::parse_url(&spec.url).map_err(|err| format!("url: {err}"))?;
    let count = spec.count_from.ok_or("countFrom: required, to know the present size")?;
    let settings = EndpointSettings { services: context.services(), ..Default::default() };
    Ok(Arc::new(WebhookTarget {
        context: context.clone(),
        endpoint: Endpoint::new(&spec.url, settings).map_err(|err| format!("url: {err}"))?,
        url,
        source: SharedConnection::of_any_type(context, &count.source, open_source),
        query: count.query,
        secret: spec.secret_from.map(|from| SecretRef::new(from.name, from.key)),
    }))
}

fn open_source(context: &Context, spec: &Value) -> Result<Arc<dyn MetricSource>, String> {
    let spec = spec.as_object().ok_or("has no spec")?;
    sources::open(context, spec).map_err(|err| err.to_string())
}

impl Target for WebhookTarget {
    fn status(&self) -> BoxFuture<'_, Result<TargetStatus, TargetError>> {
        Box::pin(async move {
            let count = self.count().await?;
            // The time makes the next action a new one for the receiver, even if it is the same change of size.
            let version = Version::new(format!("{count}@{}", self.context.clock.now()));
            Ok(TargetStatus { count, ready: count, version })
        })
    }

    fn scale<'a>(
        &'a self,
        to: u32,
        version: &'a Version,
    ) -> BoxFuture<'a, Result<(), TargetError>> {
        Box::pin(async move {
            let from = version.as_str().split('@').next().unwrap_or_default();
            let count = self.count().await?;
            if from != count.to_string() {
                let message = format!("its size is {count}");
                return Err(TargetError::Conflict { target: self.to_string(), message });
            }
            let body = json!({"count": to, "from": count}).to_string();
            let signature = self.signature(body.as_bytes()).await?;
            let key = idempotency_key(&self.url, version, to);
            let answer = self.endpoint.send(self.url.clone(), |client, url| {
                let mut request =
                    client.post(url).timeout(WITHIN).header(CONTENT_TYPE, "application/json");
                request = request.header("Idempotency-Key", key);
                if let Some(signature) = signature {
                    request = request.header("X-Plimsoll-Signature", signature);
                }
                request.body(body)
            });
            let answer = answer.await.map_err(|err| self.failed(err.into()))?;
            let message = format!("the receiver answered {}", answer.status);
            outcome(self.to_string(), answer.status.as_u16(), message)
        })
    }
}

impl WebhookTarget {
    /// Queries the current size from the source.
    async fn count(&self) -> Result<u32, TargetError> {
        let source = self.source.get().await.map_err(|err| source_error(&self.to_string(), err))?;
        let query = Query {
            text: self.query.clone(),
            target: None,
            window: Window { length: None, offset: SignedDuration::ZERO },
            now: self.context.clock.now(),
            deadline: Instant::now() + WITHIN,
        };
        let unavailable =
            |message: String| TargetError::Unavailable { target: self.to_string(), message };
        match source.query(&query).await.map_err(|err| unavailable(format!("countFrom: {err}")))? {
            Answer::Points(series) => {
                let newest = series.observed(query.window, query.now).last().copied();
                newest
                    .and_then(size)
                    .ok_or_else(|| unavailable("countFrom: expected a whole number".into()))
            }
            Answer::NoData => Err(unavailable("countFrom returned no data".to_owned())),
            Answer::Stale { newest_at } => {
                Err(unavailable(format!("countFrom: the newest point is of {newest_at}")))
            }
        }
    }

    async fn signature(&self, body: &[u8]) -> Result<Option<String>, TargetError> {
        let Some(secret) = &self.secret else { return Ok(None) };
        let key = secret.read_text(&self.context.client).await;
        let key = key.map_err(|err| self.failed(err.into()))?;
        Ok(Some(sign(key.as_bytes(), body)))
    }

    fn failed(&self, error: ConnectionError) -> TargetError {
        write_error(&self.to_string(), &error)
    }
}

impl std::fmt::Display for WebhookTarget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Neither the path nor the parameters, which may be secret.
        write!(f, "webhook {}", self.url.host_str().unwrap_or_default())
    }
}

/// Reads a size: a whole number that is not negative.
fn size(value: f64) -> Option<u32> {
    (value >= 0.0 && value.fract() == 0.0 && value <= f64::from(u32::MAX)).then_some(value as u32)
}

fn sign(key: &[u8], body: &[u8]) -> String {
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), body);
    format!("sha256={}", hex(tag.as_ref()))
}

fn idempotency_key(url: &Url, version: &Version, to: u32) -> String {
    let text = format!("{url}\n{version}\n{to}");
    hex(&digest::digest(&digest::SHA256, text.as_bytes()).as_ref()[..16])
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_signature_is_the_hmac_of_the_body() {
        // Test case 2 of RFC 4231.
        let signature = sign(b"Jefe", b"what do ya want for nothing?");
        assert_eq!(
            signature,
            "sha256=5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
        );
    }

    #[test]
    fn a_repeated_request_has_the_same_key_and_a_later_one_another() {
        let url = Url::parse("http://sizer/scale").unwrap();
        let key = |version: &str, to| idempotency_key(&url, &Version::new(version), to);
        assert_eq!(key("3@t1", 5), key("3@t1", 5));
        assert_ne!(key("3@t1", 5), key("3@t2", 5));
        assert_ne!(key("3@t1", 5), key("3@t1", 6));
    }

    #[test]
    fn a_size_is_a_whole_number() {
        for (value, wanted) in
            [(3.0, Some(3)), (0.0, Some(0)), (2.5, None), (-1.0, None), (1e12, None)]
        {
            assert_eq!(size(value), wanted, "{value}");
        }
    }
}
