//! Issues tokens for service accounts: the subresource `serviceaccounts/token`.

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Call, Reply, form, meta};
use crate::status::{ApiResult, Status, details};
use crate::tokens::{BoundObject, BoundObjects, Claims, ISSUER, user_name};

/// How long a token is valid, unless the request says otherwise.
const DEFAULT_SECONDS: i64 = 3600;
/// The shortest time that a token may be valid.
const SHORTEST_SECONDS: i64 = 600;
/// The longest time that a token may be valid.
const LONGEST_SECONDS: i64 = 1 << 32;

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct TokenRequestSpec {
    audiences: Option<Vec<String>>,
    expiration_seconds: Option<i64>,
    bound_object_ref: Option<BoundObjectRef>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct BoundObjectRef {
    api_version: String,
    kind: String,
    name: String,
    uid: String,
}

/// Answers with a token for the service account that the request is about.
pub(super) fn create(call: &Call) -> ApiResult<Reply> {
    let account = call.found()?;
    let mut request = form::decode(&call.headers, &call.body)?;
    let spec = match request.get("spec") {
        Some(spec) if !spec.is_null() => TokenRequestSpec::deserialize(spec)
            .map_err(|err| Status::bad_request(format!("spec of the TokenRequest: {err}")))?,
        Some(_) | None => TokenRequestSpec::default(),
    };
    let seconds = spec.expiration_seconds.unwrap_or(DEFAULT_SECONDS);
    check_duration(seconds)?;
    let audiences = spec.audiences.filter(|audiences| !audiences.is_empty());
    let audiences = audiences.unwrap_or_else(|| vec![ISSUER.to_owned()]);
    let mut bound = BoundObjects {
        namespace: call.namespace.clone().unwrap_or_default(),
        service_account: identity(&account),
        ..BoundObjects::default()
    };
    if let Some(reference) = &spec.bound_object_ref {
        bind(call, reference, &mut bound)?;
    }
    let issued_at = call.core.clock.now().as_second();
    let claims = Claims {
        aud: audiences.clone(),
        exp: issued_at.saturating_add(seconds),
        iat: issued_at,
        iss: ISSUER.to_owned(),
        jti: call.core.random.uuid().to_string(),
        sub: user_name(&bound.namespace, &bound.service_account.name),
        bound,
        nbf: issued_at,
    };
    let token = call.core.token_key.sign(&claims).map_err(Status::internal)?;
    let expires_at = Timestamp::from_second(claims.exp).map_err(Status::internal)?;
    request["apiVersion"] = "authentication.k8s.io/v1".into();
    request["kind"] = "TokenRequest".into();
    request["metadata"] = json!({
        "name": call.name(), "namespace": call.namespace, "creationTimestamp": meta::time(call.core.clock.now()),
    });
    request["spec"]["audiences"] = json!(audiences);
    request["spec"]["expirationSeconds"] = seconds.into();
    request["status"] = json!({"token": token, "expirationTimestamp": meta::time(expires_at)});
    Ok(call.form.reply(201, &request))
}

fn check_duration(seconds: i64) -> ApiResult<()> {
    let why = match seconds {
        ..SHORTEST_SECONDS => "may not specify a duration less than 10 minutes",
        SHORTEST_SECONDS..=LONGEST_SECONDS => return Ok(()),
        _ => "may not specify a duration larger than 2^32 seconds",
    };
    let (field, why) = ("spec.expirationSeconds", format!("Invalid value: {seconds}: {why}"));
    let message = format!("TokenRequest.authentication.k8s.io \"\" is invalid: {field}: {why}");
    let mut status = Status::new(422, "Invalid", message);
    status.details = Some(details("", "authentication.k8s.io", "TokenRequest"));
    Err(status.cause(json!({"reason": "FieldValueInvalid", "message": why, "field": field})))
}

/// Adds the object that the token is to be valid with.
fn bind(call: &Call, reference: &BoundObjectRef, bound: &mut BoundObjects) -> ApiResult<()> {
    let account = &bound.service_account.name;
    match (reference.api_version.as_str(), reference.kind.as_str()) {
        ("v1", "Pod") => {
            let pod = referenced(call, "pods", reference)?;
            let runs_as = pod["spec"]["serviceAccountName"].as_str().unwrap_or_default();
            // Admission on a cluster writes the default into each pod; here it may be left out.
            let runs_as = if runs_as.is_empty() { "default" } else { runs_as };
            if runs_as != account {
                return Err(Status::bad_request(format!(
                    "cannot bind token for serviceaccount {account:?} to pod running with different serviceaccount name."
                )));
            }
            bound.pod = Some(identity(&pod));
            bound.node = pod["spec"]["nodeName"].as_str().and_then(|node| node_of(call, node));
        }
        ("v1", "Secret") => {
            bound.secret = Some(identity(&referenced(call, "secrets", reference)?));
        }
        ("v1", "Node") => bound.node = Some(identity(&referenced(call, "nodes", reference)?)),
        (version, kind) => {
            return Err(Status::bad_request(format!(
                "cannot bind token for serviceaccount {account:?} to object of type {version}, Kind={kind}; \
                 expected v1 with kind Pod, Secret or Node"
            )));
        }
    }
    Ok(())
}

/// Reads the object of a reference.
fn referenced(call: &Call, plural: &str, reference: &BoundObjectRef) -> ApiResult<Value> {
    let served = call.core.registry.served();
    let resource = served.find("", "v1", plural).ok_or_else(Status::no_such_resource)?;
    let key = resource.key(call.namespace.as_deref(), &reference.name);
    let object = call.core.store.get(&resource.storage, &key);
    let object = object.ok_or_else(|| Status::not_found(resource, &reference.name))?;
    let object = object.value("v1", &reference.kind);
    let object = object.map_err(|why| Status::unreadable(resource, &reference.name, &why))?;
    let uid = meta::text(&object, "uid");
    if !reference.uid.is_empty() && reference.uid != uid {
        let why = format!(
            "the UID in the bound object reference ({}) does not match the UID in record. The object might have been \
             deleted and then recreated",
            reference.uid
        );
        return Err(Status::conflict(resource, &reference.name, &why));
    }
    Ok(object)
}

/// Returns the node of a pod; `None`: it is not registered.
fn node_of(call: &Call, name: &str) -> Option<BoundObject> {
    let node = call.core.store.get("nodes", name)?.value("v1", "Node").ok()?;
    Some(identity(&node))
}

fn identity(object: &Value) -> BoundObject {
    let text = |field| meta::text(object, field).to_owned();
    BoundObject { name: text("name"), uid: text("uid") }
}
