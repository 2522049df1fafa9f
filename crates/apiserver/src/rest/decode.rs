//! Decodes the object of a request, and checks that it is of the expected kind.
//!
//! Unknown and duplicate fields are dropped. The client chooses with `fieldValidation` whether the request is then refused,
//! answered with a warning, or answered without one.

use http::header;
use serde_json::Value;

use super::{Call, form};
use crate::status::{ApiResult, Status};
use apimachinery::quote::quote;
use apimachinery::schema::decode::{self, Decoded, Error};

/// The handling of unknown fields.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Strictness {
    Ignore,
    Warn,
    Strict,
}

/// Returns the media type of a request's body.
pub(super) fn media(call: &Call) -> &str {
    let content_type = call.headers.get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok());
    content_type.unwrap_or_default().split(';').next().unwrap_or_default().trim()
}

/// Reads the object in a request.
pub(super) fn object(call: &Call) -> ApiResult<Value> {
    match media(call) {
        "" | "application/json" => {
            type_meta(call, &call.body)?.check(call)?;
            let decoded = match &call.resource.custom {
                None => decode::json(&call.body, call.resource.shape()),
                Some(_) => decode::json(&call.body, None)
                    .and_then(|d| normalize(call, d.value, None, d.strict)),
            };
            finish(call, decoded)
        }
        "application/yaml" => {
            let (document, twice) = form::yaml(&call.body)?;
            TypeMeta::of(&document).check(call)?;
            let decoded = of_value(call, document, None).map(|decoded| {
                let strict = twice.into_iter().chain(decoded.strict).collect();
                Decoded { strict, ..decoded }
            });
            finish(call, decoded)
        }
        _ => Err(form::unknown_format(form::READ)),
    }
}

/// Decodes the object that a patch made of `old` as if it had been sent; the inner error is the reason why it cannot be.
///
/// Problems that strict validation found in the patch itself count as problems of the outcome.
pub(super) fn outcome(
    call: &Call,
    document: Value,
    old: Option<&Value>,
    strict: &[String],
) -> ApiResult<Result<Value, String>> {
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
    if let Err(why) = enforce(call, problems)? {
        return Ok(Err(why));
    }
    Ok(Ok(as_served(call, decoded.value)))
}

fn of_value(call: &Call, document: Value, old: Option<&Value>) -> Result<Decoded, Error> {
    match &call.resource.custom {
        None => decode::value(&document, call.resource.shape()),
        Some(_) => normalize(call, document, old, Vec::new()),
    }
}

/// Brings a custom resource into the form of its version.
fn normalize(
    call: &Call,
    document: Value,
    old: Option<&Value>,
    mut strict: Vec<String>,
) -> Result<Decoded, Error> {
    let Some(custom) = &call.resource.custom else {
        return Ok(Decoded { value: document, strict });
    };
    let normalized = custom.normalize(document, old)?;
    strict.extend(normalized.strict);
    Ok(Decoded { value: normalized.value, strict })
}

fn finish(call: &Call, decoded: Result<Decoded, Error>) -> ApiResult<Value> {
    let cannot = |why: &str| {
        let (kind, version) = (&call.resource.kind, quote(&call.resource.version));
        Status::bad_request(format!(
            "{kind} in version {version} cannot be handled as a {kind}: {why}"
        ))
    };
    let Decoded { value, strict } = decoded.map_err(|err| cannot(&err.to_string()))?;
    enforce(call, strict)?.map_err(|why| cannot(&why))?;
    Ok(as_served(call, value))
}

fn as_served(call: &Call, mut value: Value) -> Value {
    value["apiVersion"] = call.resource.api_version().into();
    value["kind"] = call.resource.kind.as_str().into();
    value
}

/// Returns whether the request is refused if strict decoding finds a problem.
pub(super) fn is_strict(call: &Call) -> bool {
    strictness(call) == Strictness::Strict
}

/// Ignores, warns of or refuses the problems that strict decoding found, as the client requested.
fn enforce(call: &Call, strict: Vec<String>) -> ApiResult<Result<(), String>> {
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

/// The `apiVersion` and `kind` of a document.
#[derive(serde::Deserialize, Default)]
struct TypeMeta {
    #[serde(rename = "apiVersion", default)]
    api_version: Option<String>,
    #[serde(default)]
    kind: Option<String>,
}

/// Decodes the `apiVersion` and `kind` of a document, before anything else of it.
fn type_meta(call: &Call, body: &[u8]) -> ApiResult<TypeMeta> {
    // serde would also read a list as a struct.
    let is_object = body.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{');
    let type_meta = if is_object { serde_json::from_slice(body).ok() } else { None };
    type_meta.ok_or_else(|| {
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

/// Formats the beginning of a body: as text if it may be an object, and in hexadecimal otherwise.
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

impl TypeMeta {
    fn of(document: &Value) -> Self {
        let text = |field: &str| document[field].as_str().map(str::to_owned);
        Self { api_version: text("apiVersion"), kind: text("kind") }
    }

    /// Refuses a document of another kind. A built-in kind may be left out.
    fn check(&self, call: &Call) -> ApiResult<()> {
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
        let given_kind = self.kind.as_deref().filter(|k| !k.is_empty()).unwrap_or(kind);
        let given = self.api_version.as_deref().filter(|v| !v.is_empty()).unwrap_or(&expected);
        if given == expected && given_kind == kind {
            return Ok(());
        }
        let version = quote(given.rsplit('/').next().unwrap_or_default());
        let served = call.core.registry.served();
        let why = match served.find_kind(given, given_kind) {
            Some(_) if given != expected && given_kind == kind => {
                return Err(Status::bad_request(format!(
                    "the API version in the data ({given}) does not match the expected API version ({expected})"
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
                quote(given_kind),
                quote(given)
            ),
        };
        Err(Status::bad_request(format!(
            "{given_kind} in version {version} cannot be handled as a {kind}: {why}"
        )))
    }
}
