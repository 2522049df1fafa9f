//! `--cloud-provider=aws` on moto, a stand-in for AWS, and a stand-in for the machines: moto's instances never become Nodes.

use super::nodes_come_and_go;
use super::stage::Stage;
use crate::machines::Machines;
use crate::moto::moto;

/// The state before the test, made with AWS's own client: the group `workers` has the tags of the test, the group `others` none.
const PREPARE: &str = "
import boto3, sys
scaling = boto3.client('autoscaling', region_name='eu-west-1', endpoint_url=sys.argv[1], aws_access_key_id='test', aws_secret_access_key='test')
scaling.create_launch_configuration(LaunchConfigurationName='four-cores', ImageId='ami-12c6146b', InstanceType='m5.xlarge')
node = 'k8s.io/cluster-autoscaler/node-template/'
shape = {node + 'label/stage': 'STAGE', node + 'taint/stage': 'STAGE:NoSchedule'}
def group(name, tags):
    tags = [{'Key': k, 'Value': v, 'PropagateAtLaunch': False, 'ResourceId': name, 'ResourceType': 'auto-scaling-group'} for k, v in tags.items()]
    scaling.create_auto_scaling_group(AutoScalingGroupName=name, MinSize=0, MaxSize=3, DesiredCapacity=0, AvailabilityZones=['eu-west-1b'], LaunchConfigurationName='four-cores', Tags=tags)
group('workers', {'games': 'yes', 'stage': 'STAGE', **shape})
group('others', shape)
";

/// Has the program scale the group `workers`, which it finds by flags.
async fn story(name: &str, flags: &[&str]) {
    let Some(mut stage) = Stage::new(name, &[]).await else { return };
    let prepare = PREPARE.replace("STAGE", &stage.name);
    let Some((_moto, url, _)) = moto(&prepare).await else { return };
    let service = |name: &str| {
        format!(
            "[ServiceOverride \"{name}\"]\nService = {name}\nRegion = eu-west-1\nURL = {url}\nSigningRegion = eu-west-1\n"
        )
    };
    let config: String = ["autoscaling", "ec2", "eks"].map(service).concat();
    std::fs::write(stage.dir.path().join("cloud-config"), config).unwrap();
    stage.environment = vec![
        ("AWS_REGION", "eu-west-1"),
        ("AWS_ACCESS_KEY_ID", "test"),
        ("AWS_SECRET_ACCESS_KEY", "test"),
    ];
    let at = url.clone();
    let _machines = Machines::play(stage.client.clone(), stage.shape(), move || {
        let url = at.clone();
        Box::pin(async move { in_service(&url, "workers").await })
    });
    let flags = [&["--cloud-provider=aws", "--cloud-config=cloud-config"], flags].concat();
    let program = stage.start("one", &flags);
    nodes_come_and_go(&stage, &program).await;
    assert_eq!(program.terminate().code(), Some(0));
    assert_eq!(in_service(&url, "workers").await, Some(Vec::new()));
    assert_eq!(in_service(&url, "others").await, Some(Vec::new()));
    stage.assert_requests_are_those_of_a_cluster_autoscaler();
}

/// Returns the providerIDs of a group's instances that are in service; `None` if moto does not answer.
async fn in_service(url: &str, group: &str) -> Option<Vec<String>> {
    // moto reads the service and the region, and compares no signature.
    let scope = "AWS4-HMAC-SHA256 Credential=test/20260101/eu-west-1/autoscaling/aws4_request, \
                 SignedHeaders=host, Signature=none";
    let question = format!(
        "Action=DescribeAutoScalingGroups&Version=2011-01-01&AutoScalingGroupNames.member.1={group}"
    );
    let request = reqwest::Client::new()
        .post(url)
        .header("authorization", scope)
        .header("content-type", "application/x-www-form-urlencoded")
        .body(question);
    let answer = request.send().await.ok()?.error_for_status().ok()?.text().await.ok()?;
    let field = |member: &str, name: &str| {
        let (_, rest) = member.split_once(&format!("<{name}>"))?;
        Some(rest.split('<').next()?.to_owned())
    };
    let id = |member: &str| {
        let zone = field(member, "AvailabilityZone")?;
        let is_in_service = field(member, "LifecycleState")? == "InService";
        is_in_service.then_some(format!("aws:///{zone}/{}", field(member, "InstanceId")?))
    };
    let members = answer.split_once("<Instances>").map_or("", |(_, rest)| rest);
    let members = members.split("</Instances>").next()?;
    Some(members.split("<member>").filter_map(id).collect())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_the_rights_of_the_helm_chart_groups_of_aws_are_found_by_their_tags() {
    story("ca-aws-tags", &["--node-group-auto-discovery=asg:tag=games,stage"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_the_rights_of_the_helm_chart_groups_of_aws_are_named_by_nodes() {
    story("ca-aws-nodes", &["--nodes=0:3:workers"]).await;
}
