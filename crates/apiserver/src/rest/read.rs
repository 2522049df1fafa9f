//! Reads one object.

use serde_json::{Value, json};

use super::{Call, Reply};
use crate::status::ApiResult;

/// Answers with the object that the request names.
pub(super) fn answer(call: &Call) -> ApiResult<Reply> {
    super::list::check_version(call, call.query.get("resourceVersion"))?;
    call.show(200, &call.find()?)
}

/// Leaves only the metadata of an object.
pub(super) fn metadata_only(object: &Value) -> Value {
    let metadata = object.get("metadata").cloned().unwrap_or_else(|| json!({}));
    json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata})
}
