//! The provider `aws` when AWS has no machines, is slow, refuses, or does not answer: on a stand-in for AWS.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use axum::Router;
use jiff::{SignedDuration, Timestamp};
use plimsoll_connect::Context;
use plimsoll_connect::providers::{Group, InstanceState, NodeGroupProvider, ProviderError};
use process::Clock;
use serde_json::json;

use super::stub::{Answer, Stub};
use super::{count, find, named, open};
use crate::real::{free_port, stand_in, variable};

const START: Timestamp = Timestamp::UNIX_EPOCH;

/// The provider with the group `web`, and a clock that the test sets.
struct World {
    stub: Stub,
    provider: Arc<dyn NodeGroupProvider>,
    seconds: Arc<AtomicI64>,
}

impl World {
    async fn start() -> Option<Self> {
        variable("AWS_ACCESS_KEY_ID")?;
        let stub = Stub::start().await;
        let seconds = Arc::new(AtomicI64::new(0));
        let read = Arc::clone(&seconds);
        let clock =
            Clock::from_fn(move || START + SignedDuration::from_secs(read.load(Ordering::SeqCst)));
        let (_server, context) = stand_in(Router::new()).await;
        let provider = open(&Context { clock, ..context }, &stub.server.url, json!([]));
        provider.set_named_groups(&[named("web", json!({"autoScalingGroup": "web"}))]);
        Some(Self { stub, provider, seconds })
    }

    async fn web(&self) -> Group {
        find(&self.provider, "web").await
    }

    fn pass(&self, seconds: i64) -> Timestamp {
        START
            + SignedDuration::from_secs(self.seconds.fetch_add(seconds, Ordering::SeqCst) + seconds)
    }

    /// Lets the next call of an action end otherwise.
    fn next(&self, action: &'static str, answer: Answer) {
        self.stub.with(|web| web.next.push_back((action, answer)));
    }
}

#[tokio::test]
async fn machines_that_are_slow_to_start_have_placeholders_and_can_be_cancelled() {
    let Some(world) = World::start().await else { return };
    world.stub.with(|web| (web.desired, web.instances) = (1, [("i-1".into(), "InService")].into()));
    world.provider.increase("web", 3).await.unwrap();
    let group = world.web().await;
    assert_eq!((group.target, count(&group, InstanceState::Creating)), (4, 3));
    assert_eq!(group.instances[1].id, "i-placeholder-web-0");
    assert!(group.instances.iter().all(|instance| instance.error.is_none()));
    world.stub.with(|web| web.instances.insert("i-2".into(), "Pending"));
    world.pass(10);
    let group = world.web().await;
    assert_eq!(group.instances[1].id, "aws:///us-west-2-lax-1a/i-2");
    assert_eq!((group.target, count(&group, InstanceState::Creating)), (4, 2));
    world.provider.decrease_target("web", 1).await.unwrap();
    let refused = world.provider.decrease_target("web", 2).await.unwrap_err().to_string();
    assert_eq!(refused, "group `web`: a target of 1 would delete instances: 2 exist");
    assert_eq!(world.web().await.target, 3);
}

#[tokio::test]
async fn launches_that_fail_after_the_request_are_errors_of_their_placeholders() {
    let Some(world) = World::start().await else { return };
    world.stub.with(|web| (web.desired, web.instances) = (1, [("i-1".into(), "InService")].into()));
    let long_ago = world.pass(100);
    world.stub.with(|web| web.failures.push((long_ago, "long ago")));
    world.pass(100);
    world.provider.increase("web", 2).await.unwrap();
    let errors = |group: &Group| -> Vec<_> {
        group.instances.iter().filter_map(|instance| instance.error.clone()).collect()
    };
    assert_eq!(errors(&world.web().await), [], "the failure was before the request");
    let message = "We currently do not have sufficient m5.large capacity in the zone you requested";
    let at = world.pass(10);
    world.stub.with(|web| web.failures.insert(0, (at, message)));
    let group = world.web().await;
    let found = errors(&group);
    assert_eq!(found.len(), 2);
    assert!(found.iter().all(|error| error.is_out_of_resources && error.message == message));
    // One placeholder stands for all: AWS launches none of the missing ones.
    world.provider.delete_nodes("web", &[group.instances[2].id.clone()]).await.unwrap();
    let group = world.web().await;
    assert_eq!((group.target, group.instances.len()), (1, 1));
    // The minimum is asked for all the same.
    world.stub.with(|web| web.instances.clear());
    world.pass(60);
    let id = world.web().await.instances[0].id.clone();
    let refused = world.provider.delete_nodes("web", &[id]).await.unwrap_err().to_string();
    assert_eq!(refused, "group `web`: what is missing cannot be cancelled: min is 1");
}

#[tokio::test]
async fn instances_that_are_terminating_are_not_terminated_again() {
    let Some(world) = World::start().await else { return };
    world.stub.with(|web| {
        web.desired = 2;
        web.instances = [
            ("i-1".into(), "InService"),
            ("i-2".into(), "Terminating:Wait"),
            ("i-3".into(), "InService"),
        ]
        .into();
    });
    let ids: Vec<_> = world.web().await.instances.into_iter().map(|i| i.id).collect();
    world.provider.delete_nodes("web", &ids[..2]).await.unwrap();
    assert_eq!(world.stub.count("TerminateInstanceInAutoScalingGroup"), 1);
    let group = world.web().await;
    assert_eq!((group.target, count(&group, InstanceState::Deleting)), (1, 2));
}

#[tokio::test]
async fn groups_are_read_once_a_minute_and_again_after_a_change() {
    let Some(world) = World::start().await else { return };
    world.stub.with(|web| (web.desired, web.instances) = (1, [("i-1".into(), "InService")].into()));
    let reads = || world.stub.count("DescribeAutoScalingGroups");
    for (pass, wanted) in [(0, 1), (59, 1), (1, 2), (1, 2)] {
        world.pass(pass);
        world.web().await;
        assert_eq!(reads(), wanted);
    }
    assert_eq!(world.stub.count("DescribeScalingActivities"), 0, "nothing is missing");
    // A change reads the group itself, and the next snapshot reads it again, also after a refusal.
    world.next("SetDesiredCapacity", Answer::Error(400, "ValidationError"));
    world.provider.increase("web", 1).await.unwrap_err();
    world.web().await;
    assert_eq!(reads(), 4);
    world.provider.set_named_groups(&[]);
    assert!(world.provider.snapshot().await.unwrap().is_empty());
}

#[tokio::test]
async fn an_error_says_whether_the_group_may_have_been_changed() {
    let Some(world) = World::start().await else { return };
    world.stub.with(|web| (web.desired, web.instances) = (1, [("i-1".into(), "InService")].into()));
    let (web, provider) = ("web".to_owned(), &world.provider);
    let set = "SetDesiredCapacity";
    let message = |code: &str| format!("{code}: not \"now\"");
    let busy = |code: &str| ProviderError::Unavailable {
        message: format!("group `web`: {}", message(code)),
    };
    let refused =
        ProviderError::Refused { group: web.clone(), message: message("ValidationError") };
    let html = "AWS answered 500 Internal Server Error".to_owned();
    let open = ProviderError::Unknown { group: web.clone(), message: html.clone() };
    for (answer, wanted) in [
        (Answer::Error(400, "ValidationError"), refused),
        (Answer::Error(400, "Throttling"), busy("Throttling")),
        (Answer::Error(503, "RequestLimitExceeded"), busy("RequestLimitExceeded")),
        (Answer::Error(500, "ResourceContention"), busy("ResourceContention")),
        (Answer::Html, open),
    ] {
        world.next(set, answer);
        assert_eq!(provider.increase("web", 1).await, Err(wanted));
        assert_eq!(world.web().await.target, 1);
    }
    world.next("DescribeAutoScalingGroups", Answer::Html);
    world.pass(60);
    let unread = ProviderError::Unavailable { message: format!("AWS in eu-west-1: {html}") };
    assert_eq!(provider.snapshot().await.unwrap_err(), unread);
    // The call is carried out, but its answer does not come.
    world.next(set, Answer::Silence);
    let late = provider.increase("web", 1).await.unwrap_err();
    tokio::time::resume();
    assert!(matches!(late, ProviderError::Unknown { .. }), "{late}");
    assert_eq!(world.web().await.target, 2, "the next snapshot shows the outcome");
    let gone = format!("http://127.0.0.1:{}", free_port().await);
    let (_server, context) = stand_in(Router::new()).await;
    let unreachable = super::open(&context, &gone, json!([]));
    let error = unreachable.increase("web", 1).await.unwrap_err();
    assert!(matches!(error, ProviderError::Unavailable { .. }), "{error}");
}

#[tokio::test]
async fn a_deletion_that_ends_halfway_has_an_open_outcome() {
    let Some(world) = World::start().await else { return };
    let ids = ["i-1", "i-2", "i-3"];
    world.stub.with(|web| {
        (web.desired, web.instances) = (3, ids.map(|id| (id.into(), "InService")).into());
    });
    let doomed = ids[..2].iter().map(|id| format!("aws:///us-west-2-lax-1a/{id}"));
    let doomed: Vec<String> = doomed.collect();
    let action = "TerminateInstanceInAutoScalingGroup";
    world.next(action, Answer::Error(400, "Throttling"));
    let busy = world.provider.delete_nodes("web", &doomed).await.unwrap_err();
    assert!(matches!(busy, ProviderError::Unavailable { .. }), "{busy}");
    world.next(action, Answer::Usual);
    world.next(action, Answer::Error(400, "ValidationError"));
    let half = world.provider.delete_nodes("web", &doomed).await.unwrap_err().to_string();
    let wanted = "group `web` may or may not have been changed: 1 of 2 instances are being terminated: \
                  ValidationError: not \"now\"";
    assert_eq!(half, wanted);
    assert_eq!(world.web().await.target, 2);
}

#[tokio::test]
async fn a_group_whose_types_aws_chooses_has_the_least_that_is_required() {
    let Some(world) = World::start().await else { return };
    world.stub.with(|web| {
        web.more = "<MixedInstancesPolicy><LaunchTemplate><LaunchTemplateSpecification>\
             <LaunchTemplateId>lt-1</LaunchTemplateId></LaunchTemplateSpecification><Overrides><member>\
             <InstanceRequirements><VCpuCount><Min>4</Min><Max>8</Max></VCpuCount><MemoryMiB><Min>8192</Min></MemoryMiB>\
             <AcceleratorCount><Min>2</Min></AcceleratorCount>\
             <AcceleratorManufacturers><member>nvidia</member></AcceleratorManufacturers>\
             </InstanceRequirements></member></Overrides></LaunchTemplate></MixedInstancesPolicy>";
    });
    let template = world.web().await.template.unwrap();
    assert_eq!((template.capacity.cpu, template.capacity.memory), (4000, 8 << 30));
    assert!(template.capacity.iter().any(|amount| amount == ("nvidia.com/gpu", 2)));
    assert_eq!(template.labels.get("kubernetes.io/arch"), Some("arm64"));
    assert_eq!(template.labels.get("node.kubernetes.io/instance-type"), None);
    // The region is the one that was asked, whatever the name of the zone looks like.
    assert_eq!(template.labels.get("topology.kubernetes.io/zone"), Some("us-west-2-lax-1a"));
    assert_eq!(template.labels.get("topology.kubernetes.io/region"), Some("eu-west-1"));
    world.pass(60);
    world.web().await;
    assert_eq!(world.stub.count("DescribeLaunchTemplateVersions"), 1, "it is kept");
}
