//! Validation of the addresses of webhooks.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::WebhookConfig;
use crate::{CauseType, Problem};

/// Collects what is wrong with an address at `path`.
pub(super) fn problems(config: &WebhookConfig, path: &str) -> Vec<Problem> {
    let mut out = Vec::new();
    let url = format!("{path}.url");
    match (&config.url, &config.service) {
        (None, None) => out.push(Problem::required(path, "must have either url or service")),
        (Some(_), Some(_)) => {
            let message = "expected either url or service, found both";
            out.push(Problem::of(CauseType::Duplicate, &url, message));
        }
        (Some(_), None) | (None, Some(_)) => {}
    }
    if config.ca_bundle.as_ref().is_some_and(|bundle| !has_certificate(&bundle.0)) {
        let message = "expected at least one certificate as PEM, in base64";
        out.push(Problem::new(format!("{path}.caBundle"), message));
    }
    if let Some(text) = config.url.as_ref().filter(|text| !is_url(text)) {
        out.push(Problem::new(url, format!("`{text}` is not a URL")));
    }
    out
}

/// Whether Go's `url.Parse` would take it: nearly anything without control characters and broken escapes.
fn is_url(text: &str) -> bool {
    let is_hex = |b: Option<&u8>| b.is_some_and(u8::is_ascii_hexdigit);
    let bytes = text.as_bytes();
    let escapes = (0..bytes.len()).filter(|i| bytes[*i] == b'%');
    let mut bad_escapes =
        escapes.filter(|i| !is_hex(bytes.get(i + 1)) || !is_hex(bytes.get(i + 2)));
    let authority = text.split_once("://").map(|(_, rest)| rest.split(['/', '?', '#']).next());
    let port = authority.flatten().and_then(|a| a.rsplit_once(':')).map(|(_, port)| port);
    !text.bytes().any(|b| b.is_ascii_control())
        && bad_escapes.next().is_none()
        && !text.starts_with(':')
        && !authority.flatten().is_some_and(|a| a.contains(' '))
        && port.is_none_or(|p| p.ends_with(']') || p.bytes().all(|b| b.is_ascii_digit()))
}

/// Whether there is a certificate in the PEM text: a base64 block that holds an ASN.1 sequence.
fn has_certificate(pem: &[u8]) -> bool {
    let text = String::from_utf8_lossy(pem);
    text.split("-----BEGIN CERTIFICATE-----").skip(1).any(|rest| {
        let Some((body, _)) = rest.split_once("-----END CERTIFICATE-----") else { return false };
        let body: String = body.split_whitespace().collect();
        STANDARD.decode(body).is_ok_and(|der| der.first() == Some(&0x30))
    })
}
