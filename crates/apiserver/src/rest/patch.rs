//! Applies the patch of a request to an object.

use std::borrow::Cow;

use serde_json::{Value, json};

use super::create::{self, Owners};
use super::{Call, Reply, decode, form, meta, options, owner, update};
use crate::status::{ApiResult, Status};
use crate::store::Parts;
use apimachinery::patch;
use apimachinery::quote::quote;
use apimachinery::resource::Origin;
use apimachinery::schema::{Shape, Types};

/// Patches an object, or the part that the request names.
pub(super) async fn answer(call: &Call) -> ApiResult<Reply> {
    let patch = Patch::read(call)?;
    let is_apply = patch.form == Form::Apply;
    let owners = if is_apply { Owners::Recorded } else { Owners::ToRecord };
    let makes = is_apply && call.subresource.is_none();
    let changed = update::change(call, makes, owners, patch.parts(call), |old| {
        let object = if is_apply { patch.applied(call, old)? } else { patch.decode(call, old)? };
        checked(call, object, old)
    })
    .await?;
    Ok(changed.written.reply(call, if changed.is_new { 201 } else { 200 }))
}

/// Applies the patch of a request to the scale of an object.
pub(super) fn scaled(call: &Call, mut scale: Value) -> ApiResult<Value> {
    let shape = Types::builtin().kind("autoscaling", "v1", "Scale");
    Patch::read(call)?.apply(&mut scale, shape)?;
    Ok(scale)
}

/// Refuses an outcome that is not the object that the request names.
fn checked(call: &Call, mut object: Value, old: Option<&Value>) -> ApiResult<Value> {
    let uid = meta::text(&object, "uid");
    match old {
        None if !uid.is_empty() => {
            let why = format!(
                "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
            );
            return Err(Status::conflict(&call.resource, call.name(), &why));
        }
        Some(old) if !uid.is_empty() && uid != meta::text(old, "uid") => {
            return Err(immutable_uid(call, uid));
        }
        _ => {}
    }
    create::match_namespace(call, &mut object)?;
    update::check_name(call, &object)?;
    Ok(object)
}

/// Refuses a patch that changes the uid. kube-apiserver lists the cause twice.
fn immutable_uid(call: &Call, uid: &str) -> Box<Status> {
    let (kind, group) = (&call.resource.kind, &call.resource.group);
    let why = format!("Invalid value: {}: field is immutable", quote(uid));
    let qualified = apimachinery::resource::qualified(kind, group);
    let mut status = Status::new(
        422,
        "Invalid",
        format!("{qualified} \"{}\" is invalid: metadata.uid: {why}", call.name()),
    );
    status.details = Some(crate::status::details(call.name(), group, kind));
    let cause = json!({"reason": "FieldValueInvalid", "message": why, "field": "metadata.uid"});
    status.cause(cause.clone()).cause(cause)
}

/// A patch, and the problems that strict validation finds in the patch itself.
struct Patch {
    form: Form,
    document: Value,
    strict: Vec<String>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Json,
    Merge,
    Strategic,
    Apply,
}

impl Patch {
    fn read(call: &Call) -> ApiResult<Self> {
        let form = Form::of(call)?;
        check_options(call, form == Form::Apply)?;
        if form == Form::Apply {
            let document = configuration(call)?;
            return Ok(Self { form, document, strict: Vec::new() });
        }
        let prefix = if form == Form::Strategic { "" } else { "error decoding patch: " };
        let decoded = apimachinery::schema::decode::json(&call.body, None)
            .map_err(|err| Status::bad_request(format!("{prefix}{err}")))?;
        let mut patch = Self { form, document: decoded.value, strict: decoded.strict };
        if form == Form::Json {
            let read = patch::json::Patch::decode(patch.document.clone()).map_err(refused)?;
            patch.strict.iter_mut().for_each(|problem| problem.insert_str(0, "json patch "));
            patch.strict.extend(read.unknown);
        }
        Ok(patch)
    }

    /// Returns which parts of an object the patch changes.
    fn parts(&self, call: &Call) -> Parts<'_> {
        let changes_owners = !self.document["metadata"]["managedFields"].is_null();
        if self.form == Form::Merge && self.document.is_object() && !changes_owners {
            update::parts(call, Cow::Borrowed(&self.document))
        } else {
            Parts::All
        }
    }

    /// Applies any patch but a configuration.
    fn apply(&self, object: &mut Value, shape: Option<Shape<'_>>) -> ApiResult<()> {
        let document = &self.document;
        match self.form {
            Form::Json => {
                patch::json::Patch::decode(document.clone()).and_then(|patch| patch.apply(object))
            }
            Form::Merge | Form::Apply => patch::merge::apply(object, document),
            Form::Strategic => patch::strategic::apply(object, document.clone(), shape),
        }
        .map_err(refused)
    }

    fn outcome(&self, call: &Call, old: Option<&Value>) -> ApiResult<Value> {
        let mut object = old.cloned().unwrap_or_default();
        self.apply(&mut object, call.resource.shape())?;
        Ok(object)
    }

    /// Applies the patch, and decodes the outcome as an object of the kind.
    fn decode(&self, call: &Call, old: Option<&Value>) -> ApiResult<Value> {
        decode::outcome(call, self.outcome(call, old)?, old, &self.strict)?.map_err(|why| {
            let patched = match self.form {
                Form::Strategic => patch::go_value(&self.document),
                Form::Json | Form::Merge | Form::Apply => {
                    self.outcome(call, old).map(|object| as_written(&object)).unwrap_or_default()
                }
            };
            let why = format!("Invalid value: {}: {why}", quote(&patched));
            let mut status = Status::new(422, "Invalid", format!(" \"\" is invalid: patch: {why}"));
            status.details = Some(serde_json::Map::new());
            status.cause(json!({"reason": "FieldValueInvalid", "message": why, "field": "patch"}))
        })
    }

    fn applied(&self, call: &Call, old: Option<&Value>) -> ApiResult<Value> {
        let mut object = owner::apply(call, old, &self.document)?;
        // For an object that does not exist, the version is meaningless.
        if old.is_none() {
            meta::set(&mut object, "resourceVersion", None);
        }
        decode::outcome(call, object, old, &[])?.map_err(|why| Status::new(500, "", why))
    }
}

/// The order in which kube-apiserver writes metadata, and the entries of `managedFields`.
const METADATA: [&str; 15] = [
    "name",
    "generateName",
    "namespace",
    "selfLink",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "labels",
    "annotations",
    "ownerReferences",
    "finalizers",
    "managedFields",
];
const OWNER: [&str; 7] =
    ["manager", "operation", "apiVersion", "time", "fieldsType", "fieldsV1", "subresource"];

/// Formats an object as kube-apiserver quotes it: members sorted by name, but metadata in its own order.
fn as_written(object: &Value) -> String {
    let members = object.as_object().into_iter().flatten().map(|(name, value)| {
        let text = if name == "metadata" { in_order(value, &METADATA) } else { value.to_string() };
        format!("{}:{text}", Value::from(name.as_str()))
    });
    format!("{{{}}}", members.collect::<Vec<_>>().join(","))
}

fn in_order(value: &Value, order: &[&str]) -> String {
    let known = order.iter().filter_map(|name| Some((*name, value.get(*name)?)));
    let others =
        value.as_object().into_iter().flatten().filter(|(name, _)| !order.contains(&name.as_str()));
    let members =
        known.chain(others.map(|(name, value)| (name.as_str(), value))).map(|(name, value)| {
            let text = match value {
                Value::Array(owners) if name == "managedFields" => {
                    let owners: Vec<String> =
                        owners.iter().map(|owner| in_order(owner, &OWNER)).collect();
                    format!("[{}]", owners.join(","))
                }
                Value::Array(_)
                | Value::Object(_)
                | Value::Null
                | Value::Bool(_)
                | Value::Number(_)
                | Value::String(_) => value.to_string(),
            };
            format!("{}:{text}", Value::from(name))
        });
    format!("{{{}}}", members.collect::<Vec<_>>().join(","))
}

impl Form {
    fn of(call: &Call) -> ApiResult<Self> {
        let is_builtin = call.resource.origin == Origin::BuiltIn;
        match decode::media(call) {
            "application/json-patch+json" => Ok(Self::Json),
            "application/merge-patch+json" => Ok(Self::Merge),
            "application/strategic-merge-patch+json" if is_builtin => Ok(Self::Strategic),
            "application/apply-patch+yaml" => Ok(Self::Apply),
            _ if is_builtin => {
                let mut status =
                    Status::new(415, "UnsupportedMediaType", "415: Unsupported Media Type");
                status.details = Some(serde_json::Map::new());
                Err(status)
            }
            _ => Err(form::unknown_format(
                "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml",
            )),
        }
    }
}

/// Reads an applied configuration.
fn configuration(call: &Call) -> ApiResult<Value> {
    let (applied, twice) = form::yaml(&call.body)
        .map_err(|err| Status::bad_request(format!("error decoding YAML: {}", err.message)))?;
    match twice {
        Some(note) if decode::is_strict(call) => {
            return Err(Status::bad_request(format!(
                "error strict decoding YAML: error converting YAML to JSON: yaml: unmarshal errors:\n  {note}"
            )));
        }
        note => call.warn(note),
    }
    if !applied.is_object() && !applied.is_null() {
        return Err(Status::bad_request(format!(
            "error decoding YAML: error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {} into Go value \
             of type map[string]interface {{}}",
            patch::type_name(&applied)
        )));
    }
    patch::apply::check_kind(&applied, &call.resource.api_version(), &call.resource.kind)
        .map_err(|err| Status::bad_request(err.to_string()))?;
    Ok(applied)
}

/// Refuses options that a patch of this form does not have, and missing ones that it needs.
fn check_options(call: &Call, is_apply: bool) -> ApiResult<()> {
    let mut wrong = Vec::new();
    if is_apply && call.query.get("fieldManager").is_none() {
        wrong.push(("fieldManager", "Required value: is required for apply patch".to_owned()));
    }
    if !is_apply && call.query.flag("force").is_some() {
        wrong.push(("force", "Forbidden: may not be specified for non-apply patch".to_owned()));
    }
    options::invalid("PatchOptions", &wrong)
}

fn refused(err: patch::Error) -> Box<Status> {
    let message = err.to_string();
    match err {
        patch::Error::Malformed(_) => Status::bad_request(message),
        patch::Error::TooManyOperations { .. } => {
            Status::new(413, "RequestEntityTooLarge", message)
        }
        patch::Error::DoesNotApply(_) => {
            let message = "the server rejected our request due to an error in our request";
            let mut status = Status::new(422, "Invalid", message);
            status.details = Some(serde_json::Map::new());
            status
        }
        patch::Error::Unexpected(_) => Status::new(500, "", message),
    }
}
