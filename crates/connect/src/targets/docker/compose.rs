//! The containers of a compose service, scaled as `docker compose up --scale` does it.
//!
//! Containers with an outdated configuration go first, then those with the highest numbers. New ones are copies of the newest
//! container that runs, with numbers above all others; holes are not filled.

mod copy;

use std::time::Duration;

use api::plimsoll::scaling_policy::Docker;
use reqwest::StatusCode;
use ring::digest;
use serde_json::Value;

use super::{message, name, refused, unread};
use crate::connection::ConnectionError;
use crate::docker_engine::{ContainerSummary, DockerEngine};
use crate::endpoint::HttpAnswer;
use crate::targets::{TargetError, TargetStatus, Version, write_error};

const NUMBER: &str = "com.docker.compose.container-number";
const CONFIG_HASH: &str = "com.docker.compose.config-hash";

/// How long a request may take, and how much longer than a container's own time to stop.
const WITHIN: Duration = Duration::from_secs(30);
/// How many names may be taken before a new container has one.
const NAMES: u32 = 20;

pub(super) async fn status(
    engine: &DockerEngine,
    service: &Docker,
) -> Result<TargetStatus, TargetError> {
    let found = engine.containers(service, true).await.map_err(unread(service))?;
    if found.is_empty() {
        return Err(refused(
            service,
            "there is no container of this service; create one with `docker compose up`",
        ));
    }
    let ready = found.iter().filter(|container| is_ready(container)).count();
    Ok(TargetStatus {
        count: u32::try_from(found.len()).unwrap_or(u32::MAX),
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
    let mut found = engine.containers(service, true).await.map_err(unread(service))?;
    if version(&found) != *decided_on {
        let message = format!("it has {} containers now, or others", found.len());
        return Err(TargetError::Conflict { target: name(service), message });
    }
    let wanted = to as usize;
    if wanted == 0 {
        let problem =
            "cannot be scaled to 0: without a container there is nothing to create new ones from";
        return Err(refused(service, problem));
    }
    sort_for_removal(&mut found);
    let mut change = Change { engine, service, has_begun: false };
    let outcome = change.carry_out(&found, wanted).await;
    // What failed halfway may not be called refused or unavailable: these say that nothing was changed.
    outcome.map_err(|error| if change.has_begun { partly(service, &error) } else { error })
}

/// Sorts the containers that are removed first to the front.
fn sort_for_removal(containers: &mut [ContainerSummary]) {
    let newest = containers.iter().max_by_key(|container| (container.created, number(container)));
    let hash = newest.map_or_else(String::new, |newest| newest.label(CONFIG_HASH).to_owned());
    containers.sort_by_key(|container| {
        let is_current = container.label(CONFIG_HASH) == hash;
        (is_current, std::cmp::Reverse(number(container)))
    });
}

fn number(container: &ContainerSummary) -> u32 {
    container.label(NUMBER).parse().unwrap_or(0)
}

fn is_ready(container: &ContainerSummary) -> bool {
    let status = &container.status;
    container.state == "running"
        && !status.contains("(unhealthy)")
        && !status.contains("(health: starting)")
}

/// Changes whenever a container is added or removed.
fn version(containers: &[ContainerSummary]) -> Version {
    let mut ids: Vec<&str> = containers.iter().map(|container| container.id.as_str()).collect();
    ids.sort_unstable();
    let hash = digest::digest(&digest::SHA256, ids.join(",").as_bytes());
    let hex: String = hash.as_ref().iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    Version::new(hex)
}

/// Reads the container that new ones are copied from: the newest that runs, or else the newest.
async fn inspect(
    engine: &DockerEngine,
    service: &Docker,
    found: &[ContainerSummary],
) -> Result<Value, TargetError> {
    let newest = found.iter().max_by_key(|container| {
        (container.state == "running", container.created, number(container))
    });
    let id = newest.map_or("", |newest| newest.id.as_str());
    let inspected = engine.get(&["containers", id, "json"], &[]).await.map_err(unread(service))?;
    inspected.ok_or_else(|| TargetError::Conflict {
        target: name(service),
        message: format!("container {id} has been removed"),
    })
}

/// A change of the number of containers, step by step.
struct Change<'a> {
    engine: &'a DockerEngine,
    service: &'a Docker,
    /// Whether a step has been carried out.
    has_begun: bool,
}

impl Change<'_> {
    async fn carry_out(
        &mut self,
        found: &[ContainerSummary],
        wanted: usize,
    ) -> Result<(), TargetError> {
        if wanted <= found.len() {
            for container in &found[..found.len() - wanted] {
                self.remove(container).await?;
            }
            return Ok(());
        }
        let template = inspect(self.engine, self.service, found).await?;
        copy::check(&template, &self.service.service)
            .map_err(|problem| refused(self.service, problem))?;
        let is_stopped = |container: &&ContainerSummary| {
            matches!(container.state.as_str(), "created" | "exited")
        };
        for container in found.iter().filter(is_stopped) {
            self.start(&container.id).await?;
        }
        let mut number = found.iter().map(number).max().unwrap_or(0);
        for _ in found.len()..wanted {
            number = self.create(&template, number + 1).await?;
        }
        Ok(())
    }

    /// Creates, connects and starts a copy; returns the number it has.
    async fn create(&mut self, template: &Value, first: u32) -> Result<u32, TargetError> {
        for number in first..first + NAMES {
            let new = copy::copy(template, &self.service.service, number);
            let parameters = [("name", new.name.as_str())];
            let answer = self
                .engine
                .request(&["containers", "create"], &parameters, WITHIN, |client, url| {
                    client.post(url).json(&new.body)
                })
                .await
                .map_err(|err| self.unsure(&err))?;
            match answer.status {
                StatusCode::CREATED => self.has_begun = true,
                StatusCode::CONFLICT => continue,
                _ => return Err(self.failed(&answer)),
            }
            let created: Value = answer.json().map_err(|err| self.unsure(&err))?;
            let id = created["Id"].as_str().unwrap_or_default();
            for (network, settings) in &new.further_networks {
                let body = serde_json::json!({"Container": id, "EndpointConfig": settings});
                self.post(&["networks", network, "connect"], Some(&body)).await?;
            }
            self.start(id).await?;
            return Ok(number);
        }
        Err(refused(self.service, "no name is free for another container"))
    }

    async fn start(&mut self, id: &str) -> Result<(), TargetError> {
        self.post(&["containers", id, "start"], None).await
    }

    async fn post(&mut self, path: &[&str], body: Option<&Value>) -> Result<(), TargetError> {
        let answer = self
            .engine
            .request(path, &[], WITHIN, |client, url| match body {
                None => client.post(url),
                Some(body) => client.post(url).json(body),
            })
            .await
            .map_err(|err| self.unsure(&err))?;
        // 304: it runs already.
        if answer.status.is_success() || answer.status == StatusCode::NOT_MODIFIED {
            self.has_begun = true;
            return Ok(());
        }
        Err(self.failed(&answer))
    }

    /// Stops a container, within the time that it asks for, and removes it with its anonymous volumes.
    async fn remove(&mut self, container: &ContainerSummary) -> Result<(), TargetError> {
        let id = container.id.as_str();
        let inspected = self.engine.get::<Value>(&["containers", id, "json"], &[]).await;
        let Some(inspected) = inspected.map_err(unread(self.service))? else { return Ok(()) };
        let own = inspected["Config"]["StopTimeout"].as_u64().unwrap_or(10).min(600);
        let within = WITHIN + Duration::from_secs(own);
        let path = ["containers", id, "stop"];
        let stopped = self.engine.request(&path, &[], within, |client, url| client.post(url)).await;
        let stopped = stopped.map_err(|err| self.unsure(&err))?;
        if stopped.status.is_client_error() && stopped.status != StatusCode::NOT_FOUND {
            return Err(self.failed(&stopped));
        }
        self.has_begun = true;
        let parameters = [("v", "true")];
        let path = ["containers", id];
        let removed = self
            .engine
            .request(&path, &parameters, WITHIN, |client, url| client.delete(url))
            .await
            .map_err(|err| self.unsure(&err))?;
        // 404 and 409: it is deleted, or being deleted.
        match removed.status.as_u16() {
            204 | 404 | 409 => Ok(()),
            _ => Err(self.failed(&removed)),
        }
    }

    fn unsure(&self, error: &ConnectionError) -> TargetError {
        write_error(&name(self.service), error)
    }

    /// Returns the error of an answer that is not the wanted one.
    fn failed(&self, answer: &HttpAnswer) -> TargetError {
        match answer.status.is_client_error() {
            true => refused(self.service, message(answer)),
            false => TargetError::Unknown { target: name(self.service), message: message(answer) },
        }
    }
}

/// A step failed after others were carried out.
fn partly(service: &Docker, error: &TargetError) -> TargetError {
    TargetError::Unknown { target: name(service), message: error.message().to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn container(number: u32, hash: &str, created: i64) -> ContainerSummary {
        let labels = [(NUMBER, number.to_string()), (CONFIG_HASH, hash.to_owned())];
        ContainerSummary {
            id: format!("id{number}"),
            created,
            state: "running".to_owned(),
            labels: labels.map(|(name, value)| (name.to_owned(), value)).into(),
            ..Default::default()
        }
    }

    #[test]
    fn outdated_containers_go_first_and_then_the_highest_numbers() {
        let mut found = [
            container(1, "old", 1),
            container(2, "new", 9),
            container(3, "old", 1),
            container(12, "new", 8),
        ];
        sort_for_removal(&mut found);
        assert_eq!(found.each_ref().map(number), [3, 1, 12, 2]);
    }

    #[test]
    fn the_version_names_the_containers_in_any_order() {
        let (one, two) = (container(1, "a", 1), container(2, "a", 1));
        assert_eq!(version(&[one.clone(), two.clone()]), version(&[two.clone(), one.clone()]));
        assert_ne!(version(&[one.clone(), two]), version(&[one]));
    }

    #[test]
    fn a_container_is_ready_when_it_runs_and_is_not_unhealthy() {
        let with = |state: &str, status: &str| ContainerSummary {
            state: state.to_owned(),
            status: status.to_owned(),
            ..Default::default()
        };
        assert!(is_ready(&with("running", "Up 2 minutes")));
        assert!(is_ready(&with("running", "Up 2 minutes (healthy)")));
        assert!(!is_ready(&with("running", "Up 2 minutes (unhealthy)")));
        assert!(!is_ready(&with("running", "Up 1 second (health: starting)")));
        assert!(!is_ready(&with("exited", "Exited (0) 2 minutes ago")));
    }
}
