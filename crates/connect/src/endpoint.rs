//! The HTTP address of an outside system: requests with a limit on the answer, and no redirects.

use reqwest::header::HeaderMap;
use reqwest::redirect::Policy;
use reqwest::{Client, StatusCode, Url};

use crate::call::{self, CallError};

/// The largest answer that is read.
const LARGEST_ANSWER: usize = 4 << 20;

/// An address, and the connections to it.
pub(crate) struct Endpoint {
    client: Client,
    url: Url,
}

/// An answer, with any status.
pub(crate) struct HttpAnswer {
    /// The address without credentials, for messages.
    pub(crate) url: Url,
    pub(crate) status: StatusCode,
    pub(crate) body: Vec<u8>,
}

impl Endpoint {
    /// Reads an address. Nothing is sent.
    pub(crate) fn new(url: &str, headers: HeaderMap) -> Result<Self, CallError> {
        let url = call::parse_url(url)?;
        let builder = call::client_builder(None, &url)?;
        let builder = builder.redirect(Policy::none()).default_headers(headers);
        Ok(Self { client: builder.build().map_err(CallError::SystemRoots)?, url })
    }

    /// Returns the address with a path below it.
    pub(crate) fn below(&self, path: &[&str]) -> Url {
        let mut url = self.url.clone();
        // An http address always has path segments.
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(path);
        }
        url
    }

    /// Requests the address itself.
    pub(crate) async fn get(&self) -> Result<HttpAnswer, CallError> {
        self.get_from(self.url.clone()).await
    }

    /// Requests an address below this one.
    pub(crate) async fn get_from(&self, url: Url) -> Result<HttpAnswer, CallError> {
        let shown = without_credentials(url.clone());
        let answer = self.client.get(url).send().await.map_err(|err| call::failed(&shown, err))?;
        let status = answer.status();
        let body = call::read(answer, shown.clone(), LARGEST_ANSWER).await?;
        Ok(HttpAnswer { url: shown, status, body })
    }
}

/// Removes credentials and parameters, which may be long or secret, from an address that is shown.
fn without_credentials(mut url: Url) -> Url {
    // Both fail only for addresses that cannot have credentials.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.set_query(None);
    url
}
