//! Prints objects and then every change of them.

use std::io::Write as _;
use std::process::ExitCode;

use futures::{AsyncBufReadExt as _, TryStreamExt as _};
use http::HeaderValue;
use http::header::ACCEPT_ENCODING;
use kube::Error;
use kube::api::{ListParams, WatchParams};
use kube::core::{Request, Status};
use serde::Deserialize;
use serde_json::Value;

use super::fetch::{self, Form};
use super::table::{Table, TablePrinter};
use super::{is_table, print};
use crate::args::{Get, ObjectOutput};
use crate::commands::session::{Session, Target, list_params};

/// An event of a watch.
#[derive(Deserialize)]
struct WatchedChange {
    r#type: String,
    object: Value,
}

/// Prints the objects of a target, and then every change, until the program is interrupted.
pub(super) async fn run(
    session: &Session,
    target: &Target,
    args: &Get,
    with_events: bool,
) -> anyhow::Result<ExitCode> {
    let form = if is_table(&args.view) { Form::Table } else { Form::Object };
    let mut selectors = list_params(&args.selection);
    if let Some(name) = &target.name {
        // Fails if the object does not exist.
        fetch::pages(&session.client, target, &selectors, form).await?;
        selectors.field_selector = Some(format!("metadata.name={name}"));
    }
    let target = Target { name: None, ..target.clone() };
    let printer = TablePrinter::new(&args.view, args.selection.all_namespaces);
    let mut watching = Watching { session, target, args, selectors, form, printer, with_events };
    loop {
        let mut version = watching.list().await?;
        // The server ends a watch after a while; the next one continues where it ended, unless that is too long ago.
        while let Some(reached) = watching.follow(&version).await? {
            version = reached;
        }
    }
}

/// A watch that is being printed.
struct Watching<'w> {
    session: &'w Session,
    /// All objects of the kind; `selectors` has the name.
    target: Target,
    args: &'w Get,
    selectors: ListParams,
    form: Form,
    printer: TablePrinter,
    with_events: bool,
}

impl Watching<'_> {
    /// Prints the present objects. Returns the resourceVersion of the list.
    async fn list(&mut self) -> anyhow::Result<String> {
        let client = &self.session.client;
        let pages = fetch::pages(client, &self.target, &self.selectors, self.form).await?;
        let mut version = String::new();
        for page in pages {
            version = page["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned();
            self.print(page, "ADDED")?;
        }
        Ok(version)
    }

    /// Prints changes until the server ends the watch. Returns the last resourceVersion, or `None` if it is too old to continue from.
    async fn follow(&mut self, version: &str) -> anyhow::Result<Option<String>> {
        let params = WatchParams {
            label_selector: self.selectors.label_selector.clone(),
            field_selector: self.selectors.field_selector.clone(),
            ..WatchParams::default()
        };
        let mut request = Request::new(self.target.path()).watch(&params, version)?;
        self.form.set(&mut request);
        // Each event must arrive at once, not when a compressed block is full.
        request.headers_mut().insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        let stream = match self.session.client.request_stream(request).await {
            Err(Error::Api(status)) if status.code == 410 => return Ok(None),
            other => other?,
        };
        let mut lines = std::pin::pin!(stream.lines());
        let mut version = version.to_owned();
        while let Some(line) = lines.try_next().await? {
            let change: WatchedChange = serde_json::from_str(&line)?;
            if change.r#type == "ERROR" {
                let status: Status = serde_json::from_value(change.object)?;
                return match status.code {
                    410 => Ok(None),
                    _ => Err(Error::Api(status.boxed()).into()),
                };
            }
            if let Some(reached) = resource_version(&change.object) {
                version = reached;
            }
            if change.r#type != "BOOKMARK" {
                self.print(change.object, &change.r#type)?;
            }
        }
        Ok(Some(version))
    }

    fn print(&mut self, response: Value, event: &str) -> anyhow::Result<()> {
        let mut out = std::io::stdout().lock();
        let event = self.with_events.then_some(event);
        if self.form == Form::Table {
            write!(out, "{}", self.printer.lines(Table::from_response(response)?, event))?;
            return Ok(out.flush()?);
        }
        let format = self.args.view.output.unwrap_or(ObjectOutput::Json);
        for mut object in print::items(response) {
            if !self.args.view.show_managed_fields {
                print::hide_managed_fields(&mut object);
            }
            if format == ObjectOutput::Yaml {
                writeln!(out, "---")?;
            }
            if let Some(event) = event {
                object = serde_json::json!({"type": event, "object": object});
                if format == ObjectOutput::Name {
                    writeln!(out, "{event} {}", print::name(&object["object"]))?;
                    continue;
                }
            }
            write!(out, "{}", print::object(&object, format)?)?;
        }
        Ok(out.flush()?)
    }
}

/// Returns the resourceVersion of an event's object, or of the row that stands for it.
fn resource_version(object: &Value) -> Option<String> {
    let row = &object["rows"][0]["object"];
    let metadata = if row.is_null() { &object["metadata"] } else { &row["metadata"] };
    let version = metadata["resourceVersion"].as_str().filter(|version| !version.is_empty());
    version.map(str::to_owned)
}
