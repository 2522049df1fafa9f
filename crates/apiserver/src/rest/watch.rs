//! Watches a collection, from now or from a version on.
//!
//! A watch keeps little more than the version it has reached: the changes it has yet to send are in the store, for all
//! watches once, and stay there for longer than usual while it keeps reading. If a watch is too slow, they are no longer there:
//! it ends with 410.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use http_body::Frame;
use http_body_util::{BodyExt as _, StreamBody};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::form::{self, Form, View};
use super::select::Selection;
use super::{Call, Reply, convert, list, options, read};
use crate::core::Core;
use crate::status::{ApiResult, Status};
use crate::store::{Change, Expired, Object, Subscription};
use apimachinery::quote::quote;
use apimachinery::resource::Resource;
use apimachinery::table::Include;

/// How many changes are taken from the store at once.
const BATCH: usize = 256;
/// No more are taken after so many bytes.
const BATCH_BYTES: usize = 1 << 20;
const BOOKMARK_EVERY: Duration = Duration::from_secs(60);
/// How long a watch lasts that has no `timeoutSeconds`.
const LASTS: Duration = Duration::from_secs(45 * 60);

/// A watch that is under way.
struct Watch {
    core: Arc<Core>,
    resource: Arc<Resource>,
    prefix: String,
    selection: Selection,
    form: Form,
    include: Include,
    reached: u64,
    waiting: VecDeque<Bytes>,
    subscription: Subscription,
    stopping: watch::Receiver<bool>,
    ends_at: Instant,
    bookmark_at: Option<Instant>,
    /// Whether its events are the same for everyone who watches this collection in this version.
    is_shared: bool,
    sent_columns: bool,
    is_over: bool,
}

/// Starts a watch.
pub(super) fn start(call: &Call) -> ApiResult<Reply> {
    check_options(call)?;
    let mut selection = Selection::of(call)?;
    if let Some(name) = &call.name {
        selection = selection.named(name);
    }
    // From here on nothing is missed, however long the rest takes.
    let subscription = call.core.store.subscribe(&call.resource.storage);
    let version = list::check_version(call, call.query.get("resourceVersion"))?;
    let sends_initial = call.query.flag("sendInitialEvents");
    let bookmarks = call.query.flag("allowWatchBookmarks") == Some(true);
    let now = Instant::now();
    let mut watch = Watch {
        core: Arc::clone(&call.core),
        resource: Arc::clone(&call.resource),
        prefix: call.namespace.as_ref().map(|n| format!("{n}/")).unwrap_or_default(),
        selection,
        form: call.form,
        include: call.include,
        reached: version.unwrap_or(0),
        waiting: VecDeque::new(),
        subscription,
        stopping: call.core.stopping(),
        ends_at: crate::deadline::after(call.query.timeout()?.unwrap_or(LASTS)),
        bookmark_at: bookmarks.then_some(now + BOOKMARK_EVERY),
        is_shared: call.form == Form::JSON && convert::is_kept_as_served(&call.resource),
        sent_columns: false,
        is_over: false,
    };
    if sends_initial.unwrap_or(version.is_none()) {
        watch.send_present(sends_initial == Some(true) && bookmarks)?;
    } else if version.is_none() {
        watch.reached = call.core.store.version();
    }
    watch.subscription.reach(watch.reached);
    let events = futures::stream::unfold(watch, |mut watch| async {
        let event = watch.next().await?;
        Some((Ok(Frame::data(event)), watch))
    });
    let mut reply = form::reply(200, "application/json", Bytes::new());
    *reply.body_mut() = StreamBody::new(events.fuse()).boxed_unsync();
    Ok(reply)
}

impl Watch {
    /// Queues every object that is there, as if it had just been made.
    fn send_present(&mut self, with_end: bool) -> ApiResult<()> {
        let store = &self.core.store;
        let page = store.list(&self.resource.storage, &self.prefix, None, usize::MAX, None);
        let page = page.map_err(|Expired| Status::internal("the present is not known"))?;
        self.reached = page.version;
        for (key, object) in page.items {
            if self.selection.matches(&self.resource, &key, &object) {
                let event = self.event("ADDED", &key, &object);
                self.waiting.extend(event);
            }
        }
        if with_end {
            let end = json!({"k8s.io/initial-events-end": "true"});
            let bookmark = self.bookmark(Some(end));
            self.waiting.push_back(bookmark);
        }
        Ok(())
    }

    /// Returns the next event; `None` when the watch is over.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(event) = self.waiting.pop_front() {
                return Some(event);
            }
            if self.is_over || *self.stopping.borrow() {
                return None;
            }
            match self.changes() {
                Err(Expired) => {
                    self.is_over = true;
                    return Some(self.too_old());
                }
                Ok((changes, reached)) => {
                    self.reached = reached;
                    self.subscription.reach(reached);
                    changes.iter().for_each(|change| self.queue(change));
                }
            }
            if !self.waiting.is_empty() {
                continue;
            }
            let now = Instant::now();
            if now >= self.ends_at {
                return None;
            }
            if self.bookmark_at.is_some_and(|at| at <= now) {
                self.bookmark_at = Some(now + BOOKMARK_EVERY);
                return Some(self.bookmark(None));
            }
            let wake_at = self.bookmark_at.map_or(self.ends_at, |at| at.min(self.ends_at));
            tokio::select! {
                changed = self.subscription.changed() => changed?,
                _ = self.stopping.changed() => return None,
                () = sleep_until(wake_at) => {}
            }
        }
    }

    fn changes(&self) -> Result<(Vec<Arc<Change>>, u64), Expired> {
        let store = &self.core.store;
        store.changes(&self.resource.storage, self.reached, BATCH, BATCH_BYTES)
    }

    /// Queues what a change means to this watch: with a selector, an object can come and go without being made or deleted.
    fn queue(&mut self, change: &Change) {
        if !change.key.starts_with(&self.prefix) {
            return;
        }
        if self.is_shared && self.selection.is_everything() && change.object.is_readable() {
            let event = change.event(&self.resource.json_prefix);
            self.waiting.push_back(event);
            return;
        }
        let matches = |object: &Object| self.selection.matches(&self.resource, &change.key, object);
        let was_in = change.before.as_ref().is_some_and(&matches);
        let is_in = !change.deleted && matches(&change.object);
        let event = match (was_in, is_in) {
            (false, true) => self.event("ADDED", &change.key, &change.object),
            (true, true) => self.event("MODIFIED", &change.key, &change.object),
            (true, false) => {
                let last = change.before.as_ref().unwrap_or(&change.object);
                self.event("DELETED", &change.key, &last.at(change.version()))
            }
            (false, false) => return,
        };
        self.waiting.extend(event);
    }

    /// Writes an event; `None` for an object that cannot be parsed, which would end the watch of a client.
    fn event(&mut self, kind: &str, key: &str, object: &Object) -> Option<Bytes> {
        if self.is_shared && object.is_readable() {
            return Some(object.event(kind, &self.resource.json_prefix));
        }
        let value = convert::value(&self.resource, object)
            .inspect_err(|why| super::log_unreadable(&self.resource, key, why))
            .ok()?;
        let shown = match self.form.view {
            View::Whole => value,
            View::Metadata => read::metadata_only(&value),
            View::Table => self.row(&value),
        };
        Some(line(&json!({"type": kind, "object": shown})))
    }

    /// Shows an object as a table of one row; only the first table of a watch has its columns.
    fn row(&mut self, value: &Value) -> Value {
        let is_first = !std::mem::replace(&mut self.sent_columns, true);
        let now = self.core.clock.now();
        self.resource.columns.table_of_one(value, self.include, is_first, now)
    }

    fn bookmark(&mut self, annotations: Option<Value>) -> Bytes {
        let mut metadata = json!({"resourceVersion": self.reached.to_string()});
        if let Some(annotations) = annotations {
            metadata["annotations"] = annotations;
        }
        let (kind, api_version) = (&self.resource.kind, self.resource.api_version());
        let object = json!({"kind": kind, "apiVersion": api_version, "metadata": metadata});
        let shown = match self.form.view {
            View::Whole => object,
            View::Metadata => read::metadata_only(&object),
            View::Table => self.row(&object),
        };
        line(&json!({"type": "BOOKMARK", "object": shown}))
    }

    fn too_old(&self) -> Bytes {
        let message =
            format!("too old resource version: {} ({})", self.reached, self.core.store.version());
        line(&json!({"type": "ERROR", "object": Status::expired(message).json()}))
    }
}

fn line(event: &Value) -> Bytes {
    let mut line = serde_json::to_vec(event).unwrap_or_default();
    line.push(b'\n');
    Bytes::from(line)
}

/// Refuses options of a watch that contradict each other.
fn check_options(call: &Call) -> ApiResult<()> {
    let query = &call.query;
    let how = query.get("resourceVersionMatch");
    let mut wrong: Vec<(&str, String)> = Vec::new();
    if query.flag("sendInitialEvents").is_some() && how != Some("NotOlderThan") {
        let why =
            "Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
        wrong.push(("resourceVersionMatch", why.to_owned()));
    }
    if let Some(how) = how {
        if query.flag("sendInitialEvents").is_none() {
            let why = "Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
            wrong.push(("resourceVersionMatch", why.to_owned()));
        }
        if how != "NotOlderThan" {
            let known = r#"supported values: "NotOlderThan""#;
            let why = format!("Unsupported value: {}: {known}", quote(how));
            wrong.push(("resourceVersionMatch", why));
        }
    }
    options::invalid("ListOptions", &wrong)
}
