//! What a policy may not be: the rules that a schema cannot say.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use decide::cron::{Cron, Dialect};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::{CapacityPolicy, Policy, PolicyType, SchedulePolicy, WebhookConfig};
use crate::{CauseType, Problem, duration};

/// Collects what is wrong with a policy at `path`. `now` is absent when the policy is stored already and unchanged.
pub(super) fn policy(policy: &Policy, path: &str, now: Option<Timestamp>) -> Vec<Problem> {
    let missing = |block: &str| {
        let message = format!("must be given with the type {:?}", policy.type_);
        vec![Problem::required(format!("{path}.{block}"), message)]
    };
    match policy.type_ {
        PolicyType::Buffer => policy.buffer.as_ref().map_or_else(
            || missing("buffer"),
            |b| {
                let bounds = (i64::from(b.min_replicas), i64::from(b.max_replicas));
                let path = format!("{path}.buffer");
                buffer(&b.buffer_size, bounds, ("minReplicas", "maxReplicas"), &path)
            },
        ),
        PolicyType::Counter => policy
            .counter
            .as_ref()
            .map_or_else(|| missing("counter"), |c| capacity(c, &format!("{path}.counter"))),
        PolicyType::List => policy
            .list
            .as_ref()
            .map_or_else(|| missing("list"), |l| capacity(l, &format!("{path}.list"))),
        PolicyType::Webhook => policy
            .webhook
            .as_ref()
            .map_or_else(|| missing("webhook"), |w| address(w, &format!("{path}.webhook"))),
        PolicyType::Wasm => {
            let Some(wasm) = &policy.wasm else { return missing("wasm") };
            match &wasm.from.url {
                None => vec![Problem::required(format!("{path}.wasm.from"), "must have a url")],
                Some(url) => address(url, &format!("{path}.wasm.from.url")),
            }
        }
        PolicyType::Schedule => policy
            .schedule
            .as_ref()
            .map_or_else(|| missing("schedule"), |s| schedule(s, &format!("{path}.schedule"), now)),
        PolicyType::Chain => chain(policy, &format!("{path}.chain"), now),
    }
}

fn capacity(block: &CapacityPolicy, path: &str) -> Vec<Problem> {
    let bounds = (block.min_capacity, block.max_capacity);
    buffer(&block.buffer_size, bounds, ("minCapacity", "maxCapacity"), path)
}

/// Checks a buffer against its bounds, whose names are `names`.
fn buffer(
    size: &IntOrString,
    (min, max): (i64, i64),
    names: (&str, &str),
    path: &str,
) -> Vec<Problem> {
    let mut out = Vec::new();
    let mut wrong = |field: &str, message: String| {
        out.push(Problem::new(format!("{path}.{field}"), message));
    };
    if min > max {
        wrong(names.0, format!("expected at most {} ({max}), found {min}", names.1));
    }
    match size {
        IntOrString::Int(size) => {
            let size = i64::from(*size);
            if size <= 0 {
                wrong("bufferSize", format!("expected at least 1, found {size}"));
            }
            if max < size {
                wrong(names.1, format!("expected at least bufferSize ({size}), found {max}"));
            }
            if min != 0 && min < size {
                wrong(names.0, format!("expected 0, or at least bufferSize ({size}), found {min}"));
            }
        }
        IntOrString::String(text) => {
            if !is_share(text) {
                wrong("bufferSize", format!("expected a share between 1% and 99%, found `{text}`"));
            }
            if min < 1 {
                wrong(names.0, "expected at least 1 when bufferSize is a share".to_owned());
            }
        }
    }
    out
}

fn address(config: &WebhookConfig, path: &str) -> Vec<Problem> {
    let mut out = Vec::new();
    let url = format!("{path}.url");
    match (&config.url, &config.service) {
        (None, None) => out.push(Problem::required(path, "must have either url or service")),
        (Some(_), Some(_)) => {
            let message = "expected either url or service, found both";
            out.push(Problem::of(CauseType::Duplicate, &url, message));
        }
        (Some(_), None) | (None, Some(_)) => {}
    }
    if config.ca_bundle.as_ref().is_some_and(|bundle| !has_certificate(&bundle.0)) {
        let message = "expected at least one certificate as PEM, in base64";
        out.push(Problem::new(format!("{path}.caBundle"), message));
    }
    if let Some(text) = config.url.as_ref().filter(|text| !is_url(text)) {
        out.push(Problem::new(url, format!("`{text}` is not a URL")));
    }
    out
}

/// Whether Go's `url.Parse` would take it: nearly anything without control characters and broken escapes.
fn is_url(text: &str) -> bool {
    let is_hex = |b: Option<&u8>| b.is_some_and(u8::is_ascii_hexdigit);
    let bytes = text.as_bytes();
    let escapes = (0..bytes.len()).filter(|i| bytes[*i] == b'%');
    let mut bad_escapes =
        escapes.filter(|i| !is_hex(bytes.get(i + 1)) || !is_hex(bytes.get(i + 2)));
    let authority = text.split_once("://").map(|(_, rest)| rest.split(['/', '?', '#']).next());
    let port = authority.flatten().and_then(|a| a.rsplit_once(':')).map(|(_, port)| port);
    !text.bytes().any(|b| b.is_ascii_control())
        && bad_escapes.next().is_none()
        && !text.starts_with(':')
        && !authority.flatten().is_some_and(|a| a.contains(' '))
        && port.is_none_or(|p| p.ends_with(']') || p.bytes().all(|b| b.is_ascii_digit()))
}

/// Whether there is a certificate in the PEM text: a base64 block that holds an ASN.1 sequence.
fn has_certificate(pem: &[u8]) -> bool {
    let text = String::from_utf8_lossy(pem);
    text.split("-----BEGIN CERTIFICATE-----").skip(1).any(|rest| {
        let Some((body, _)) = rest.split_once("-----END CERTIFICATE-----") else { return false };
        let body: String = body.split_whitespace().collect();
        STANDARD.decode(body).is_ok_and(|der| der.first() == Some(&0x30))
    })
}

fn schedule(schedule: &SchedulePolicy, path: &str, now: Option<Timestamp>) -> Vec<Problem> {
    let mut out = Vec::new();
    let mut wrong = |field: &str, message: String| {
        out.push(Problem::new(format!("{path}.{field}"), message));
    };
    let period = &schedule.active_period;
    let is_zone = |name: &str| {
        matches!(name, "" | "UTC" | "Local")
            || TimeZone::get(name).is_ok_and(|zone| zone.iana_name() == Some(name))
    };
    if !is_zone(&period.timezone) {
        let message =
            format!("`{}` is not a time zone; write it like `Europe/Berlin`", period.timezone);
        wrong("activePeriod.timezone", message);
    }
    let (start, end) = (&schedule.between.start, &schedule.between.end);
    match (start, end) {
        (_, Some(end)) if now.is_some_and(|now| end.0 <= now) => {
            wrong("between.end", format!("expected a moment after now, found {}", end.0));
        }
        (Some(start), Some(end)) if end.0 < start.0 => {
            let message =
                format!("expected the end after the start, found {} to {}", start.0, end.0);
            wrong("between", message);
        }
        (Some(_) | None, Some(_) | None) => {}
    }
    if let Some(message) = cron_fault(&period.start_cron) {
        wrong("activePeriod.startCron", message);
    }
    if !period.duration.is_empty()
        && let Err(message) = duration::parse(&period.duration)
    {
        wrong("activePeriod.duration", message);
    }
    out.extend(scheduled(&schedule.policy, &format!("{path}.policy")));
    out
}

/// Checks the policy in a schedule. Upstream does not look at it at all; we refuse what nothing could be decided by.
fn scheduled(policy: &Policy, path: &str) -> Option<Problem> {
    let (block, size) = match policy.type_ {
        PolicyType::Buffer => ("buffer", policy.buffer.as_ref().map(|b| Some(&b.buffer_size))),
        PolicyType::Counter => ("counter", policy.counter.as_ref().map(|c| Some(&c.buffer_size))),
        PolicyType::List => ("list", policy.list.as_ref().map(|l| Some(&l.buffer_size))),
        PolicyType::Webhook => ("webhook", policy.webhook.as_ref().map(|_| None)),
        PolicyType::Wasm => ("wasm", policy.wasm.as_ref().map(|_| None)),
        PolicyType::Schedule | PolicyType::Chain => ("type", None),
    };
    match size {
        None => {
            let message = format!("must be given with the type {:?}", policy.type_);
            Some(Problem::required(format!("{path}.{block}"), message))
        }
        Some(Some(IntOrString::String(text))) if !is_share(text) => {
            let message = format!("expected a share between 1% and 99%, found `{text}`");
            Some(Problem::new(format!("{path}.{block}.bufferSize"), message))
        }
        Some(_) => None,
    }
}

fn is_share(text: &str) -> bool {
    let share = text.strip_suffix('%').and_then(|n| n.parse::<i64>().ok());
    share.is_some_and(|n| (1..=99).contains(&n))
}

/// Says what is wrong with a cron expression. Its time zone has a field of its own.
fn cron_fault(text: &str) -> Option<String> {
    if text.contains("TZ") {
        return Some("the time zone belongs in the field timezone".to_owned());
    }
    (!text.is_empty()).then(|| Cron::parse(text, Dialect::Agones).err())?
}

fn chain(chain: &Policy, path: &str, now: Option<Timestamp>) -> Vec<Problem> {
    let entries = chain.chain.as_deref().unwrap_or_default();
    let mut out = Vec::new();
    for (index, entry) in entries.iter().enumerate() {
        if entries[..index].iter().any(|other| other.id == entry.id) {
            let message = format!("the id {:?} is there twice; ids must differ", entry.id);
            out.push(Problem::new(path, message));
        }
        if !entry.has_block() {
            let message = "must have the block that its type names";
            out.push(Problem::required(format!("{path}[{index}]"), message));
        }
        // Upstream's paths have `.policy` here although the fields stand in the entry itself; tools match on them.
        out.extend(policy(&entry.policy(), &format!("{path}[{index}].policy"), now));
    }
    out
}
