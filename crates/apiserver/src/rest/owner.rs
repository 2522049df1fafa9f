//! Who owns what after a write?

use serde_json::Value;

use super::Call;
use crate::status::{Answer, Status};
use apimachinery::fields::{self, Write};
use apimachinery::patch::apply;
use apimachinery::resource::{Origin, Served, Subresource};

/// Notes in an object who owns what after a create or an update.
pub(super) fn note(call: &Call, old: Option<&Value>, new: &mut Value) {
    with(call, &call.field_manager(), |write| fields::update(old, new, write));
}

/// Applies a configuration to what is there, and notes who owns what.
pub(super) fn apply(call: &Call, old: Option<&Value>, applied: &Value) -> Answer<Value> {
    let force = call.query.flag("force") == Some(true);
    let manager = call.query.get("fieldManager").unwrap_or_default();
    with(call, manager, |write| apply::apply(old, applied, write, force)).map_err(|err| {
        let message = err.to_string();
        match err {
            apply::Error::Refused(_) => Status::bad_request(message),
            apply::Error::Unexpected(_) => Status::new(500, "", message),
            apply::Error::Conflicts(conflicts) => {
                let status = Status::new(409, "Conflict", message);
                conflicts.causes().fold(status, |status, (message, field)| {
                    status.cause(serde_json::json!({
                        "reason": "FieldManagerConflict", "message": message, "field": field,
                    }))
                })
            }
        }
    })
}

fn with<T>(call: &Call, manager: &str, act: impl FnOnce(&Write<'_>) -> T) -> T {
    let resource = &call.resource;
    let served: &Served = &call.core.registry.served();
    let shape = |api_version: &str| served.find_kind(api_version, &resource.kind)?.shape();
    let subresource = call.subresource.map_or("", Subresource::name);
    let is_builtin = resource.origin == Origin::BuiltIn;
    let has_status = resource.has(Subresource::Status);
    act(&Write {
        api_version: &resource.api_version(),
        shape: &shape,
        is_builtin,
        manager,
        subresource,
        ignored: fields::reset(is_builtin, &resource.kind, has_status, subresource),
        now: call.core.clock.now(),
    })
}
