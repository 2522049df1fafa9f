//! Reads and writes the Decision objects of one subject.

use std::collections::HashMap;

use api::plimsoll::{Decision, DecisionSpec, DecisionSubject};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::core::PartialObjectMeta;
use kube::{Client, ResourceExt as _};
use serde_json::json;

use super::journal::{Repetition, Signature, Stored};

/// How many objects a page of the list of all decisions has.
const PAGE: u32 = 1000;

/// A stored decision: its sequence number and when it was created.
pub(super) type StoredName = (u64, Timestamp);

/// The stored decisions about all subjects, by their namespace and the beginning of their names.
pub(super) struct AllStored(HashMap<(String, String), Vec<StoredName>>);

impl AllStored {
    /// Lists the metadata of all decisions.
    pub(super) async fn list(client: &Client) -> Result<Self, kube::Error> {
        let api: Api<Decision> = Api::all(client.clone());
        let mut found: HashMap<_, Vec<StoredName>> = HashMap::new();
        let mut page = ListParams::default().limit(PAGE);
        loop {
            let list = api.list_metadata(&page).await?;
            for object in &list.items {
                let Some((prefix, stored)) = read_name(object) else { continue };
                let key = (object.namespace().unwrap_or_default(), prefix);
                found.entry(key).or_default().push(stored);
            }
            match list.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => page.continue_token = Some(token),
                None => return Ok(Self(found)),
            }
        }
    }

    /// Takes out the decisions about one subject.
    pub(super) fn take(&mut self, store: &SubjectStore) -> Vec<StoredName> {
        let key = (store.namespace.clone(), store.prefix.clone());
        self.0.remove(&key).unwrap_or_default()
    }
}

/// The Decision objects of one subject.
pub(super) struct SubjectStore {
    api: Api<Decision>,
    namespace: String,
    subject: DecisionSubject,
    /// The names of the objects begin with this; the sequence number follows.
    prefix: String,
}

impl SubjectStore {
    /// Returns the store of a subject; decisions about cluster-wide subjects are in `namespace`.
    pub(super) fn new(client: &Client, subject: &DecisionSubject, namespace: &str) -> Self {
        let namespace = subject.namespace.as_deref().unwrap_or(namespace).to_owned();
        Self {
            api: Api::namespaced(client.clone(), &namespace),
            namespace,
            prefix: prefix(subject),
            subject: subject.clone(),
        }
    }

    /// Lists the metadata of what is stored.
    pub(super) async fn list(&self) -> Result<Vec<StoredName>, kube::Error> {
        let DecisionSubject { kind, name, .. } = &self.subject;
        let selector = format!("spec.subject.kind={kind},spec.subject.name={name}");
        let list = self.api.list_metadata(&ListParams::default().fields(&selector)).await?;
        let found = list.items.iter().filter_map(read_name);
        let own = found.filter(|(prefix, _)| *prefix == self.prefix);
        Ok(own.map(|(_, stored)| stored).collect())
    }

    /// Reads the newest of the stored decisions in full.
    pub(super) async fn read(&self, mut kept: Vec<StoredName>) -> Result<Stored, kube::Error> {
        kept.sort_unstable();
        let sequence = kept.last().map_or(0, |(sequence, _)| *sequence);
        let newest = if sequence > 0 { self.newest(sequence).await? } else { None };
        Ok(Stored { kept: kept.into(), sequence, newest })
    }

    /// Returns the signature and the count of the newest decision; `None` if it was deleted or cannot be decoded.
    async fn newest(&self, sequence: u64) -> Result<Option<(Signature, i64)>, kube::Error> {
        match self.api.get_opt(&self.name(sequence)).await {
            Ok(found) => Ok(found.map(|d| (Signature::from_spec(&d.spec), d.spec.repeated))),
            Err(kube::Error::SerdeError(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Creates a decision.
    pub(super) async fn create(
        &self,
        sequence: u64,
        owner: Option<OwnerReference>,
        spec: DecisionSpec,
    ) -> Result<(), kube::Error> {
        let metadata = ObjectMeta {
            name: Some(self.name(sequence)),
            namespace: Some(self.namespace.clone()),
            owner_references: owner.map(|owner| vec![owner]),
            ..ObjectMeta::default()
        };
        let decision = Decision { metadata, spec };
        self.api.create(&PostParams::default(), &decision).await.map(drop)
    }

    /// Writes how often a decision was repeated.
    pub(super) async fn repeat(&self, repetition: Repetition) -> Result<(), kube::Error> {
        let Repetition { sequence, repeated, last_at } = repetition;
        let change = json!({"spec": {"repeated": repeated, "lastAt": Time(last_at)}});
        let (name, params) = (self.name(sequence), PatchParams::default());
        self.api.patch_metadata(&name, &params, &Patch::Merge(change)).await.map(drop)
    }

    /// Deletes a decision; it is no error if it no longer exists.
    pub(super) async fn delete(&self, sequence: u64) -> Result<(), kube::Error> {
        match self.api.delete(&self.name(sequence), &DeleteParams::default()).await {
            Err(error) if crate::error::status_code(&error) == Some(404) => Ok(()),
            done => done.map(drop),
        }
    }

    fn name(&self, sequence: u64) -> String {
        format!("{}{sequence}", self.prefix)
    }
}

/// Reads the beginning of a decision's name, and which one of its subject it is.
fn read_name(object: &PartialObjectMeta<Decision>) -> Option<(String, StoredName)> {
    let name = object.name_any();
    let (prefix, sequence) = name.split_at(name.rfind('-')? + 1);
    let created_at = object.metadata.creation_timestamp.as_ref()?.0;
    Some((prefix.to_owned(), (sequence.parse().ok()?, created_at)))
}

/// Returns the kind and a hash of the subject, which is the same in every process.
fn prefix(subject: &DecisionSubject) -> String {
    let texts = [
        &subject.kind,
        subject.namespace.as_deref().unwrap_or_default(),
        &subject.name,
        subject.uid.as_deref().unwrap_or_default(),
    ];
    // FNV-1a
    let step = |hash: u32, byte: u8| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    let hash = texts.join("/").bytes().fold(0x811c_9dc5, step);
    format!("{}-{hash:08x}-", subject.kind.to_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_the_kind_and_a_stable_hash() {
        let subject = |uid: &str| DecisionSubject {
            kind: "FleetAutoscaler".to_owned(),
            namespace: Some("default".to_owned()),
            name: "arena".to_owned(),
            uid: Some(uid.to_owned()),
        };
        assert_eq!(prefix(&subject("1")), prefix(&subject("1")));
        assert_ne!(prefix(&subject("1")), prefix(&subject("2")));
        let name = prefix(&subject("1"));
        assert!(name.starts_with("fleetautoscaler-") && name.len() == 25, "{name}");
    }
}
