//! Local mode, for game developers: no control plane, the object is in memory and changes at once.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use api::agones::GameServer;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::core::Core;

/// The interval at which the file is checked for changes.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// Why a file cannot be used as a GameServer.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// It cannot be read.
    #[error("could not read {path}")]
    Read {
        /// The file.
        path: String,
        /// Why.
        source: std::io::Error,
    },
    /// It is neither YAML nor JSON.
    #[error("{path} is neither YAML nor JSON: {message}")]
    Syntax {
        /// The file.
        path: String,
        /// The syntax error.
        message: String,
    },
    /// It is not a GameServer.
    #[error("{path} is not a GameServer: {message}")]
    Shape {
        /// The file.
        path: String,
        /// The invalid fields.
        message: String,
    },
}

/// Returns the GameServer that is used without a file.
pub(super) fn default_server(uid: String, now: Timestamp) -> GameServer {
    let object = json!({
        "metadata": {
            "name": "local",
            "namespace": "default",
            "uid": uid,
            "resourceVersion": "v1",
            "generation": 1,
            "creationTimestamp": now,
            "labels": {"islocal": "true"},
            "annotations": {"annotation": "true"},
        },
        "spec": {
            "health": {"periodSeconds": 3, "failureThreshold": 5, "initialDelaySeconds": 10},
            "template": {},
        },
        "status": {
            "state": "Ready",
            "address": "127.0.0.1",
            "ports": [{"name": "default", "port": 7777}],
            "counters": {"rooms": {"count": 1, "capacity": 10}},
            "lists": {"players": {"capacity": 100, "values": ["test0", "test1", "test2"]}},
        },
    });
    serde_json::from_value(object).expect("the object above is a GameServer")
}

/// Reads a game server from a file. Counters and lists start as in `spec` where `status` has none.
pub(super) fn read(path: &Path) -> Result<GameServer, FileError> {
    let name = || path.display().to_string();
    let text =
        std::fs::read_to_string(path).map_err(|source| FileError::Read { path: name(), source })?;
    let mut object: Value = serde_saphyr::from_str(&text)
        .map_err(|err| FileError::Syntax { path: name(), message: err.to_string() })?;
    if !object.is_object() {
        return Err(FileError::Shape { path: name(), message: "expected an object".to_owned() });
    }
    // Local mode starts no pod, so the template may be left out.
    if object["spec"]["template"].is_null() {
        object["spec"]["template"] = json!({});
    }
    let mut server: GameServer = api::decode::lenient(&object).map_err(|problems| {
        let message: Vec<_> = problems.iter().map(ToString::to_string).collect();
        FileError::Shape { path: name(), message: message.join("; ") }
    })?;
    let status = server.status.get_or_insert_default();
    status.counters = status.counters.take().or_else(|| server.spec.counters.clone());
    status.lists = status.lists.take().or_else(|| server.spec.lists.clone());
    Ok(server)
}

/// Ends reservations, and reloads the file when it changes, until the SDK server stops.
pub(super) async fn run(core: &Core, file: Option<PathBuf>) {
    let mut poll = tokio::time::interval(POLL_INTERVAL);
    let mut loaded = file.as_deref().and_then(fingerprint);
    loop {
        tokio::select! {
            () = core.stop.cancelled() => return,
            () = core.end_reservation() => {}
            () = core.changed() => {}
            _ = poll.tick() => {
                let Some(path) = &file else { continue };
                let now = fingerprint(path);
                // A missing file is about to reappear: editors write a new one and rename it.
                if now.is_some() && now != loaded {
                    loaded = now;
                    reload(core, path);
                }
            }
        }
    }
}

fn reload(core: &Core, path: &Path) {
    match read(path) {
        Ok(server) => {
            tracing::info!(file = %path.display(), "reloaded the GameServer");
            core.replace(server);
        }
        Err(err) => {
            tracing::warn!(error = %process::log::chain(&err), "the changed file is invalid; keeping the last valid GameServer")
        }
    }
}

/// Returns modification time, size and inode, which differ when the file has changed.
fn fingerprint(path: &Path) -> Option<(SystemTime, u64, u64)> {
    let meta = std::fs::metadata(path).ok()?;
    let inode = std::os::unix::fs::MetadataExt::ino(&meta);
    Some((meta.modified().ok()?, meta.len(), inode))
}
