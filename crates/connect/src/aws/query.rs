//! Calls of AWS's Query protocol: forms that are answered with XML. And what a failed call means, whatever the protocol.

use reqwest::Url;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::{AwsError, AwsService};
use crate::ask::why;
use crate::endpoint::HttpAnswer;

const FORM: [(&str, &str); 1] = [("content-type", "application/x-www-form-urlencoded")];

/// The parameters of a call. A list has a parameter for each of its elements: `X.member.1`, or `X.1` in EC2.
pub(super) type Parameters = Vec<(String, String)>;

/// What a failed call means to its caller.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Failure {
    /// AWS refused. Nothing was changed, and the same call will be refused again.
    #[error("{0}")]
    Refused(String),
    /// AWS could not be reached, or did not accept the call for the time being. Nothing was changed.
    #[error("{0}")]
    Unavailable(String),
    /// Somebody else changed the same thing at the same time. Nothing was changed.
    #[error("{0}")]
    Conflict(String),
    /// The call may or may not have been carried out.
    #[error("{0}")]
    Open(String),
}

/// Whether a call changes anything: the outcome of a change may stay open.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    Read,
    Change,
}

/// A list in an answer: `<X><member>…</member><member>…</member></X>`, with `item` instead of `member` in EC2.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct List<T> {
    #[serde(default = "Vec::new", rename = "member", alias = "item")]
    members: Vec<T>,
}

impl<T> Default for List<T> {
    fn default() -> Self {
        Self { members: Vec::new() }
    }
}

impl<T> std::ops::Deref for List<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.members
    }
}

impl<T> IntoIterator for List<T> {
    type Item = T;
    type IntoIter = std::vec::IntoIter<T>;

    fn into_iter(self) -> Self::IntoIter {
        self.members.into_iter()
    }
}

/// An error: `<ErrorResponse><Error>…`, or `<Response><Errors><Error>…` in EC2.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct ErrorAnswer {
    error: Option<ErrorDetail>,
    errors: Option<Errors>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Errors {
    error: ErrorDetail,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct ErrorDetail {
    code: String,
    message: String,
}

impl AwsService {
    /// Calls an action that reads something.
    pub(super) async fn read<T: DeserializeOwned>(
        &self,
        version: &str,
        action: &str,
        parameters: Parameters,
    ) -> Result<T, Failure> {
        let answer = self.call(version, action, parameters, Purpose::Read).await?;
        let text = String::from_utf8_lossy(&answer.body);
        quick_xml::de::from_str(&text).map_err(|error| {
            Failure::Unavailable(format!(
                "{action} was answered with something unexpected: {error}"
            ))
        })
    }

    /// Calls an action that changes something.
    pub(super) async fn change(
        &self,
        version: &str,
        action: &str,
        parameters: Parameters,
    ) -> Result<(), Failure> {
        let answer = self.call(version, action, parameters, Purpose::Change).await?;
        if String::from_utf8_lossy(&answer.body).contains(&format!("<{action}Response")) {
            return Ok(());
        }
        Err(Failure::Open(format!("{action} was answered with something unexpected")))
    }

    async fn call(
        &self,
        version: &str,
        action: &str,
        parameters: Parameters,
        purpose: Purpose,
    ) -> Result<HttpAnswer, Failure> {
        let answer = self.post(&FORM, form(version, action, &parameters)).await;
        let answer = answer.map_err(|error| not_answered(&error, purpose))?;
        if answer.status.is_success() {
            return Ok(answer);
        }
        let text = String::from_utf8_lossy(&answer.body);
        let found: ErrorAnswer = quick_xml::de::from_str(&text).unwrap_or_default();
        let found = found.errors.map(|all| all.error).or(found.error).unwrap_or_default();
        Err(not_done(&answer, &found.code, &found.message, purpose))
    }
}

/// Returns what a call means that has no answer.
pub(super) fn not_answered(error: &AwsError, purpose: Purpose) -> Failure {
    match error {
        AwsError::Connection(error) if purpose == Purpose::Change && !error.is_before_sending() => {
            Failure::Open(why(error))
        }
        AwsError::Connection(error) => Failure::Unavailable(why(error)),
        AwsError::Credentials(error) => Failure::Unavailable(error.to_string()),
    }
}

/// Returns what an answer with an error means.
pub(super) fn not_done(
    answer: &HttpAnswer,
    code: &str,
    message: &str,
    purpose: Purpose,
) -> Failure {
    let message = match (code, message) {
        ("", _) => format!("AWS answered {}", answer.status),
        (_, "") => code.to_owned(),
        _ => format!("{code}: {message}"),
    };
    let is_busy = [
        "RequestLimitExceeded",
        "ScalingActivityInProgress",
        "Throttling",
        "ThrottlingException",
        "TooManyRequestsException",
    ];
    match answer.status.as_u16() {
        429 | 503 => Failure::Unavailable(message),
        _ if is_busy.contains(&code) => Failure::Unavailable(message),
        _ if code.starts_with("ResourceContention") => Failure::Conflict(message),
        400..=499 => Failure::Refused(message),
        _ if purpose == Purpose::Change => Failure::Open(message),
        _ => Failure::Unavailable(message),
    }
}

fn form(version: &str, action: &str, parameters: &[(String, String)]) -> String {
    let mut url = Url::parse("http://form").expect("a constant address");
    let mut pairs = url.query_pairs_mut();
    pairs.append_pair("Action", action).extend_pairs(parameters).append_pair("Version", version);
    drop(pairs);
    url.query().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use reqwest::StatusCode;

    use super::*;

    fn failure(status: u16, code: &str, purpose: Purpose) -> Failure {
        let (url, status) =
            (Url::parse("http://a").unwrap(), StatusCode::from_u16(status).unwrap());
        not_done(&HttpAnswer { url, status, body: Vec::new() }, code, "m", purpose)
    }

    #[test]
    fn parameters_are_encoded() {
        let parameters = [("N".to_owned(), "b c&é".to_owned())];
        assert_eq!(form("1", "Do", &parameters), "Action=Do&N=b+c%26%C3%A9&Version=1");
    }

    #[test]
    fn an_error_says_whether_anything_may_have_been_changed() {
        use Purpose::{Change, Read};
        let message = |code: &str| format!("{code}: m");
        for (status, code, purpose, wanted) in [
            (400, "ValidationError", Change, Failure::Refused(message("ValidationError"))),
            (403, "AccessDenied", Read, Failure::Refused(message("AccessDenied"))),
            (400, "Throttling", Change, Failure::Unavailable(message("Throttling"))),
            (
                503,
                "RequestLimitExceeded",
                Change,
                Failure::Unavailable(message("RequestLimitExceeded")),
            ),
            (500, "ResourceContention", Change, Failure::Conflict(message("ResourceContention"))),
            (500, "InternalFailure", Change, Failure::Open(message("InternalFailure"))),
            (500, "InternalFailure", Read, Failure::Unavailable(message("InternalFailure"))),
        ] {
            assert_eq!(failure(status, code, purpose), wanted);
        }
        let text = failure(500, "", Change).to_string();
        assert_eq!(text, "AWS answered 500 Internal Server Error");
    }

    #[test]
    fn lists_of_both_services_are_read() {
        #[derive(Deserialize)]
        struct Answer {
            #[serde(default)]
            list: List<String>,
        }
        for (xml, wanted) in [
            ("<A><list><member>a</member><member>b</member></list></A>", vec!["a", "b"]),
            ("<A><list><item>a</item></list><other/></A>", vec!["a"]),
            ("<A><list/></A>", vec![]),
            ("<A></A>", vec![]),
        ] {
            let answer: Answer = quick_xml::de::from_str(xml).unwrap();
            assert_eq!(*answer.list, *wanted, "{xml}");
        }
    }
}
