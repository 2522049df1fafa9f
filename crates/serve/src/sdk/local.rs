//! A stand-in with no control plane, for developers of games: the object is in memory, and changes at once.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use api::agones::GameServer;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::core::Core;

/// How often the file is looked at.
const LOOK: Duration = Duration::from_millis(200);

/// Why a file is no game server.
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
        /// What was found.
        message: String,
    },
    /// It is no GameServer.
    #[error("{path} is not a GameServer: {message}")]
    Shape {
        /// The file.
        path: String,
        /// The fields that do not fit.
        message: String,
    },
}

/// Gives the game server of somebody who brings none.
pub(super) fn default(uid: String, now: Timestamp) -> GameServer {
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

/// Reads a game server from a file. Counters and lists start as `spec` says where `status` says nothing of them.
pub(super) fn read(path: &Path) -> Result<GameServer, FileError> {
    let name = || path.display().to_string();
    let text =
        std::fs::read_to_string(path).map_err(|source| FileError::Read { path: name(), source })?;
    let mut object: Value = serde_saphyr::from_str(&text)
        .map_err(|err| FileError::Syntax { path: name(), message: err.to_string() })?;
    if !object.is_object() {
        return Err(FileError::Shape { path: name(), message: "expected an object".to_owned() });
    }
    // What a cluster needs in order to start it, a developer need not write down.
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

/// Ends reservations and reads the file again whenever it changes, however it changes, until the end.
pub(super) async fn keep(core: &Core, file: Option<PathBuf>) {
    let mut looks = tokio::time::interval(LOOK);
    let mut seen = file.as_deref().and_then(mark);
    loop {
        tokio::select! {
            () = core.stop.cancelled() => return,
            () = core.end_reservation() => {}
            () = core.woken() => {}
            _ = looks.tick() => {
                let Some(path) = &file else { continue };
                let now = mark(path);
                // A file that is not there is about to be: editors write a new one and rename it.
                if now.is_some() && now != seen {
                    seen = now;
                    reload(core, path);
                }
            }
        }
    }
}

fn reload(core: &Core, path: &Path) {
    match read(path) {
        Ok(server) => {
            tracing::info!(file = %path.display(), "read again");
            core.replace(server);
        }
        Err(err) => {
            tracing::warn!(error = %process::log::chain(&err), "the file is not used; the last good one is")
        }
    }
}

/// Tells one content of a file from another without reading it.
fn mark(path: &Path) -> Option<(SystemTime, u64, u64)> {
    let meta = std::fs::metadata(path).ok()?;
    let inode = std::os::unix::fs::MetadataExt::ino(&meta);
    Some((meta.modified().ok()?, meta.len(), inode))
}
