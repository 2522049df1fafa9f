//! Requests objects, as they are or as the server's tables.

use http::HeaderValue;
use http::header::ACCEPT;
use kube::Client;
use kube::api::{GetParams, ListParams};
use kube::core::Request;
use serde_json::Value;

use crate::commands::session::Target;

/// The maximum number of objects per list request.
const PAGE: u32 = 500;

/// The form of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Object,
    Table,
}

impl Form {
    /// Sets the media type of a request. A server that has no tables for a kind may respond with objects.
    pub(super) fn set(self, request: &mut http::Request<Vec<u8>>) {
        let accept = match self {
            Self::Object => "application/json",
            Self::Table => "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
        };
        request.headers_mut().insert(ACCEPT, HeaderValue::from_static(accept));
    }
}

/// Returns the object, or all pages of the list of a target.
pub(super) async fn pages(
    client: &Client,
    target: &Target,
    selectors: &ListParams,
    form: Form,
) -> anyhow::Result<Vec<Value>> {
    let request = Request::new(target.path());
    if let Some(name) = &target.name {
        let mut get = request.get(name, &GetParams::default())?;
        form.set(&mut get);
        return Ok(vec![client.request(get).await?]);
    }
    let mut params = ListParams { limit: Some(PAGE), ..selectors.clone() };
    let mut pages = Vec::new();
    loop {
        let mut list = request.list(&params)?;
        form.set(&mut list);
        let page: Value = client.request(list).await?;
        let token = page["metadata"]["continue"].as_str().filter(|token| !token.is_empty());
        params.continue_token = token.map(str::to_owned);
        pages.push(page);
        if params.continue_token.is_none() {
            return Ok(pages);
        }
    }
}
