//! Finds out who sent a request: the administrator, or a service account by one of its tokens.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::core::Core;
use crate::request::Caller;
use crate::tokens::{BoundObject, Claims, ISSUER, TokenError};

/// The prefix of the extra fields that describe the token of a user.
const EXTRA: &str = "authentication.kubernetes.io";

/// A user whose token is valid, and for which audiences.
#[derive(Debug)]
pub(crate) struct Authenticated {
    pub(crate) caller: Caller,
    /// Those of the wanted audiences that the token is for; `None`: the token is for this server whatever the audience.
    pub(crate) audiences: Option<Vec<String>>,
}

/// Returns the user of a token for this server.
pub(crate) fn caller(core: &Core, token: &str) -> Option<Caller> {
    authenticate(core, token, &[]).ok().map(|authenticated| authenticated.caller)
}

/// Returns the user of a token for at least one of these audiences; without any, for this server.
pub(crate) fn authenticate(
    core: &Core,
    token: &str,
    audiences: &[String],
) -> Result<Authenticated, TokenError> {
    if core.is_admin_token(token) {
        return Ok(Authenticated { caller: Caller::admin(), audiences: None });
    }
    let claims = core.token_key.verify(token, core.clock.now())?;
    let own = [ISSUER.to_owned()];
    let wanted = if audiences.is_empty() { &own } else { audiences };
    let shared: Vec<String> = wanted.iter().filter(|a| claims.aud.contains(a)).cloned().collect();
    if shared.is_empty() {
        return Err(TokenError::Audience { found: claims.aud, wanted: wanted.to_vec() });
    }
    check_bound_objects(core, &claims)?;
    Ok(Authenticated { caller: service_account(claims), audiences: Some(shared) })
}

/// Refuses a token of objects that no longer exist.
fn check_bound_objects(core: &Core, claims: &Claims) -> Result<(), TokenError> {
    let bound = &claims.bound;
    let namespace = Some(bound.namespace.as_str());
    let account = Some(&bound.service_account);
    for (collection, namespace, object) in [
        ("serviceaccounts", namespace, account),
        ("pods", namespace, bound.pod.as_ref()),
        ("secrets", namespace, bound.secret.as_ref()),
        // A pod may outlive its node, and its token with it.
        ("nodes", None, bound.node.as_ref().filter(|_| bound.pod.is_none())),
    ] {
        let Some(object) = object else { continue };
        if !exists(core, collection, namespace, object) {
            return Err(TokenError::Gone(format!("{collection} {:?}", object.name)));
        }
    }
    Ok(())
}

fn exists(core: &Core, collection: &str, namespace: Option<&str>, object: &BoundObject) -> bool {
    #[derive(Deserialize)]
    struct Identity {
        uid: String,
    }
    let key = match namespace {
        Some(namespace) => format!("{namespace}/{}", object.name),
        None => object.name.clone(),
    };
    let found = core.store.get(collection, &key);
    let found = found.and_then(|found| found.metadata::<Identity>());
    found.is_some_and(|found| found.uid == object.uid)
}

fn service_account(claims: Claims) -> Caller {
    let bound = claims.bound;
    let mut extra = BTreeMap::new();
    let mut add = |name: &str, value: String| {
        extra.insert(format!("{EXTRA}/{name}"), vec![value]);
    };
    add("credential-id", format!("JTI={}", claims.jti));
    for (kind, object) in [("node", bound.node), ("pod", bound.pod)] {
        if let Some(object) = object {
            add(&format!("{kind}-name"), object.name);
            add(&format!("{kind}-uid"), object.uid);
        }
    }
    let groups = vec![
        "system:serviceaccounts".to_owned(),
        format!("system:serviceaccounts:{}", bound.namespace),
        "system:authenticated".to_owned(),
    ];
    Caller { user: claims.sub, groups, uid: Some(bound.service_account.uid), extra }
}
