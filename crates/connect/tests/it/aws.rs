//! The source `sqs` and the target `awsAutoscalingGroup` on moto, a stand-in for AWS.

use plimsoll_connect::targets::{self, TargetError};
use serde_json::json;

use crate::engine;
use crate::moto::moto;
use crate::real::{ask, free_port, open, target, value};

/// The state before the test, made with AWS's own client.
const PREPARE: &str = "
import boto3, sys
make = lambda name: boto3.client(name, region_name='eu-west-1', endpoint_url=sys.argv[1], aws_access_key_id='test', aws_secret_access_key='test')
sqs, scaling = make('sqs'), make('autoscaling')
url = sqs.create_queue(QueueName='jobs')['QueueUrl']
for n in range(3): sqs.send_message(QueueUrl=url, MessageBody=str(n))
sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=1)
scaling.create_launch_configuration(LaunchConfigurationName='web', ImageId='ami-12c6146b', InstanceType='t2.micro')
scaling.create_auto_scaling_group(AutoScalingGroupName='web', LaunchConfigurationName='web', MinSize=0, MaxSize=5, DesiredCapacity=2, AvailabilityZones=['eu-west-1a'])
print(url)
";

#[tokio::test]
async fn queues_and_groups_of_moto_are_read_and_scaled() {
    let Some((_moto, endpoint, printed)) = moto(PREPARE).await else { return };
    let queue = printed.trim().to_owned();

    let (_engine, context) = engine().await;
    let source = open(&context, json!({"sqs": {"region": "eu-west-1", "endpoint": endpoint}}));
    assert_eq!(value(&ask(&*source, &queue).await), 3.0, "two are visible, one is in flight");
    let missing = ask(&*source, &queue.replace("jobs", "none")).await.unwrap_err();
    assert!(missing.contains("refused the query: QueueDoesNotExist"), "{missing}");

    let group = |name: &str, endpoint: &str| {
        let spec = json!({"awsAutoscalingGroup": {"name": name, "region": "eu-west-1", "endpoint": endpoint}});
        targets::open(&context, &target(spec)).map_err(|err| err.to_string()).unwrap()
    };
    let web = group("web", &endpoint);
    let status = web.status().await.unwrap();
    assert_eq!((status.count, status.ready), (2, 2));
    web.scale(4, &status.version).await.unwrap();
    assert_eq!(web.status().await.unwrap().count, 4);
    let stale = web.scale(1, &status.version).await.unwrap_err();
    assert!(matches!(stale, TargetError::Conflict { .. }), "{stale}");
    let missing = group("none", &endpoint).status().await.unwrap_err();
    assert_eq!(missing.to_string(), "Auto Scaling group none: there is no such group");
    let unused = format!("http://127.0.0.1:{}", free_port().await);
    let down = group("web", &unused).status().await.unwrap_err();
    assert!(matches!(down, TargetError::Unavailable { .. }), "{down}");
    let down = open(&context, json!({"sqs": {"region": "eu-west-1", "endpoint": unused}}));
    assert!(ask(&*down, &queue).await.unwrap_err().starts_with("could not reach "));
}
