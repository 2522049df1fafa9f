//! The REST API: dispatches a request to its handler.
//!
//! A request names a resource, perhaps an object and a part of it, and a verb. Reads are answered from memory; writes go
//! through decoding, defaults, validation and the store. How requests about one kind differ from those about others is in the
//! table of kinds; where that takes code, it is in a module of its own, such as `pods` or `service_addresses`.

mod address;
mod admission;
mod convert;
mod create;
mod decode;
mod delete;
mod form;
pub(crate) mod internal;
mod list;
mod logs;
pub(crate) mod meta;
mod options;
mod owner;
mod patch;
mod pods;
mod query;
mod read;
mod reviews;
mod scale;
mod select;
mod service_addresses;
mod sessions;
mod strategy;
mod system;
mod token_requests;
mod update;
mod warnings;
mod watch;
mod write;

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use http::{HeaderMap, Method, header, request};
use hyper::upgrade::OnUpgrade;
use serde_json::Value;

pub(crate) use form::{Reply, refusal};

use crate::authorization;
use crate::core::Core;
use crate::delegate;
use crate::request::Caller;
use crate::status::{ApiResult, Status};
use crate::store::{Object, Unreadable, WriteError};
pub(crate) use address::Address;
use apimachinery::resource::{Action, Resource, Subresource};
use apimachinery::table::Include;
use form::Form;
pub(crate) use query::Query;
use warnings::Warnings;

/// A request about a resource.
pub(crate) struct Call {
    pub(crate) core: Arc<Core>,
    pub(crate) resource: Arc<Resource>,
    pub(crate) namespace: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) subresource: Option<Subresource>,
    pub(crate) query: Query,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    pub(crate) form: Form,
    /// How much of an object the rows of a table carry.
    pub(crate) include: Include,
    pub(crate) caller: Caller,
    pub(crate) is_patch: bool,
    /// Whether the API server itself sends the request, which may change everything.
    pub(crate) is_internal: bool,
    /// Warnings for the client of a request that is carried out.
    pub(crate) warnings: Mutex<Warnings>,
}

/// Answers a request.
pub(crate) async fn answer(
    core: &Arc<Core>,
    parts: request::Parts,
    body: Bytes,
    caller: Caller,
) -> Reply {
    match dispatch(core, parts, body, caller).await {
        Ok(reply) => reply,
        Err(status) => refusal(&status),
    }
}

async fn dispatch(
    core: &Arc<Core>,
    parts: request::Parts,
    body: Bytes,
    caller: Caller,
) -> ApiResult<Reply> {
    authorization::check(core, &caller, &parts)?;
    let path = parts.uri.path();
    if let Some(delegate) = core.delegates.find(path) {
        let passed = delegate::forward(delegate, parts, body, caller).await;
        return passed.map_err(|err| {
            Status::new(503, "ServiceUnavailable", format!("error trying to reach service: {err}"))
        });
    }
    let Some(address) = Address::parse(path) else {
        return system::answer(core, &parts).await;
    };
    let served = core.registry.served();
    let Some(resource) = served.find(&address.group, &address.version, &address.plural) else {
        if served.iter().any(|((group, _), _)| *group == address.group) {
            return Err(Status::no_such_resource());
        }
        return Ok(form::text(404, "404 page not found\n"));
    };
    let resource = Arc::clone(resource);
    let subresource = match address.subresource.as_deref() {
        None => None,
        Some(name) => {
            let found = Subresource::named(name).filter(|s| resource.has(*s));
            Some(found.ok_or_else(Status::no_such_resource)?)
        }
    };
    if address.namespace.is_some() && !resource.namespaced {
        return Err(Status::no_such_resource());
    }
    let mut query = Query::parse(parts.uri.query().unwrap_or_default());
    if address.watch {
        query.set("watch", "true");
    }
    let include = Include::parse(query.get("includeObject").unwrap_or_default());
    let (headers, body) = form::as_json(parts.headers, body)?;
    let call = Call {
        include: include.map_err(Status::bad_request)?,
        core: Arc::clone(core),
        form: Form::accepted(&headers)?,
        resource,
        namespace: address.namespace,
        name: address.name,
        subresource,
        query,
        headers,
        body,
        caller,
        is_patch: parts.method == Method::PATCH,
        is_internal: false,
        warnings: Mutex::default(),
    };
    call.warn(call.resource.deprecation.map(str::to_owned));
    let connection = parts.extensions.get::<OnUpgrade>().cloned();
    let reply = match call.subresource {
        Some(subresource) if subresource.is_connection() => {
            sessions::answer(&call, subresource, &parts.method, connection).await
        }
        Some(_) | None => route(&call, &parts.method).await,
    };
    Ok(call.with_warnings(reply.unwrap_or_else(|status| refusal(&status))))
}

async fn route(call: &Call, method: &Method) -> ApiResult<Reply> {
    use Subresource as Sub;
    let is_one = call.name.is_some();
    // Objects of namespaced kinds are created and changed only by their full path.
    if call.resource.namespaced && call.namespace.is_none() && (is_one || method != Method::GET) {
        return Err(Status::method_not_allowed());
    }
    if matches!(*method, Method::POST | Method::PUT | Method::PATCH) {
        options::of_write(call)?;
    }
    match (method, call.subresource, is_one) {
        (&Method::POST, None, false) if !call.resource.is_stored() => match call.form.view {
            form::View::Whole => act(call).await,
            form::View::Table | form::View::Metadata => Err(form::not_acceptable()),
        },
        _ if !call.resource.is_stored() => Err(Status::method_not_allowed()),
        (&Method::GET, None, false) if call.query.flag("watch") == Some(true) => watch::start(call),
        (&Method::GET, None, false) => list::answer(call),
        (&Method::GET, None, true) if call.query.flag("watch") == Some(true) => watch::start(call),
        (
            &Method::GET,
            None | Some(Sub::Status | Sub::Approval | Sub::EphemeralContainers | Sub::Resize),
            true,
        ) => read::answer(call),
        (&Method::GET, Some(Sub::Scale), true) => scale::read(call),
        (&Method::GET, Some(Sub::Log), true) => logs::answer(call).await,
        (&Method::POST, None, false) => create::answer(call).await,
        (&Method::POST, Some(Sub::Binding), true) => pods::bind(call).await,
        (&Method::POST, Some(Sub::Eviction), true) => pods::evict(call).await,
        (&Method::POST, Some(Sub::Token), true) => token_requests::create(call),
        (&Method::PUT, Some(Sub::Scale), true) => scale::update(call).await,
        (&Method::PATCH, Some(Sub::Scale), true) => scale::patch(call).await,
        (&Method::PUT, sub, true) if allows(sub, "update") => update::put(call).await,
        (&Method::PATCH, sub, true) if allows(sub, "patch") => patch::answer(call).await,
        (&Method::DELETE, None, true) => delete::one(call).await,
        (&Method::DELETE, None, false) if call.resource.verbs.contains(&"deletecollection") => {
            delete::collection(call).await
        }
        _ => Err(Status::method_not_allowed()),
    }
}

/// Creates an object that is not stored.
async fn act(call: &Call) -> ApiResult<Reply> {
    match call.resource.action {
        Some(Action::Bind) => pods::create_binding(call).await,
        Some(Action::Review(review)) => reviews::answer(call, review),
        None => Err(Status::method_not_allowed()),
    }
}

fn allows(subresource: Option<Subresource>, verb: &str) -> bool {
    subresource.is_none_or(|s| s.verbs().contains(&verb))
}

impl Call {
    /// Returns the name of the object that the request is about.
    pub(crate) fn name(&self) -> &str {
        self.name.as_deref().unwrap_or_default()
    }

    /// Returns the key of an object of that name.
    pub(crate) fn key(&self, name: &str) -> String {
        self.resource.key(self.namespace.as_deref(), name)
    }

    /// Finds the object that the request is about.
    pub(crate) fn find(&self) -> ApiResult<Object> {
        let found = self.core.store.get(&self.resource.storage, &self.key(self.name()));
        found.ok_or_else(|| Status::not_found(&self.resource, self.name()))
    }

    /// Reads an object of that name as the resource is served.
    pub(crate) fn value(&self, name: &str, object: &Object) -> ApiResult<Value> {
        convert::value(&self.resource, object).map_err(|why| {
            log_unreadable(&self.resource, &self.key(name), &why);
            Status::unreadable(&self.resource, name, &why)
        })
    }

    /// Finds the object that the request is about, and reads it.
    pub(crate) fn found(&self) -> ApiResult<Value> {
        self.value(self.name(), &self.find()?)
    }

    /// Returns the manager that owns the fields of this write.
    pub(crate) fn field_manager(&self) -> String {
        let agent = self.headers.get(header::USER_AGENT).and_then(|v| v.to_str().ok());
        self.query.field_manager(agent.unwrap_or_default())
    }

    /// Adds warnings to the answer.
    pub(crate) fn warn(&self, warnings: impl IntoIterator<Item = String>) {
        self.warnings.lock().unwrap_or_else(PoisonError::into_inner).add(warnings);
    }

    fn with_warnings(&self, mut reply: Reply) -> Reply {
        for value in self.warnings.lock().unwrap_or_else(PoisonError::into_inner).headers() {
            reply.headers_mut().append(header::WARNING, value);
        }
        reply
    }

    /// Returns the name of the kind of options that this request has.
    pub(crate) fn options_kind(&self) -> &'static str {
        match (self.is_patch, self.name.is_some()) {
            (true, _) => "PatchOptions",
            (false, true) => "UpdateOptions",
            (false, false) => "CreateOptions",
        }
    }

    /// Answers with an object, in the requested form.
    pub(crate) fn show(&self, code: u16, object: &Object) -> ApiResult<Reply> {
        let is_plain = self.form == Form::JSON && convert::is_kept_as_served(&self.resource);
        if is_plain && object.is_readable() {
            let mut out = Vec::new();
            object.write(&self.resource.json_prefix, &mut out);
            out.push(b'\n');
            return Ok(form::reply(code, "application/json", Bytes::from(out)));
        }
        Ok(self.show_value(code, &self.value(self.name(), object)?))
    }

    /// Answers with an object that is not, or not yet, stored.
    pub(crate) fn show_value(&self, code: u16, object: &Value) -> Reply {
        match self.form.view {
            form::View::Whole => self.form.reply(code, object),
            form::View::Metadata => self.form.reply(code, &read::metadata_only(object)),
            form::View::Table => {
                let now = self.core.clock.now();
                let table = self.resource.columns.table_of_one(object, self.include, true, now);
                self.form.reply(code, &table)
            }
        }
    }
}

/// Logs that an object is left out or refused because it cannot be read.
fn log_unreadable(resource: &Resource, key: &str, why: &Unreadable) {
    tracing::warn!(
        error = %process::log::chain(why),
        resource = %resource.qualified(),
        key,
        "a stored object cannot be read; delete it to stop this message"
    );
}

/// Returns the answer to a write that the store refused.
pub(crate) fn refused(resource: &Resource, name: &str, err: WriteError) -> Box<Status> {
    match err {
        WriteError::Conflict => Status::stale(resource, name),
        WriteError::Failed(why) => Status::unavailable(why),
    }
}
