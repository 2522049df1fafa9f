//! The volumes of a container: at their paths, or where variables say.

use cluster::EventType;

use super::ContainerRunner;
use super::start::NotStarted;
use crate::env::Variables;
use crate::launch::{Mount, Mounts};
use crate::network::NAME_SERVER;
use crate::volumes::{self, Mounting};

impl ContainerRunner {
    /// Returns the mounts of the container. Where Linux does not allow mounts, their paths are added to the environment.
    pub(super) async fn mounts(&self, env: &mut Variables) -> Result<Vec<Mount>, NotStarted> {
        let mounts = self.pod.volumes.mounts(&self.container, env);
        let mounts = mounts.map_err(|why| NotStarted::new("CreateContainerConfigError", why))?;
        if !mounts.is_empty()
            && let Mounting::Variables { .. } = self.mounting().await
        {
            for (volume, mount) in &mounts {
                env.insert(variable(volume), mount.source.to_string_lossy().into_owned());
            }
        }
        Ok(mounts.into_iter().map(|(_, mount)| mount).collect())
    }

    /// Returns the value of the variable from which the launcher of a process reads its mounts; `None`: it makes none.
    pub(super) async fn launcher_mounts(
        &self,
        mounts: Vec<Mount>,
    ) -> Result<Option<String>, NotStarted> {
        let mut all = self.names(&mounts).await?;
        if mounts.is_empty() && all.is_empty() {
            return Ok(None);
        }
        if let Mounting::Variables { why } = self.mounting().await {
            let example = self.container.volume_mounts.iter().flatten().next();
            let example = example.map(|mount| variable(&mount.name)).unwrap_or_default();
            let note = format!(
                "Volumes are not mounted at their paths, since Linux does not allow it here ({why}): the paths of their \
                 directories are in environment variables such as {example}"
            );
            self.event(EventType::Warning, "VolumesNotMounted", note);
            return Ok(None);
        }
        let failed = |err: &dyn std::fmt::Display| {
            NotStarted::new("RunContainerError", format!("could not prepare the volumes: {err}"))
        };
        let staging = self.pod.volumes.staging().map_err(|err| failed(&err))?;
        all.extend(mounts);
        let mounts = Mounts { staging, mounts: all };
        serde_json::to_string(&mounts).map(Some).map_err(|err| failed(&err))
    }

    /// Returns the mounts by which programs find Services by name; none where they reach no Services or mounts are not allowed.
    async fn names(&self, own: &[Mount]) -> Result<Vec<Mount>, NotStarted> {
        let policy = self.pod.spec().dns_policy.as_deref().unwrap_or("ClusterFirst");
        let uses_cluster = policy.starts_with("ClusterFirst");
        if !uses_cluster || !self.pod.network.reaches_cluster_ips() {
            return Ok(Vec::new());
        }
        match self.mounting().await {
            Mounting::Private => {
                let names = self.pod.volumes.names(NAME_SERVER.into(), own);
                names.map_err(|err| {
                    let why = format!("could not write the files of the resolver: {err}");
                    NotStarted::new("RunContainerError", why)
                })
            }
            Mounting::Variables { .. } => Ok(Vec::new()),
        }
    }

    /// Finds out, once, how processes see their volumes.
    async fn mounting(&self) -> &Mounting {
        let (machine, launcher) = (&self.pod.machine, &self.pod.local().launcher);
        let detect = || async move {
            match &machine.spawner {
                Some(spawner) => volumes::detect(launcher, spawner, &machine.context.random).await,
                None => Mounting::Variables { why: "this machine is not a node".to_owned() },
            }
        };
        machine.mounting.get_or_init(detect).await
    }
}

/// Returns the name of the variable that holds the path of a volume.
fn variable(volume: &str) -> String {
    format!("PLIMSOLL_VOLUME_{}", volume.to_uppercase().replace('-', "_"))
}
