//! `plimsoll delete`: deletes objects, and waits until they are gone.

use std::io::Write as _;
use std::process::ExitCode;

use anyhow::anyhow;
use kube::Client;
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, PropagationPolicy};
use kube::core::metadata::PartialObjectMeta;
use kube::runtime::wait::{await_condition, conditions};
use tokio::time::Instant;

use super::session::{self, Session, Target, is_not_found, list_params, report};
use crate::args::{Cascade, Delete, usage};
use crate::resources::ServedKind;

/// The maximum number of objects per list request.
const PAGE: u32 = 500;

pub(crate) fn run(args: &Delete) -> anyhow::Result<ExitCode> {
    session::run(delete(args))
}

/// An object that the server has agreed to delete.
struct Deleting {
    api: Api<DynamicObject>,
    plural: String,
    name: String,
    uid: String,
}

async fn delete(args: &Delete) -> anyhow::Result<ExitCode> {
    let session = Session::connect(&args.selection.server).await?;
    let targets = session.targets(&args.selection).await?;
    let has_selector = args.selection.selector.is_some() || args.selection.field_selector.is_some();
    if !has_selector && !args.all && targets.iter().any(|target| target.name.is_none()) {
        usage("name the objects, or select them with -l, --field-selector or --all");
    }
    let mut has_errors = false;
    let mut deleting = Vec::new();
    for target in named(&session.client, targets, &list_params(&args.selection)).await? {
        match delete_one(&session.client, &target, args).await {
            Ok(started) => deleting.extend(started),
            Err(err) if args.ignore_not_found && is_not_found(&err) => {}
            Err(err) => {
                has_errors = true;
                report(&err, "");
            }
        }
    }
    if args.wait {
        let deadline = Instant::now() + args.timeout;
        for object in deleting {
            if let Err(err) = object.wait(deadline).await {
                has_errors = true;
                report(&err, "");
            }
        }
    }
    Ok(if has_errors { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Replaces targets without a name by the objects that match the selectors.
async fn named(
    client: &Client,
    targets: Vec<Target>,
    selectors: &ListParams,
) -> anyhow::Result<Vec<Target>> {
    let mut named = Vec::new();
    for target in targets {
        if target.name.is_some() {
            named.push(target);
            continue;
        }
        let before = named.len();
        let mut page = ListParams { limit: Some(PAGE), ..selectors.clone() };
        loop {
            let api = api(client, &target.kind, target.namespace.as_deref());
            let list = api.list_metadata(&page).await?;
            named.extend(list.items.into_iter().map(|object: PartialObjectMeta<DynamicObject>| {
                let metadata = object.metadata;
                Target {
                    kind: target.kind.clone(),
                    namespace: metadata.namespace,
                    name: metadata.name,
                }
            }));
            page.continue_token = list.metadata.continue_.filter(|token| !token.is_empty());
            if page.continue_token.is_none() {
                break;
            }
        }
        if named.len() == before {
            eprintln!("No resources found");
        }
    }
    Ok(named)
}

fn api(client: &Client, kind: &ServedKind, namespace: Option<&str>) -> Api<DynamicObject> {
    match namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &kind.resource),
        None => Api::all_with(client.clone(), &kind.resource),
    }
}

/// Deletes an object. Returns it if it can be waited for.
async fn delete_one(
    client: &Client,
    target: &Target,
    args: &Delete,
) -> anyhow::Result<Option<Deleting>> {
    let name = target.name.clone().unwrap_or_default();
    let api = api(client, &target.kind, target.namespace.as_deref());
    let policy = match args.cascade {
        Cascade::Background => PropagationPolicy::Background,
        Cascade::Foreground => PropagationPolicy::Foreground,
        Cascade::Orphan => PropagationPolicy::Orphan,
    };
    let parameters = DeleteParams {
        grace_period_seconds: args.grace_period,
        propagation_policy: Some(policy),
        ..DeleteParams::default()
    };
    let response = api.delete(&name, &parameters).await?;
    let uid = response.either(
        |object| object.metadata.uid,
        |status| status.details.map(|details| details.uid).filter(|uid| !uid.is_empty()),
    );
    let kind = target.kind.qualified_name();
    let mut out = std::io::stdout().lock();
    match args.output {
        Some(_) => writeln!(out, "{kind}/{name}")?,
        None => writeln!(out, "{kind} \"{name}\" deleted")?,
    }
    let plural = target.kind.qualified_plural();
    Ok(uid.map(|uid| Deleting { api, plural, name, uid }))
}

impl Deleting {
    /// Waits until the object is gone, or another one has its name.
    async fn wait(self, deadline: Instant) -> anyhow::Result<()> {
        let Self { api, plural, name, uid } = self;
        let gone = await_condition(api, &name, conditions::is_deleted(&uid));
        match tokio::time::timeout_at(deadline, gone).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(err)) => {
                Err(anyhow::Error::from(err).context(format!("could not watch {plural}/{name}")))
            }
            Err(_) => Err(anyhow!(
                "timed out waiting for the deletion of {plural}/{name}; it may have finalizers, or wait for its dependents"
            )),
        }
    }
}
