//! The `postStart` and `preStop` hooks of a container.

use std::time::Duration;

use cluster::EventType;
use k8s_openapi::api::core::v1::LifecycleHandler;

use crate::exec::Target;

/// The user agent of the HTTP requests of hooks.
const USER_AGENT: &str = "kube-lifecycle/plimsoll";

/// Runs the `postStart` hook. A container whose hook fails is killed.
pub(crate) async fn post_start(target: &Target) -> Result<(), String> {
    let hooks = target.container.lifecycle.as_ref();
    let Some(hook) = hooks.and_then(|hooks| hooks.post_start.as_ref()) else { return Ok(()) };
    let outcome = run(target, hook).await;
    report(target, &outcome, "FailedPostStartHook", "PostStartHook failed");
    outcome
}

/// Runs the `preStop` hook. A container whose hook fails is stopped anyway.
pub(crate) async fn pre_stop(target: &Target) {
    let hooks = target.container.lifecycle.as_ref();
    let Some(hook) = hooks.and_then(|hooks| hooks.pre_stop.as_ref()) else { return };
    report(target, &run(target, hook).await, "FailedPreStopHook", "PreStopHook failed");
}

/// Records a failure. The cause is only logged, since it may contain secrets that readers of events may not see.
fn report(target: &Target, outcome: &Result<(), String>, reason: &str, note: &str) {
    let Err(cause) = outcome else { return };
    let (pod, container) = (&target.pod.object, target.container.name.as_str());
    tracing::warn!(pod = %pod.entry.key, container, cause, "{note}");
    pod.event(Some(container), EventType::Warning, reason, note);
}

async fn run(target: &Target, hook: &LifecycleHandler) -> Result<(), String> {
    if let Some(exec) = &hook.exec {
        return target.exec(exec).await;
    }
    if let Some(get) = &hook.http_get {
        let code = target.http_get(get, USER_AGENT).await?;
        return if (200..300).contains(&code) {
            Ok(())
        } else {
            Err(format!("HTTP request failed with status code {code}"))
        };
    }
    if let Some(sleep) = &hook.sleep {
        tokio::time::sleep(Duration::from_secs(u64::try_from(sleep.seconds).unwrap_or(0))).await;
        return Ok(());
    }
    // The API has `tcpSocket`, too, but no kubelet supports it.
    Err("a hook must have exec, httpGet or sleep".to_owned())
}
