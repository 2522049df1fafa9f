//! API groups that are delegated to another service, as an APIService delegates them on a cluster.
//!
//! The service gets every request below `/apis/GROUP/VERSION`, discovery included. The caller is passed as a [`Caller`] among
//! the request's extensions and in the headers that kube-apiserver's front proxy sets.

use std::collections::BTreeMap;
use std::sync::RwLock;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Request, Response, header};
use http_body_util::Full;
use tower::util::BoxCloneSyncService;
use tower::{BoxError, ServiceExt as _};

use crate::request::{Body, Caller};

/// A service that serves a group and version.
pub type Delegate = BoxCloneSyncService<Request<Full<Bytes>>, Response<Body>, BoxError>;

const USER: HeaderName = HeaderName::from_static("x-remote-user");
const GROUP: HeaderName = HeaderName::from_static("x-remote-group");

/// The delegated groups and versions.
#[derive(Default)]
pub(crate) struct Delegates(RwLock<BTreeMap<(String, String), Delegate>>);

impl Delegates {
    /// Delegates a group and version to a service.
    pub(crate) fn add(&self, group: &str, version: &str, service: Delegate) {
        let mut delegates = self.0.write().expect("no one panics while holding it");
        delegates.insert((group.to_owned(), version.to_owned()), service);
    }

    /// Returns the delegate that serves a path.
    pub(crate) fn find(&self, path: &str) -> Option<Delegate> {
        let mut parts = path.strip_prefix("/apis/")?.splitn(3, '/');
        let (group, version) = (parts.next()?, parts.next()?);
        let delegates = self.0.read().expect("no one panics while holding it");
        delegates.get(&(group.to_owned(), version.to_owned())).cloned()
    }

    /// Fetches the discovery document at a path from its delegate.
    pub(crate) async fn discover(&self, path: &str) -> Option<serde_json::Value> {
        let delegate = self.find(path)?;
        let request = Request::get(path).body(Full::new(Bytes::new())).ok()?;
        let response = delegate.oneshot(request).await.ok()?;
        let body = http_body_util::BodyExt::collect(response.into_body()).await.ok()?;
        serde_json::from_slice(&body.to_bytes()).ok()
    }

    /// Lists the delegated groups and versions in order of name.
    pub(crate) fn list(&self) -> Vec<(String, String)> {
        self.0.read().expect("no one panics while holding it").keys().cloned().collect()
    }
}

/// Forwards a request. Credentials and user headers from the client are replaced by the authenticated caller.
pub(crate) async fn forward(
    delegate: Delegate,
    mut parts: http::request::Parts,
    body: Bytes,
    caller: Caller,
) -> Result<Response<Body>, BoxError> {
    for header in [header::AUTHORIZATION, USER, GROUP] {
        parts.headers.remove(header);
    }
    parts.headers.insert(USER, HeaderValue::from_str(&caller.user)?);
    for group in &caller.groups {
        parts.headers.append(GROUP, HeaderValue::from_str(group)?);
    }
    parts.extensions.insert(caller);
    delegate.oneshot(Request::from_parts(parts, Full::new(body))).await
}
