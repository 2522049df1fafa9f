//! Credentials that are files, where providers expect keys of Secrets.
//!
//! A Cluster Autoscaler finds its certificates and its second kubeconfig in files, and may not read Secrets. So requests for one Secret
//! are answered in this process, each time with the present content of the files, and never sent.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use http::{Request, Response, StatusCode};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};

/// The name of the Secret, which need not exist.
const NAME: &str = "cluster-autoscaler-files";

/// The keys of the Secret.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Credentials(BTreeMap<&'static str, Credential>);

/// Where a key comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Credential {
    File(PathBuf),
    Text(String),
}

impl Credentials {
    /// Adds a key, and returns what the settings of a provider name it by.
    pub(super) fn add(&mut self, key: &'static str, credential: Credential) -> Value {
        self.0.insert(key, credential);
        json!({"name": NAME, "key": key})
    }

    /// Returns a client that answers requests for the Secret itself.
    pub(super) fn client(self, inner: Client) -> Client {
        if self.0.is_empty() {
            return inner;
        }
        let (namespace, credentials) = (inner.default_namespace().to_owned(), Arc::new(self));
        let service = tower::service_fn(move |request: Request<Body>| {
            let (inner, credentials) = (inner.clone(), Arc::clone(&credentials));
            async move {
                if request.uri().path().ends_with(&format!("/secrets/{NAME}")) {
                    return Ok(credentials.answer().await);
                }
                inner.send(request).await
            }
        });
        Client::new(service, namespace)
    }

    async fn answer(&self) -> Response<Body> {
        match self.secret().await {
            Ok(secret) => response(StatusCode::OK, &json!(secret)),
            Err(message) => {
                let code = StatusCode::NOT_FOUND;
                let status = json!({
                    "apiVersion": "v1", "kind": "Status", "status": "Failure", "message": message,
                    "reason": "NotFound", "code": code.as_u16(),
                });
                response(code, &status)
            }
        }
    }

    async fn secret(&self) -> Result<Secret, String> {
        let mut data = BTreeMap::new();
        for (key, credential) in &self.0 {
            let content = match credential {
                Credential::Text(text) => text.clone().into_bytes(),
                Credential::File(path) => tokio::fs::read(path)
                    .await
                    .map_err(|error| format!("could not read {}: {error}", path.display()))?,
            };
            data.insert((*key).to_owned(), ByteString(content));
        }
        let mut secret = Secret { data: Some(data), ..Secret::default() };
        secret.metadata.name = Some(NAME.to_owned());
        Ok(secret)
    }
}

fn response(code: StatusCode, body: &Value) -> Response<Body> {
    let mut response = Response::new(Body::from(body.to_string().into_bytes()));
    *response.status_mut() = code;
    response
}

#[cfg(test)]
mod tests {
    use kube::Api;

    use super::*;

    #[tokio::test]
    async fn a_file_is_read_as_the_key_of_a_secret_each_time() {
        let inner = tower::service_fn(|request: Request<Body>| async move {
            let body = Body::from(request.uri().path().to_owned().into_bytes());
            Ok::<_, kube::Error>(Response::new(body))
        });
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ca.crt");
        let mut credentials = Credentials::default();
        let reference = credentials.add("ca", Credential::File(path.clone()));
        credentials.add("text", Credential::Text("t".to_owned()));
        assert_eq!(reference, json!({"name": "cluster-autoscaler-files", "key": "ca"}));
        let client = credentials.client(Client::new(inner, "default"));
        let secrets: Api<Secret> = Api::namespaced(client.clone(), "plimsoll-system");
        let missing = secrets.get(NAME).await.unwrap_err().to_string();
        assert!(missing.contains("could not read"), "{missing}");
        for content in ["one", "two"] {
            std::fs::write(&path, content).unwrap();
            let data = secrets.get(NAME).await.unwrap().data.unwrap();
            assert_eq!(data["ca"].0, content.as_bytes());
            assert_eq!(data["text"].0, b"t");
        }
        let other = Request::get("/api/v1/nodes").body(Vec::new()).unwrap();
        assert_eq!(client.request_text(other).await.unwrap(), "/api/v1/nodes");
    }
}
