//! The volumes of a pod as directories of this machine.
//!
//! Those with the content of objects are written as kubelet does: the files are symbolic links into a directory that is
//! replaced as a whole, so that a program never sees half of a change.

mod changes;
mod content;
mod directory;
mod files;
mod mounting;
mod names;

use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Container, HostPathVolumeSource, Pod, Volume};
use tokio::time::Instant;

pub(crate) use changes::{Changed, Changes};
pub(crate) use content::ContentSource;
pub(crate) use directory::VolumeRoot;
pub(crate) use mounting::{Mounting, detect};

use crate::env::{Variables, expand};
use crate::launch::Mount;

/// The types of volumes that can be mounted.
const SUPPORTED: &str = "emptyDir, configMap, secret, projected, downwardAPI and hostPath";

/// Where containers find the token of their service account.
const TOKEN_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// The volumes of one pod. Their files are removed at the latest when this is dropped.
pub(crate) struct PodVolumes {
    root: Arc<VolumeRoot>,
    pod: Arc<Pod>,
    uid: Arc<str>,
}

/// Why a volume could not be set up.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SetUpError {
    pub(crate) volume: String,
    pub(crate) cause: String,
}

/// Where the files of a volume come from.
enum VolumeKind<'a> {
    EmptyDir {
        is_in_memory: bool,
    },
    HostPath(&'a HostPathVolumeSource),
    /// ConfigMap, Secret, downward API, or several of them.
    Content {
        is_in_memory: bool,
    },
    Unsupported(String),
}

fn kind(volume: &Volume) -> VolumeKind<'_> {
    if let Some(empty) = &volume.empty_dir {
        return VolumeKind::EmptyDir { is_in_memory: empty.medium.as_deref() == Some("Memory") };
    }
    if let Some(host) = &volume.host_path {
        return VolumeKind::HostPath(host);
    }
    if volume.config_map.is_some() {
        return VolumeKind::Content { is_in_memory: false };
    }
    if volume.secret.is_some() || volume.projected.is_some() || volume.downward_api.is_some() {
        return VolumeKind::Content { is_in_memory: true };
    }
    let fields = serde_json::to_value(volume).unwrap_or_default();
    let fields = fields.as_object().into_iter().flat_map(|fields| fields.keys());
    let of_type = fields.into_iter().find(|field| *field != "name");
    match of_type {
        Some(of_type) => VolumeKind::Unsupported(of_type.clone()),
        // As the API server defaults it.
        None => VolumeKind::EmptyDir { is_in_memory: false },
    }
}

impl PodVolumes {
    /// Returns the volumes of a pod, of which nothing is set up yet.
    pub(crate) fn new(root: &Arc<VolumeRoot>, pod: &Arc<Pod>, uid: &Arc<str>) -> Self {
        Self { root: Arc::clone(root), pod: Arc::clone(pod), uid: Arc::clone(uid) }
    }

    fn list(&self) -> impl Iterator<Item = &Volume> {
        self.pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten())
    }

    /// Whether the pod has none.
    pub(crate) fn is_empty(&self) -> bool {
        self.list().next().is_none()
    }

    /// Whether the files of a volume come from objects, which may change.
    pub(crate) fn has_content(&self) -> bool {
        self.list().any(|volume| matches!(kind(volume), VolumeKind::Content { .. }))
    }

    /// Whether a volume shows fields of the pod, of which labels and annotations may change.
    pub(crate) fn shows_fields(&self) -> bool {
        self.list().any(|volume| {
            let mut sources =
                volume.projected.iter().flat_map(|projected| projected.sources.iter().flatten());
            volume.downward_api.is_some() || sources.any(|source| source.downward_api.is_some())
        })
    }

    /// Whether a volume has the content of this object.
    pub(crate) fn refers_to(&self, changed: &Changed) -> bool {
        let namespace = self.pod.metadata.namespace.as_deref().unwrap_or_default();
        changed.is_in(namespace) && self.list().any(|volume| content::refers_to(volume, changed))
    }

    /// Creates or updates every volume, and returns when a token has to be renewed.
    pub(crate) async fn set_up(
        &self,
        source: &ContentSource<'_>,
    ) -> Result<Option<Instant>, SetUpError> {
        let mut renew_at: Option<Instant> = None;
        for volume in self.list() {
            let failed = |cause| SetUpError { volume: volume.name.clone(), cause };
            let unwritable = |err: io::Error| failed(err.to_string());
            match kind(volume) {
                VolumeKind::EmptyDir { is_in_memory } => {
                    let dir = self.dir(volume, is_in_memory).map_err(unwritable)?;
                    directory::create(&dir, 0o777).map_err(unwritable)?;
                }
                VolumeKind::HostPath(host) => host_path(host).map_err(failed)?,
                VolumeKind::Content { is_in_memory } => {
                    let content = source.read(volume).await.map_err(failed)?;
                    let dir = self.dir(volume, is_in_memory).map_err(unwritable)?;
                    files::replace(&dir, &content.files).map_err(unwritable)?;
                    renew_at = [renew_at, content.renew_at].into_iter().flatten().min();
                }
                VolumeKind::Unsupported(of_type) => {
                    return Err(failed(format!(
                        "volumes of type {of_type} are not supported here: use {SUPPORTED}, or a cluster"
                    )));
                }
            }
        }
        Ok(renew_at)
    }

    /// Returns the directory of a volume, whose parents exist.
    fn dir(&self, volume: &Volume, is_in_memory: bool) -> io::Result<PathBuf> {
        Ok(self.root.pod(&self.uid, is_in_memory)?.join(&volume.name))
    }

    /// Returns an empty directory for the new root of a process.
    pub(crate) fn staging(&self) -> io::Result<PathBuf> {
        // The name of a volume has no dot.
        let dir = self.root.pod(&self.uid, false)?.join(".root");
        directory::create(&dir, 0o700)?;
        Ok(dir)
    }

    /// Returns the mounts of a container, with the names of their volumes.
    pub(crate) fn mounts(
        &self,
        container: &Container,
        env: &Variables,
    ) -> Result<Vec<(String, Mount)>, String> {
        let mut mounts = Vec::new();
        for mounted in container.volume_mounts.iter().flatten() {
            let Some(volume) = self.list().find(|volume| volume.name == mounted.name) else {
                return Err(format!("the pod has no volume {:?}", mounted.name));
            };
            let kind = kind(volume);
            if matches!(kind, VolumeKind::EmptyDir { .. }) && mounted.mount_path == TOKEN_PATH {
                // It hides the token of the service account, and here is none.
                continue;
            }
            let failed = |err: io::Error| format!("volume {:?}: {err}", mounted.name);
            let (base, is_content) = match kind {
                VolumeKind::EmptyDir { is_in_memory } => {
                    (self.dir(volume, is_in_memory).map_err(failed)?, false)
                }
                VolumeKind::Content { is_in_memory } => {
                    (self.dir(volume, is_in_memory).map_err(failed)?, true)
                }
                VolumeKind::HostPath(host) => (PathBuf::from(&host.path), false),
                VolumeKind::Unsupported(_) => continue,
            };
            let sub_path = mounted.sub_path.clone().filter(|path| !path.is_empty());
            let expanded = mounted.sub_path_expr.as_ref().map(|text| expand(text, env));
            let source = match sub_path.or(expanded) {
                Some(path) => sub_path_of(&base, &path, is_content).ok_or_else(|| {
                    let (volume, container) = (&mounted.name, &container.name);
                    format!("failed to prepare subPath for volumeMount {volume:?} of container {container:?}")
                })?,
                None => base,
            };
            let read_only = is_content || mounted.read_only == Some(true);
            let mount = Mount { source, target: mounted.mount_path.clone().into(), read_only };
            mounts.push((mounted.name.clone(), mount));
        }
        Ok(mounts)
    }

    /// Removes all files.
    pub(crate) async fn remove(&self) {
        let (root, uid) = (Arc::clone(&self.root), Arc::clone(&self.uid));
        let _ = tokio::task::spawn_blocking(move || root.remove_pod(&uid)).await;
    }
}

impl Drop for PodVolumes {
    fn drop(&mut self) {
        self.root.remove_pod(&self.uid);
    }
}

/// Returns a path inside a volume; `None`: it cannot be mounted. In volumes for programs' own files it is created.
fn sub_path_of(base: &Path, path: &str, is_content: bool) -> Option<PathBuf> {
    let path = Path::new(path);
    if !path.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir)) {
        return None;
    }
    let path = base.join(path);
    if !is_content && !path.exists() {
        std::fs::create_dir_all(&path).ok()?;
    }
    // A program may have made a symbolic link that leads out of the volume.
    let (path, base) = (path.canonicalize().ok()?, base.canonicalize().ok()?);
    path.starts_with(base).then_some(path)
}

/// Checks a path of this machine, or creates it, depending on its type.
fn host_path(host: &HostPathVolumeSource) -> Result<(), String> {
    let path = Path::new(&host.path);
    let of_type = host.type_.as_deref().unwrap_or_default();
    let made = match of_type {
        "DirectoryOrCreate" => std::fs::create_dir_all(path),
        "FileOrCreate" if !path.exists() => std::fs::File::create(path).map(drop),
        _ => Ok(()),
    };
    made.map_err(|err| format!("{}: {err}", host.path))?;
    let is_right = match of_type {
        "Directory" | "DirectoryOrCreate" => path.is_dir(),
        "File" | "FileOrCreate" => path.is_file(),
        _ => path.exists(),
    };
    if is_right {
        Ok(())
    } else {
        Err(format!(
            "hostPath type check failed: {} is not a {}",
            host.path,
            if of_type.is_empty() { "path" } else { of_type }
        ))
    }
}
