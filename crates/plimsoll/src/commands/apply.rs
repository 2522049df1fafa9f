//! `plimsoll apply`: creates or changes objects, as files describe them.

use std::io::Write as _;
use std::process::ExitCode;

use anyhow::bail;
use serde_json::Value;

use super::session::{self, report};
use crate::args::Apply;
use crate::kubeconfig;
use crate::manifest::{self, Applier};

pub(crate) fn run(args: Apply) -> anyhow::Result<ExitCode> {
    session::run(apply(args))
}

/// Applies the objects while the files are being read. An object that cannot be applied does not stop the others.
async fn apply(args: Apply) -> anyhow::Result<ExitCode> {
    let (client, default) = kubeconfig::client(args.server.kubeconfig.as_deref()).await?;
    let required = args.server.namespace.as_deref();
    let namespace = required.unwrap_or(&default);
    let mut applier = Applier::new(client, namespace).await.map_err(session::unreachable)?;
    let paths = args.paths.into_iter().chain(args.files.files).collect();
    let mut objects = manifest::objects(paths, args.files.recursive);
    let (mut has_objects, mut has_errors) = (false, false);
    while let Some(object) = objects.recv().await {
        has_objects = true;
        let result = match object {
            Ok(object) => {
                let name = manifest::object_name(&object);
                let applied = match check_namespace(&object, required) {
                    Ok(()) => applier.apply_and_compare(object).await,
                    Err(err) => Err(err),
                };
                applied.map_err(|err| (err, format!("could not apply {name}: ")))
            }
            Err(err) => Err((err, String::new())),
        };
        match result {
            Ok((name, effect)) => {
                let mut out = std::io::stdout().lock();
                match args.output {
                    Some(_) => writeln!(out, "{name}")?,
                    None => writeln!(out, "{name} {}", effect.as_str())?,
                }
            }
            Err((err, doing)) => {
                has_errors = true;
                report(&err, &doing);
            }
        }
    }
    if !has_objects {
        bail!("the files contain no objects");
    }
    Ok(if has_errors { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Refuses an object that names another namespace than the command.
fn check_namespace(object: &Value, required: Option<&str>) -> anyhow::Result<()> {
    let (Some(own), Some(required)) = (object["metadata"]["namespace"].as_str(), required) else {
        return Ok(());
    };
    if own != required {
        bail!("the object is in namespace `{own}`, the command has --namespace {required}");
    }
    Ok(())
}
