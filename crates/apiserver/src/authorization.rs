//! Decides what service accounts may do, by the Roles and bindings of `rbac.authorization.k8s.io`. Administrators may do everything.
//!
//! Without any binding a service account may read what the server serves and ask about its own rights, as on a cluster.

mod rules;

use http::{Method, request};
use serde_json::{Value, json};

use crate::core::Core;
use crate::request::Caller;
use crate::rest::{Address, Query};
use crate::status::{ApiResult, Status, details};
use rules::Rule;

const RBAC: &str = "rbac.authorization.k8s.io";

/// What a request does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// It reads or writes objects.
    Resource {
        verb: String,
        group: String,
        resource: String,
        subresource: String,
        /// Empty: all namespaces, or none.
        namespace: String,
        name: String,
    },
    /// It reads another path.
    Path { verb: String, path: String },
}

/// Refuses a request that its user may not send.
pub(crate) fn check(core: &Core, caller: &Caller, parts: &request::Parts) -> ApiResult<()> {
    if caller.is_admin() {
        return Ok(());
    }
    let action = action(parts);
    if !is_allowed(core, caller, &action) || !may_grant(core, caller, &action) {
        return Err(refusal(caller, &action));
    }
    if let Some(creation) = creation(core, &action)
        && !is_allowed(core, caller, &creation)
    {
        return Err(refusal(caller, &creation));
    }
    Ok(())
}

/// Whether a user may do something.
pub(crate) fn is_allowed(core: &Core, caller: &Caller, action: &Action) -> bool {
    let namespace = match action {
        Action::Resource { namespace, .. } => namespace,
        Action::Path { .. } => "",
    };
    caller.is_admin() || rules::of(core, caller, namespace).iter().any(|rule| rule.covers(action))
}

/// Whether a user may write Roles and bindings, through which it could give itself any right: that needs the verb `escalate` or `bind`
/// on clusterroles. (A cluster compares the rights instead where these verbs are missing.)
fn may_grant(core: &Core, caller: &Caller, action: &Action) -> bool {
    let Action::Resource { verb, group, resource, .. } = action else { return true };
    if group != RBAC || matches!(verb.as_str(), "get" | "list" | "watch") {
        return true;
    }
    let verb = if resource.ends_with("bindings") { "bind" } else { "escalate" };
    let grants = Action::Resource {
        verb: verb.to_owned(),
        group: RBAC.to_owned(),
        resource: "clusterroles".to_owned(),
        subresource: String::new(),
        namespace: String::new(),
        name: String::new(),
    };
    is_allowed(core, caller, &grants)
}

/// Returns the creation that a change of an object that does not exist may be; it needs that right too.
fn creation(core: &Core, action: &Action) -> Option<Action> {
    let Action::Resource { verb, group, resource, subresource, namespace, name } = action else {
        return None;
    };
    if !matches!(verb.as_str(), "update" | "patch") || !subresource.is_empty() {
        return None;
    }
    let served = core.registry.served();
    let mut all = served.iter().flat_map(|(_, resources)| resources);
    let of_kind = all.find(|known| known.group == *group && known.plural == *resource)?;
    let key = of_kind.key(Some(namespace.as_str()).filter(|_| of_kind.namespaced), name);
    if core.store.get(&of_kind.storage, &key).is_some() {
        return None;
    }
    let mut creation = action.clone();
    if let Action::Resource { verb, .. } = &mut creation {
        "create".clone_into(verb);
    }
    Some(creation)
}

/// Returns the status of a SelfSubjectRulesReview.
pub(crate) fn rules_review(core: &Core, caller: &Caller, namespace: &str) -> Value {
    let rules =
        if caller.is_admin() { vec![Rule::all()] } else { rules::of(core, caller, namespace) };
    let resources: Vec<Value> = rules.iter().filter_map(Rule::resource_rule).collect();
    let paths: Vec<Value> = rules.iter().filter_map(Rule::path_rule).collect();
    json!({"resourceRules": resources, "nonResourceRules": paths, "incomplete": false})
}

/// Returns what a request does.
fn action(parts: &request::Parts) -> Action {
    let path = parts.uri.path();
    let Some(address) = Address::parse(path) else {
        let verb = parts.method.as_str().to_ascii_lowercase();
        return Action::Path { verb, path: path.to_owned() };
    };
    let query = Query::parse(parts.uri.query().unwrap_or_default());
    let is_watch = address.watch || query.flag("watch") == Some(true);
    let verb = match (&parts.method, &address.name) {
        (&Method::GET | &Method::HEAD, _) if is_watch => "watch",
        (&Method::GET | &Method::HEAD, Some(_)) => "get",
        (&Method::GET | &Method::HEAD, None) => "list",
        (&Method::PUT, _) => "update",
        (&Method::PATCH, _) => "patch",
        (&Method::DELETE, Some(_)) => "delete",
        (&Method::DELETE, None) => "deletecollection",
        (_, _) => "create",
    };
    let namespace = match (&address.namespace, &address.name) {
        // A namespace is in itself.
        (None, Some(name)) if address.group.is_empty() && address.plural == "namespaces" => name,
        (Some(namespace), _) => namespace,
        (None, _) => "",
    };
    Action::Resource {
        verb: verb.to_owned(),
        namespace: namespace.to_owned(),
        group: address.group,
        resource: address.plural,
        subresource: address.subresource.unwrap_or_default(),
        name: address.name.unwrap_or_default(),
    }
}

fn refusal(caller: &Caller, action: &Action) -> Box<Status> {
    let user = &caller.user;
    let Action::Resource { verb, group, resource, subresource, namespace, name } = action else {
        let Action::Path { verb, path } = action else { return Status::method_not_allowed() };
        let message = format!("forbidden: User {user:?} cannot {verb} path {path:?}");
        let mut status = Status::new(403, "Forbidden", message);
        status.details = Some(serde_json::Map::new());
        return status;
    };
    let mut what = apimachinery::resource::qualified(resource, group);
    if !name.is_empty() {
        what.push_str(&format!(" {name:?}"));
    }
    let resource_name = match subresource.as_str() {
        "" => resource.clone(),
        subresource => format!("{resource}/{subresource}"),
    };
    let scope = match namespace.as_str() {
        "" => "at the cluster scope".to_owned(),
        namespace => format!("in the namespace {namespace:?}"),
    };
    let message = format!(
        "{what} is forbidden: User {user:?} cannot {verb} resource {resource_name:?} in API group {group:?} {scope}"
    );
    let mut status = Status::new(403, "Forbidden", message);
    status.details = Some(details(name, group, resource));
    status
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(method: &str, uri: &str) -> request::Parts {
        http::Request::builder().method(method).uri(uri).body(()).unwrap().into_parts().0
    }

    #[test]
    fn requests_are_named_as_rbac_names_them() {
        for (method, uri, expected) in [
            ("GET", "/api/v1/pods", "list pods  "),
            ("GET", "/api/v1/namespaces/n/pods?watch=1", "watch pods n "),
            ("GET", "/api/v1/watch/namespaces/n/pods", "watch pods n "),
            ("GET", "/api/v1/namespaces/n/pods/p", "get pods n p"),
            ("GET", "/api/v1/namespaces/n/pods/p/log", "get pods/log n p"),
            ("POST", "/api/v1/namespaces/n/pods", "create pods n "),
            (
                "PUT",
                "/apis/agones.dev/v1/namespaces/n/gameservers/g",
                "update agones.dev gameservers n g",
            ),
            ("PATCH", "/api/v1/nodes/a/status", "patch nodes/status  a"),
            ("DELETE", "/api/v1/namespaces/n/pods", "deletecollection pods n "),
            ("DELETE", "/api/v1/namespaces/n", "delete namespaces n n"),
        ] {
            let Action::Resource { verb, group, resource, subresource, namespace, name } =
                action(&parts(method, uri))
            else {
                panic!("{uri} is a resource");
            };
            let group = if group.is_empty() { group } else { format!("{group} ") };
            let sub = if subresource.is_empty() { subresource } else { format!("/{subresource}") };
            assert_eq!(format!("{verb} {group}{resource}{sub} {namespace} {name}"), expected);
        }
        let version = Action::Path { verb: "get".to_owned(), path: "/version".to_owned() };
        assert_eq!(action(&parts("GET", "/version")), version);
    }
}
