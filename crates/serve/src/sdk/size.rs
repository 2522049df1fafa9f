//! The size limits of a GameServer.
//!
//! The API rejects a write that makes an object too large, but the call has returned by then. So calls that add text are
//! checked before they return.

use api::agones::GameServer;

use super::error::CallError;

/// The maximum total size of annotation keys and values: the 256 KiB that Kubernetes allows, less part the control plane
/// needs for its own.
const MAX_ANNOTATION_BYTES: usize = 255 * 1024;

/// The maximum size of the object as JSON. etcd accepts 1.5 MiB, some of which goes to `managedFields`.
const MAX_OBJECT_BYTES: usize = 1024 * 1024;

/// Rejects a change that makes an object too large.
pub(super) fn check(before: &GameServer, after: &GameServer) -> Result<(), CallError> {
    for (part, size, max) in [
        ("annotations", annotation_bytes as fn(&GameServer) -> usize, MAX_ANNOTATION_BYTES),
        ("GameServer", object_bytes, MAX_OBJECT_BYTES),
    ] {
        let bytes = size(after);
        // An object that is too large already may still be made smaller.
        if bytes > max && bytes > size(before) {
            let message = format!("{part}: expected at max {max} bytes in all, found {bytes}");
            return Err(CallError::invalid_argument(message));
        }
    }
    Ok(())
}

fn annotation_bytes(server: &GameServer) -> usize {
    let all = server.metadata.annotations.iter().flatten();
    all.map(|(key, value)| key.len() + value.len()).sum()
}

fn object_bytes(server: &GameServer) -> usize {
    serde_json::to_vec(server).map_or(0, |text| text.len())
}
