//! How does an object go?
//!
//! At once, or after a grace period, or when the last finalizer is off. What it leaves behind is the garbage
//! collector's business; here it is only told, by a finalizer, what it may do.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::select::Selection;
use super::{Call, Reply, form, list, meta, options, refused, strategy, update};
use crate::definitions::{self, FINALIZER};
use crate::status::{Answer, Status};
use crate::store::{Object, Write, WriteError};
use apimachinery::resource::{Origin, Resource};

const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";

/// What a client says about a deletion.
#[derive(Clone, Debug, Default)]
pub(super) struct Options {
    pub(super) uid: Option<String>,
    pub(super) version: Option<String>,
    pub(super) grace: Option<i64>,
    pub(super) propagation: Option<String>,
    pub(super) orphan: Option<bool>,
    pub(super) dry_run: bool,
}

/// What became of an object.
pub(super) enum Outcome {
    /// It is gone; this is how it last was.
    Gone(Value),
    /// It will go later; this is how it is now.
    Going(Value),
}

/// Deletes the object that the request names.
pub(super) async fn one(call: &Call) -> Answer<Reply> {
    let options = Options::read(call)?;
    match delete(call, call.name(), &options).await? {
        Outcome::Going(object) => {
            let code = if options.orphan == Some(false) { 202 } else { 200 };
            Ok(call.show_value(code, &object))
        }
        Outcome::Gone(object) if strategy::returns_deleted(&call.resource) => {
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
pub(super) async fn collection(call: &Call) -> Answer<Reply> {
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
    /// Reads them from the body and, as far as it is silent, from the query.
    pub(super) fn read(call: &Call) -> Answer<Self> {
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
    fn check_body(body: &Value) -> Answer<()> {
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

    fn check(&self) -> Answer<()> {
        let known = ["Foreground", "Background", "Orphan"];
        let mut wrong = Vec::new();
        match &self.propagation {
            Some(policy) if self.orphan.is_some() => wrong.push((
                "propagationPolicy",
                format!(
                    "Invalid value: {policy:?}: orphanDependents and deletionPropagation cannot be both set"
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

    /// Gives the finalizers that an object has once this deletion is under way.
    fn finalizers(&self, resource: &Resource, object: &Value) -> Vec<String> {
        let mut before = meta::finalizers(object);
        let is_definition = resource.is("apiextensions.k8s.io", "CustomResourceDefinition");
        if is_definition && !meta::is_deleting(object) && !before.iter().any(|f| f == FINALIZER) {
            before.push(FINALIZER.to_owned());
        }
        if resource.plural == "events" {
            return before;
        }
        let has = |name: &str| before.iter().any(|f| f == name);
        let (orphans, foreground) = match (self.orphan, self.propagation.as_deref()) {
            (Some(orphan), _) => (orphan, false),
            (None, Some(policy)) => (policy == "Orphan", policy == "Foreground"),
            (None, None) if has(ORPHAN) || has(FOREGROUND) => (has(ORPHAN), has(FOREGROUND)),
            (None, None) => {
                (resource.is("", "ReplicationController") || resource.is("batch", "Job"), false)
            }
        };
        let others = before.into_iter().filter(|f| f != ORPHAN && f != FOREGROUND);
        let added =
            [(orphans, ORPHAN), (foreground, FOREGROUND)].into_iter().filter(|(yes, _)| *yes);
        others.chain(added.map(|(_, name)| name.to_owned())).collect()
    }

    fn check_preconditions(&self, call: &Call, object: &Value) -> Answer<()> {
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

/// What is to be done with an object next.
enum Step {
    /// Nothing: it is on its way out already.
    Wait,
    /// Mark it, and leave it.
    Mark(Value),
    /// Mark it, for those who watch, and remove it.
    MarkAndRemove(Value),
    /// Remove it.
    Remove,
}

/// Deletes an object, as far as it can be deleted now.
pub(super) async fn delete(call: &Call, name: &str, options: &Options) -> Answer<Outcome> {
    let (resource, store) = (&call.resource, &call.core.store);
    let key: Arc<str> = Arc::from(call.key(name));
    // Someone may change the object between the look and the deletion: then we look again.
    loop {
        let seen = store.get(&resource.storage, &key);
        let seen = seen.ok_or_else(|| Status::not_found(resource, name))?;
        let Ok(object) = call.value(name, &seen) else {
            match delete_unread(call, &key, &seen, options).await? {
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
            Some(marked) => update::replace(call, &seen, marked).await,
            None => Ok(seen),
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
    let gone = call.core.store.write(write).await?;
    definitions::notice(&call.core, &call.resource);
    Ok(gone)
}

/// What is left of an object that cannot be read.
#[derive(Default, Deserialize, Serialize)]
#[serde(default)]
struct Identity {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace: Option<String>,
    uid: String,
}

/// Removes an object that cannot be read, at once: nobody can do what its finalizers wait for.
async fn delete_unread(
    call: &Call,
    key: &Arc<str>,
    seen: &Object,
    options: &Options,
) -> Answer<Result<Outcome, WriteError>> {
    let identity: Identity = seen.metadata().unwrap_or_default();
    let mut object = json!({"metadata": identity, "kind": call.resource.kind});
    object["apiVersion"] = call.resource.api_version().into();
    meta::set(&mut object, "resourceVersion", Some(seen.version().to_string().into()));
    options.check_preconditions(call, &object)?;
    if options.dry_run {
        return Ok(Ok(Outcome::Gone(object)));
    }
    Ok(remove(call, key, seen).await.map(|_| Outcome::Gone(object)))
}

fn next(call: &Call, object: &Value, options: &Options) -> Step {
    let now = call.core.clock.now();
    let finalizers = options.finalizers(&call.resource, object);
    let mut marked = object.clone();
    meta::set_finalizers(&mut marked, finalizers.clone());
    if call.resource.is("", "Namespace") {
        if meta::is_deleting(object) {
            return Step::Wait;
        }
        mark(&mut marked, now, 0);
        meta::set(&mut marked, "deletionGracePeriodSeconds", None);
        marked["status"]["phase"] = "Terminating".into();
        return Step::Mark(marked);
    }
    let grace =
        if call.resource.is("", "Pod") { super::pods::grace(object, options.grace) } else { None };
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

/// Marks an object as being deleted, to be gone after a grace period.
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
