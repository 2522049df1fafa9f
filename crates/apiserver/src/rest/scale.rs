//! Reads and writes the subresource `scale` of every kind that has it.

use serde_json::{Value, json};

use super::{Call, Reply, convert, create, form, meta, patch, update};
use crate::status::{ApiResult, Status};
use crate::store::Parts;
use apimachinery::crd::Scale;

/// Answers with the scale of an object. Autoscalers read it often, so nothing else of the object is parsed.
pub(super) fn read(call: &Call) -> ApiResult<Reply> {
    let (object, resource) = (call.find()?, &call.resource);
    let partial = convert::is_kept_as_served(resource)
        .then(|| object.partial(&resource.api_version(), &resource.kind, &members(&paths(call))));
    let value = match partial.flatten() {
        Some(partial) => partial.value,
        None => call.value(call.name(), &object)?,
    };
    Ok(call.form.reply(200, &of(call, &value)))
}

/// Replaces the scale of an object.
pub(super) async fn update(call: &Call) -> ApiResult<Reply> {
    let scale = form::decode(&call.headers, &call.body)?;
    let name = meta::text(&scale, "name");
    if name != call.name() {
        return Err(Status::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({})",
            call.name()
        )));
    }
    set(call, |_| Ok(scale.clone())).await
}

/// Patches the scale of an object.
pub(super) async fn patch(call: &Call) -> ApiResult<Reply> {
    set(call, |scale| patch::scaled(call, scale)).await
}

async fn set(call: &Call, make: impl Fn(Value) -> ApiResult<Value>) -> ApiResult<Reply> {
    let changed = update::change(call, false, create::Owners::ToRecord, Parts::All, |old| {
        let mut object = old.cloned().unwrap_or_default();
        let scale = make(of(call, &object))?;
        let wanted = scale["spec"].get("replicas").cloned().unwrap_or_else(|| 0.into());
        check(call, &wanted)?;
        for field in ["resourceVersion", "uid"] {
            let given = meta::text(&scale, field);
            // Custom resources need a version; a scale without one means the stored version.
            if given.is_empty() && call.resource.custom.is_some() {
                continue;
            }
            meta::set(&mut object, field, (!given.is_empty()).then(|| given.into()));
        }
        let path = paths(call).replicas;
        let replicas = place(&mut object, &path).ok_or_else(|| {
            Status::bad_request(format!("there is no place for replicas at {path}"))
        })?;
        *replicas = wanted;
        Ok(object)
    })
    .await?;
    let object = match &changed.written {
        create::Written::Stored(object) => call.value(call.name(), object)?,
        create::Written::WouldBe(value) => value.clone(),
    };
    Ok(call.form.reply(200, &of(call, &object)))
}

fn check(call: &Call, wanted: &Value) -> ApiResult<()> {
    if wanted.as_i64().is_some_and(|n| (0..=i64::from(i32::MAX)).contains(&n)) {
        return Ok(());
    }
    let why = format!("Invalid value: {wanted}: must be greater than or equal to 0");
    let message = format!("Scale.autoscaling \"{}\" is invalid: spec.replicas: {why}", call.name());
    let mut status = Status::new(422, "Invalid", message);
    status.details = Some(crate::status::details(call.name(), "autoscaling", "Scale"));
    Err(status
        .cause(json!({"reason": "FieldValueInvalid", "message": why, "field": "spec.replicas"})))
}

/// Returns the scale of an object.
fn of(call: &Call, object: &Value) -> Value {
    let mut metadata = json!({});
    for field in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if let Some(value) = object["metadata"].get(field) {
            metadata[field] = value.clone();
        }
    }
    let paths = paths(call);
    let replicas = at(object, &paths.replicas).as_i64().filter(|n| *n != 0);
    let mut status = json!({"replicas": at(object, &paths.status_replicas).as_i64().unwrap_or(0)});
    let selected = paths.selector.as_deref().map(|path| at(object, path));
    let selected = selected.and_then(|s| s.as_str().map(str::to_owned).or_else(|| selector(s)));
    if let Some(selector) = selected {
        status["selector"] = selector.into();
    }
    let spec = replicas.map_or_else(|| json!({}), |n| json!({"replicas": n}));
    json!({"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata, "spec": spec, "status": status})
}

/// Returns the paths of the scale in an object.
fn paths(call: &Call) -> Scale {
    let custom = call.resource.custom.as_ref().and_then(|c| c.scale.clone());
    custom.unwrap_or_else(|| Scale {
        replicas: ".spec.replicas".to_owned(),
        status_replicas: ".status.replicas".to_owned(),
        selector: Some(".spec.selector".to_owned()),
    })
}

/// Names the members that a scale consists of, as by [`Parts::Named`].
fn members(paths: &Scale) -> Value {
    let mut members = json!({});
    for path in [&paths.replicas, &paths.status_replicas].into_iter().chain(&paths.selector) {
        place(&mut members, path);
    }
    members
}

fn at<'a>(object: &'a Value, path: &str) -> &'a Value {
    path.split('.').filter(|s| !s.is_empty()).fold(object, |at, step| &at[step])
}

/// Returns the value at a path, adding missing objects; `None` if another value is in the way.
fn place<'a>(object: &'a mut Value, path: &str) -> Option<&'a mut Value> {
    path.split('.').filter(|s| !s.is_empty()).try_fold(object, |at, step| {
        if at.is_null() {
            *at = json!({});
        }
        Some(at.as_object_mut()?.entry(step).or_insert(Value::Null))
    })
}

/// Formats a selector as a string, given a map of labels, or the form with `matchLabels` and `matchExpressions`.
fn selector(selector: &Value) -> Option<String> {
    let fields = selector.as_object()?;
    let is_plain = fields.values().all(Value::is_string);
    let labels = if is_plain { Some(fields) } else { fields.get("matchLabels")?.as_object() };
    let labels = labels
        .into_iter()
        .flatten()
        .map(|(k, v)| format!("{k}={}", v.as_str().unwrap_or_default()));
    let mut terms: Vec<String> = labels.collect();
    for expression in selector["matchExpressions"].as_array().into_iter().flatten() {
        let key = expression["key"].as_str().unwrap_or_default();
        let values: Vec<&str> = expression["values"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        terms.push(match expression["operator"].as_str() {
            Some("In") => format!("{key} in ({})", values.join(",")),
            Some("NotIn") => format!("{key} notin ({})", values.join(",")),
            Some("DoesNotExist") => format!("!{key}"),
            _ => key.to_owned(),
        });
    }
    Some(terms.join(","))
}
