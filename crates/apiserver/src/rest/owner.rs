//! Updates field ownership (`managedFields`) after a write.

use serde_json::Value;

use super::Call;
use crate::status::{ApiResult, Status};
use crate::store::Unparsed;
use apimachinery::fields::{self, WriteContext};
use apimachinery::patch::apply;
use apimachinery::resource::{Origin, ServedResources, Subresource};

/// Sets the `managedFields` of a new object.
pub(super) fn record_create(call: &Call, new: &mut Value) {
    with(call, &call.field_manager(), |write| fields::update(None, new, write));
}

/// Updates the `managedFields` of a changed object, parsed or not.
pub(super) fn record_update(call: &Call, old: &Value, new: &mut Value, unparsed: &mut Unparsed) {
    with(call, &call.field_manager(), |write| match unparsed.managed_fields() {
        None => fields::update(Some(old), new, write),
        Some(live) => {
            let json = fields::update_unparsed(old, live, new, write);
            unparsed.set_managed_fields(new, json);
        }
    });
}

/// Applies a configuration to an object, and updates its `managedFields`.
pub(super) fn apply(call: &Call, old: Option<&Value>, applied: &Value) -> ApiResult<Value> {
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

fn with<T>(call: &Call, manager: &str, act: impl FnOnce(&WriteContext<'_>) -> T) -> T {
    let resource = &call.resource;
    let served: &ServedResources = &call.core.registry.served();
    let shape = |api_version: &str| served.find_kind(api_version, &resource.kind)?.shape();
    let subresource = call.subresource.map_or("", Subresource::name);
    let is_builtin = resource.origin == Origin::BuiltIn;
    let has_status = resource.has(Subresource::Status);
    act(&WriteContext {
        api_version: &resource.api_version(),
        shape: &shape,
        is_builtin,
        manager,
        subresource,
        ignored: fields::reset(is_builtin, &resource.kind, has_status, subresource),
        now: call.core.clock.now(),
    })
}
