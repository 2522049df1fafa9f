//! The management cluster, where the objects of Cluster API are: the cluster that Plimsoll runs on, or that of a kubeconfig in a Secret.
//!
//! The Secret and the API's version are read before the first request, and again after a minute, so that a credential can be replaced
//! and Cluster API upgraded while the process runs.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use cluster::error::api_message;
use jiff::{SignedDuration, Timestamp};
use kube::api::{ApiResource, DynamicObject, ListParams};
use kube::core::{GroupVersion, Request};
use kube::{Api, Client, Resource as _, discovery};
use serde::de::DeserializeOwned;

use super::kubeconfig;
use super::objects::{MACHINE, MACHINE_DEPLOYMENT, MACHINE_SET, Page};
use super::settings::{Namespaces, Settings};
use crate::registry::Context;
use crate::secret::SecretRef;

/// How long the credentials and the version of the API are used before they are read again.
const KEEP_FOR: SignedDuration = SignedDuration::from_secs(60);
/// How long one request may take.
const TIMEOUT: Duration = Duration::from_secs(15);
/// How many objects a page of a list has.
const PAGE: u32 = 500;

/// Opens connections to the management cluster.
pub(super) struct Management {
    context: Context,
    kubeconfig_from: Option<SecretRef>,
    trusted_kubeconfig: bool,
    group: String,
    version: String,
    opened: tokio::sync::Mutex<Option<Opened>>,
}

struct Opened {
    at: Timestamp,
    /// What the client was made from.
    kubeconfig: Vec<u8>,
    cluster: Arc<ManagementCluster>,
}

/// A connection to the management cluster.
pub(super) struct ManagementCluster {
    client: Client,
    /// The kinds of Cluster API that are served.
    kinds: BTreeMap<String, ApiResource>,
    /// The kinds of infrastructure templates by group and kind; `None`: it is not served.
    infrastructure: Mutex<BTreeMap<(String, String), Option<ApiResource>>>,
}

impl Management {
    pub(super) fn new(context: &Context, settings: &Settings) -> Self {
        Self {
            context: context.clone(),
            kubeconfig_from: settings.kubeconfig_from.clone(),
            trusted_kubeconfig: settings.trusted_kubeconfig,
            group: settings.api_group.clone(),
            version: settings.api_version.clone(),
            opened: tokio::sync::Mutex::default(),
        }
    }

    /// Returns a connection.
    pub(super) async fn connect(&self) -> Result<Arc<ManagementCluster>, String> {
        let mut opened = self.opened.lock().await;
        let now = self.context.clock.now();
        if let Some(opened) = &*opened
            && now.duration_since(opened.at) < KEEP_FOR
        {
            return Ok(Arc::clone(&opened.cluster));
        }
        let text = match &self.kubeconfig_from {
            Some(secret) => {
                secret.read(&self.context.client).await.map_err(|error| error.to_string())?
            }
            None => Vec::new(),
        };
        let client = match (&*opened, &self.kubeconfig_from) {
            (_, None) => self.context.client.clone(),
            (Some(opened), Some(_)) if opened.kubeconfig == text => opened.cluster.client.clone(),
            (_, Some(secret)) => {
                let client = kubeconfig::client(&text, self.trusted_kubeconfig).await;
                client.map_err(|problem| secret.error(problem).to_string())?
            }
        };
        let cluster = Arc::new(self.discover(client).await?);
        *opened = Some(Opened { at: now, kubeconfig: text, cluster: Arc::clone(&cluster) });
        Ok(cluster)
    }

    /// Has the credentials and the version of the API read again.
    pub(super) fn reconnect(&self) {
        // The task that holds the lock is reading them.
        if let Ok(mut opened) = self.opened.try_lock()
            && let Some(opened) = &mut *opened
        {
            opened.at = Timestamp::MIN;
        }
    }

    /// Finds the served kinds, in the version that was asked for or that the cluster prefers.
    async fn discover(&self, client: Client) -> Result<ManagementCluster, String> {
        let group = &self.group;
        let found = match self.version.as_str() {
            "" => limited(discovery::group(&client, group)).await,
            version => {
                limited(discovery::pinned_group(&client, &GroupVersion::gv(group, version))).await
            }
        };
        let found = found.map_err(|error| {
            let cause = api_message(&error);
            format!(
                "the management cluster does not serve the API group {group}: {cause}; is Cluster API installed there?"
            )
        })?;
        let kinds = found.recommended_resources().into_iter();
        let kinds: BTreeMap<_, _> =
            kinds.map(|(resource, _)| (resource.kind.clone(), resource)).collect();
        for kind in [MACHINE_DEPLOYMENT, MACHINE_SET, MACHINE] {
            if !kinds.contains_key(kind) {
                let version = found.preferred_version_or_latest();
                return Err(format!("the management cluster has no {kind} in {group}/{version}"));
            }
        }
        Ok(ManagementCluster { client, kinds, infrastructure: Mutex::default() })
    }
}

impl ManagementCluster {
    /// Returns the API of a kind of Cluster API in a namespace; `None` if the kind is not served.
    pub(super) fn api(&self, kind: &str, namespace: &str) -> Option<Api<DynamicObject>> {
        let resource = self.kinds.get(kind)?;
        Some(Api::namespaced_with(self.client.clone(), namespace, resource))
    }

    /// Lists the objects of a kind of Cluster API; none if the kind is not served.
    pub(super) async fn list<T: DeserializeOwned>(
        &self,
        kind: &str,
        namespaces: &Namespaces,
    ) -> Result<Vec<T>, kube::Error> {
        match self.kinds.get(kind) {
            Some(resource) => self.list_resource(resource, namespaces).await,
            None => Ok(Vec::new()),
        }
    }

    /// Lists the infrastructure templates of a kind.
    pub(super) async fn list_infrastructure<T: DeserializeOwned>(
        &self,
        group: &str,
        kind: &str,
        namespaces: &Namespaces,
    ) -> Result<Vec<T>, kube::Error> {
        let key = (group.to_owned(), kind.to_owned());
        let known = {
            let known = self.infrastructure.lock().unwrap_or_else(PoisonError::into_inner);
            known.get(&key).cloned()
        };
        let resource = match known {
            Some(resource) => resource,
            None => {
                let found = limited(discovery::group(&self.client, group)).await?;
                let found = found.recommended_kind(kind).map(|(resource, _)| resource);
                let mut known = self.infrastructure.lock().unwrap_or_else(PoisonError::into_inner);
                known.insert(key, found.clone());
                found
            }
        };
        match resource {
            Some(resource) => self.list_resource(&resource, namespaces).await,
            None => Ok(Vec::new()),
        }
    }

    async fn list_resource<T: DeserializeOwned>(
        &self,
        resource: &ApiResource,
        namespaces: &Namespaces,
    ) -> Result<Vec<T>, kube::Error> {
        let mut all = Vec::new();
        match namespaces {
            Namespaces::All => self.list_namespace(resource, None, &mut all).await?,
            Namespaces::Some(names) => {
                for name in names {
                    self.list_namespace(resource, Some(name), &mut all).await?;
                }
            }
        }
        Ok(all)
    }

    /// Lists objects page by page. One that cannot be decoded is logged and skipped.
    async fn list_namespace<T: DeserializeOwned>(
        &self,
        resource: &ApiResource,
        namespace: Option<&str>,
        into: &mut Vec<T>,
    ) -> Result<(), kube::Error> {
        let request = Request::new(DynamicObject::url_path(resource, namespace));
        let mut params = ListParams::default().limit(PAGE);
        loop {
            let page = request.list(&params).map_err(kube::Error::BuildRequest)?;
            let page: Page = limited(self.client.request(page)).await?;
            for item in &page.items {
                match serde_json::from_str(item.get()) {
                    Ok(object) => into.push(object),
                    Err(reason) => log_undecodable(&resource.kind, item.get(), &reason),
                }
            }
            match page.metadata.next.filter(|next| !next.is_empty()) {
                Some(next) => params = params.continue_token(&next),
                None => return Ok(()),
            }
        }
    }
}

fn log_undecodable(kind: &str, text: &str, reason: &serde_json::Error) {
    #[derive(serde::Deserialize)]
    struct Named {
        metadata: super::objects::Metadata,
    }
    let named = serde_json::from_str::<Named>(text).ok();
    let (namespace, name) =
        named.map(|it| (it.metadata.namespace, it.metadata.name)).unwrap_or_default();
    tracing::error!(kind, namespace, name, %reason, "object cannot be decoded and is skipped; correct or delete it");
}

/// Limits the time of a request. Without an answer, its outcome is unknown.
pub(super) async fn limited<T>(
    request: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, kube::Error> {
    let late = || format!("no answer within {} s", TIMEOUT.as_secs());
    let outcome = tokio::time::timeout(TIMEOUT, request).await;
    outcome.unwrap_or_else(|_| Err(kube::Error::Service(late().into())))
}
