//! A stand-in for the few calls of AWS that moto does not answer as AWS does: a group whose instances start when the test says so, whose
//! launches fail, and whose calls are refused, throttled or not answered.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use jiff::Timestamp;

use crate::server::Server;

type Fields = BTreeMap<String, String>;

/// What happens to a call.
#[derive(Clone, Copy)]
pub(super) enum Answer {
    Usual,
    /// An error of AWS, with its status and code.
    Error(u16, &'static str),
    /// An error of something else than AWS.
    Html,
    /// The call is carried out, and never answered. Time stands still from here on, and moves when nothing else happens.
    Silence,
}

/// The group `web`, and what was asked about it.
#[derive(Default)]
pub(super) struct Web {
    pub(super) desired: u32,
    /// The instances by their id, with their state.
    pub(super) instances: BTreeMap<String, &'static str>,
    /// The launches that failed, the newest first.
    pub(super) failures: Vec<(Timestamp, &'static str)>,
    /// XML that is added to the group.
    pub(super) more: &'static str,
    /// The answers to the next calls of an action.
    pub(super) next: VecDeque<(&'static str, Answer)>,
    pub(super) calls: Vec<String>,
}

/// The stand-in, and its group.
pub(super) struct Stub {
    pub(super) server: Server,
    web: Arc<Mutex<Web>>,
}

impl Stub {
    pub(super) async fn start() -> Self {
        let web = Arc::new(Mutex::new(Web::default()));
        let app = Router::new().route("/", post(answer)).with_state(Arc::clone(&web));
        Self { server: Server::plain(app).await, web }
    }

    /// Reads or changes the group.
    pub(super) fn with<T>(&self, work: impl FnOnce(&mut Web) -> T) -> T {
        work(&mut self.web.lock().unwrap())
    }

    /// Returns how often an action was called.
    pub(super) fn count(&self, action: &str) -> usize {
        self.with(|web| web.calls.iter().filter(|call| *call == action).count())
    }
}

async fn answer(State(web): State<Arc<Mutex<Web>>>, form: String) -> Response {
    let form = format!("/?{form}").parse().unwrap();
    let Query(fields): Query<Fields> = Query::try_from_uri(&form).unwrap();
    let action = fields["Action"].clone();
    let next = {
        let mut web = web.lock().unwrap();
        web.calls.push(action.clone());
        let is_meant = web.next.front().is_some_and(|(of, _)| *of == action);
        if is_meant { web.next.pop_front().map(|(_, answer)| answer) } else { None }
    };
    match next {
        Some(Answer::Error(status, code)) => {
            let body = format!(
                "<ErrorResponse><Error><Type>Sender</Type><Code>{code}</Code>\
                 <Message>not &quot;now&quot;</Message></Error></ErrorResponse>"
            );
            (StatusCode::from_u16(status).unwrap(), body).into_response()
        }
        Some(Answer::Html) => {
            (StatusCode::INTERNAL_SERVER_ERROR, "<!doctype html><p>oops").into_response()
        }
        Some(Answer::Silence) => {
            web.lock().unwrap().carry_out(&action, &fields);
            tokio::time::pause();
            std::future::pending().await
        }
        Some(Answer::Usual) | None => {
            web.lock().unwrap().carry_out(&action, &fields).into_response()
        }
    }
}

impl Web {
    fn carry_out(&mut self, action: &str, fields: &Fields) -> String {
        let body = match action {
            "DescribeAutoScalingGroups" => {
                format!("<AutoScalingGroups>{}</AutoScalingGroups>", self.group())
            }
            "SetDesiredCapacity" => {
                assert_eq!(fields["HonorCooldown"], "false");
                self.desired = fields["DesiredCapacity"].parse().unwrap();
                String::new()
            }
            "TerminateInstanceInAutoScalingGroup" => {
                assert_eq!(fields["ShouldDecrementDesiredCapacity"], "true");
                self.instances.insert(fields["InstanceId"].clone(), "Terminating");
                self.desired -= 1;
                String::new()
            }
            "DescribeScalingActivities" => {
                let failures = self.failures.iter().map(|(at, message)| {
                    format!(
                        "<member><StartTime>{at}</StartTime><StatusCode>Failed</StatusCode>\
                         <StatusMessage>{message}</StatusMessage></member>"
                    )
                });
                format!("<Activities>{}</Activities>", failures.collect::<String>())
            }
            "DescribeLaunchTemplateVersions" => {
                assert_eq!(fields["LaunchTemplateVersion.1"], "$Default");
                return "<R><launchTemplateVersionSet><item><launchTemplateData>\
                        <imageId>ami-1</imageId></launchTemplateData></item></launchTemplateVersionSet></R>"
                    .to_owned();
            }
            "DescribeImages" => {
                return "<R><imagesSet><item><architecture>arm64</architecture></item></imagesSet></R>"
                    .to_owned();
            }
            other => panic!("the provider does not call {other}"),
        };
        format!("<{action}Response><{action}Result>{body}</{action}Result></{action}Response>")
    }

    fn group(&self) -> String {
        let instances = self.instances.iter().map(|(id, state)| {
            format!(
                "<member><InstanceId>{id}</InstanceId><AvailabilityZone>us-west-2-lax-1a</AvailabilityZone>\
                 <LifecycleState>{state}</LifecycleState></member>"
            )
        });
        let (desired, instances) = (self.desired, instances.collect::<String>());
        format!(
            "<member><AutoScalingGroupName>web</AutoScalingGroupName><MinSize>1</MinSize><MaxSize>9</MaxSize>\
             <DesiredCapacity>{desired}</DesiredCapacity><Instances>{instances}</Instances>\
             <AvailabilityZones><member>us-west-2-lax-1a</member></AvailabilityZones>{}</member>",
            self.more
        )
    }
}
