//! Finds the kubeconfig and connects to the Kubernetes API.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

/// The namespace of the controllers' Lease outside a pod.
pub(crate) const LEASE_NAMESPACE: &str = "default";

/// Connects to the API of `--kubeconfig`, else of `$KUBECONFIG`, else of `plimsoll up`, else of `~/.kube/config`. Also returns
/// the namespace of the kubeconfig.
pub(crate) async fn client(kubeconfig: Option<&Path>) -> anyhow::Result<(Client, String)> {
    let kubeconfig = match kubeconfig {
        Some(path) => read(path)?,
        None => default_kubeconfig()?,
    };
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await?;
    let namespace = config.default_namespace.clone();
    Ok((Client::try_from(config)?, namespace))
}

fn default_kubeconfig() -> anyhow::Result<Kubeconfig> {
    if let Some(named) =
        Kubeconfig::from_env().context("could not read the kubeconfig in $KUBECONFIG")?
    {
        return Ok(named);
    }
    let candidates =
        [data_directory(None).ok().map(|d| d.join("kubeconfig")), home(".kube/config")];
    let path = candidates.into_iter().flatten().find(|path| path.exists());
    read(
        &path.context(
            "no kubeconfig found: start `plimsoll up`, set KUBECONFIG, or use --kubeconfig",
        )?,
    )
}

fn read(path: &Path) -> anyhow::Result<Kubeconfig> {
    Kubeconfig::read_from(path)
        .with_context(|| format!("could not read kubeconfig {}", path.display()))
}

/// Returns the data directory: the given one, or the default.
pub(crate) fn data_directory(given: Option<&Path>) -> anyhow::Result<PathBuf> {
    let default =
        || from_env("XDG_DATA_HOME").or_else(|| home(".local/share")).map(|b| b.join("plimsoll"));
    let found = given.map(Path::to_owned).or_else(default);
    found.context("no data directory: set HOME, or use --data DIR")
}

fn home(path: &str) -> Option<PathBuf> {
    from_env("HOME").map(|home| home.join(path))
}

fn from_env(key: &str) -> Option<PathBuf> {
    std::env::var_os(key).filter(|value| !value.is_empty()).map(PathBuf::from)
}
