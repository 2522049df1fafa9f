//! The provider `externalGrpc` on a stand-in for its servers, over real sockets.

mod cloud;
mod security;

use std::sync::{Arc, Mutex};

use api::duration;
use decide::nodes::{GroupOptions, Template};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1 as core;
use kube::api::{Api, PostParams};
use plimsoll_connect::Context;
use plimsoll_connect::proto::core_v1::Node;
use plimsoll_connect::proto::external_grpc::instance_status::InstanceState as State;
use plimsoll_connect::proto::external_grpc::{
    InstanceErrorInfo, NodeGroupAutoscalingOptions, NodeGroupTemplateNodeInfoResponse,
};
use plimsoll_connect::proto::{self, OptionDurations};
use plimsoll_connect::providers::{self, Group, InstanceState, NodeGroupProvider, ProviderError};
use process::Clock;
use serde_json::{Value, json};
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpListener;
use tonic::{Code, Status};

use self::cloud::{Cloud, CloudGroup, Form, Trouble, instance};
use crate::engine;
use crate::real::free_port;
use crate::server::Server;

/// How long a call may take in these tests: long enough on a busy machine, unless the server hangs.
const TIMEOUT: &str = "2s";

/// A server, and the provider that calls it.
struct World {
    cloud: Cloud,
    context: Context,
    provider: Arc<dyn NodeGroupProvider>,
    now: Arc<Mutex<Timestamp>>,
    _server: Server,
    _engine: ::engine::Engine,
}

impl World {
    async fn new(form: Form) -> Self {
        let (engine, mut context) = engine().await;
        let now = Arc::new(Mutex::new(Timestamp::UNIX_EPOCH));
        let shown = Arc::clone(&now);
        context.clock = Clock::from_fn(move || *shown.lock().unwrap());
        let cloud = Cloud::new(form);
        let server = Server::plain(cloud.router()).await;
        let address = server.url.strip_prefix("http://").unwrap();
        let provider = open(&context, json!({"address": address, "timeout": TIMEOUT}));
        Self { cloud, context, provider, now, _server: server, _engine: engine }
    }

    /// Adds the group `pool` with room for ten, and one running instance.
    fn add_group(&self) {
        let group = CloudGroup {
            max: 10,
            target: 1,
            instances: vec![instance("cloud://a", State::InstanceRunning)],
            template: Some(Node::example("new", &template())),
            options: None,
        };
        self.cloud.state().groups.insert("pool".to_owned(), group);
    }

    fn change(&self, change: impl FnOnce(&mut CloudGroup)) {
        change(self.cloud.state().groups.get_mut("pool").unwrap());
    }

    async fn only(&self) -> Group {
        let mut groups = self.provider.snapshot().await.unwrap();
        assert_eq!(groups.len(), 1);
        groups.remove(0)
    }

    /// Returns why no group can be read.
    async fn failure(&self) -> String {
        match self.provider.snapshot().await {
            Err(ProviderError::Unavailable { message }) => message,
            other => panic!("expected the provider to be unavailable, found {other:?}"),
        }
    }

    fn wait_a_minute(&self) {
        let mut now = self.now.lock().unwrap();
        *now += SignedDuration::from_secs(60);
    }
}

fn open(context: &Context, connection: Value) -> Arc<dyn NodeGroupProvider> {
    providers::open(context, "externalGrpc", &connection).map_err(|err| err.to_string()).unwrap()
}

fn template() -> Template {
    let capacity = [("cpu", 4000), ("memory", 16 << 30), ("pods", 110)].into_iter().collect();
    let labels = [("disk", "ssd")].into_iter().collect();
    Template { labels, capacity, ..Template::default() }
}

fn refuse(code: Code) -> Trouble {
    Trouble::Refuse(Status::new(code, "quota of the project"))
}

#[tokio::test]
async fn groups_are_read_from_servers_of_every_release() {
    for form in [Form::Old, Form::New, Form::Both] {
        let world = World::new(form).await;
        world.add_group();
        world.change(|group| {
            group.options = Some(|options| {
                let own = OptionDurations {
                    unneeded_for: Some(SignedDuration::from_secs(90)),
                    ..options.durations()
                };
                *options = options.with_durations(own);
                options.scale_down_utilization_threshold = 0.7;
                options.zero_or_max_node_scaling = true;
            });
        });
        let group = world.only().await;
        let sizes = (group.id.as_str(), group.min, group.max, group.target);
        assert_eq!(sizes, ("pool", 0, 10, 1), "{form:?}");
        assert_eq!(group.instances[0].id, "cloud://a");
        let found = group.template.unwrap();
        assert_eq!((found.labels.get("disk"), found.capacity.cpu), (Some("ssd"), 4000), "{form:?}");
        assert_eq!(found.allocatable.memory, 16 << 30);
        let options = group.options;
        assert_eq!(
            options.unneeded_for.map(duration::format).as_deref(),
            Some("1m30s"),
            "{form:?}"
        );
        assert_eq!(options.utilization_threshold, Some(0.7));
        // The server returned these as it got them.
        assert_eq!((options.unready_for, options.max_provision_time), (None, None), "{form:?}");
        assert_eq!(options.gpu_utilization_threshold, None);
        assert!(group.all_or_nothing);
        let sent = world.cloud.state().defaults.durations();
        assert_eq!(sent.unneeded_for.map(|sent| sent.as_mins()), Some(10), "{form:?}");
    }
}

#[tokio::test]
async fn the_threshold_for_gpus_in_place_of_that_for_cpus_is_no_setting_of_a_group() {
    // The example server of Cluster Autoscaler swaps them.
    let world = World::new(Form::Both).await;
    world.add_group();
    world.change(|group| {
        group.options = Some(|options| {
            options.scale_down_utilization_threshold = options.scale_down_gpu_utilization_threshold;
        });
    });
    assert_eq!(world.only().await.options.utilization_threshold, None);
}

#[tokio::test]
async fn what_seldom_changes_is_read_once_a_minute() {
    let world = World::new(Form::Both).await;
    world.add_group();
    for _ in 0..3 {
        world.only().await;
    }
    for (method, count) in [
        ("Refresh", 3),
        ("NodeGroups", 3),
        ("NodeGroupTargetSize", 3),
        ("NodeGroupNodes", 3),
        ("NodeGroupTemplateNodeInfo", 1),
        ("NodeGroupGetOptions", 1),
        ("NodeGroupForNode", 0),
    ] {
        assert_eq!(world.cloud.count(method), count, "{method}");
    }
    world.change(|group| group.template = None);
    world.wait_a_minute();
    assert!(world.only().await.template.is_none());
}

#[tokio::test]
async fn any_failure_to_read_pauses_the_provider_and_no_group_vanishes() {
    let world = World::new(Form::Both).await;
    world.add_group();
    for method in ["Refresh", "NodeGroups", "NodeGroupTargetSize", "NodeGroupNodes"] {
        for code in [Code::Unknown, Code::Unavailable, Code::Unimplemented, Code::NotFound] {
            world.cloud.trouble(method, refuse(code));
            let message = world.failure().await;
            assert!(message.contains(method), "{message}");
            assert!(message.ends_with("quota of the project"), "{message}");
        }
        world.cloud.trouble(method, None);
        assert_eq!(world.only().await.target, 1);
    }
}

#[tokio::test]
async fn without_a_template_a_group_is_used_all_the_same() {
    let world = World::new(Form::Both).await;
    world.add_group();
    world.cloud.trouble("NodeGroupTemplateNodeInfo", refuse(Code::Unknown));
    assert!(world.only().await.template.is_none());
    // A failure is not kept for a minute.
    world.cloud.trouble("NodeGroupTemplateNodeInfo", None);
    assert!(world.only().await.template.is_some());
    // After a later one, the last template counts.
    world.wait_a_minute();
    world.cloud.trouble("NodeGroupTemplateNodeInfo", refuse(Code::Unknown));
    assert!(world.only().await.template.is_some());
    world.cloud.trouble("NodeGroupTemplateNodeInfo", refuse(Code::Unimplemented));
    assert!(world.only().await.template.is_none());
}

#[test]
fn an_empty_template_is_none() {
    assert_eq!(NodeGroupTemplateNodeInfoResponse::default().node(), Ok(None));
}

#[tokio::test]
async fn a_group_without_options_has_the_defaults_and_an_error_pauses_the_provider() {
    let world = World::new(Form::Both).await;
    world.add_group();
    let options = async || world.only().await.options;
    let defaults = GroupOptions::default();
    assert_eq!(options().await, defaults);
    world.wait_a_minute();
    world.cloud.trouble("NodeGroupGetOptions", refuse(Code::Unimplemented));
    assert_eq!(options().await, defaults);
    world.wait_a_minute();
    world.cloud.trouble("NodeGroupGetOptions", None);
    world.change(|group| group.options = Some(|it| *it = NodeGroupAutoscalingOptions::default()));
    assert_eq!(options().await, defaults);
    world.wait_a_minute();
    world.cloud.trouble("NodeGroupGetOptions", refuse(Code::Unknown));
    let message = world.failure().await;
    assert!(message.starts_with("group `pool`: 127.0.0.1:"), "{message}");
    assert!(message.ends_with(" NodeGroupGetOptions: quota of the project"), "{message}");
}

#[tokio::test]
async fn an_instance_out_of_stock_is_reported() {
    let world = World::new(Form::Both).await;
    world.add_group();
    let mut failed = instance("cloud://b", State::InstanceCreating);
    failed.status.as_mut().unwrap().error_info = Some(InstanceErrorInfo {
        error_code: "STOCKOUT".to_owned(),
        error_message: "no such machines in the zone".to_owned(),
        instance_error_class: 1,
    });
    world.change(|group| group.instances.push(failed));
    let group = world.only().await;
    assert_eq!(group.instances[1].state, InstanceState::Creating);
    let error = group.instances[1].error.as_ref().unwrap();
    assert!(error.is_out_of_resources);
    assert_eq!(error.message, "STOCKOUT: no such machines in the zone");
}

#[tokio::test]
async fn sizes_change_and_refusals_are_passed_on() {
    let world = World::new(Form::Both).await;
    world.add_group();
    world.provider.increase("pool", 3).await.unwrap();
    assert_eq!(world.only().await.target, 4);
    world.provider.decrease_target("pool", 2).await.unwrap();
    assert_eq!(world.only().await.target, 2);
    let too_many = world.provider.increase("pool", 9).await.unwrap_err();
    assert!(matches!(too_many, ProviderError::Refused { .. }), "{too_many}");
    assert!(too_many.to_string().starts_with("group `pool`: 127.0.0.1:"), "{too_many}");
    assert!(too_many.to_string().ends_with("size increase is too large"), "{too_many}");
    let too_few = world.provider.decrease_target("pool", 2).await.unwrap_err();
    assert!(too_few.to_string().ends_with("attempt to delete existing nodes"), "{too_few}");
    world.cloud.trouble("NodeGroupDeleteNodes", refuse(Code::Unknown));
    let kept = world.provider.delete_nodes("pool", &["cloud://a".to_owned()]).await.unwrap_err();
    assert!(matches!(kept, ProviderError::Refused { .. }), "{kept}");
    assert_eq!(world.only().await.instances.len(), 1);
}

#[tokio::test]
async fn nodes_are_deleted_by_their_provider_ids() {
    let world = World::new(Form::Both).await;
    world.add_group();
    let node = json!({
        "metadata": {"name": "a", "labels": {"zone": "b"}, "annotations": {"c": "d"}},
        "spec": {"providerID": "cloud://a"},
    });
    let nodes: Api<core::Node> = Api::all(world.context.client.clone());
    nodes.create(&PostParams::default(), &serde_json::from_value(node).unwrap()).await.unwrap();
    let instances = ["cloud://a".to_owned(), "cloud://b".to_owned()];
    world.provider.delete_nodes("pool", &instances).await.unwrap();
    let deleted = std::mem::take(&mut world.cloud.state().deleted);
    assert_eq!((&*deleted[0].provider_id, &*deleted[0].name), ("cloud://a", "a"));
    assert_eq!(deleted[0].labels["zone"], "b");
    assert_eq!(deleted[0].annotations["c"], "d");
    // An instance without a Node.
    assert_eq!((&*deleted[1].provider_id, &*deleted[1].name), ("cloud://b", "cloud://b"));
    assert!(deleted[1].labels.is_empty());
    let reason = &deleted[1].annotations["k8s.io/cluster-autoscaler/fake-node-reason"];
    assert_eq!(reason, "unregistered");
    assert_eq!(world.only().await.target, 0);
}

#[tokio::test]
async fn a_change_without_an_answer_has_an_open_outcome() {
    let world = World::new(Form::Both).await;
    world.add_group();
    for (trouble, target) in [(Trouble::Hang, 1), (Trouble::DoAndHang, 3)] {
        world.cloud.trouble("NodeGroupIncreaseSize", trouble);
        let error = world.provider.increase("pool", 2).await.unwrap_err();
        assert!(matches!(error, ProviderError::Unknown { .. }), "{error}");
        assert!(
            error.to_string().ends_with("NodeGroupIncreaseSize: no answer within 2s"),
            "{error}"
        );
        assert_eq!(world.only().await.target, target);
    }
    world.cloud.trouble("NodeGroupIncreaseSize", refuse(Code::DeadlineExceeded));
    let error = world.provider.increase("pool", 2).await.unwrap_err();
    assert!(matches!(error, ProviderError::Unknown { .. }), "{error}");
}

#[tokio::test]
async fn a_server_that_hangs_or_is_gone_pauses_the_provider() {
    let world = World::new(Form::Both).await;
    world.add_group();
    world.cloud.trouble("Refresh", Trouble::Hang);
    let message = world.failure().await;
    assert!(message.ends_with("Refresh: no answer within 2s"), "{message}");
    world.cloud.trouble("Refresh", None);
    assert_eq!(world.only().await.target, 1);

    // What was not sent was not done.
    let unused = json!({"address": format!("127.0.0.1:{}", free_port().await)});
    let gone = open(&world.context, unused);
    let error = gone.increase("pool", 2).await.unwrap_err();
    assert!(matches!(error, ProviderError::Unavailable { .. }), "{error}");
    assert!(error.to_string().contains("could not connect"), "{error}");
    assert!(gone.snapshot().await.is_err());
}

#[tokio::test]
async fn a_connection_that_breaks_leaves_the_outcome_open() {
    let world = World::new(Form::Both).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let breaking = tokio::spawn(async move {
        loop {
            let (mut socket, _) = listener.accept().await.unwrap();
            // The request may be in what is read, or not.
            let _ = socket.read(&mut [0; 1024]).await;
        }
    });
    let provider = open(&world.context, json!({"address": address}));
    let error = provider.increase("pool", 2).await.unwrap_err();
    assert!(matches!(error, ProviderError::Unknown { .. }), "{error}");
    assert!(error.to_string().contains("the connection failed"), "{error}");
    breaking.abort();
}

#[tokio::test]
async fn settings_are_checked_before_anything_is_sent() {
    let (_engine, context) = engine().await;
    for (connection, wanted) in [
        (json!({}), "missing field `address`"),
        (json!({"address": "h"}), "address: `h` is not HOST:PORT"),
        (json!({"address": "h:1", "timeout": "0s"}), "timeout: must be positive"),
        (json!({"address": "h:1", "adress": ""}), "unknown field `adress`"),
        (
            json!({"address": "h:1", "tls": {"certFrom": {"name": "a", "key": "b"}}}),
            "tls: certFrom and keyFrom must be given together",
        ),
    ] {
        let opened = providers::open(&context, "externalGrpc", &connection);
        let problem = opened.map(drop).unwrap_err().to_string();
        assert!(problem.starts_with(&format!("provider `externalGrpc`: {wanted}")), "{problem}");
    }
}
