//! CustomResourceDefinitions: the resources that they serve, their status and their deletion.
//!
//! Whenever a definition changes, the registry of served resources is rebuilt from the store. A task then does what the
//! controllers of kube-apiserver do: it sets the accepted names in the status, and deletes the custom objects of a definition
//! before the definition itself.

use std::sync::Arc;
use std::time::Duration;

use apimachinery::crd::{self, CLEANUP_FINALIZER as FINALIZER, resources};
use apimachinery::resource::{Resource, qualified};
use apimachinery::schema::{Types, decode, times};
use serde_json::{Value, json};

use crate::core::Core;
use crate::store::{Body, Object, Unreadable, Write, WriteError};

const COLLECTION: &str = "customresourcedefinitions.apiextensions.k8s.io";

fn text<'v>(object: &'v Value, field: &str) -> &'v str {
    object[field].as_str().unwrap_or_default()
}

fn strings(list: &Value) -> Vec<String> {
    list.as_array().into_iter().flatten().filter_map(|w| w.as_str().map(str::to_owned)).collect()
}

/// Updates the registry after a write, if a CustomResourceDefinition was written.
pub(crate) fn on_write(core: &Core, resource: &Resource) {
    if resource.rules.defines_kinds {
        update_registry(core);
        core.definition_written.notify_one();
    }
}

/// Rebuilds the custom part of the registry from the definitions in the store.
pub(crate) fn update_registry(core: &Core) {
    let all = definitions(core);
    core.registry.change(|served| {
        served.remove_custom();
        for (_, crd) in &all {
            if is_accepted(crd, &all) {
                resources(crd).into_iter().for_each(|r| served.add(r));
            }
        }
    });
}

fn definitions(core: &Core) -> Vec<(Object, Value)> {
    let page = core.store.list(COLLECTION, "", None, usize::MAX, None);
    let items = page.map(|p| p.items).unwrap_or_default();
    let read = |(name, object): (Arc<str>, Object)| {
        let crd = read(&name, &object)?;
        Some((object, crd))
    };
    items.into_iter().filter_map(read).collect()
}

/// Reads a definition. One that cannot be read is skipped; the others are still served.
fn read(name: &str, object: &Object) -> Option<Value> {
    let value = object.value("apiextensions.k8s.io/v1", "CustomResourceDefinition");
    let log = |why: &Unreadable| {
        tracing::error!(
            error = %process::log::chain(why),
            name,
            "a CustomResourceDefinition cannot be read and is not served; delete it and create it again"
        );
    };
    value.inspect_err(log).ok()
}

/// Returns the reason and message of a conflict with the accepted names of another definition of the group.
fn name_conflict(crd: &Value, all: &[(Object, Value)]) -> Option<(String, String)> {
    let group = text(&crd["spec"], "group");
    let names = &crd["spec"]["names"];
    for (_, other) in all {
        let is_other = other["metadata"]["name"] != crd["metadata"]["name"];
        if !is_other || text(&other["spec"], "group") != group {
            continue;
        }
        let other_names = &other["status"]["acceptedNames"];
        let taken = |name: &str| {
            !name.is_empty()
                && (text(other_names, "plural") == name
                    || text(other_names, "singular") == name
                    || strings(&other_names["shortNames"]).iter().any(|s| s == name))
        };
        for field in ["plural", "singular"] {
            if taken(text(names, field)) {
                let reason = if field == "plural" { "PluralConflict" } else { "SingularConflict" };
                return Some((
                    reason.to_owned(),
                    format!("{:?} is already in use", text(names, field)),
                ));
            }
        }
        if let Some(name) = strings(&names["shortNames"]).iter().find(|n| taken(n)) {
            return Some(("ShortNamesConflict".to_owned(), format!("{name:?} is already in use")));
        }
        for (field, reason) in [("kind", "KindConflict"), ("listKind", "ListKindConflict")] {
            let name = text(names, field);
            if !name.is_empty()
                && (text(other_names, "kind") == name || text(other_names, "listKind") == name)
            {
                return Some((reason.to_owned(), format!("{name:?} is already in use")));
            }
        }
    }
    None
}

fn is_established(crd: &Value) -> bool {
    let conditions = crd["status"]["conditions"].as_array();
    conditions.into_iter().flatten().any(|c| c["type"] == "Established" && c["status"] == "True")
}

fn is_accepted(crd: &Value, all: &[(Object, Value)]) -> bool {
    is_established(crd) || name_conflict(crd, all).is_none()
}

/// Starts the task that reconciles definitions: at once, and whenever one was written, until the server stops.
pub(crate) fn start(core: &Arc<Core>) {
    let task_core = Arc::clone(core);
    core.own_task(core.supervisor.spawn("status of CustomResourceDefinitions", move || {
        let core = Arc::clone(&task_core);
        async move {
            loop {
                reconcile(&core).await;
                core.definition_written.notified().await;
            }
        }
    }));
}

/// Updates the status of every definition, and starts to finalize the deleted ones.
async fn reconcile(core: &Arc<Core>) {
    for (object, crd) in definitions(core) {
        let name = text(&crd["metadata"], "name").to_owned();
        if crd["metadata"]["deletionTimestamp"].is_string() {
            start_finalizing(core, name);
            continue;
        }
        let all = definitions(core);
        let mut next = crd.clone();
        set_accepted_names(&mut next, name_conflict(&crd, &all), core);
        if next["status"] != crd["status"] || next["metadata"] != crd["metadata"] {
            // A conflict means that another write changed it, which wakes this task again.
            let _ = write_crd(core, &name, Some(&object), Some(&next)).await;
        }
    }
}

async fn write_crd(
    core: &Core,
    name: &str,
    current: Option<&Object>,
    next: Option<&Value>,
) -> Result<(), WriteError> {
    let write = Write {
        collection: Arc::from(COLLECTION),
        key: Arc::from(name),
        expected: current.map(Object::version),
        body: next.map(Body::new),
    };
    core.store.write(write).await.map(|_| ())
}

fn set_accepted_names(crd: &mut Value, conflict: Option<(String, String)>, core: &Core) {
    let now = times::write(core.clock.now(), false);
    let was_established = is_established(crd);
    match conflict {
        None => {
            crd["status"]["acceptedNames"] = crd["spec"]["names"].clone();
            set_condition(
                crd,
                ("NamesAccepted", "True"),
                ("NoConflicts", "no conflicts found"),
                &now,
            );
            let message = "the initial names have been accepted";
            set_condition(crd, ("Established", "True"), ("InitialNamesAccepted", message), &now);
        }
        Some((reason, message)) => {
            set_condition(crd, ("NamesAccepted", "False"), (&reason, &message), &now);
            if !was_established {
                let why = ("NotAccepted", "not all names are accepted");
                set_condition(crd, ("Established", "False"), why, &now);
            }
        }
    }
}

fn set_condition(crd: &mut Value, state: (&str, &str), why: (&str, &str), now: &str) {
    if !crd["status"]["conditions"].is_array() {
        crd["status"]["conditions"] = json!([]);
    }
    let Some(list) = crd["status"]["conditions"].as_array_mut() else { return };
    let next = json!({"type": state.0, "status": state.1, "lastTransitionTime": now, "reason": why.0, "message": why.1});
    match list.iter_mut().find(|c| c["type"] == state.0) {
        Some(found) if found["status"] == state.1 => {}
        Some(found) => *found = next,
        None => list.push(next),
    }
}

/// Starts a task that finalizes a deleted definition, unless one is running.
fn start_finalizing(core: &Arc<Core>, name: String) {
    if !core.terminating().insert(name.clone()) {
        return;
    }
    let core = Arc::clone(core);
    tokio::spawn(async move {
        let task = format!("deletion of CustomResourceDefinition {name}");
        core.supervisor.complete(task, || finalize(&core, &name)).await;
        core.terminating().remove(&name);
    });
}

/// Deletes the custom objects of a deleted definition, then removes its finalizer.
async fn finalize(core: &Arc<Core>, name: &str) {
    let stopping = core.stopping();
    while !*stopping.borrow() {
        let Some(object) = core.store.get(COLLECTION, name) else { return };
        let Some(crd) = read(name, &object) else { return };
        let finalizers = strings(&crd["metadata"]["finalizers"]);
        if !finalizers.iter().any(|f| f == FINALIZER) {
            return;
        }
        if delete_custom_objects(core, &crd).await == 0 {
            let mut next = crd.clone();
            let left: Vec<&String> = finalizers.iter().filter(|f| *f != FINALIZER).collect();
            next["metadata"]["finalizers"] = json!(left);
            let next = (!left.is_empty()).then_some(&next);
            if write_crd(core, name, Some(&object), next).await.is_ok() {
                update_registry(core);
                return;
            }
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Deletes objects without finalizers, marks the others as deleted, and returns how many remain.
async fn delete_custom_objects(core: &Core, crd: &Value) -> usize {
    let collection: Arc<str> =
        Arc::from(qualified(text(&crd["spec"]["names"], "plural"), text(&crd["spec"], "group")));
    let Ok(page) = core.store.list(&collection, "", None, usize::MAX, None) else { return 0 };
    let mut left = 0;
    for (key, object) in page.items {
        // The finalizers of an unreadable object can never be removed, so it is deleted at once.
        let mut value = object.value("", "").unwrap_or_default();
        let has_finalizers =
            value["metadata"]["finalizers"].as_array().is_some_and(|f| !f.is_empty());
        left += usize::from(has_finalizers);
        let is_marked = value["metadata"]["deletionTimestamp"].is_string();
        if has_finalizers && is_marked {
            continue;
        }
        let now = times::write(core.clock.now(), false);
        value["metadata"]["deletionTimestamp"] = now.into();
        value["metadata"]["deletionGracePeriodSeconds"] = 0.into();
        let write = Write {
            collection: Arc::clone(&collection),
            key,
            expected: Some(object.version()),
            body: has_finalizers.then(|| Body::new(&value)),
        };
        if core.store.write(write).await.is_err() {
            left += usize::from(!has_finalizers);
        }
    }
    left
}

/// Stores the definitions of Plimsoll's own kinds, where they are missing or have changed.
pub(crate) async fn install(core: &Arc<Core>) -> Result<(), String> {
    for kind in api::KINDS {
        let Some(make) = kind.crd else { continue };
        let mut crd = serde_json::to_value(make()).map_err(|e| e.to_string())?;
        let shape = Types::builtin().kind("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
        crd = decode::value(&crd, shape).map_err(|e| e.to_string())?.value;
        crd::default(&mut crd);
        let name = text(&crd["metadata"], "name").to_owned();
        let current = core.store.get(COLLECTION, &name);
        let stored = current.as_ref().and_then(|object| read(&name, object));
        if stored.as_ref().is_some_and(|s| s["spec"] == crd["spec"]) {
            continue;
        }
        match &stored {
            Some(old) => {
                crd["metadata"] = old["metadata"].clone();
                crd["status"] = old["status"].clone();
                let generation = old["metadata"]["generation"].as_i64().unwrap_or_default() + 1;
                crd["metadata"]["generation"] = generation.into();
                crd::prepare_update(&mut crd);
            }
            None => {
                crd["metadata"]["uid"] = core.random.uuid().to_string().into();
                crd["metadata"]["generation"] = 1.into();
                let now = times::write(core.clock.now(), false);
                crd["metadata"]["creationTimestamp"] = now.into();
                crd::prepare_create(&mut crd);
            }
        }
        set_accepted_names(&mut crd, None, core);
        match write_crd(core, &name, current.as_ref(), Some(&crd)).await {
            Ok(()) | Err(WriteError::Conflict) => {}
            Err(WriteError::Failed(why)) => return Err(why),
        }
    }
    update_registry(core);
    Ok(())
}

#[cfg(test)]
mod tests;
