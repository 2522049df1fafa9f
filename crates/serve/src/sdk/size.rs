//! Is a game server still small enough to be stored?
//!
//! The API refuses a write that makes an object too large, and the game has its answer by then. So the calls that add text
//! are checked before they are answered.

use api::agones::GameServer;

use super::refusal::Refusal;

/// The most that the keys and values of all annotations may come to: the 256 KiB that Kubernetes allows, less what the
/// control plane needs for its own.
const ANNOTATION_BYTES: usize = 255 * 1024;

/// The most that the whole object may come to as JSON. Stores of clusters take 1.5 MiB, of which some goes to the record
/// of who owns which field.
const OBJECT_BYTES: usize = 1024 * 1024;

/// Refuses a change that makes an object larger than it can be.
pub(super) fn check(before: &GameServer, after: &GameServer) -> Result<(), Refusal> {
    for (what, size, most) in [
        ("annotations", annotations as fn(&GameServer) -> usize, ANNOTATION_BYTES),
        ("GameServer", object, OBJECT_BYTES),
    ] {
        let bytes = size(after);
        // What others have made too large may still be made smaller.
        if bytes > most && bytes > size(before) {
            let why = format!("{what}: expected at most {most} bytes in all, found {bytes}");
            return Err(Refusal::argument(why));
        }
    }
    Ok(())
}

fn annotations(server: &GameServer) -> usize {
    let all = server.metadata.annotations.iter().flatten();
    all.map(|(key, value)| key.len() + value.len()).sum()
}

fn object(server: &GameServer) -> usize {
    serde_json::to_vec(server).map_or(0, |text| text.len())
}
