//! What did a container of a pod say?

use std::sync::Arc;

use bytes::Bytes;
use futures::StreamExt as _;
use http_body::Frame;
use http_body_util::{BodyExt as _, StreamBody};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use tokio::sync::watch;

use super::{Call, Reply, form};
use crate::runtime::logs::{Line, Log};
use crate::status::{Answer, Status};

/// A log that is being read.
struct Reading {
    log: Arc<Log>,
    grown: watch::Receiver<()>,
    stopping: watch::Receiver<bool>,
    next: u64,
    follows: bool,
    shows_times: bool,
    since: Option<Timestamp>,
    /// How many of the lines that are there now are shown.
    tail: Option<usize>,
    /// How many bytes may still be sent.
    left: usize,
    is_over: bool,
}

/// Answers with a log, as it is or as it grows.
pub(super) fn answer(call: &Call) -> Answer<Reply> {
    let pod = call.found()?;
    let container = container(call, &pod)?;
    let uid = super::meta::text(&pod, "uid");
    let previous = call.query.flag("previous") == Some(true);
    let Some(log) = call.core.logs.find(uid, &container, previous) else {
        return missing(call, &pod, &container, previous);
    };
    let ago = call.query.number("sinceSeconds")?.map(SignedDuration::from_secs);
    let ago = ago.and_then(|ago| call.core.clock.now().checked_sub(ago).ok());
    let since = call.query.get("sinceTime").and_then(|time| time.parse().ok());
    let number = |key: &str| -> Answer<Option<usize>> {
        Ok(call.query.number(key)?.and_then(|number| usize::try_from(number).ok()))
    };
    let reading = Reading {
        grown: log.grown(),
        log,
        stopping: call.core.stopping(),
        next: 0,
        follows: call.query.flag("follow") == Some(true),
        shows_times: call.query.flag("timestamps") == Some(true),
        since: ago.or(since),
        tail: number("tailLines")?,
        left: number("limitBytes")?.unwrap_or(usize::MAX),
        is_over: false,
    };
    let chunks = futures::stream::unfold(reading, |mut reading| async {
        let chunk = reading.next().await?;
        Some((Ok(Frame::data(chunk)), reading))
    });
    let mut reply = form::text(200, Bytes::new());
    *reply.body_mut() = StreamBody::new(chunks.fuse()).boxed_unsync();
    Ok(reply)
}

impl Reading {
    /// Gives what is there and was not given yet; waits for more only when it is to.
    async fn next(&mut self) -> Option<Bytes> {
        while !self.is_over && self.left > 0 {
            self.grown.borrow_and_update();
            let (lines, next, is_complete) = self.log.read(self.next);
            self.next = next;
            self.is_over = is_complete || !self.follows;
            let skip = self.tail.take().map_or(0, |tail| lines.len().saturating_sub(tail));
            let mut out = Vec::new();
            lines[skip..].iter().for_each(|line| self.show(line, &mut out));
            out.truncate(self.left);
            self.left -= out.len();
            if !out.is_empty() {
                return Some(out.into());
            }
            if !self.is_over {
                tokio::select! {
                    changed = self.grown.changed() => changed.ok()?,
                    _ = self.stopping.changed() => return None,
                }
            }
        }
        None
    }

    fn show(&self, line: &Line, out: &mut Vec<u8>) {
        if self.since.is_some_and(|since| line.at < since) {
            return;
        }
        if self.shows_times {
            out.extend_from_slice(format!("{:.9} ", line.at).as_bytes());
        }
        out.extend_from_slice(&line.text);
    }
}

/// Finds out which container is meant.
fn container(call: &Call, pod: &Value) -> Answer<String> {
    let names = |list: &str| -> Vec<String> {
        let all = pod["spec"][list].as_array().into_iter().flatten();
        all.filter_map(|c| c["name"].as_str().map(str::to_owned)).collect()
    };
    let (main, init) = (names("containers"), names("initContainers"));
    match (call.query.get("container"), &main[..]) {
        (Some(asked), _) if main.iter().chain(&init).any(|name| name == asked) => {
            Ok(asked.to_owned())
        }
        (Some(asked), _) => Err(Status::bad_request(format!(
            "container {asked} is not valid for pod {}",
            call.name()
        ))),
        (None, [only]) => Ok(only.clone()),
        (None, _) => {
            let of_init = match &init[..] {
                [] => String::new(),
                init => format!(" or one of the init containers: [{}]", init.join(" ")),
            };
            Err(Status::bad_request(format!(
                "a container name must be specified for pod {}, choose one of: [{}]{of_init}",
                call.name(),
                main.join(" ")
            )))
        }
    }
}

/// Says why there is no log.
fn missing(call: &Call, pod: &Value, container: &str, previous: bool) -> Answer<Reply> {
    let name = call.name();
    if previous {
        let why = format!("previous terminated container {container:?} in pod {name:?} not found");
        return Err(Status::bad_request(why));
    }
    let statuses =
        ["containerStatuses", "initContainerStatuses"].map(|list| pod["status"][list].as_array());
    let mut statuses = statuses.into_iter().flatten().flatten();
    let waiting = statuses.find(|s| s["name"] == container).map(|s| &s["state"]["waiting"]);
    match waiting.filter(|waiting| waiting.is_object()) {
        Some(waiting) => {
            let reason = waiting["reason"].as_str().unwrap_or_default();
            let why =
                format!("container {container:?} in pod {name:?} is waiting to start: {reason}");
            Err(Status::bad_request(why))
        }
        None => Ok(form::text(200, Bytes::new())),
    }
}
