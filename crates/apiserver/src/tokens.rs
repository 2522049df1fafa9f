//! Tokens of service accounts: JSON Web Tokens that this server signs with a key of its own (HMAC with SHA-256).
//!
//! Only the signature and the claims are checked here; whether the objects that a token is bound to still exist is checked in
//! `authentication`.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use ring::hmac;
use serde::{Deserialize, Serialize};

/// The issuer of the tokens, and the audience of those for this server, as on a cluster.
pub(crate) const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";

/// The header of every token: the algorithm is not for the token to choose.
const HEADER: &str = r#"{"alg":"HS256","typ":"JWT"}"#;

/// The claims of a token, named as kube-apiserver names them.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub(crate) struct Claims {
    pub(crate) aud: Vec<String>,
    /// When the token expires, in seconds since 1970.
    pub(crate) exp: i64,
    /// When it was issued.
    pub(crate) iat: i64,
    pub(crate) iss: String,
    /// Identifies the token.
    pub(crate) jti: String,
    #[serde(rename = "kubernetes.io")]
    pub(crate) bound: BoundObjects,
    /// When it becomes valid.
    pub(crate) nbf: i64,
    pub(crate) sub: String,
}

/// The objects without which a token is not valid.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
pub(crate) struct BoundObjects {
    pub(crate) namespace: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) node: Option<BoundObject>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) pod: Option<BoundObject>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) secret: Option<BoundObject>,
    #[serde(rename = "serviceaccount")]
    pub(crate) service_account: BoundObject,
}

/// One of them.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
pub(crate) struct BoundObject {
    pub(crate) name: String,
    pub(crate) uid: String,
}

/// Why a token is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TokenError {
    /// It was not signed with the key of this server, or was altered.
    #[error("invalid bearer token")]
    Invalid,
    /// It has expired.
    #[error("token has expired")]
    Expired,
    /// It is not valid yet.
    #[error("token is not valid yet")]
    NotYetValid,
    /// It is for other audiences.
    #[error("token audiences {found:?} is invalid for the target audiences {wanted:?}")]
    Audience { found: Vec<String>, wanted: Vec<String> },
    /// An object that it is bound to is missing.
    #[error("{0} has been deleted or recreated")]
    Gone(String),
}

/// The key with which tokens are signed.
#[derive(Clone, Debug)]
pub(crate) struct TokenKey(hmac::Key);

impl TokenKey {
    /// Uses a secret text as the key.
    pub(crate) fn new(secret: &str) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes()))
    }

    /// Returns a signed token.
    pub(crate) fn sign(&self, claims: &Claims) -> Result<String, serde_json::Error> {
        let claims = serde_json::to_vec(claims)?;
        let signed =
            format!("{}.{}", URL_SAFE_NO_PAD.encode(HEADER), URL_SAFE_NO_PAD.encode(claims));
        let signature = URL_SAFE_NO_PAD.encode(hmac::sign(&self.0, signed.as_bytes()));
        Ok(format!("{signed}.{signature}"))
    }

    /// Returns the claims of a token that is valid now.
    pub(crate) fn verify(&self, token: &str, now: Timestamp) -> Result<Claims, TokenError> {
        let (signed, signature) = token.rsplit_once('.').ok_or(TokenError::Invalid)?;
        let signature = URL_SAFE_NO_PAD.decode(signature).map_err(|_| TokenError::Invalid)?;
        hmac::verify(&self.0, signed.as_bytes(), &signature).map_err(|_| TokenError::Invalid)?;
        let (_, claims) = signed.split_once('.').ok_or(TokenError::Invalid)?;
        let claims = URL_SAFE_NO_PAD.decode(claims).map_err(|_| TokenError::Invalid)?;
        let claims: Claims = serde_json::from_slice(&claims).map_err(|_| TokenError::Invalid)?;
        let now = now.as_second();
        if claims.iss != ISSUER {
            Err(TokenError::Invalid)
        } else if now >= claims.exp {
            Err(TokenError::Expired)
        } else if now < claims.nbf {
            Err(TokenError::NotYetValid)
        } else {
            Ok(claims)
        }
    }
}

/// Returns the user name of a service account.
pub(crate) fn user_name(namespace: &str, name: &str) -> String {
    format!("system:serviceaccount:{namespace}:{name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claims() -> Claims {
        let object = |name: &str| BoundObject { name: name.to_owned(), uid: format!("{name}-uid") };
        Claims {
            aud: vec![ISSUER.to_owned()],
            exp: 2000,
            iat: 1000,
            iss: ISSUER.to_owned(),
            jti: "id".to_owned(),
            bound: BoundObjects {
                namespace: "games".to_owned(),
                pod: Some(object("p")),
                service_account: object("default"),
                ..BoundObjects::default()
            },
            nbf: 1000,
            sub: user_name("games", "default"),
        }
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn a_token_is_valid_from_its_first_to_its_last_second() {
        let key = TokenKey::new("secret");
        let token = key.sign(&claims()).unwrap();
        for (now, expected) in [
            (999, Err(TokenError::NotYetValid)),
            (1000, Ok(claims())),
            (1999, Ok(claims())),
            (2000, Err(TokenError::Expired)),
        ] {
            assert_eq!(key.verify(&token, at(now)), expected, "at {now}");
        }
    }

    #[test]
    fn tokens_of_other_keys_and_altered_tokens_are_invalid() {
        let key = TokenKey::new("secret");
        let token = key.sign(&claims()).unwrap();
        let other = TokenKey::new("other").sign(&claims()).unwrap();
        let parts: Vec<&str> = token.split('.').collect();
        let (header, payload, signature) = (parts[0], parts[1], parts[2]);
        let admin = Claims { sub: user_name("games", "admin"), ..claims() };
        let admin = URL_SAFE_NO_PAD.encode(serde_json::to_vec(&admin).unwrap());
        let unsigned = URL_SAFE_NO_PAD.encode(r#"{"alg":"none","typ":"JWT"}"#);
        let foreign = Claims { iss: "https://elsewhere".to_owned(), ..claims() };
        for wrong in [
            other,
            format!("{header}.{admin}.{signature}"),
            format!("{unsigned}.{payload}.{signature}"),
            format!("{unsigned}.{payload}."),
            format!("{header}.{payload}"),
            format!("{token}A"),
            key.sign(&foreign).unwrap(),
            String::new(),
            "..".to_owned(),
        ] {
            assert_eq!(key.verify(&wrong, at(1500)), Err(TokenError::Invalid), "{wrong}");
        }
    }
}
