//! Has a container started, is it alive, is it ready?
//!
//! Probes are made inside the network of the pod, as often as they say. A startup or liveness probe that failed too
//! often ends the run of the container; a readiness probe only says whether it is ready.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Empty;
use hyper_util::rt::TokioIo;
use k8s_openapi::api::core::v1::{Container, ExecAction, HTTPGetAction, Probe};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;

use super::pod::PodRun;
use super::process::Plan;

/// What probes of one run of a container need.
pub(super) struct Prober {
    pub(super) pod: Arc<PodRun>,
    pub(super) index: usize,
    pub(super) container: Container,
    pub(super) env: BTreeMap<String, String>,
    /// Told when the container has started.
    pub(super) first: Option<oneshot::Sender<()>>,
}

/// A run that is to end: why, and how long it may take.
pub(super) struct Unhealthy {
    pub(super) why: String,
    pub(super) grace: Option<Duration>,
}

impl Prober {
    /// Tells whether the container counts as started, and as ready, as soon as it runs.
    pub(super) fn at_once(container: &Container) -> (bool, bool) {
        let is_started = container.startup_probe.is_none();
        (is_started, is_started && container.readiness_probe.is_none())
    }

    /// Probes until the container is to end.
    pub(super) async fn until_unhealthy(&mut self) -> Unhealthy {
        if let Some(probe) = &self.container.startup_probe {
            if let Some(failed) = self.startup(probe).await {
                return failed;
            }
            drop(self.first.take());
            let is_ready = self.container.readiness_probe.is_none();
            self.pod.set(self.index, |c| (c.is_started, c.is_ready) = (true, is_ready));
            self.pod.publish().await;
        }
        tokio::select! {
            failed = self.liveness() => failed,
            never = self.readiness() => match never {},
        }
    }

    async fn startup(&self, probe: &Probe) -> Option<Unhealthy> {
        let mut rounds = Rounds::new(probe);
        loop {
            rounds.next().await;
            match rounds.count(self.check(probe).await) {
                Some(Ok(())) => return None,
                Some(Err(why)) => return Some(unhealthy("Startup", probe, &why)),
                None => {}
            }
        }
    }

    async fn liveness(&self) -> Unhealthy {
        let Some(probe) = &self.container.liveness_probe else {
            return std::future::pending().await;
        };
        let mut rounds = Rounds::new(probe);
        loop {
            rounds.next().await;
            if let Some(Err(why)) = rounds.count(self.check(probe).await) {
                return unhealthy("Liveness", probe, &why);
            }
        }
    }

    async fn readiness(&self) -> std::convert::Infallible {
        let Some(probe) = &self.container.readiness_probe else {
            return std::future::pending().await;
        };
        let mut rounds = Rounds::new(probe);
        let mut was_ready = false;
        loop {
            rounds.next().await;
            let is_ready = match rounds.count(self.check(probe).await) {
                Some(said) => said.is_ok(),
                None => was_ready,
            };
            if is_ready != was_ready {
                self.pod.set(self.index, |c| c.is_ready = is_ready);
                self.pod.publish().await;
                was_ready = is_ready;
            }
        }
    }

    /// Does what the container asked for before it is stopped.
    pub(super) async fn pre_stop(&self) {
        let lifecycle = self.container.lifecycle.as_ref();
        let Some(hook) = lifecycle.and_then(|lifecycle| lifecycle.pre_stop.as_ref()) else {
            return;
        };
        let done = match (&hook.exec, &hook.http_get, &hook.sleep) {
            (Some(exec), ..) => self.exec(exec).await,
            (None, Some(get), _) => match self.connect(&get.port).await {
                Ok(stream) => http_get(stream, get).await,
                Err(err) => Err(err),
            },
            (None, None, Some(sleep)) => {
                tokio::time::sleep(seconds(i32::try_from(sleep.seconds).ok(), 0)).await;
                Ok(())
            }
            (None, None, None) => Ok(()),
        };
        if let Err(why) = done {
            let why = format!("PreStop hook failed: {why}");
            self.pod.object.event("plimsoll", "Warning", "FailedPreStopHook", &why).await;
        }
    }

    async fn check(&self, probe: &Probe) -> Result<(), String> {
        let within = seconds(probe.timeout_seconds, 1);
        match timeout(within, self.ask(probe)).await {
            Ok(answer) => answer,
            Err(_) => Err(format!("no answer within {} s", within.as_secs())),
        }
    }

    async fn ask(&self, probe: &Probe) -> Result<(), String> {
        if let Some(get) = &probe.http_get {
            return http_get(self.connect(&get.port).await?, get).await;
        }
        if let Some(tcp) = &probe.tcp_socket {
            return self.connect(&tcp.port).await.map(drop);
        }
        match &probe.exec {
            Some(exec) => self.exec(exec).await,
            // A kind of probe that is not made here says nothing.
            None => Ok(()),
        }
    }

    async fn connect(&self, port: &IntOrString) -> Result<TcpStream, String> {
        let number = match port {
            IntOrString::Int(number) => Some(*number),
            IntOrString::String(name) => {
                let named =
                    self.container.ports.iter().flatten().find(|p| p.name.as_ref() == Some(name));
                named.map(|port| port.container_port).or_else(|| name.parse().ok())
            }
        };
        let number = number.and_then(|number| u16::try_from(number).ok());
        let number = number.ok_or_else(|| "there is no such port".to_owned())?;
        self.pod.network.connect_tcp(number).await.map_err(|err| format!("port {number}: {err}"))
    }

    async fn exec(&self, exec: &ExecAction) -> Result<(), String> {
        let command = exec.command.iter().flatten().map(String::as_str).collect::<Vec<_>>();
        let [program, args @ ..] = &command[..] else {
            return Err("there is no command".to_owned());
        };
        let plan = Plan {
            program: program.into(),
            args: args.iter().map(|arg| (*arg).to_owned()).collect(),
            env: self.env.clone(),
            dir: self.container.working_dir.clone(),
        };
        let child = plan
            .spawn(&self.pod.local().launcher, &self.pod.machine.mark, self.pod.network.spawner())
            .await;
        let child = child.map_err(|err| err.to_string())?;
        // It is killed when it takes too long, since nobody holds it then.
        let output = child.wait_with_output().await.map_err(|err| err.to_string())?;
        if output.status.success() {
            Ok(())
        } else {
            Err(format!("the command ended with {}", output.status))
        }
    }
}

async fn http_get(stream: TcpStream, get: &HTTPGetAction) -> Result<(), String> {
    if get.scheme.as_deref() == Some("HTTPS") {
        return Err("probes by https are not made here".to_owned());
    }
    let failed = |err: hyper::Error| err.to_string();
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(failed)?;
    let _connection = AbortOnDropHandle::new(tokio::spawn(connection));
    let mut request = http::Request::get(get.path.as_deref().unwrap_or("/"))
        .header(http::header::HOST, get.host.as_deref().unwrap_or("localhost"))
        .header(http::header::USER_AGENT, "kube-probe/plimsoll");
    for header in get.http_headers.iter().flatten() {
        request = request.header(&header.name, &header.value);
    }
    let request = request.body(Empty::<Bytes>::new()).map_err(|err| err.to_string())?;
    let code = sender.send_request(request).await.map_err(failed)?.status().as_u16();
    if (200..400).contains(&code) {
        Ok(())
    } else {
        Err(format!("HTTP probe failed with statuscode: {code}"))
    }
}

fn unhealthy(kind: &str, probe: &Probe, why: &str) -> Unhealthy {
    let grace = probe.termination_grace_period_seconds.and_then(|s| u64::try_from(s).ok());
    Unhealthy { why: format!("{kind} probe failed: {why}"), grace: grace.map(Duration::from_secs) }
}

fn seconds(given: Option<i32>, default: u64) -> Duration {
    Duration::from_secs(
        given.and_then(|s| u64::try_from(s).ok()).filter(|s| *s > 0).unwrap_or(default),
    )
}

/// When the next probe is due, and how the last ones went.
struct Rounds {
    wait: Duration,
    period: Duration,
    successes_wanted: i32,
    failures_allowed: i32,
    successes: i32,
    failures: i32,
}

impl Rounds {
    fn new(probe: &Probe) -> Self {
        Self {
            wait: Duration::from_secs(
                u64::try_from(probe.initial_delay_seconds.unwrap_or(0)).unwrap_or(0),
            ),
            period: seconds(probe.period_seconds, 10),
            successes_wanted: probe.success_threshold.unwrap_or(1).max(1),
            failures_allowed: probe.failure_threshold.unwrap_or(3).max(1),
            successes: 0,
            failures: 0,
        }
    }

    async fn next(&mut self) {
        tokio::time::sleep(std::mem::replace(&mut self.wait, self.period)).await;
    }

    /// Counts an answer; gives it once it came often enough in a row.
    fn count(&mut self, answer: Result<(), String>) -> Option<Result<(), String>> {
        match &answer {
            Ok(()) => (self.successes, self.failures) = (self.successes + 1, 0),
            Err(_) => (self.successes, self.failures) = (0, self.failures + 1),
        }
        let is_decided =
            self.successes >= self.successes_wanted || self.failures >= self.failures_allowed;
        is_decided.then_some(answer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_enough_answers_in_a_row_decide() {
        let probe = Probe { failure_threshold: Some(2), ..Probe::default() };
        let mut rounds = Rounds::new(&probe);
        let bad = || Err("no".to_owned());
        assert_eq!(rounds.count(bad()), None);
        assert_eq!(rounds.count(Ok(())), Some(Ok(())));
        assert_eq!(rounds.count(bad()), None, "the row starts again");
        assert_eq!(rounds.count(bad()), Some(bad()));
    }
}
