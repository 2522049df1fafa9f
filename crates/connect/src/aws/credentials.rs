//! Credentials of AWS: of the environment, of a token file (IRSA), of the container, of the shared file, or of the instance.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use reqwest::Client;
use reqwest::header::HeaderMap;
use serde::Deserialize;

use crate::call;

/// How long before they expire credentials are replaced.
const MARGIN: SignedDuration = SignedDuration::from_mins(5);
/// How long a source of credentials has to answer, and how much it may answer.
const WITHIN: Duration = Duration::from_secs(5);
const LARGEST_ANSWER: usize = 64 << 10;
/// The addresses of the container's and the instance's own credentials.
const CONTAINER: &str = "http://169.254.170.2";
const INSTANCE: &str = "http://169.254.169.254";

/// An access key. It is never printed.
#[derive(Clone)]
pub(super) struct Credentials {
    pub(super) access_key: String,
    pub(super) secret_key: String,
    pub(super) token: Option<String>,
    pub(super) expires_at: Option<Timestamp>,
}

impl Credentials {
    pub(super) fn are_valid_at(&self, now: Timestamp) -> bool {
        self.expires_at.is_none_or(|at| at.duration_since(now) > MARGIN)
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credentials { .. }")
    }
}

/// Why there are no credentials.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no AWS credentials: {0}")]
pub(crate) struct CredentialsError(String);

/// The sources of credentials.
pub(super) struct Finder {
    environment: BTreeMap<String, String>,
}

/// The answer of containers and instances.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct MetadataCredentials {
    access_key_id: String,
    secret_access_key: String,
    token: Option<String>,
    expiration: Option<Timestamp>,
}

impl From<MetadataCredentials> for Credentials {
    fn from(served: MetadataCredentials) -> Self {
        Self {
            access_key: served.access_key_id,
            secret_key: served.secret_access_key,
            token: served.token,
            expires_at: served.expiration,
        }
    }
}

impl Finder {
    /// Takes the variables of the process.
    pub(super) fn from_environment() -> Self {
        let variables = std::env::vars_os();
        let texts = variables.filter_map(|(name, value)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        });
        Self {
            environment: texts
                .filter(|(name, value)| {
                    (name.starts_with("AWS_") || name == "HOME") && !value.is_empty()
                })
                .collect(),
        }
    }

    /// Finds credentials, in the order of the AWS SDKs.
    pub(super) async fn find(
        &self,
        region: &str,
        now: Timestamp,
    ) -> Result<Credentials, CredentialsError> {
        if let (Some(access), Some(secret)) =
            (self.variable("AWS_ACCESS_KEY_ID"), self.variable("AWS_SECRET_ACCESS_KEY"))
        {
            return Ok(Credentials {
                access_key: access.to_owned(),
                secret_key: secret.to_owned(),
                token: self.variable("AWS_SESSION_TOKEN").map(str::to_owned),
                expires_at: None,
            });
        }
        if let (Some(file), Some(role)) =
            (self.variable("AWS_WEB_IDENTITY_TOKEN_FILE"), self.variable("AWS_ROLE_ARN"))
        {
            return self.by_web_identity(file, role, region, now).await.map_err(CredentialsError);
        }
        if let Some(found) = self.in_shared_file().await.map_err(CredentialsError)? {
            return Ok(found);
        }
        let served = if self.variable("AWS_CONTAINER_CREDENTIALS_FULL_URI").is_some()
            || self.variable("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI").is_some()
        {
            self.container_credentials().await
        } else if self.variable("AWS_EC2_METADATA_DISABLED") == Some("true") {
            Err("neither the environment nor the shared file has any".to_owned())
        } else {
            self.instance_credentials().await
        };
        served.map(Credentials::from).map_err(CredentialsError)
    }

    fn variable(&self, name: &str) -> Option<&str> {
        self.environment.get(name).map(String::as_str)
    }

    async fn in_shared_file(&self) -> Result<Option<Credentials>, String> {
        let home = self.variable("HOME").unwrap_or_default();
        let path = self
            .variable("AWS_SHARED_CREDENTIALS_FILE")
            .map_or_else(|| format!("{home}/.aws/credentials"), str::to_owned);
        let profile = self.variable("AWS_PROFILE").unwrap_or("default");
        match tokio::fs::read_to_string(&path).await {
            Ok(text) => Ok(in_profile(&text, profile)),
            Err(err) if err.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(err) => Err(format!("could not read {path}: {err}")),
        }
    }

    async fn container_credentials(&self) -> Result<MetadataCredentials, String> {
        let url = match (
            self.variable("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"),
            self.variable("AWS_CONTAINER_CREDENTIALS_FULL_URI"),
        ) {
            (Some(path), _) => format!("{CONTAINER}{path}"),
            (None, full) => full.unwrap_or_default().to_owned(),
        };
        let mut headers = HeaderMap::new();
        let token = match self.variable("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE") {
            Some(path) => Some(read_file(path).await?),
            None => self.variable("AWS_CONTAINER_AUTHORIZATION_TOKEN").map(str::to_owned),
        };
        if let Some(token) = token {
            let value = token
                .trim()
                .parse()
                .map_err(|_| "the container's token is not printable".to_owned())?;
            headers.insert(reqwest::header::AUTHORIZATION, value);
        }
        let text = fetch(&url, |client| client.get(&url).headers(headers)).await?;
        serde_json::from_str(&text)
            .map_err(|err| format!("{url} answered with something unexpected: {err}"))
    }

    /// Reads the instance's metadata, version 2, with a token.
    async fn instance_credentials(&self) -> Result<MetadataCredentials, String> {
        let base = self
            .variable("AWS_EC2_METADATA_SERVICE_ENDPOINT")
            .unwrap_or(INSTANCE)
            .trim_end_matches('/');
        let url = format!("{base}/latest/api/token");
        let token = fetch(&url, |client| {
            client.put(&url).header("X-aws-ec2-metadata-token-ttl-seconds", "300")
        });
        let token = token.await.map_err(|err| {
            format!("neither the environment nor the shared file has any, and {err}")
        })?;
        let roles = format!("{base}/latest/meta-data/iam/security-credentials/");
        let with_token = |url: &str| {
            let (url, token) = (url.to_owned(), token.clone());
            async move {
                fetch(&url, |client| client.get(&url).header("X-aws-ec2-metadata-token", token))
                    .await
            }
        };
        let role = with_token(&roles).await?;
        let role = role.lines().next().unwrap_or_default().trim().to_owned();
        let text = with_token(&format!("{roles}{role}")).await?;
        serde_json::from_str(&text)
            .map_err(|err| format!("{roles} answered with something unexpected: {err}"))
    }

    async fn by_web_identity(
        &self,
        file: &str,
        role: &str,
        region: &str,
        now: Timestamp,
    ) -> Result<Credentials, String> {
        let token = read_file(file).await?;
        let own = format!("https://sts.{region}.amazonaws.com/");
        let mut url = call::parse_url(self.variable("AWS_ENDPOINT_URL_STS").unwrap_or(&own))
            .map_err(|err| err.to_string())?;
        let session = self
            .variable("AWS_ROLE_SESSION_NAME")
            .map_or_else(|| format!("plimsoll-{}", now.as_second()), str::to_owned);
        url.query_pairs_mut().extend_pairs([
            ("Action", "AssumeRoleWithWebIdentity"),
            ("Version", "2011-06-15"),
            ("RoleArn", role),
            ("RoleSessionName", &session),
            ("WebIdentityToken", token.trim()),
        ]);
        let shown = url.origin().ascii_serialization();
        let text = fetch(&shown, |client| client.post(url)).await?;
        let part = |name: &str| element(&text, name).map(str::to_owned);
        match (part("AccessKeyId"), part("SecretAccessKey")) {
            (Some(access_key), Some(secret_key)) => Ok(Credentials {
                access_key,
                secret_key,
                token: part("SessionToken"),
                expires_at: part("Expiration").and_then(|at| at.parse().ok()),
            }),
            (_, _) => Err(format!("{shown} answered without credentials")),
        }
    }
}

async fn read_file(path: &str) -> Result<String, String> {
    tokio::fs::read_to_string(path).await.map_err(|err| format!("could not read {path}: {err}"))
}

/// Requests an address, and returns the text of a successful answer. `shown` names it in errors.
async fn fetch(
    shown: &str,
    with: impl FnOnce(&Client) -> reqwest::RequestBuilder,
) -> Result<String, String> {
    let url = call::parse_url(shown).map_err(|err| err.to_string())?;
    let client = call::client_builder(None, &url).map_err(|err| err.to_string())?;
    let client = client
        .redirect(reqwest::redirect::Policy::none())
        .build()
        .map_err(|err| err.to_string())?;
    let answer = with(&client).timeout(WITHIN).send().await;
    let answer =
        answer.map_err(|err| format!("{shown} could not be reached: {}", err.without_url()))?;
    if !answer.status().is_success() {
        return Err(format!("{shown} answered {}", answer.status()));
    }
    let body = call::read(answer, url, LARGEST_ANSWER).await.map_err(|err| err.to_string())?;
    String::from_utf8(body).map_err(|_| format!("{shown} answered with something other than text"))
}

/// Finds the text of the first XML element with a name.
fn element<'a>(xml: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = xml.split_once(&format!("<{name}>"))?;
    rest.split_once(&format!("</{name}>")).map(|(text, _)| text)
}

/// Finds the keys of a profile in a shared credentials file.
fn in_profile(text: &str, profile: &str) -> Option<Credentials> {
    let mut is_profile = false;
    let mut found = BTreeMap::new();
    for line in text.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            is_profile = name.trim() == profile;
        } else if let (true, Some((key, value))) = (is_profile, line.split_once('=')) {
            found.insert(key.trim().to_owned(), value.trim().to_owned());
        }
    }
    Some(Credentials {
        access_key: found.remove("aws_access_key_id")?,
        secret_key: found.remove("aws_secret_access_key")?,
        token: found.remove("aws_session_token"),
        expires_at: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shared_file_has_keys_by_profile() {
        let text = "[default]\naws_access_key_id = A\naws_secret_access_key=S=1\n\n[other]\naws_access_key_id=B\n";
        let found = in_profile(text, "default").unwrap();
        assert_eq!((found.access_key.as_str(), found.secret_key.as_str()), ("A", "S=1"));
        assert!(in_profile(text, "other").is_none(), "it has no secret key");
        assert!(in_profile(text, "none").is_none());
        assert_eq!(format!("{found:?}"), "Credentials { .. }");
    }

    #[test]
    fn credentials_are_replaced_before_they_expire() {
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let with = |expires_at: Option<&str>| Credentials {
            access_key: String::new(),
            secret_key: String::new(),
            token: None,
            expires_at: expires_at.map(|at| at.parse().unwrap()),
        };
        assert!(with(None).are_valid_at(now));
        assert!(with(Some("2026-01-01T00:06:00Z")).are_valid_at(now));
        assert!(!with(Some("2026-01-01T00:04:00Z")).are_valid_at(now));
    }

    #[tokio::test]
    async fn the_environment_comes_first() {
        let environment = [
            ("AWS_ACCESS_KEY_ID", "A"),
            ("AWS_SECRET_ACCESS_KEY", "S"),
            ("AWS_SESSION_TOKEN", "T"),
        ];
        let environment =
            environment.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let found = Finder { environment }.find("r", Timestamp::UNIX_EPOCH).await.unwrap();
        assert_eq!((found.access_key.as_str(), found.token.as_deref()), ("A", Some("T")));
        let disabled =
            BTreeMap::from([("AWS_EC2_METADATA_DISABLED".to_owned(), "true".to_owned())]);
        let none =
            Finder { environment: disabled }.find("r", Timestamp::UNIX_EPOCH).await.unwrap_err();
        assert_eq!(
            none.to_string(),
            "no AWS credentials: neither the environment nor the shared file has any"
        );
    }
}
