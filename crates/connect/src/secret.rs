//! Credentials that the settings of a source or target name: keys of Secrets in the controller's namespace.

use cluster::error::api_message;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};
use serde::Deserialize;

/// The namespace of the Secrets.
const NAMESPACE: &str = "plimsoll-system";

/// A key of a Secret.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SecretRef {
    name: String,
    key: String,
}

/// Why a credential cannot be used. The credential itself is never part of the message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("Secret {NAMESPACE}/{name}, key `{key}`: {problem}")]
pub struct SecretError {
    name: String,
    key: String,
    problem: String,
}

impl SecretRef {
    /// Names a key of a Secret.
    pub(crate) fn new(name: String, key: String) -> Self {
        Self { name, key }
    }

    /// Reads the bytes of the key.
    pub(crate) async fn read(&self, client: &Client) -> Result<Vec<u8>, SecretError> {
        let api: Api<Secret> = Api::namespaced(client.clone(), NAMESPACE);
        let secret = api.get(&self.name).await.map_err(|err| self.error(api_message(&err)))?;
        let value = secret.data.and_then(|mut data| data.remove(&self.key));
        value.map(|value| value.0).ok_or_else(|| self.error("the Secret has no such key"))
    }

    /// Reads the text of the key, without the newline that editors leave at its end.
    pub(crate) async fn read_text(&self, client: &Client) -> Result<String, SecretError> {
        let text = String::from_utf8(self.read(client).await?);
        let text = text.map_err(|_| self.error("expected UTF-8"))?;
        Ok(text.trim_end_matches(['\r', '\n']).to_owned())
    }

    /// Returns why the credential cannot be used.
    pub(crate) fn error(&self, problem: impl Into<String>) -> SecretError {
        let Self { name, key } = self.clone();
        SecretError { name, key, problem: problem.into() }
    }
}
