//! `plimsoll get` and `plimsoll watch`: show objects, as tables, YAML, JSON or names.

mod fetch;
mod print;
mod table;
mod watch;

use std::io::Write as _;
use std::process::ExitCode;

use kube::api::ListParams;
use serde_json::{Value, json};

use super::session::{self, Session, Target, is_not_found, list_params, report};
use crate::args::{Get, ObjectOutput, View, Watch, usage};
use fetch::Form;
use table::{Table, TablePrinter};

pub(crate) fn run(args: &Get) -> anyhow::Result<ExitCode> {
    session::run(get(args, false))
}

pub(crate) fn run_watch(args: Watch) -> anyhow::Result<ExitCode> {
    let Watch { selection, view } = args;
    let args = Get { selection, view, watch: true, ignore_not_found: false };
    session::run(get(&args, true))
}

/// Shows the objects; `with_events` adds the type of each event of a watch.
async fn get(args: &Get, with_events: bool) -> anyhow::Result<ExitCode> {
    let session = Session::connect(&args.selection.server).await?;
    let targets = session.targets(&args.selection).await?;
    if args.watch {
        let [target] = targets.as_slice() else {
            usage("only one kind, or one object, can be watched at a time");
        };
        return watch::run(&session, target, args, with_events).await;
    }
    let printer = TablePrinter::new(&args.view, args.selection.all_namespaces);
    let mut show = Show { session: &session, args, has_errors: false };
    match args.view.output {
        None | Some(ObjectOutput::Wide) => show.tables(&targets, printer).await?,
        Some(format @ (ObjectOutput::Yaml | ObjectOutput::Json | ObjectOutput::Name)) => {
            show.objects(&targets, format).await?;
        }
    }
    Ok(if show.has_errors { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// The objects of a command line, while they are shown.
struct Show<'s> {
    session: &'s Session,
    args: &'s Get,
    has_errors: bool,
}

impl Show<'_> {
    /// Prints a table per kind. With several kinds, the names of objects include the kind.
    async fn tables(&mut self, targets: &[Target], printer: TablePrinter) -> anyhow::Result<()> {
        let mut tables: Vec<(&Target, Table)> = Vec::new();
        for target in targets {
            let Some(pages) = self.fetch(target, Form::Table).await else { continue };
            for page in pages {
                let table = Table::from_response(page)?;
                match tables.last_mut() {
                    Some((last, joined)) if last.kind.resource == target.kind.resource => {
                        joined.append(table);
                    }
                    _ => tables.push((target, table)),
                }
            }
        }
        tables.retain(|(_, table)| !table.is_empty());
        if tables.is_empty() && !self.has_errors && !self.args.ignore_not_found {
            self.report_none(targets);
        }
        let first = targets.first().map(|target| &target.kind.resource);
        let has_kinds = targets.iter().any(|target| Some(&target.kind.resource) != first);
        let mut out = std::io::stdout().lock();
        for (number, (target, table)) in tables.into_iter().enumerate() {
            let mut printer = printer.clone();
            if has_kinds {
                printer.prefix_names(&target.kind.qualified_name());
                // As kubectl separates tables.
                if number > 0 {
                    writeln!(out)?;
                }
            }
            write!(out, "{}", printer.lines(table, None))?;
        }
        Ok(())
    }

    /// Prints one object as it is, and several as a List.
    async fn objects(&mut self, targets: &[Target], format: ObjectOutput) -> anyhow::Result<()> {
        let is_single = matches!(targets, [Target { name: Some(_), .. }]);
        let mut objects = Vec::new();
        for target in targets {
            for page in self.fetch(target, Form::Object).await.unwrap_or_default() {
                objects.extend(print::items(page));
            }
        }
        if !self.args.view.show_managed_fields {
            objects.iter_mut().for_each(print::hide_managed_fields);
        }
        let mut out = std::io::stdout().lock();
        if format == ObjectOutput::Name {
            for object in &objects {
                writeln!(out, "{}", print::name(object))?;
            }
            return Ok(());
        }
        if is_single && objects.is_empty() {
            return Ok(());
        }
        let shown = match is_single {
            true => objects.remove(0),
            false => json!({
                "apiVersion": "v1", "kind": "List", "items": objects, "metadata": {"resourceVersion": ""},
            }),
        };
        write!(out, "{}", print::object(&shown, format)?)?;
        Ok(())
    }

    /// Requests the objects of a target. An error is printed, so that the other targets are still shown.
    async fn fetch(&mut self, target: &Target, form: Form) -> Option<Vec<Value>> {
        let selectors: ListParams = list_params(&self.args.selection);
        match fetch::pages(&self.session.client, target, &selectors, form).await {
            Ok(pages) => Some(pages),
            Err(err) if self.args.ignore_not_found && is_not_found(&err) => None,
            Err(err) => {
                self.has_errors = true;
                report(&err, "");
                None
            }
        }
    }

    fn report_none(&self, targets: &[Target]) {
        match targets.iter().find_map(|target| target.namespace.as_deref()) {
            Some(namespace) => eprintln!("No resources found in {namespace} namespace."),
            None => eprintln!("No resources found"),
        }
    }
}

/// Returns whether objects are printed as a table.
fn is_table(view: &View) -> bool {
    matches!(view.output, None | Some(ObjectOutput::Wide))
}
