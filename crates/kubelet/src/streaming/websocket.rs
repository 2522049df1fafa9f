//! The handshake of websockets.

use std::time::Duration;

use http::header::{self, HeaderName, HeaderValue};
use http::{HeaderMap, Response, StatusCode};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use tokio::time::{Instant, Interval, MissedTickBehavior};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};

use super::StreamRefused;

/// The longest message that a client may send, in bytes. kubectl sends 32 KiB at once.
const MESSAGE_LIMIT: usize = 1 << 20;

/// How often a client is sent a ping. It may be gone while nothing is read from it, because its command does not read its input;
/// then the ping fails.
const PING_EVERY: Duration = Duration::from_secs(5);

/// A websocket of a client.
pub(super) type Socket = WebSocketStream<TokioIo<Upgraded>>;

/// A handshake that a client may complete.
pub(super) struct Handshake {
    accept: HeaderValue,
    subprotocol: &'static str,
}

impl Handshake {
    /// Checks the handshake of a client, and picks the first of `known` that the client offers.
    pub(super) fn check(
        headers: &HeaderMap,
        known: &'static [&'static str],
    ) -> Result<Self, StreamRefused> {
        let refused = |why: String| StreamRefused::new(400, why);
        if !has_token(headers, header::CONNECTION, "upgrade") {
            return Err(refused("Upgrade request required".to_owned()));
        }
        if !has_token(headers, header::UPGRADE, "websocket") {
            let why = "only websockets are supported, not SPDY; use kubectl 1.31 or later, without \
                       KUBECTL_REMOTE_COMMAND_WEBSOCKETS=false and KUBECTL_PORT_FORWARD_WEBSOCKETS=false";
            return Err(refused(why.to_owned()));
        }
        if headers.get(header::SEC_WEBSOCKET_VERSION).is_none_or(|version| version != "13") {
            return Err(StreamRefused::new(426, "the version of the websocket protocol is not 13"));
        }
        let offers =
            |protocol: &&&str| has_token(headers, header::SEC_WEBSOCKET_PROTOCOL, protocol);
        let Some(subprotocol) = known.iter().find(offers) else {
            let known = known.join(", ");
            let why = format!("the client offers none of the websocket subprotocols {known}");
            return Err(refused(why));
        };
        let key =
            headers.get(header::SEC_WEBSOCKET_KEY).map(|key| derive_accept_key(key.as_bytes()));
        let accept = key.and_then(|key| HeaderValue::from_str(&key).ok());
        let accept = accept.ok_or_else(|| refused("the websocket key is missing".to_owned()))?;
        Ok(Self { accept, subprotocol })
    }

    /// Returns the subprotocol.
    pub(super) fn subprotocol(&self) -> &'static str {
        self.subprotocol
    }

    /// Returns the response that completes the handshake.
    pub(super) fn response(self) -> Response<()> {
        let mut response = Response::new(());
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        response.headers_mut().extend([
            (header::CONNECTION, HeaderValue::from_static("Upgrade")),
            (header::UPGRADE, HeaderValue::from_static("websocket")),
            (header::SEC_WEBSOCKET_ACCEPT, self.accept),
            (header::SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(self.subprotocol)),
        ]);
        response
    }
}

/// Whether a header with a list of tokens has one of them.
fn has_token(headers: &HeaderMap, name: HeaderName, token: &str) -> bool {
    let values = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|part| part.trim().eq_ignore_ascii_case(token))
}

/// Speaks the websocket protocol on a connection after its handshake.
pub(super) async fn accept(upgraded: Upgraded) -> Socket {
    let config = WebSocketConfig::default()
        .max_message_size(Some(MESSAGE_LIMIT))
        .max_frame_size(Some(MESSAGE_LIMIT))
        .write_buffer_size(0);
    WebSocketStream::from_raw_socket(TokioIo::new(upgraded), Role::Server, Some(config)).await
}

/// Returns the times of pings.
pub(super) fn pings() -> Interval {
    let mut pings = tokio::time::interval_at(Instant::now() + PING_EVERY, PING_EVERY);
    pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
    pings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_known_subprotocol_is_picked_and_other_handshakes_are_refused() {
        let base = [
            ("connection", "keep-alive, Upgrade"),
            ("upgrade", "websocket"),
            ("sec-websocket-version", "13"),
            ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
            ("sec-websocket-protocol", "v4.example, v5.example"),
        ];
        let check = |changed: &'static str, value: &'static str| {
            let all =
                base.iter().map(|(name, v)| (*name, if *name == changed { value } else { *v }));
            let headers = all.map(|(name, value)| {
                (HeaderName::from_static(name), HeaderValue::from_static(value))
            });
            Handshake::check(&headers.collect(), &["v5.example", "v4.example"])
        };
        let response = check("", "").unwrap_or_else(|why| panic!("{why}")).response();
        assert_eq!(response.headers()["sec-websocket-accept"], "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
        assert_eq!(response.headers()["sec-websocket-protocol"], "v5.example");
        for (changed, value, why) in [
            ("connection", "keep-alive", "Upgrade request required"),
            ("upgrade", "SPDY/3.1", "only websockets are supported"),
            ("sec-websocket-version", "8", "not 13"),
            ("sec-websocket-protocol", "v3.example", "none of the websocket subprotocols"),
        ] {
            let refused = check(changed, value).err().unwrap();
            assert!(refused.message.contains(why), "{refused}");
        }
    }
}
