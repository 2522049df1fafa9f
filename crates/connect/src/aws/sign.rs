//! Signature version 4 of AWS.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use reqwest::{Method, Url};
use ring::{digest, hmac};

use super::credentials::Credentials;

/// The request that is signed.
pub(super) struct Request<'a> {
    pub(super) method: &'a Method,
    pub(super) url: &'a Url,
    /// Further headers that are signed, in lower case.
    pub(super) headers: &'a [(&'static str, &'static str)],
    pub(super) body: &'a [u8],
}

/// The scope of a signature.
pub(super) struct Scope<'a> {
    pub(super) region: &'a str,
    pub(super) service: &'a str,
    pub(super) now: Timestamp,
}

/// Returns the headers to add.
pub(super) fn headers(
    request: &Request<'_>,
    scope: &Scope<'_>,
    credentials: &Credentials,
) -> Vec<(&'static str, String)> {
    let time = scope.now.to_zoned(TimeZone::UTC).strftime("%Y%m%dT%H%M%SZ").to_string();
    let date = &time[..8];
    let mut added = vec![("x-amz-date", time.clone())];
    added.extend(credentials.token.clone().map(|token| ("x-amz-security-token", token)));
    let mut signed: Vec<(&str, &str)> = request.headers.to_vec();
    let host = host(request.url);
    signed.push(("host", &host));
    signed.extend(added.iter().map(|(name, value)| (*name, value.as_str())));
    signed.sort_unstable();
    let names = signed.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(";");
    let lines: String =
        signed.iter().map(|(name, value)| format!("{name}:{}\n", value.trim())).collect();
    let canonical = format!(
        "{}\n{}\n{}\n{lines}\n{names}\n{}",
        request.method,
        request.url.path(),
        request.url.query().unwrap_or_default(),
        hex(digest::digest(&digest::SHA256, request.body).as_ref()),
    );
    let within = format!("{date}/{}/{}/aws4_request", scope.region, scope.service);
    let hashed = hex(digest::digest(&digest::SHA256, canonical.as_bytes()).as_ref());
    let text = format!("AWS4-HMAC-SHA256\n{time}\n{within}\n{hashed}");
    let mut key = format!("AWS4{}", credentials.secret_key).into_bytes();
    for part in [date, scope.region, scope.service, "aws4_request"] {
        key = mac(&key, part.as_bytes());
    }
    let signature = hex(&mac(&key, text.as_bytes()));
    let id = &credentials.access_key;
    added.push((
        "authorization",
        format!("AWS4-HMAC-SHA256 Credential={id}/{within}, SignedHeaders={names}, Signature={signature}"),
    ));
    added
}

fn host(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

fn mac(key: &[u8], text: &[u8]) -> Vec<u8> {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text).as_ref().to_vec()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The cases `post-vanilla` and `get-vanilla` of AWS's test suite for signature version 4.
    #[test]
    fn the_signature_is_that_of_the_published_test_suite() {
        let url = Url::parse("https://example.amazonaws.com/").unwrap();
        let now = "2015-08-30T12:36:00Z".parse().unwrap();
        let scope = Scope { region: "us-east-1", service: "service", now };
        let credentials = Credentials {
            access_key: "AKIDEXAMPLE".to_owned(),
            secret_key: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY".to_owned(),
            token: None,
            expires_at: None,
        };
        for (method, signature) in [
            (Method::POST, "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"),
            (Method::GET, "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"),
        ] {
            let request = Request { method: &method, url: &url, headers: &[], body: b"" };
            let headers = headers(&request, &scope, &credentials);
            let wanted = format!(
                "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, \
                 SignedHeaders=host;x-amz-date, Signature={signature}"
            );
            assert_eq!(headers.last().unwrap().1, wanted);
        }
    }
}
