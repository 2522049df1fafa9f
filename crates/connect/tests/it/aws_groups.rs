//! The provider `aws` on moto, a stand-in for AWS.

mod stub;
mod trouble;

use std::sync::Arc;

use axum::Router;
use plimsoll_connect::Context;
use plimsoll_connect::providers::{
    self, Group, Instance, InstanceState, NamedGroup, NodeGroupProvider, ProviderError,
};
use serde_json::{Value, json};

use crate::moto::moto;
use crate::real::{Program, stand_in};

/// The state before the test, made with AWS's own client.
const PREPARE: &str = "
import boto3, sys
make = lambda name, region='eu-west-1': boto3.client(name, region_name=region, endpoint_url=sys.argv[1], aws_access_key_id='test', aws_secret_access_key='test')
scaling, ec2, eks = make('autoscaling'), make('ec2'), make('eks')
image = ec2.describe_images(Filters=[{'Name': 'architecture', 'Values': ['arm64']}])['Images']
image = image[0]['ImageId'] if image else 'ami-12c6146b'
ec2.create_launch_template(LaunchTemplateName='graviton', LaunchTemplateData={'ImageId': image, 'InstanceType': 'm6g.xlarge'})
ec2.create_launch_template(LaunchTemplateName='gpu', LaunchTemplateData={'ImageId': 'ami-12c6146b', 'InstanceType': 'm5.large'})
scaling.create_launch_configuration(LaunchConfigurationName='old', ImageId='ami-12c6146b', InstanceType='t3.large')
prefix = 'k8s.io/cluster-autoscaler/'
node = prefix + 'node-template/'
def group(name, tags, client=scaling, zone='eu-west-1b', **more):
    tags = [{'Key': k, 'Value': v, 'PropagateAtLaunch': False, 'ResourceId': name, 'ResourceType': 'auto-scaling-group'} for k, v in tags.items()]
    client.create_auto_scaling_group(AutoScalingGroupName=name, MinSize=1, MaxSize=5, DesiredCapacity=2, AvailabilityZones=[zone], Tags=tags, **more)
group('tagged', {prefix + 'enabled': 'true', prefix + 'mine': 'owned', node + 'label/disk': 'ssd', node + 'taint/games': 'yes:NoSchedule', node + 'resources/ephemeral-storage': '20Gi', node + 'resources/pods': '58', node + 'autoscaling-options/scaledownunneededtime': '3m'}, LaunchTemplate={'LaunchTemplateName': 'graviton', 'Version': '$Latest'})
group('half', {prefix + 'enabled': 'true'}, LaunchConfigurationName='old')
group('spare', {'spare': 'yes'}, LaunchConfigurationName='old')
group('named', {}, LaunchConfigurationName='old')
eks.create_cluster(name='games', version='1.33', roleArn='arn:aws:iam::123456789012:role/eks', resourcesVpcConfig={'subnetIds': []})
eks.create_nodegroup(clusterName='games', nodegroupName='managed', nodeRole='arn:aws:iam::123456789012:role/eks', subnets=['subnet-1'], labels={'team': 'red'}, taints=[{'key': 'red', 'value': 'only', 'effect': 'NO_EXECUTE'}])
group('mixed', {'eks:cluster-name': 'games', 'eks:nodegroup-name': 'managed', node + 'label/team': 'blue'}, MixedInstancesPolicy={'LaunchTemplate': {'LaunchTemplateSpecification': {'LaunchTemplateName': 'gpu', 'Version': '1'}, 'Overrides': [{'InstanceType': 'g4dn.xlarge'}, {'InstanceType': 'm5.large'}]}})
away = make('autoscaling', 'us-west-2')
away.create_launch_configuration(LaunchConfigurationName='old', ImageId='ami-12c6146b', InstanceType='t3.large')
group('named', {}, away, 'us-west-2a', LaunchConfigurationName='old')
";

/// The provider, and what has to live as long.
struct World {
    _moto: Program,
    provider: Arc<dyn NodeGroupProvider>,
}

impl World {
    async fn start(discover: Value) -> Option<Self> {
        let (moto, url, _) = moto(PREPARE).await?;
        let (_server, context) = stand_in(Router::new()).await;
        let provider = open(&context, &url, discover);
        Some(Self { _moto: moto, provider })
    }

    async fn ids(&self) -> Vec<String> {
        let groups = self.provider.snapshot().await.unwrap();
        groups.into_iter().map(|group| group.id).collect()
    }

    async fn group(&self, id: &str) -> Group {
        find(&self.provider, id).await
    }
}

/// Opens a provider whose services all have one address.
fn open(context: &Context, url: &str, discover: Value) -> Arc<dyn NodeGroupProvider> {
    let endpoints = json!({"autoscaling": url, "ec2": url, "eks": url});
    let connection = json!({"region": "eu-west-1", "endpoints": endpoints, "discover": discover});
    providers::open(context, "aws", &connection).map_err(|err| err.to_string()).unwrap()
}

async fn find(provider: &Arc<dyn NodeGroupProvider>, id: &str) -> Group {
    let groups = provider.snapshot().await.unwrap();
    groups.into_iter().find(|group| group.id == id).unwrap()
}

fn named(id: &str, settings: Value) -> NamedGroup {
    NamedGroup { id: id.to_owned(), settings }
}

fn count(group: &Group, state: InstanceState) -> usize {
    group.instances.iter().filter(|instance| instance.state == state).count()
}

#[tokio::test]
async fn groups_are_found_by_their_tags_and_by_their_names() {
    let enabled = "k8s.io/cluster-autoscaler/enabled";
    let both = json!({enabled: "", "k8s.io/cluster-autoscaler/mine": "owned"});
    let discover = json!([{"tags": both}, {"tags": {"spare": "yes"}}, {"tags": {"spare": "no"}}]);
    let Some(world) = World::start(discover).await else { return };
    assert_eq!(world.ids().await, ["tagged", "spare"], "all tags of an entry, any entry");
    // A group in another region, a named one that is also discovered, and one that does not exist.
    world.provider.set_named_groups(&[
        named("named", json!({"autoScalingGroup": "named"})),
        named("us-west-2/named", json!({"autoScalingGroup": "named", "region": "us-west-2"})),
        named("eu-west-1/spare", json!({"autoScalingGroup": "spare", "region": "eu-west-1"})),
        named("gone", json!({"autoScalingGroup": "gone"})),
    ]);
    let mut ids = world.ids().await;
    ids.sort_unstable();
    assert_eq!(ids, ["eu-west-1/spare", "named", "tagged", "us-west-2/named"]);
    let zone = world.group("us-west-2/named").await.template.unwrap();
    assert_eq!(zone.labels.get("topology.kubernetes.io/region"), Some("us-west-2"));
    world.provider.increase("us-west-2/named", 1).await.unwrap();
    assert_eq!(world.group("us-west-2/named").await.target, 3);
    assert_eq!(world.group("named").await.target, 2);
    let unknown = ProviderError::UnknownGroup { group: "gone".to_owned() };
    assert_eq!(world.provider.increase("gone", 1).await, Err(unknown));
}

#[tokio::test]
async fn the_shape_of_a_node_is_that_of_its_instance_type_and_its_tags() {
    let discover = json!([{"tags": {"k8s.io/cluster-autoscaler/enabled": "true"}},
                          {"tags": {"eks:cluster-name": "games"}}]);
    let Some(world) = World::start(discover).await else { return };
    let group = world.group("tagged").await;
    assert_eq!((group.min, group.max, group.target), (1, 5, 2));
    assert_eq!(group.options.unneeded_for.unwrap().as_mins(), 3);
    let template = group.template.unwrap();
    assert_eq!((template.capacity.cpu, template.capacity.memory), (4000, 16 << 30));
    for (label, value) in [
        ("kubernetes.io/arch", "arm64"),
        ("kubernetes.io/os", "linux"),
        ("node.kubernetes.io/instance-type", "m6g.xlarge"),
        ("topology.kubernetes.io/region", "eu-west-1"),
        ("topology.kubernetes.io/zone", "eu-west-1b"),
        ("topology.ebs.csi.aws.com/zone", "eu-west-1b"),
        ("disk", "ssd"),
    ] {
        assert_eq!(template.labels.get(label), Some(value), "{label}");
    }
    let amounts = |name: &str| template.allocatable.iter().find(|(n, _)| *n == name).unwrap().1;
    assert_eq!((amounts("pods"), amounts("ephemeral-storage")), (58, 20 << 30));
    let taint = &template.taints[0];
    assert_eq!((&*taint.key, &*taint.value), ("games", "yes"));

    let old = world.group("half").await.template.unwrap();
    assert_eq!(old.labels.get("node.kubernetes.io/instance-type"), Some("t3.large"));
    assert_eq!(old.labels.get("kubernetes.io/arch"), Some("amd64"));

    let mixed = world.group("mixed").await.template.unwrap();
    assert_eq!(mixed.labels.get("node.kubernetes.io/instance-type"), Some("g4dn.xlarge"));
    assert!(mixed.capacity.iter().any(|amount| amount == ("nvidia.com/gpu", 1)));
    assert_eq!(mixed.labels.get("team"), Some("red"), "EKS takes precedence over a tag");
    assert_eq!(mixed.labels.get("eks.amazonaws.com/nodegroup"), Some("managed"));
    assert_eq!(
        (&*mixed.taints[0].key, mixed.taints[0].effect),
        ("red", decide::nodes::Effect::NoExecute)
    );
}

#[tokio::test]
async fn a_group_grows_and_loses_the_instances_that_are_named() {
    let Some(world) = World::start(json!([{"tags": {"spare": "yes"}}])).await else { return };
    let provider = &world.provider;
    assert_eq!(world.group("spare").await.target, 2);
    provider.increase("spare", 2).await.unwrap();
    let group = world.group("spare").await;
    assert_eq!(
        (group.target, count(&group, InstanceState::Running)),
        (4, 4),
        "read after a change"
    );
    let refused = provider.increase("spare", 2).await.unwrap_err().to_string();
    assert_eq!(refused, "group `spare`: 6 instances are more than max, which is 5");
    let refused = provider.decrease_target("spare", 1).await.unwrap_err().to_string();
    assert_eq!(refused, "group `spare`: a target of 3 would delete instances: 4 exist");

    let ids: Vec<String> = group.instances.into_iter().map(|instance| instance.id).collect();
    assert!(ids[0].starts_with("aws:///eu-west-1b/i-"), "{}", ids[0]);
    for _ in 0..2 {
        // The second time, the instances no longer exist.
        provider.delete_nodes("spare", &ids[1..3]).await.unwrap();
        let group = world.group("spare").await;
        let is_left = |instance: &&Instance| instance.state == InstanceState::Running;
        let left: Vec<_> = group.instances.iter().filter(is_left).map(|i| &i.id).collect();
        assert_eq!((group.target, left), (2, vec![&ids[0], &ids[3]]));
    }
    let refused = provider.delete_nodes("spare", &ids).await.unwrap_err().to_string();
    assert_eq!(refused, "group `spare`: 0 instances are fewer than min, which is 1");
    let elsewhere = ["aws:///eu-west-1a/i-0".to_owned(), "kind://docker/node".to_owned()];
    provider.delete_nodes("spare", &elsewhere).await.unwrap();
    assert_eq!(world.group("spare").await.target, 2);
}
