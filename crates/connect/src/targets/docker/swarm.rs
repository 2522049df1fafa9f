//! Services of swarm mode. The whole specification is sent back, since fields that are left out would be removed.

use std::time::Duration;

use api::plimsoll::scaling_policy::Docker;
use serde_json::{Map, Value, json};

use super::{message, name, refused, unread};
use crate::docker_engine::DockerEngine;
use crate::targets::{TargetError, TargetStatus, Version, write_error};

pub(super) async fn status(
    engine: &DockerEngine,
    service: &Docker,
) -> Result<TargetStatus, TargetError> {
    let found = find(engine, service).await?;
    let ready = found["ServiceStatus"]["RunningTasks"].as_u64().unwrap_or(0);
    Ok(TargetStatus {
        count: replicas(service, &found)?,
        ready: u32::try_from(ready).unwrap_or(u32::MAX),
        version: version(&found),
    })
}

pub(super) async fn scale(
    engine: &DockerEngine,
    service: &Docker,
    to: u32,
    decided_on: &Version,
) -> Result<(), TargetError> {
    let found = find(engine, service).await?;
    replicas(service, &found)?;
    let conflict = |message: String| TargetError::Conflict { target: name(service), message };
    if version(&found) != *decided_on {
        return Err(conflict(format!("it is at version {}", version(&found))));
    }
    let mut spec = found["Spec"].clone();
    spec["Mode"]["Replicated"]["Replicas"] = json!(to);
    let id = found["ID"].as_str().unwrap_or_default();
    let parameters = [("version", decided_on.as_str())];
    let answer = engine
        .request(
            &["services", id, "update"],
            &parameters,
            Duration::from_secs(30),
            |client, url| client.post(url).json(&spec),
        )
        .await
        .map_err(|err| write_error(&name(service), &err))?;
    let text = message(&answer);
    match answer.status.as_u16() {
        200 if answer.json::<Map<String, Value>>().is_ok() => Ok(()),
        _ if text.contains("update out of sequence") => Err(conflict(text)),
        400..=499 => Err(refused(service, text)),
        _ => Err(TargetError::Unknown { target: name(service), message: text }),
    }
}

async fn find(engine: &DockerEngine, service: &Docker) -> Result<Value, TargetError> {
    let full = match &service.project {
        Some(stack) => format!("{stack}_{}", service.service),
        None => service.service.clone(),
    };
    let filters = json!({"name": [full]}).to_string();
    let parameters = [("status", "true"), ("filters", filters.as_str())];
    let found =
        engine.get::<Vec<Value>>(&["services"], &parameters).await.map_err(unread(service))?;
    // The filter also finds names that begin like this one.
    let found = found.unwrap_or_default().into_iter().find(|found| found["Spec"]["Name"] == full);
    found.ok_or_else(|| refused(service, format!("swarm mode has no service `{full}`")))
}

fn replicas(service: &Docker, found: &Value) -> Result<u32, TargetError> {
    let mode = &found["Spec"]["Mode"];
    let Some(replicated) = mode.get("Replicated") else {
        return Err(refused(
            service,
            "only replicated services can be scaled, no global ones and no jobs",
        ));
    };
    // The engine leaves the default out.
    let count = replicated["Replicas"].as_u64().unwrap_or(1);
    Ok(u32::try_from(count).unwrap_or(u32::MAX))
}

fn version(found: &Value) -> Version {
    Version::new(found["Version"]["Index"].to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_replicated_services_have_a_size() {
        let service = Docker { service: "web".to_owned(), ..Docker::default() };
        let found = |mode: Value| json!({"Spec": {"Mode": mode}, "Version": {"Index": 42}});
        assert_eq!(replicas(&service, &found(json!({"Replicated": {"Replicas": 3}}))), Ok(3));
        assert_eq!(replicas(&service, &found(json!({"Replicated": {}}))), Ok(1));
        let global = replicas(&service, &found(json!({"Global": {}}))).unwrap_err();
        assert!(matches!(global, TargetError::Refused { .. }), "{global}");
        assert_eq!(version(&found(json!({}))).as_str(), "42");
    }
}
