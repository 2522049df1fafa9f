//! Deletes objects.
//!
//! An object is removed at once, after a grace period, or with its last finalizer. Its dependents are left to the garbage
//! collector, which learns the propagation policy from a finalizer.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::select::Selection;
use super::{Call, Reply, form, list, meta, options, pods, refused, update};
use crate::definitions;
use crate::status::{ApiResult, Status};
use crate::store::{Object, Write, WriteError};
use apimachinery::quote::quote;
use apimachinery::resource::{Origin, Removal, Resource};

const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";

/// The options of a deletion.
#[derive(Clone, Debug, Default)]
pub(super) struct Options {
    pub(super) uid: Option<String>,
    pub(super) version: Option<String>,
    pub(super) grace: Option<i64>,
    pub(super) propagation: Option<String>,
    pub(super) orphan: Option<bool>,
    pub(super) dry_run: bool,
}

/// The result of a deletion.
pub(super) enum Outcome {
    /// It was removed; this was its last state.
    Gone(Value),
    /// It will be removed later; this is its state now.
    Going(Value),
}

/// Deletes the object that the request names.
pub(super) async fn one(call: &Call) -> ApiResult<Reply> {
    let options = Options::read(call)?;
    match delete(call, call.name(), &options).await? {
        Outcome::Going(object) => {
            let code = if options.orphan == Some(false) { 202 } else { 200 };
            Ok(call.show_value(code, &object))
        }
        Outcome::Gone(object) if call.resource.rules.returns_deleted => {
            Ok(call.show_value(200, &object))
        }
        Outcome::Gone(object) => {
            let name = meta::text(&object, "name");
            let mut details =
                crate::status::details(name, &call.resource.group, &call.resource.plural);
            details.insert("uid".to_owned(), meta::text(&object, "uid").into());
            let status = json!({
                "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details,
            });
            Ok(form::Form { view: form::View::Whole, ..call.form }.reply(200, &status))
        }
    }
}

/// Deletes every object that the selectors of the request choose, and answers with them.
pub(super) async fn collection(call: &Call) -> ApiResult<Reply> {
    let options = Options::read(call)?;
    let selection = Selection::of(call)?;
    let listed = list::list(call, &selection)?;
    let mut items = Vec::with_capacity(listed.items.len());
    for (key, object) in &listed.items {
        let name = list::name_of(key);
        let mut item = call.value(name, object).unwrap_or_default();
        if let (Origin::BuiltIn, Some(fields)) = (&call.resource.origin, item.as_object_mut()) {
            fields.remove("apiVersion");
            fields.remove("kind");
        }
        // What cannot be read is deleted, and not shown.
        items.extend(Some(item).filter(Value::is_object));
        match delete(call, name, &options).await {
            Err(status) if status.reason != "NotFound" => return Err(status),
            _ => {}
        }
    }
    let list = json!({
        "kind": call.resource.list_kind, "apiVersion": call.resource.api_version(),
        "metadata": {"resourceVersion": listed.version.to_string()}, "items": items,
    });
    Ok(form::Form { view: form::View::Whole, ..call.form }.reply(200, &list))
}

impl Options {
    /// Reads them from the body or, without one, from the query.
    pub(super) fn read(call: &Call) -> ApiResult<Self> {
        let body =
            if call.body.is_empty() { json!({}) } else { form::decode(&call.headers, &call.body)? };
        Self::check_body(&body)?;
        let mut options = Self::from_body(&body);
        options.dry_run |= call.query.is_dry_run();
        if call.body.is_empty() {
            options.grace = call.query.number("gracePeriodSeconds")?;
            options.propagation = call.query.get("propagationPolicy").map(str::to_owned);
            options.orphan = call.query.flag("orphanDependents");
        }
        options.check()?;
        Ok(options)
    }

    /// Refuses a body that is not a `DeleteOptions`.
    fn check_body(body: &Value) -> ApiResult<()> {
        let grace = &body["gracePeriodSeconds"];
        if !grace.is_null() && !grace.is_i64() {
            let kind = apimachinery::patch::type_name(grace);
            return Err(Status::bad_request(format!(
                "json: cannot unmarshal {kind} into Go struct field DeleteOptions.gracePeriodSeconds of type int64"
            )));
        }
        match (body["kind"].as_str(), body["apiVersion"].as_str()) {
            (Some(kind), version) if !kind.is_empty() && kind != "DeleteOptions" => {
                Err(Status::bad_request(format!(
                    "no kind \"{kind}\" is registered for version \"{}\" in scheme \"pkg/runtime/scheme.go:111\"",
                    version.unwrap_or_default()
                )))
            }
            _ => Ok(()),
        }
    }

    /// Reads a `DeleteOptions` object.
    pub(super) fn from_body(body: &Value) -> Self {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let dry_run = body["dryRun"].as_array().is_some_and(|d| d.iter().any(|v| v == "All"));
        Self {
            uid: text(&body["preconditions"]["uid"]),
            version: text(&body["preconditions"]["resourceVersion"]),
            grace: body["gracePeriodSeconds"].as_i64(),
            propagation: text(&body["propagationPolicy"]),
            orphan: body["orphanDependents"].as_bool(),
            dry_run,
        }
    }

    fn check(&self) -> ApiResult<()> {
        let known = ["Foreground", "Background", "Orphan"];
        let mut wrong = Vec::new();
        match &self.propagation {
            Some(policy) if self.orphan.is_some() => wrong.push((
                "propagationPolicy",
                format!(
                    "Invalid value: {}: orphanDependents and deletionPropagation cannot be both set",
                    quote(policy)
                ),
            )),
            Some(policy) if !known.contains(&policy.as_str()) => wrong.push((
                "propagationPolicy",
                format!(
                    r#"Unsupported value: "{policy}": supported values: "Foreground", "Background", "Orphan", "nil""#
                ),
            )),
            _ => {}
        }
        options::invalid("DeleteOptions", &wrong)
    }

    /// Returns the finalizers of an object while it is being deleted.
    fn finalizers(&self, resource: &Resource, object: &Value) -> Vec<String> {
        let mut before = meta::finalizers(object);
        if let Some(finalizer) = resource.rules.finalizer
            && !meta::is_deleting(object)
            && !before.iter().any(|f| f == finalizer)
        {
            before.push(finalizer.to_owned());
        }
        if !resource.rules.propagates_deletion {
            return before;
        }
        let has = |name: &str| before.iter().any(|f| f == name);
        let (orphans, foreground) = match (self.orphan, self.propagation.as_deref()) {
            (Some(orphan), _) => (orphan, false),
            (None, Some(policy)) => (policy == "Orphan", policy == "Foreground"),
            (None, None) if has(ORPHAN) || has(FOREGROUND) => (has(ORPHAN), has(FOREGROUND)),
            (None, None) => (resource.rules.orphans_dependents, false),
        };
        let others = before.into_iter().filter(|f| f != ORPHAN && f != FOREGROUND);
        let added =
            [(orphans, ORPHAN), (foreground, FOREGROUND)].into_iter().filter(|(yes, _)| *yes);
        others.chain(added.map(|(_, name)| name.to_owned())).collect()
    }

    fn check_preconditions(&self, call: &Call, object: &Value) -> ApiResult<()> {
        let (name, kind) = (meta::text(object, "name"), &call.resource.kind);
        let differs = |what: &str, wanted: &Option<String>, field: &str, hint: &str| {
            let (wanted, found) = (wanted.as_ref()?, meta::text(object, field));
            (wanted != found).then(|| {
                let why = format!(
                    "the {what} in the precondition ({wanted}) does not match the {what} in record ({found}). \
                     The object might have been {hint}"
                );
                let qualified = apimachinery::resource::qualified(kind, &call.resource.group);
                let message = format!("Operation cannot be fulfilled on {qualified} \"{name}\": {why}");
                let mut status = Status::new(409, "Conflict", message);
                status.details = Some(crate::status::details(name, &call.resource.group, kind));
                status
            })
        };
        let uid = differs("UID", &self.uid, "uid", "deleted and then recreated");
        let version = differs("ResourceVersion", &self.version, "resourceVersion", "modified");
        uid.or(version).map_or(Ok(()), Err)
    }
}

/// The next step of a deletion.
enum Step {
    /// Nothing: it is being deleted already.
    Wait,
    /// Mark it, and leave it.
    Mark(Value),
    /// Mark it, for watchers, and remove it.
    MarkAndRemove(Value),
    /// Remove it.
    Remove,
}

/// Deletes an object, as far as it can be deleted now.
pub(super) async fn delete(call: &Call, name: &str, options: &Options) -> ApiResult<Outcome> {
    let (resource, store) = (&call.resource, &call.core.store);
    let key: Arc<str> = Arc::from(call.key(name));
    // If another request changes the object before it is deleted, this starts again.
    loop {
        let stored = store.get(&resource.storage, &key);
        let stored = stored.ok_or_else(|| Status::not_found(resource, name))?;
        let Ok(object) = call.value(name, &stored) else {
            match delete_unread(call, &key, &stored, options).await? {
                Ok(outcome) => return Ok(outcome),
                Err(WriteError::Conflict) => continue,
                Err(failed) => return Err(refused(resource, name, failed)),
            }
        };
        options.check_preconditions(call, &object)?;
        let (marked, removes) = match next(call, &object, options) {
            Step::Wait => return Ok(Outcome::Going(object)),
            Step::Mark(marked) => (Some(marked), false),
            Step::MarkAndRemove(marked) => (Some(marked), true),
            Step::Remove => (None, true),
        };
        if options.dry_run {
            let left = marked.unwrap_or(object);
            return Ok(if removes { Outcome::Gone(left) } else { Outcome::Going(left) });
        }
        let now = match &marked {
            Some(marked) => update::replace(call, &stored, marked).await,
            None => Ok(stored),
        };
        let done = match now {
            Ok(now) if removes => remove(call, &key, &now).await,
            done => done,
        };
        match done {
            Ok(now) if removes => return call.value(name, &now).map(Outcome::Gone),
            Ok(now) => return call.value(name, &now).map(Outcome::Going),
            Err(WriteError::Conflict) => {}
            Err(failed) => return Err(refused(resource, name, failed)),
        }
    }
}

async fn remove(call: &Call, key: &Arc<str>, now: &Object) -> Result<Object, WriteError> {
    let (collection, key) = (Arc::clone(&call.resource.storage), Arc::clone(key));
    let write = Write { collection, key, expected: Some(now.version()), body: None };
    let removed = call.core.store.write(write).await?;
    definitions::on_write(&call.core, &call.resource);
    Ok(removed)
}

/// The readable part of an object that cannot be decoded.
#[derive(Default, Deserialize, Serialize)]
#[serde(default)]
struct Identity {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace: Option<String>,
    uid: String,
}

/// Removes an object that cannot be read, at once: no controller could read it to remove its finalizers.
async fn delete_unread(
    call: &Call,
    key: &Arc<str>,
    stored: &Object,
    options: &Options,
) -> ApiResult<Result<Outcome, WriteError>> {
    let identity: Identity = stored.metadata().unwrap_or_default();
    let mut object = json!({"metadata": identity, "kind": call.resource.kind});
    object["apiVersion"] = call.resource.api_version().into();
    meta::set(&mut object, "resourceVersion", Some(stored.version().to_string().into()));
    options.check_preconditions(call, &object)?;
    if options.dry_run {
        return Ok(Ok(Outcome::Gone(object)));
    }
    Ok(remove(call, key, stored).await.map(|_| Outcome::Gone(object)))
}

fn next(call: &Call, object: &Value, options: &Options) -> Step {
    let now = call.core.clock.now();
    let finalizers = options.finalizers(&call.resource, object);
    let mut marked = object.clone();
    meta::set_finalizers(&mut marked, finalizers.clone());
    let grace = match call.resource.rules.removal {
        Removal::AtOnce => None,
        Removal::AfterGracePeriod => Some(pods::grace(object, options.grace)),
        Removal::WhenFinalized => {
            if meta::is_deleting(object) {
                return Step::Wait;
            }
            mark(&mut marked, now, 0);
            meta::set(&mut marked, "deletionGracePeriodSeconds", None);
            marked["status"]["phase"] = "Terminating".into();
            return Step::Mark(marked);
        }
    };
    match grace {
        Some(grace) if meta::is_deleting(object) => {
            let pending = object["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap_or(0);
            match options.grace {
                _ if pending == 0 && finalizers.is_empty() => Step::Remove,
                Some(_) if grace < pending => {
                    shorten(&mut marked, now, pending, grace);
                    if grace == 0 && finalizers.is_empty() {
                        Step::MarkAndRemove(marked)
                    } else {
                        Step::Mark(marked)
                    }
                }
                _ => Step::Wait,
            }
        }
        Some(grace) => {
            mark(&mut marked, now, grace);
            if grace == 0 && finalizers.is_empty() {
                Step::MarkAndRemove(marked)
            } else {
                Step::Mark(marked)
            }
        }
        None if finalizers.is_empty() => Step::Remove,
        None => {
            if !meta::is_deleting(object) {
                mark(&mut marked, now, 0);
            }
            meta::set(&mut marked, "deletionGracePeriodSeconds", Some(0.into()));
            if marked == *object { Step::Wait } else { Step::Mark(marked) }
        }
    }
}

/// Marks an object as being deleted, to be removed after a grace period.
fn mark(object: &mut Value, now: jiff::Timestamp, grace: i64) {
    let ends = now.saturating_add(jiff::SignedDuration::from_secs(grace)).unwrap_or(now);
    meta::next_generation(object);
    meta::set(object, "deletionTimestamp", Some(meta::time(ends)));
    meta::set(object, "deletionGracePeriodSeconds", Some(grace.into()));
}

/// Moves the end of a grace period forward, but not into the past.
fn shorten(object: &mut Value, now: jiff::Timestamp, from: i64, to: i64) {
    let ends: Option<jiff::Timestamp> = meta::text(object, "deletionTimestamp").parse().ok();
    let less = jiff::SignedDuration::from_secs(from.saturating_sub(to));
    let ends = ends.and_then(|ends| ends.saturating_sub(less).ok()).unwrap_or(now).max(now);
    let to = if ends == now && to != 0 { 1 } else { to };
    meta::set(object, "deletionTimestamp", Some(meta::time(ends)));
    meta::set(object, "deletionGracePeriodSeconds", Some(to.into()));
}
