//! Lists objects, page by page, at one version.

use base64::Engine as _;
use base64::alphabet::URL_SAFE;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::sync::Arc;

use super::form::{self, Form, View};
use super::select::Selection;
use super::{Call, Reply, convert, options, read};
use crate::status::{ApiResult, Status};
use crate::store::{Expired, Object, Unreadable};
use apimachinery::quote::quote;
use apimachinery::resource::Origin;

/// How many objects are examined before the limit is checked again.
const CHUNK: usize = 1000;

/// As Go decodes it: bits that do not count may be set.
const TOKEN: GeneralPurpose = GeneralPurpose::new(
    &URL_SAFE,
    GeneralPurposeConfig::new()
        .with_encode_padding(false)
        .with_decode_padding_mode(DecodePaddingMode::RequireNone)
        .with_decode_allow_trailing_bits(true),
);

const TOO_OLD: &str = "The provided continue parameter is too old to display a consistent list \
    result. You can start a new list without the continue parameter, or use the continue token in \
    this response to retrieve the remainder of the results. Continuing with the provided token \
    results in an inconsistent list - objects that were created, modified, or deleted between the \
    time the first chunk was returned and now may show up in the list.";

/// The position at which a list continues, as kube-apiserver encodes it.
#[derive(Serialize, Deserialize)]
struct Token {
    v: String,
    rv: i64,
    start: String,
}

/// The items of a list.
pub(super) struct Listed {
    pub(super) version: u64,
    pub(super) items: Vec<(Arc<str>, Object)>,
    continue_token: Option<String>,
    remaining: Option<usize>,
}

/// Answers with a list.
pub(super) fn answer(call: &Call) -> ApiResult<Reply> {
    let selection = Selection::of(call)?;
    check_options(call)?;
    let mut listed = list(call, &selection)?;
    listed.items.retain(|(key, object)| is_shown(call, key, object));
    let mut metadata = Map::new();
    metadata.insert("resourceVersion".to_owned(), listed.version.to_string().into());
    if let Some(token) = &listed.continue_token {
        metadata.insert("continue".to_owned(), token.as_str().into());
    }
    if let Some(remaining) = listed.remaining {
        metadata.insert("remainingItemCount".to_owned(), remaining.into());
    }
    if call.form == Form::JSON && convert::is_kept_as_served(&call.resource) {
        return Ok(form::reply(200, "application/json", json(call, &metadata, &listed)));
    }
    let read = |(key, object): &(Arc<str>, Object)| call.value(name_of(key), object).ok();
    let values: Vec<Value> = listed.items.iter().filter_map(read).collect();
    let mut shown = match call.form.view {
        View::Whole => {
            let kind = &call.resource.list_kind;
            json!({"kind": kind, "apiVersion": call.resource.api_version(), "items": values})
        }
        View::Metadata => {
            let items: Vec<Value> = values.iter().map(read::metadata_only).collect();
            json!({"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "items": items})
        }
        View::Table => {
            let columns = &call.resource.columns;
            columns.table(json!({}), &values, call.include, true, call.core.clock.now())
        }
    };
    shown["metadata"] = metadata.into();
    Ok(call.form.reply(200, &shown))
}

/// Returns whether an object can be shown. One that cannot be read must not hide the others.
fn is_shown(call: &Call, key: &str, object: &Object) -> bool {
    if !object.is_readable() {
        super::log_unreadable(&call.resource, key, &Unreadable::TooDeep);
        let what = call.resource.qualified();
        call.warn([format!("{what} {key:?} cannot be read and is left out of this list")]);
    }
    object.is_readable()
}

/// Returns the name in a key.
pub(super) fn name_of(key: &str) -> &str {
    key.rsplit('/').next().unwrap_or(key)
}

/// Writes a list from the stored JSON, without parsing it.
fn json(call: &Call, metadata: &Map<String, Value>, listed: &Listed) -> Bytes {
    let size: usize = listed.items.iter().map(|(_, object)| object.size() + 128).sum();
    let mut out = Vec::with_capacity(size + 256);
    let head = format!(
        r#"{{"kind":"{}","apiVersion":"{}","metadata":{},"items":["#,
        call.resource.list_kind,
        call.resource.api_version(),
        Value::Object(metadata.clone()),
    );
    out.extend_from_slice(head.as_bytes());
    for (index, (_, object)) in listed.items.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        match call.resource.origin {
            Origin::BuiltIn => object.write_item(&mut out),
            Origin::Custom => object.write(&call.resource.json_prefix, &mut out),
        }
    }
    out.extend_from_slice(b"]}\n");
    Bytes::from(out)
}

/// Parses the objects of a list.
pub(super) fn list(call: &Call, selection: &Selection) -> ApiResult<Listed> {
    let limit =
        call.query.number("limit")?.and_then(|n| usize::try_from(n).ok()).filter(|n| *n > 0);
    let prefix = call.namespace.as_ref().map(|n| format!("{n}/")).unwrap_or_default();
    let (mut at, mut after) = start(call, &prefix, limit)?;
    let store = &call.core.store;
    let mut items: Vec<(Arc<str>, Object)> = Vec::new();
    loop {
        // Without selectors one page is enough. With them, objects that do not match leave room for others.
        let chunk = match limit {
            Some(limit) if selection.is_everything() => limit,
            Some(limit) => (limit - items.len()).max(CHUNK),
            None => usize::MAX,
        };
        let page = store.list(&call.resource.storage, &prefix, after.as_deref(), chunk, at);
        let page = page.map_err(|Expired| expired(call, &prefix, after.as_deref()))?;
        at = Some(page.version);
        let mut remaining = page.remaining;
        let mut read = page.items.into_iter();
        for (key, object) in read.by_ref() {
            after = Some(key.to_string());
            if selection.matches(&call.resource, &key, &object) {
                items.push((key, object));
            }
            if limit.is_some_and(|limit| items.len() == limit) {
                break;
            }
        }
        remaining += read.count();
        let is_full = limit.is_some_and(|limit| items.len() == limit);
        if remaining == 0 || is_full {
            let more = remaining > 0;
            let start = after.filter(|_| more);
            let continue_token =
                start.map(|s| token(i64::try_from(page.version).unwrap_or(-1), &prefix, &s));
            let remaining = (more && selection.is_everything()).then_some(remaining);
            return Ok(Listed { version: page.version, items, continue_token, remaining });
        }
    }
}

type Start = (Option<u64>, Option<String>);

/// Finds the version to read at and the key to start after.
fn start(call: &Call, prefix: &str, limit: Option<usize>) -> ApiResult<Start> {
    let version = call.query.get("resourceVersion");
    if let Some(token) = call.query.get("continue") {
        if version.is_some_and(|v| v != "0") {
            let message = "specifying resource version is not allowed when using continue";
            return Err(Status::bad_request(message));
        }
        let bad = |why: &str| {
            Status::bad_request(format!("invalid continue token: continue key is not valid: {why}"))
        };
        let json = TOKEN.decode(token).map_err(|err| bad(&err.to_string()))?;
        let token: Token =
            serde_json::from_slice(&json).map_err(|_| match apimachinery::schema::decode::json(
                &json, None,
            ) {
                Ok(_) => bad("json: cannot unmarshal"),
                Err(err) => bad(&err.to_string()),
            })?;
        if token.v != "meta.k8s.io/v1" {
            return Err(bad(&format!(
                "server does not recognize this encoded version {}",
                quote(&token.v)
            )));
        }
        let after = format!("{prefix}{}", token.start.trim_end_matches('\0'));
        return Ok((u64::try_from(token.rv).ok(), Some(after)));
    }
    let requested = check_version(call, version).map_err(|status| match status.code {
        500 => Status::bad_request(format!("invalid resource version: {}", status.message)),
        _ => status,
    })?;
    let is_exact = match call.query.get("resourceVersionMatch") {
        Some(how) => how == "Exact",
        None => limit.is_some(),
    };
    Ok((requested.filter(|_| is_exact), None))
}

fn token(version: i64, prefix: &str, last: &str) -> String {
    let start = format!("{}\0", last.strip_prefix(prefix).unwrap_or(last));
    let token = Token { v: "meta.k8s.io/v1".to_owned(), rv: version, start };
    TOKEN.encode(serde_json::to_vec(&token).unwrap_or_default())
}

fn expired(call: &Call, prefix: &str, after: Option<&str>) -> Box<Status> {
    if call.query.get("continue").is_none() {
        let version = call.query.get("resourceVersion").unwrap_or_default();
        return Status::expired(format!(
            "The resourceVersion for the provided list is too old: {version}"
        ));
    }
    let mut status = Status::expired(TOO_OLD);
    status.continue_token = after.map(|after| token(-1, prefix, after));
    status
}

/// Parses the version that a request names; 0 and none mean any. A version that is not reached yet is refused.
pub(super) fn check_version(call: &Call, version: Option<&str>) -> ApiResult<Option<u64>> {
    let Some(text) = version else { return Ok(None) };
    let requested: u64 = text.parse().map_err(|_| {
        let text = quote(text);
        let why =
            format!("Invalid value: {text}: strconv.ParseUint: parsing {text}: invalid syntax");
        Status::new(500, "", format!("resourceVersion: {why}"))
    })?;
    let current = call.core.store.version();
    if requested > current {
        let message = format!("Too large resource version: {requested}, current: {current}");
        let cause =
            json!({"reason": "ResourceVersionTooLarge", "message": "Too large resource version"});
        return Err(Status::new(504, "Timeout", message).cause(cause).retry_after(1));
    }
    Ok(Some(requested).filter(|version| *version > 0))
}

/// Refuses options of a list that contradict each other.
fn check_options(call: &Call) -> ApiResult<()> {
    let query = &call.query;
    let mut wrong: Vec<(&str, String)> = Vec::new();
    if let Some(how) = query.get("resourceVersionMatch") {
        let path = "resourceVersionMatch";
        if query.get("resourceVersion").is_none() {
            wrong.push((
                path,
                format!("Forbidden: {path} is forbidden unless resourceVersion is provided"),
            ));
        }
        if query.get("continue").is_some() {
            wrong.push((path, format!("Forbidden: {path} is forbidden when continue is provided")));
        }
        if !matches!(how, "Exact" | "NotOlderThan") {
            let known = r#"supported values: "Exact", "NotOlderThan", """#;
            wrong.push((path, format!("Unsupported value: {}: {known}", quote(how))));
        }
        if how == "Exact" && query.get("resourceVersion") == Some("0") {
            let why = r#"resourceVersionMatch "exact" is forbidden for resourceVersion "0""#;
            wrong.push((path, format!("Forbidden: {why}")));
        }
    }
    if query.flag("sendInitialEvents").is_some() {
        let why = "Forbidden: sendInitialEvents is forbidden for list";
        wrong.push(("sendInitialEvents", why.to_owned()));
    }
    options::invalid("ListOptions", &wrong)
}
