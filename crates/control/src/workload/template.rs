//! Pods from a template, and the hash that distinguishes templates.

use cluster::{Error, EventType, Key};
use k8s_openapi::api::core::v1::{Pod, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use kube::api::{PostParams, Request};

use super::Workloads;
use super::claim::owner_reference;

/// The characters of generated names: no vowels, so that they spell no words.
const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// Returns a new pod of `owner`.
pub(super) fn new_pod<K: Resource<DynamicType = ()>>(owner: &K, template: &PodTemplateSpec) -> Pod {
    let meta = template.metadata.clone().unwrap_or_default();
    let name = owner.meta().name.as_deref().unwrap_or_default();
    let metadata = ObjectMeta {
        generate_name: Some(format!("{name}-")),
        namespace: owner.meta().namespace.clone(),
        labels: meta.labels,
        annotations: meta.annotations,
        finalizers: meta.finalizers,
        owner_references: owner_reference(owner).map(|owner| vec![owner]),
        ..ObjectMeta::default()
    };
    let spec = Some(template.spec.clone().unwrap_or_default());
    Pod { metadata, spec, status: None }
}

impl Workloads {
    /// Creates a pod of `owner` and records an event. The body is serialised JSON, so that equal pods are serialised once.
    pub(super) async fn create_pod<K>(
        &self,
        owner: &K,
        source: &str,
        pod: Vec<u8>,
    ) -> Result<(), Error>
    where
        K: Resource<DynamicType = ()>,
    {
        let namespace = owner.meta().namespace.as_deref().unwrap_or_default();
        let request = Request::new(Pod::url_path(&(), Some(namespace)));
        let request =
            request.create(&PostParams::default(), pod).map_err(kube::Error::BuildRequest);
        let answer = match request {
            Ok(request) => self.cx.client.request_text(request).await,
            Err(error) => Err(error),
        };
        let created =
            answer.and_then(|text| self.pods.decode(text).map_err(kube::Error::SerdeError));
        match created.map_err(Error::api("create a pod")) {
            Ok(pod) => {
                let note = format!("Created pod: {}", pod.view.name);
                self.pods.insert_entry(pod);
                self.cx.events.record(owner, source, EventType::Normal, "SuccessfulCreate", note);
                Ok(())
            }
            // Its owner is deleted soon.
            Err(error) if error.is_namespace_terminating() => Ok(()),
            Err(error) => {
                let note = format!("Error creating: {}", error.message());
                self.cx.events.record(owner, source, EventType::Warning, "FailedCreate", note);
                Err(error)
            }
        }
    }

    /// Deletes a pod of `owner` and records an event.
    pub(super) async fn delete_pod<K>(
        &self,
        owner: &K,
        source: &str,
        name: &str,
    ) -> Result<(), Error>
    where
        K: Resource<DynamicType = ()>,
    {
        let namespace = owner.meta().namespace.as_deref().unwrap_or_default();
        let Some(pod) = self.pods.get(&Key::new(namespace, name)) else { return Ok(()) };
        cluster::write::delete(&self.cx.client, &self.pods, &*pod, "delete a pod").await?;
        let note = format!("Deleted pod: {name}");
        self.cx.events.record(owner, source, EventType::Normal, "SuccessfulDelete", note);
        Ok(())
    }
}

/// Returns the hash of a template; a collision with another template changes it.
pub(super) fn hash(template: &PodTemplateSpec, collisions: Option<i32>) -> String {
    let text = serde_json::to_vec(template).unwrap_or_default();
    let collisions = collisions.map(i32::to_le_bytes).unwrap_or_default();
    let hash = text
        .iter()
        .chain(&collisions)
        .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193));
    let digits = hash.to_string().into_bytes().into_iter();
    digits.map(|digit| char::from(ALPHABET[usize::from(digit) % ALPHABET.len()])).collect()
}
