//! Does the work of a cluster's admission plugins.

use serde_json::Value;

use super::{Call, meta, strategy};
use crate::status::{ApiResult, Status};
use crate::store::Object;
use apimachinery::builtin::admit::{self, PriorityClasses};

const PRIORITY_CLASSES: &str = "priorityclasses.scheduling.k8s.io";

/// Completes an object of a built-in kind, or refuses it.
pub(super) fn admit(call: &Call, object: &mut Value) -> ApiResult<()> {
    let resource = &call.resource;
    let by_name = |name: &str| call.core.store.get(PRIORITY_CLASSES, name).and_then(read);
    let global_default = resource.rules.has_priority.then(|| global_default(call)).flatten();
    let classes = PriorityClasses { by_name: &by_name, global_default };
    admit::admit(strategy::kind(resource), object, &classes)
        .map_err(|why| Status::forbidden(resource, meta::text(object, "name"), &why))
}

fn read(class: Object) -> Option<Value> {
    class.value("scheduling.k8s.io/v1", "PriorityClass").ok()
}

/// Finds the class of objects that name none.
fn global_default(call: &Call) -> Option<Value> {
    let page = call.core.store.list(PRIORITY_CLASSES, "", None, usize::MAX, None).ok()?;
    page.items
        .into_iter()
        .filter(|(_, class)| class.mentions(b"globalDefault"))
        .filter_map(|(_, class)| read(class))
        .find(|class| class["globalDefault"] == true)
}
