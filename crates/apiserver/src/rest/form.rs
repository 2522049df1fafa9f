//! Content negotiation: the media types of requests and responses.

use bytes::Bytes;
use http::{HeaderMap, Response, header};
use http_body_util::{BodyExt, Full};
use serde_json::Value;

use crate::request::Body;
use crate::status::{ApiResult, Status};
use apimachinery::protobuf;

/// The answer to a request.
pub(crate) type Reply = Response<Body>;

/// The representation of an object in a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum View {
    /// All of it.
    Whole,
    /// A row of a table.
    Table,
    /// Its metadata.
    Metadata,
}

/// How an answer is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Form {
    pub(crate) view: View,
    pub(crate) yaml: bool,
}

impl Form {
    pub(crate) const JSON: Self = Self { view: View::Whole, yaml: false };

    /// Returns the first supported form that the client accepts.
    pub(crate) fn accepted(headers: &HeaderMap) -> ApiResult<Self> {
        let mut accepted =
            headers.get_all(header::ACCEPT).iter().filter_map(|v| v.to_str().ok()).peekable();
        if accepted.peek().is_none() {
            return Ok(Self::JSON);
        }
        let ranges = accepted.flat_map(|value| value.split(','));
        let form = ranges.map(str::trim).find_map(range);
        form.ok_or_else(not_acceptable)
    }

    /// Answers with an object in this form. The caller makes tables and partial metadata.
    pub(crate) fn reply(self, code: u16, object: &Value) -> Reply {
        if self.yaml {
            let text = serde_saphyr::to_string(object).unwrap_or_default();
            return reply(code, "application/yaml", Bytes::from(text));
        }
        let mut json = serde_json::to_vec(object).unwrap_or_default();
        json.push(b'\n');
        reply(code, "application/json", Bytes::from(json))
    }
}

/// Refuses to answer in any form that the client accepts.
pub(crate) fn not_acceptable() -> Box<Status> {
    let message =
        "406: Not Acceptable\n\nAvailable representations: application/json, application/yaml";
    let mut status = Status::new(406, "NotAcceptable", message);
    status.details = Some(serde_json::Map::new());
    status
}

/// Reads one of the media ranges of an `Accept` header.
fn range(text: &str) -> Option<Form> {
    let mut parts = text.split(';').map(str::trim);
    let yaml = match parts.next()? {
        "application/json" | "*/*" | "application/*" => false,
        "application/yaml" => true,
        _ => return None,
    };
    let parameter = |key: &str| {
        let found = text.split(';').filter_map(|p| p.trim().split_once('='));
        found.into_iter().find(|(k, _)| *k == key).map(|(_, value)| value)
    };
    let view = match (parameter("as"), parameter("v"), parameter("g")) {
        (None, ..) => View::Whole,
        (Some("Table"), Some("v1"), Some("meta.k8s.io")) => View::Table,
        (
            Some("PartialObjectMetadata" | "PartialObjectMetadataList"),
            Some("v1"),
            Some("meta.k8s.io"),
        ) => View::Metadata,
        _ => return None,
    };
    Some(Form { view, yaml })
}

/// Answers with bytes.
pub(crate) fn reply(code: u16, content_type: &'static str, body: Bytes) -> Reply {
    let mut response = Response::new(Full::new(body).boxed_unsync());
    *response.status_mut() = http::StatusCode::from_u16(code).unwrap_or_default();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, http::HeaderValue::from_static(content_type));
    headers.insert(header::CACHE_CONTROL, http::HeaderValue::from_static("no-cache, private"));
    response
}

/// Answers with plain text.
pub(crate) fn text(code: u16, body: impl Into<Bytes>) -> Reply {
    reply(code, "text/plain; charset=utf-8", body.into())
}

/// Answers with a refusal.
pub(crate) fn refusal(status: &Status) -> Reply {
    let mut response = Form::JSON.reply(status.code, &status.json());
    if let Some(seconds) = status.retry_after_seconds() {
        response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
    }
    response
}

/// Converts a body in protobuf to JSON; any other is unchanged.
pub(crate) fn as_json(mut headers: HeaderMap, body: Bytes) -> ApiResult<(HeaderMap, Bytes)> {
    let is_protobuf =
        |v: &http::HeaderValue| v.as_bytes().starts_with(protobuf::MEDIA_TYPE.as_bytes());
    if body.is_empty() || !headers.get(header::CONTENT_TYPE).is_some_and(is_protobuf) {
        return Ok((headers, body));
    }
    let object = protobuf::read(&body).map_err(Status::bad_request)?;
    headers.insert(header::CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
    Ok((headers, Bytes::from(object.to_string())))
}

/// Decodes the object that a client sent, or refuses its media type.
pub(crate) fn decode(headers: &HeaderMap, body: &[u8]) -> ApiResult<Value> {
    let content_type = headers.get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok());
    let media = content_type.unwrap_or_default().split(';').next().unwrap_or_default().trim();
    match media {
        "" | "application/json" => json(body),
        "application/yaml" => yaml(body).map(|(value, _)| value),
        _ => Err(unknown_format(READ)),
    }
}

/// The media types that objects are decoded from.
pub(crate) const READ: &str =
    "application/json, application/yaml, application/vnd.kubernetes.protobuf";

/// Refuses a body of an unsupported media type.
pub(crate) fn unknown_format(known: &str) -> Box<Status> {
    let message = format!(
        "the body of the request was in an unknown format - accepted media types include: {known}"
    );
    Status::new(415, "UnsupportedMediaType", message)
}

/// Reads JSON, to a bounded depth.
pub(crate) fn json(body: &[u8]) -> ApiResult<Value> {
    let decoded = apimachinery::schema::decode::json(body, None).map_err(|err| {
        Status::bad_request(format!("couldn't get version/kind; json parse error: {err}"))
    })?;
    Ok(decoded.value)
}

/// Reads YAML. Depth, and aliases, which can make a small text huge, are bounded by the parser's budget.
///
/// If a map has a key twice, the last value counts, and the result names the key.
pub(crate) fn yaml(body: &[u8]) -> ApiResult<(Value, Option<String>)> {
    // Most bodies in YAML are JSON, which parses faster, and deeper on the same stack.
    if let Ok(decoded) = apimachinery::schema::decode::json(body, None)
        && decoded.strict.is_empty()
    {
        return Ok((decoded.value, None));
    }
    let text = std::str::from_utf8(body).map_err(|err| Status::bad_request(err.to_string()))?;
    let wrong = |err: serde_saphyr::Error| {
        Status::bad_request(format!("error converting YAML to JSON: {}", err.without_snippet()))
    };
    let err = match serde_saphyr::from_str(text) {
        Ok(value) => return Ok((value, None)),
        Err(err) => err,
    };
    let serde_saphyr::Error::DuplicateMappingKey { key, location } = err.without_snippet() else {
        return Err(wrong(err));
    };
    let key = apimachinery::quote::quote(key.as_deref().unwrap_or_default());
    let note = format!("line {}: key {key} already set in map", location.line());
    let lenient =
        serde_saphyr::options! { duplicate_keys: serde_saphyr::DuplicateKeyPolicy::LastWins };
    let value = serde_saphyr::from_str_with_options(text, lenient).map_err(wrong)?;
    Ok((value, Some(note)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_form_that_we_have_is_taken() {
        let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
        for (accept, wanted) in [
            ("application/json", Some((View::Whole, false))),
            ("application/vnd.kubernetes.protobuf,application/json", Some((View::Whole, false))),
            (&format!("{table},application/json"), Some((View::Table, false))),
            ("application/json;as=Table;v=v2;g=meta.k8s.io, */*", Some((View::Whole, false))),
            ("application/yaml", Some((View::Whole, true))),
            ("application/vnd.kubernetes.protobuf", None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT, accept.parse().unwrap());
            let form = Form::accepted(&headers).ok().map(|f| (f.view, f.yaml));
            assert_eq!(form, wanted, "{accept}");
        }
    }
}
