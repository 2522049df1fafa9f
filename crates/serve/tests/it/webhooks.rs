//! Our admission webhooks beside a real API server: served on loopback, and asked about some namespaces only, so that no other
//! test meets them.

use base64::Engine as _;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use kube::Client;
use kube::api::{Api, DeleteParams, PostParams};
use plimsoll_serve::tls::{CertificateFiles, CertificateWatcher};
use plimsoll_serve::{admission, listen};
use process::{Clock, Supervisor};
use serde_json::{Value, json};

/// A server of webhooks on loopback, with a certificate of its own.
pub(crate) struct Webhooks {
    url: String,
    ca_bundle: String,
    task: tokio::task::JoinHandle<()>,
    _files: tempfile::TempDir,
}

/// The configurations by which an API server asks webhooks.
pub(crate) struct Installed {
    mutating: Api<MutatingWebhookConfiguration>,
    validating: Api<ValidatingWebhookConfiguration>,
    name: String,
}

impl Webhooks {
    pub(crate) async fn start() -> Self {
        let files = tempfile::tempdir().unwrap();
        let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
        std::fs::write(files.path().join("tls.crt"), made.cert.pem()).unwrap();
        std::fs::write(files.path().join("tls.key"), made.signing_key.serialize_pem()).unwrap();
        let (shown, supervisor) = (CertificateFiles::in_directory(files.path()), Supervisor::new());
        let certificates = CertificateWatcher::from_files(shown, &supervisor).await.unwrap();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://{}", listener.local_addr().unwrap());
        let ca_bundle = base64::engine::general_purpose::STANDARD.encode(made.cert.pem());
        let app = admission::router(Clock::system());
        let serving = listen::serve(listener, Some(certificates), app, std::future::pending());
        let task = tokio::spawn(serving);
        Self { url, ca_bundle, task, _files: files }
    }

    /// Has the API server ask about what `rules` say, in these namespaces.
    pub(crate) async fn install(
        &self,
        client: &Client,
        name: &str,
        namespaces: &[String],
        rules: &Value,
    ) -> Installed {
        let configuration = |path: &str| {
            json!({"metadata": {"name": name}, "webhooks": [{
                "name": "admission.plimsoll.dev", "admissionReviewVersions": ["v1"],
                "sideEffects": "None", "failurePolicy": "Fail", "timeoutSeconds": 10,
                "clientConfig": {"url": format!("{}{path}", self.url), "caBundle": self.ca_bundle},
                "namespaceSelector": {"matchExpressions": [
                    {"key": "kubernetes.io/metadata.name", "operator": "In", "values": namespaces},
                ]},
                "rules": rules,
            }]})
        };
        let mutating: Api<MutatingWebhookConfiguration> = Api::all(client.clone());
        let validating: Api<ValidatingWebhookConfiguration> = Api::all(client.clone());
        let mutate = serde_json::from_value(configuration("/mutate")).unwrap();
        let validate = serde_json::from_value(configuration("/validate")).unwrap();
        mutating.create(&PostParams::default(), &mutate).await.unwrap();
        validating.create(&PostParams::default(), &validate).await.unwrap();
        Installed { mutating, validating, name: name.to_owned() }
    }
}

impl Installed {
    pub(crate) async fn remove(self) {
        self.mutating.delete(&self.name, &DeleteParams::default()).await.unwrap();
        self.validating.delete(&self.name, &DeleteParams::default()).await.unwrap();
    }
}

impl Drop for Webhooks {
    fn drop(&mut self) {
        self.task.abort();
    }
}
