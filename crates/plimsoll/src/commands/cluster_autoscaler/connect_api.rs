//! Connects to the API server whose nodes are scaled.

use anyhow::Context as _;
use http::HeaderValue;
use http::header::USER_AGENT;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

use super::settings::ProcessSettings;

/// Connects to the API server of `--kubeconfig`, or else as the pod that this is.
pub(super) async fn client(settings: &ProcessSettings) -> anyhow::Result<Client> {
    let mut config = match &settings.kubeconfig {
        Some(path) => from_kubeconfig(path).await?,
        None => in_cluster()?,
    };
    if let Some(address) = &settings.api_server {
        let address = address.split('?').next().unwrap_or_default();
        let parsed = address.parse();
        config.cluster_url =
            parsed.with_context(|| format!("--kubernetes: `{address}` is not a URL"))?;
    }
    let agent = HeaderValue::from_str(&settings.user_agent);
    config.headers.push((USER_AGENT, agent.context("--user-agent: not a header value")?));
    Ok(Client::try_from(config)?)
}

fn in_cluster() -> anyhow::Result<Config> {
    Config::incluster().context("not running in a pod; use --kubeconfig FILE")
}

async fn from_kubeconfig(path: &std::path::Path) -> anyhow::Result<Config> {
    let kubeconfig = Kubeconfig::read_from(path)
        .with_context(|| format!("could not read kubeconfig {}", path.display()))?;
    Ok(Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?)
}
