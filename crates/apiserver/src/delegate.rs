//! Which groups does someone else answer for?
//!
//! A group and version can be given to a service, as an APIService gives it to a server of its own on a cluster. The
//! service gets every request below `/apis/GROUP/VERSION`, discovery included, with who sent it: as a [`Caller`] among the
//! request's extensions, and in the headers that kube-apiserver's front proxy sets.

use std::collections::BTreeMap;
use std::sync::RwLock;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Request, Response, header};
use http_body_util::Full;
use tower::util::BoxCloneSyncService;
use tower::{BoxError, ServiceExt as _};

use crate::request::{Body, Caller};

/// A service that answers for a group and version.
pub type Delegate = BoxCloneSyncService<Request<Full<Bytes>>, Response<Body>, BoxError>;

const USER: HeaderName = HeaderName::from_static("x-remote-user");
const GROUP: HeaderName = HeaderName::from_static("x-remote-group");

/// The groups and versions that are given away.
#[derive(Default)]
pub(crate) struct Delegates(RwLock<BTreeMap<(String, String), Delegate>>);

impl Delegates {
    /// Gives a group and version to a service.
    pub(crate) fn add(&self, group: &str, version: &str, service: Delegate) {
        let mut delegates = self.0.write().expect("no one panics while holding it");
        delegates.insert((group.to_owned(), version.to_owned()), service);
    }

    /// Finds who answers for a path.
    pub(crate) fn of_path(&self, path: &str) -> Option<Delegate> {
        let mut parts = path.strip_prefix("/apis/")?.splitn(3, '/');
        let (group, version) = (parts.next()?, parts.next()?);
        let delegates = self.0.read().expect("no one panics while holding it");
        delegates.get(&(group.to_owned(), version.to_owned())).cloned()
    }

    /// Asks whoever answers for a path what it has there.
    pub(crate) async fn discover(&self, path: &str) -> Option<serde_json::Value> {
        let delegate = self.of_path(path)?;
        let request = Request::get(path).body(Full::new(Bytes::new())).ok()?;
        let response = delegate.oneshot(request).await.ok()?;
        let body = http_body_util::BodyExt::collect(response.into_body()).await.ok()?;
        serde_json::from_slice(&body.to_bytes()).ok()
    }

    /// Lists the groups and versions that are given away, in order of name.
    pub(crate) fn list(&self) -> Vec<(String, String)> {
        self.0.read().expect("no one panics while holding it").keys().cloned().collect()
    }
}

/// Passes a request on. What the client said about who it is does not go with it; what we know does.
pub(crate) async fn pass_on(
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
