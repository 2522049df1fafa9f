//! Assigns addresses and node ports to a Service that is written.

use serde_json::Value;

use super::{Call, meta, strategy};
use crate::service_addresses::AssignmentLock;
use crate::status::ApiResult;

/// Acquires the lock for assigning addresses, if the request assigns any.
pub(super) async fn lock(call: &Call) -> Option<AssignmentLock> {
    if !call.resource.rules.has_addresses || call.query.is_dry_run() {
        return None;
    }
    Some(call.core.service_addresses.lock().await)
}

/// Assigns the addresses and node ports that a Service does not choose itself, and refuses those that another Service has.
pub(super) fn assign(call: &Call, service: &mut Value) -> ApiResult<()> {
    if service["spec"]["type"] == "ExternalName" {
        return Ok(());
    }
    let (addresses, store) = (&call.core.service_addresses, &call.core.store);
    let name = meta::text(service, "name").to_owned();
    let conflicts = addresses.conflicts(store, &call.key(&name), &service["spec"]);
    if !conflicts.is_empty() {
        return Err(strategy::invalid(call, &name, &conflicts));
    }
    let uid = meta::text(service, "uid").to_owned();
    addresses.assign(store, &uid, &mut service["spec"])
}
