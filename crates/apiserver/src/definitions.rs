//! Which kinds do the definitions in the store make, and how do they come and go?
//!
//! Serving follows the store: whenever a definition changes, what is served is worked out anew. A task then does what
//! the controllers of a real server do: it says in the status that names are accepted, and on deletion it takes the
//! objects away first.

use std::sync::Arc;
use std::time::Duration;

use apimachinery::crd::{self, resources};
use apimachinery::resource::{Resource, qualified};
use apimachinery::schema::{Types, decode, times};
use serde_json::{Value, json};

use crate::core::Core;
use crate::store::{Body, Object, Unreadable, Write, WriteError};

const COLLECTION: &str = "customresourcedefinitions.apiextensions.k8s.io";
/// Keeps a deleted definition until its objects are gone.
pub(crate) const FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

fn text<'v>(object: &'v Value, field: &str) -> &'v str {
    object[field].as_str().unwrap_or_default()
}

fn words(list: &Value) -> Vec<String> {
    list.as_array().into_iter().flatten().filter_map(|w| w.as_str().map(str::to_owned)).collect()
}

/// Follows a write of a resource, if it is one that decides what is served.
pub(crate) fn notice(core: &Core, resource: &Resource) {
    if resource.is("apiextensions.k8s.io", "CustomResourceDefinition") {
        sync(core);
        core.definition_written.notify_one();
    }
}

/// Serves what the definitions in the store say.
pub(crate) fn sync(core: &Core) {
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

/// Reads a definition. One that cannot be read is left out, and the others are served.
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

/// The names that another definition of the group, older or already accepted, has taken.
fn conflict(crd: &Value, all: &[(Object, Value)]) -> Option<(String, String)> {
    let group = text(&crd["spec"], "group");
    let mine = &crd["spec"]["names"];
    for (_, other) in all {
        let is_other = other["metadata"]["name"] != crd["metadata"]["name"];
        if !is_other || text(&other["spec"], "group") != group {
            continue;
        }
        let theirs = &other["status"]["acceptedNames"];
        let taken = |name: &str| {
            !name.is_empty()
                && (text(theirs, "plural") == name
                    || text(theirs, "singular") == name
                    || words(&theirs["shortNames"]).iter().any(|s| s == name))
        };
        for field in ["plural", "singular"] {
            if taken(text(mine, field)) {
                let reason = if field == "plural" { "PluralConflict" } else { "SingularConflict" };
                return Some((
                    reason.to_owned(),
                    format!("{:?} is already in use", text(mine, field)),
                ));
            }
        }
        if let Some(name) = words(&mine["shortNames"]).iter().find(|n| taken(n)) {
            return Some(("ShortNamesConflict".to_owned(), format!("{name:?} is already in use")));
        }
        for (field, reason) in [("kind", "KindConflict"), ("listKind", "ListKindConflict")] {
            let name = text(mine, field);
            if !name.is_empty()
                && (text(theirs, "kind") == name || text(theirs, "listKind") == name)
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
    is_established(crd) || conflict(crd, all).is_none()
}

/// Starts to settle definitions: at once, and whenever one was written. It ends when the engine stops.
pub(crate) fn start(core: &Arc<Core>) {
    let of_task = Arc::clone(core);
    core.keep(core.supervisor.spawn("status of CustomResourceDefinitions", move || {
        let core = Arc::clone(&of_task);
        async move {
            loop {
                settle(&core).await;
                core.definition_written.notified().await;
            }
        }
    }));
}

/// Brings the status of every definition up to date, and carries out deletions.
async fn settle(core: &Arc<Core>) {
    for (object, crd) in definitions(core) {
        let name = text(&crd["metadata"], "name").to_owned();
        if crd["metadata"]["deletionTimestamp"].is_string() {
            start_finishing(core, name);
            continue;
        }
        let all = definitions(core);
        let mut next = crd.clone();
        accept(&mut next, conflict(&crd, &all), core);
        if next["status"] != crd["status"] || next["metadata"] != crd["metadata"] {
            // A conflict means that someone else changed it, and that brings us here again.
            let _ = store(core, &name, Some(&object), Some(&next)).await;
        }
    }
}

async fn store(
    core: &Core,
    name: &str,
    seen: Option<&Object>,
    next: Option<&Value>,
) -> Result<(), WriteError> {
    let write = Write {
        collection: Arc::from(COLLECTION),
        key: Arc::from(name),
        expected: seen.map(Object::version),
        body: next.map(Body::new),
    };
    core.store.write(write).await.map(|_| ())
}

fn accept(crd: &mut Value, conflict: Option<(String, String)>, core: &Core) {
    let now = times::write(core.clock.now(), false);
    let was_established = is_established(crd);
    match conflict {
        None => {
            crd["status"]["acceptedNames"] = crd["spec"]["names"].clone();
            condition(crd, ("NamesAccepted", "True"), ("NoConflicts", "no conflicts found"), &now);
            let message = "the initial names have been accepted";
            condition(crd, ("Established", "True"), ("InitialNamesAccepted", message), &now);
        }
        Some((reason, message)) => {
            condition(crd, ("NamesAccepted", "False"), (&reason, &message), &now);
            if !was_established {
                let why = ("NotAccepted", "not all names are accepted");
                condition(crd, ("Established", "False"), why, &now);
            }
        }
    }
}

fn condition(crd: &mut Value, state: (&str, &str), why: (&str, &str), now: &str) {
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

/// Starts a task that carries out the deletion of a definition, unless there is one.
fn start_finishing(core: &Arc<Core>, name: String) {
    if !core.terminating().insert(name.clone()) {
        return;
    }
    let core = Arc::clone(core);
    tokio::spawn(async move {
        let task = format!("deletion of CustomResourceDefinition {name}");
        core.supervisor.complete(task, || finish(&core, &name)).await;
        core.terminating().remove(&name);
    });
}

/// Deletes the objects of a definition that is being deleted, and then lets it go.
async fn finish(core: &Arc<Core>, name: &str) {
    let stopping = core.stopping();
    while !*stopping.borrow() {
        let Some(object) = core.store.get(COLLECTION, name) else { return };
        let Some(crd) = read(name, &object) else { return };
        let finalizers = words(&crd["metadata"]["finalizers"]);
        if !finalizers.iter().any(|f| f == FINALIZER) {
            return;
        }
        if delete_instances(core, &crd).await == 0 {
            let mut next = crd.clone();
            let left: Vec<&String> = finalizers.iter().filter(|f| *f != FINALIZER).collect();
            next["metadata"]["finalizers"] = json!(left);
            let next = (!left.is_empty()).then_some(&next);
            if store(core, name, Some(&object), next).await.is_ok() {
                sync(core);
                return;
            }
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Deletes what can be deleted at once, marks the rest as deleted, and tells how much is left.
async fn delete_instances(core: &Core, crd: &Value) -> usize {
    let collection: Arc<str> =
        Arc::from(qualified(text(&crd["spec"]["names"], "plural"), text(&crd["spec"], "group")));
    let Ok(page) = core.store.list(&collection, "", None, usize::MAX, None) else { return 0 };
    let mut left = 0;
    for (key, object) in page.items {
        // Nobody can take finalizers off what cannot be read: it goes at once.
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

/// Brings the definitions of our own kinds into the store, where they are missing or have changed.
pub(crate) async fn install(core: &Arc<Core>) -> Result<(), String> {
    for kind in api::KINDS {
        let Some(make) = kind.crd else { continue };
        let mut crd = serde_json::to_value(make()).map_err(|e| e.to_string())?;
        let shape = Types::builtin().kind("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
        crd = decode::value(&crd, shape).map_err(|e| e.to_string())?.value;
        crd::default(&mut crd);
        let name = text(&crd["metadata"], "name").to_owned();
        let seen = core.store.get(COLLECTION, &name);
        let stored = seen.as_ref().and_then(|object| read(&name, object));
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
        accept(&mut crd, None, core);
        match store(core, &name, seen.as_ref(), Some(&crd)).await {
            Ok(()) | Err(WriteError::Conflict) => {}
            Err(WriteError::Failed(why)) => return Err(why),
        }
    }
    sync(core);
    Ok(())
}

#[cfg(test)]
mod tests;
