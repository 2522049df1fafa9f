//! What object did a client send, and is it one of the kind it was sent to?
//!
//! Unknown and duplicate fields are dropped; whether that is refused, said in a warning or kept quiet is for the client
//! to choose with `fieldValidation`.

use http::header;
use serde_json::Value;

use super::{Call, form};
use crate::status::{Answer, Status};
use apimachinery::quote::quote;
use apimachinery::schema::decode::{self, Decoded, Error};

/// What is done about fields that the kind does not have.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Strictness {
    Ignore,
    Warn,
    Strict,
}

/// Gives the media type of a request's body.
pub(super) fn media(call: &Call) -> &str {
    let said = call.headers.get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok());
    said.unwrap_or_default().split(';').next().unwrap_or_default().trim()
}

/// Reads the object in a request.
pub(super) fn object(call: &Call) -> Answer<Value> {
    match media(call) {
        "" | "application/json" => {
            let said: Said = said(call, &call.body)?;
            said.check(call)?;
            let decoded = match &call.resource.custom {
                None => decode::json(&call.body, call.resource.shape()),
                Some(_) => decode::json(&call.body, None)
                    .and_then(|d| settle(call, d.value, None, d.strict)),
            };
            finish(call, decoded)
        }
        "application/yaml" => {
            let (document, twice) = form::yaml(&call.body)?;
            Said::of(&document).check(call)?;
            let decoded = of_value(call, document, None).map(|decoded| {
                let strict = twice.into_iter().chain(decoded.strict).collect();
                Decoded { strict, ..decoded }
            });
            finish(call, decoded)
        }
        _ => Err(form::unknown_format(form::READ)),
    }
}

/// Brings an object that a patch made of `old` into the form that it would have been read in, or says why it cannot be.
///
/// What strict validation found wrong with the patch itself counts as if it were wrong with the outcome.
pub(super) fn outcome(
    call: &Call,
    document: Value,
    old: Option<&Value>,
    strict: &[String],
) -> Answer<Result<Value, String>> {
    if !document.is_object() {
        let found = apimachinery::patch::type_name(&document);
        let into = "Go value of type map[string]interface {}";
        return Ok(Err(format!("json: cannot unmarshal {found} into {into}")));
    }
    let decoded = match of_value(call, document, old) {
        Ok(decoded) => decoded,
        Err(err) => return Ok(Err(err.to_string())),
    };
    let problems = strict.iter().cloned().chain(decoded.strict).collect();
    if let Err(why) = heed(call, problems)? {
        return Ok(Err(why));
    }
    Ok(Ok(as_served(call, decoded.value)))
}

fn of_value(call: &Call, document: Value, old: Option<&Value>) -> Result<Decoded, Error> {
    match &call.resource.custom {
        None => decode::value(&document, call.resource.shape()),
        Some(_) => settle(call, document, old, Vec::new()),
    }
}

/// Brings a custom resource into the form of its version.
fn settle(
    call: &Call,
    document: Value,
    old: Option<&Value>,
    mut strict: Vec<String>,
) -> Result<Decoded, Error> {
    let Some(custom) = &call.resource.custom else {
        return Ok(Decoded { value: document, strict });
    };
    let settled = custom.settle(document, old)?;
    strict.extend(settled.strict);
    Ok(Decoded { value: settled.value, strict })
}

fn finish(call: &Call, decoded: Result<Decoded, Error>) -> Answer<Value> {
    let cannot = |why: &str| {
        let (kind, version) = (&call.resource.kind, quote(&call.resource.version));
        Status::bad_request(format!(
            "{kind} in version {version} cannot be handled as a {kind}: {why}"
        ))
    };
    let Decoded { value, strict } = decoded.map_err(|err| cannot(&err.to_string()))?;
    heed(call, strict)?.map_err(|why| cannot(&why))?;
    Ok(as_served(call, value))
}

fn as_served(call: &Call, mut value: Value) -> Value {
    value["apiVersion"] = call.resource.api_version().into();
    value["kind"] = call.resource.kind.as_str().into();
    value
}

/// Tells whether the client wants to be refused where strict decoding finds something.
pub(super) fn is_strict(call: &Call) -> bool {
    strictness(call) == Strictness::Strict
}

/// Drops, mentions or refuses what strict decoding found, as the client asked.
fn heed(call: &Call, strict: Vec<String>) -> Answer<Result<(), String>> {
    if strict.is_empty() {
        return Ok(Ok(()));
    }
    match strictness(call) {
        Strictness::Ignore => {}
        Strictness::Warn => call.warn(strict),
        Strictness::Strict => {
            let is_yaml = strict.first().is_some_and(|s| s.starts_with("line "));
            let start = if is_yaml { "yaml: unmarshal errors:\n  " } else { "" };
            return Ok(Err(format!("strict decoding error: {start}{}", strict.join(", "))));
        }
    }
    Ok(Ok(()))
}

fn strictness(call: &Call) -> Strictness {
    match call.query.get("fieldValidation") {
        None | Some("Warn") => Strictness::Warn,
        Some("Ignore") => Strictness::Ignore,
        // Others were refused before.
        Some(_) => Strictness::Strict,
    }
}

/// What a document says it is.
#[derive(serde::Deserialize, Default)]
struct Said {
    #[serde(rename = "apiVersion", default)]
    api_version: Option<String>,
    #[serde(default)]
    kind: Option<String>,
}

/// Reads what a document says it is, before anything else of it.
fn said(call: &Call, body: &[u8]) -> Answer<Said> {
    // Without this a list would do for an object.
    let is_object = body.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{');
    let said = if is_object { serde_json::from_slice(body).ok() } else { None };
    said.ok_or_else(|| {
        let why = match decode::json(body, None) {
            Ok(decoded) if !decoded.value.is_object() => format!(
                "json: cannot unmarshal {} into Go value of type struct {{ APIVersion string \
                 \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }}",
                apimachinery::patch::type_name(&decoded.value)
            ),
            Ok(_) => "json: cannot unmarshal into Go struct field".to_owned(),
            Err(err) => err.to_string(),
        };
        Status::bad_request(format!(
            "the object provided is unrecognized (must be of type {}): couldn't get version/kind; \
             json parse error: {why} ({})",
            call.resource.kind,
            summary(body)
        ))
    })
}

/// Shows the beginning of a body, as text if it looks like an object.
fn summary(body: &[u8]) -> String {
    let (shown, more) = if body.len() > 30 { (&body[..30], " ...") } else { (body, "") };
    match body.first() {
        None => "<empty>".to_owned(),
        Some(b'{') => format!("{}{more}", String::from_utf8_lossy(shown)),
        Some(_) => {
            let hex: String = shown.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("{hex}{more}")
        }
    }
}

impl Said {
    fn of(document: &Value) -> Self {
        let text = |field: &str| document[field].as_str().map(str::to_owned);
        Self { api_version: text("apiVersion"), kind: text("kind") }
    }

    /// Refuses a document of another kind. A built-in one that does not say what it is, is what it should be.
    fn check(&self, call: &Call) -> Answer<()> {
        if call.resource.custom.is_some() && self.kind.as_deref().is_none_or(str::is_empty) {
            let body = String::from_utf8_lossy(&call.body);
            return Err(Status::bad_request(format!(
                "the object provided is unrecognized (must be of type {}): Object 'Kind' is missing in '{body}' ({})",
                call.resource.kind,
                summary(&call.body)
            )));
        }
        let expected = call.resource.api_version();
        let kind = &call.resource.kind;
        let said_kind = self.kind.as_deref().filter(|k| !k.is_empty()).unwrap_or(kind);
        let said = self.api_version.as_deref().filter(|v| !v.is_empty()).unwrap_or(&expected);
        if said == expected && said_kind == kind {
            return Ok(());
        }
        let version = quote(said.rsplit('/').next().unwrap_or_default());
        let served = call.core.registry.served();
        let why = match served.find_kind(said, said_kind) {
            Some(_) if said != expected && said_kind == kind => {
                return Err(Status::bad_request(format!(
                    "the API version in the data ({said}) does not match the expected API version ({expected})"
                )));
            }
            Some(other) => {
                let internal =
                    if call.resource.group.is_empty() { "core" } else { &call.resource.group };
                format!(
                    "converting ({}.{}) to ({internal}.{kind}): unknown conversion",
                    other.version, other.kind
                )
            }
            None => format!(
                "no kind {} is registered for version {} in scheme \"pkg/runtime/scheme.go:111\"",
                quote(said_kind),
                quote(said)
            ),
        };
        Err(Status::bad_request(format!(
            "{said_kind} in version {version} cannot be handled as a {kind}: {why}"
        )))
    }
}
