//! The files of a volume, from ConfigMaps, Secrets, fields of the pod, and tokens of its service account.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{
    ConfigMap, DownwardAPIVolumeFile, KeyToPath, Secret, ServiceAccount,
    ServiceAccountTokenProjection, Volume, VolumeProjection,
};
use kube::Api;
use kube::api::PostParams;
use process::Clock;
use tokio::time::Instant;

use super::changes::Changed;
use super::files::{File, Files};
use crate::env::{Source, resource};
use crate::status::containers;

/// The mode of files, unless the pod sets it.
const MODE: u32 = 0o644;
/// How long a token is valid, unless the pod sets it.
const TOKEN_SECONDS: i64 = 3600;

/// Reads the content of volumes.
pub(crate) struct ContentSource<'a> {
    pub(crate) source: Source<'a>,
    pub(crate) clock: &'a Clock,
}

/// The content of a volume.
#[derive(Default)]
pub(super) struct Content {
    pub(super) files: Files,
    /// When a token among them has to be renewed.
    pub(super) renew_at: Option<Instant>,
}

type Bytes = BTreeMap<String, Vec<u8>>;

/// Whether a volume has the content of an object.
pub(super) fn refers_to(volume: &Volume, changed: &Changed) -> bool {
    if let Some(map) = &volume.config_map {
        return changed.is_config_map(&map.name);
    }
    if let Some(secret) = &volume.secret {
        return changed.is_secret(secret.secret_name.as_deref().unwrap_or_default());
    }
    let sources = volume.projected.iter().flat_map(|projected| projected.sources.iter().flatten());
    sources.into_iter().any(|source| {
        source.config_map.as_ref().is_some_and(|map| changed.is_config_map(&map.name))
            || source.secret.as_ref().is_some_and(|secret| changed.is_secret(&secret.name))
    })
}

impl ContentSource<'_> {
    /// Returns the files of a volume, or a message that names what is missing.
    pub(super) async fn read(&self, volume: &Volume) -> Result<Content, String> {
        let mut content = Content::default();
        let files = &mut content.files;
        if let Some(map) = &volume.config_map {
            let values = self.config_map(&map.name, map.optional).await?;
            add(files, values, map.items.as_deref(), map.default_mode, map.optional, "config")?;
        } else if let Some(secret) = &volume.secret {
            let name = secret.secret_name.as_deref().unwrap_or_default();
            let values = self.secret(name, secret.optional).await?;
            let (items, mode) = (secret.items.as_deref(), secret.default_mode);
            add(files, values, items, mode, secret.optional, "secret")?;
        } else if let Some(downward) = &volume.downward_api {
            self.downward(files, downward.items.as_deref(), downward.default_mode)?;
        } else if let Some(projected) = &volume.projected {
            for source in projected.sources.iter().flatten() {
                self.project(&mut content, source, projected.default_mode).await?;
            }
        }
        Ok(content)
    }

    async fn project(
        &self,
        content: &mut Content,
        source: &VolumeProjection,
        mode: Option<i32>,
    ) -> Result<(), String> {
        let files = &mut content.files;
        if let Some(map) = &source.config_map {
            let values = self.config_map(&map.name, map.optional).await?;
            add(files, values, map.items.as_deref(), mode, map.optional, "config")?;
        }
        if let Some(secret) = &source.secret {
            let values = self.secret(&secret.name, secret.optional).await?;
            add(files, values, secret.items.as_deref(), mode, secret.optional, "secret")?;
        }
        if let Some(downward) = &source.downward_api {
            self.downward(files, downward.items.as_deref(), mode)?;
        }
        if let Some(token) = &source.service_account_token {
            let (bytes, renew_at) = self.token(token).await?;
            content.renew_at = [content.renew_at, Some(renew_at)].into_iter().flatten().min();
            // Only the user that runs the pod may read a token.
            let file = File { bytes, mode: mode_of(mode) & 0o600 };
            content.files.insert(token.path.clone().into(), file);
        }
        if source.cluster_trust_bundle.is_some() || source.pod_certificate.is_some() {
            let known = "configMap, secret, downwardAPI and serviceAccountToken";
            return Err(format!("a projected volume can have {known} as sources here"));
        }
        Ok(())
    }

    fn namespace(&self) -> &str {
        self.source.pod.metadata.namespace.as_deref().unwrap_or_default()
    }

    async fn config_map(&self, name: &str, optional: Option<bool>) -> Result<Bytes, String> {
        let api: Api<ConfigMap> = Api::namespaced(self.source.client.clone(), self.namespace());
        match api.get_opt(name).await {
            Ok(Some(map)) => {
                let text = map.data.into_iter().flatten().map(|(k, v)| (k, v.into_bytes()));
                let binary = map.binary_data.into_iter().flatten().map(|(k, v)| (k, v.0));
                Ok(text.chain(binary).collect())
            }
            Ok(None) if optional == Some(true) => Ok(Bytes::new()),
            Ok(None) => Err(format!("configmap {name:?} not found")),
            Err(err) => Err(cluster::explain(&err)),
        }
    }

    async fn secret(&self, name: &str, optional: Option<bool>) -> Result<Bytes, String> {
        let api: Api<Secret> = Api::namespaced(self.source.client.clone(), self.namespace());
        match api.get_opt(name).await {
            Ok(Some(secret)) => {
                Ok(secret.data.into_iter().flatten().map(|(k, v)| (k, v.0)).collect())
            }
            Ok(None) if optional == Some(true) => Ok(Bytes::new()),
            Ok(None) => Err(format!("secret {name:?} not found")),
            Err(err) => Err(cluster::explain(&err)),
        }
    }

    fn downward(
        &self,
        files: &mut Files,
        items: Option<&[DownwardAPIVolumeFile]>,
        default_mode: Option<i32>,
    ) -> Result<(), String> {
        for item in items.into_iter().flatten() {
            let text = if let Some(field) = &item.field_ref {
                let metadata = &self.source.pod.metadata;
                match field.field_path.as_str() {
                    "metadata.labels" => lines(metadata.labels.as_ref()),
                    "metadata.annotations" => lines(metadata.annotations.as_ref()),
                    _ => self.source.field(field)?,
                }
            } else if let Some(field) = &item.resource_field_ref {
                let name = field.container_name.as_deref().unwrap_or_default();
                let container = containers(&self.source.pod).find(|(_, c)| c.name == name);
                let (_, container) =
                    container.ok_or_else(|| format!("container {name} not found"))?;
                resource(container, field)
            } else {
                String::new()
            };
            let file = File { bytes: text.into(), mode: mode_of(item.mode.or(default_mode)) };
            files.insert(item.path.clone().into(), file);
        }
        Ok(())
    }

    /// Requests a token, and returns when it has to be renewed.
    async fn token(
        &self,
        token: &ServiceAccountTokenProjection,
    ) -> Result<(Vec<u8>, Instant), String> {
        let pod = &self.source.pod;
        let account = pod.spec.as_ref().and_then(|spec| spec.service_account_name.as_deref());
        let account = account.filter(|name| !name.is_empty()).unwrap_or("default");
        let bound_object_ref = BoundObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Pod".to_owned()),
            name: pod.metadata.name.clone(),
            uid: pod.metadata.uid.clone(),
        };
        let request = TokenRequest {
            spec: Some(TokenRequestSpec {
                audiences: Some(token.audience.iter().filter(|a| !a.is_empty()).cloned().collect()),
                bound_object_ref: Some(bound_object_ref),
                expiration_seconds: Some(token.expiration_seconds.unwrap_or(TOKEN_SECONDS)),
            }),
            ..TokenRequest::default()
        };
        let api: Api<ServiceAccount> =
            Api::namespaced(self.source.client.clone(), self.namespace());
        let params = PostParams::default();
        let answer = api.create_subresource("token", account, &params, &request).await;
        let answer: TokenRequest =
            answer.map_err(|err| format!("failed to fetch token: {}", cluster::explain(&err)))?;
        let answer = answer.status.and_then(|s| s.token.zip(s.expiration_timestamp));
        let (token, expires_at) =
            answer.ok_or("failed to fetch token: it is missing in the response")?;
        let valid_for = expires_at.0.duration_since(self.clock.now());
        let valid_for = Duration::try_from(valid_for).unwrap_or_default();
        // As kubelet does: when a fifth of its time is left.
        let renew_at = Instant::now() + valid_for.mul_f64(0.8).max(Duration::from_secs(10));
        Ok((token.into_bytes(), renew_at))
    }
}

fn mode_of(mode: Option<i32>) -> u32 {
    mode.and_then(|mode| u32::try_from(mode).ok()).unwrap_or(MODE)
}

/// Adds the values of an object: all, or those of `items` at their paths.
fn add(
    files: &mut Files,
    mut values: Bytes,
    items: Option<&[KeyToPath]>,
    default_mode: Option<i32>,
    optional: Option<bool>,
    kind: &str,
) -> Result<(), String> {
    let mode = mode_of(default_mode);
    let Some(items) = items.filter(|items| !items.is_empty()) else {
        files.extend(values.into_iter().map(|(k, bytes)| (k.into(), File { bytes, mode })));
        return Ok(());
    };
    for item in items {
        match values.remove(&item.key) {
            Some(bytes) => {
                let mode = item.mode.map_or(mode, |mode| mode_of(Some(mode)));
                // A key may be named more than once.
                values.insert(item.key.clone(), bytes.clone());
                files.insert(item.path.clone().into(), File { bytes, mode });
            }
            None if optional == Some(true) => {}
            None => return Err(format!("references non-existent {kind} key: {}", item.key)),
        }
    }
    Ok(())
}

/// Returns labels or annotations as the downward API writes them.
fn lines(values: Option<&BTreeMap<String, String>>) -> String {
    let line = |(key, value): (&String, &String)| format!("{key}={value:?}");
    values.into_iter().flatten().map(line).collect::<Vec<_>>().join("\n")
}
