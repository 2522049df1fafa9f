use std::collections::BTreeSet;

use super::provider::TlsFiles;
use super::*;
use crate::args::cluster_autoscaler::FLAGS;
use api::plimsoll::Span;
use jiff::SignedDuration;
use serde_json::{Value, json};

fn read(line: &str, surroundings: &Surroundings) -> Result<Setup, String> {
    let flags = Flags::parse(line.split_whitespace().map(str::to_owned));
    setup(&flags.unwrap(), surroundings)
}

fn kwok(line: &str) -> Result<Setup, String> {
    read(&format!("--cloud-provider=kwok {line}"), &Surroundings::default())
}

fn with_cloud_config(line: &str, file: &str) -> Result<Setup, String> {
    let cloud_config = Some(file.to_owned());
    read(line, &Surroundings { cloud_config, ..Surroundings::default() })
}

fn with_environment(line: &str, variables: &[(&str, &str)]) -> Setup {
    let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    read(line, &Surroundings { environment: variables.collect(), cloud_config: None }).unwrap()
}

/// What each flag does to the settings of decisions: a field, and its value. One that acts elsewhere has a test of its own below.
const DECISIONS: &[(&str, &str, &str)] = &[
    ("--max-total-unready-percentage=30", "/health/maxUnreadyPercent", "30.0"),
    ("--ok-total-unready-count=7", "/health/okUnready", "7"),
    ("--max-nodes-total=12", "/limits/nodes", "12"),
    ("--cores-total=4:100", "/limits/cores", r#"{"min":4,"max":100}"#),
    ("--memory-total=8:64", "/limits/memory", r#"{"min":"8Gi","max":"64Gi"}"#),
    (
        "--gpu-total=nvidia.com/gpu:1:8 --gpu-total=amd.com/gpu:0:2",
        "/limits/resources",
        r#"{"nvidia.com/gpu":{"min":"1","max":"8"},"amd.com/gpu":{"min":"0","max":"2"}}"#,
    ),
    ("--enforce-node-group-min-size", "/scaleUp/enforceMinSize", "true"),
    ("--expander=priority,least-nodes", "/expanders", r#"["priority","least-nodes"]"#),
    ("--new-pod-scale-up-delay=30s", "/scaleUp/newPodDelay", r#""30s""#),
    ("--max-nodes-per-scaleup=5", "/scaleUp/maxNodes", "5"),
    ("--balance-similar-node-groups", "/scaleUp/balanceSimilarGroups", "true"),
    (
        "--balancing-ignore-label=a --balancing-ignore-label=b",
        "/scaleUp/balanceIgnoreLabels",
        r#"["a","b"]"#,
    ),
    ("--balancing-label=pool", "/scaleUp/balanceLabels", r#"["pool"]"#),
    ("--memory-difference-ratio=0.1", "/scaleUp/balanceTolerances/memory", "0.1"),
    ("--max-allocatable-difference-ratio=0.2", "/scaleUp/balanceTolerances/allocatable", "0.2"),
    ("--max-free-difference-ratio=0.3", "/scaleUp/balanceTolerances/free", "0.3"),
    (
        "--bypassed-scheduler-names=default-scheduler,own",
        "/scaleUp/bypassedSchedulers",
        r#"["default-scheduler","own"]"#,
    ),
    ("--allowed-scheduler-names=own", "/scaleUp/schedulers", r#"["own"]"#),
    ("--initial-node-group-backoff-duration=1m", "/scaleUp/backoff/initial", r#""1m0s""#),
    ("--max-node-group-backoff-duration=2m", "/scaleUp/backoff/max", r#""2m0s""#),
    ("--node-group-backoff-reset-timeout=1h", "/scaleUp/backoff/resetAfter", r#""1h0m0s""#),
    ("--startup-taint-prefix=a/", "/scaleUp/startupTaintPrefixes", r#"["a/"]"#),
    ("--scale-down-delay-type-local", "/scaleDown/delaysPerGroup", "true"),
    ("--expendable-pods-priority-cutoff=-20", "/scaleUp/expendablePriorityCutoff", "-20"),
    ("--force-ds", "/scaleUp/forceDaemonSets", "true"),
    ("--startup-taint=a", "/scaleUp/startupTaints", r#"["a"]"#),
    ("--startup-taint=a --ignore-taint=b", "/scaleUp/startupTaints", r#"["a","b"]"#),
    ("--status-taint=a", "/scaleUp/statusTaints", r#"["a"]"#),
    ("--max-node-provision-time=20m", "/scaleUp/maxProvisionTime", r#""20m0s""#),
    ("--max-node-startup-time=5m", "/scaleUp/maxNodeStartupTime", r#""5m0s""#),
    ("--scale-down-enabled=false", "/scaleDown/enabled", "false"),
    ("--scale-down-unready-enabled=false", "/scaleDown/unreadyEnabled", "false"),
    ("--scale-down-utilization-threshold=0.7", "/scaleDown/utilizationThreshold", "0.7"),
    ("--scale-down-gpu-utilization-threshold=0.3", "/scaleDown/gpuUtilizationThreshold", "0.3"),
    ("--scale-down-unneeded-time=1m", "/scaleDown/unneededFor", r#""1m0s""#),
    ("--scale-down-unready-time=2m", "/scaleDown/unreadyFor", r#""2m0s""#),
    ("--scale-down-delay-after-add=3m", "/scaleDown/delayAfterAdd", r#""3m0s""#),
    ("--scale-down-delay-after-delete=4s", "/scaleDown/delayAfterDelete", r#""4s""#),
    ("--scale-down-delay-after-failure=5m", "/scaleDown/delayAfterFailure", r#""5m0s""#),
    ("--max-scale-down-parallelism=3", "/scaleDown/maxParallel", "3"),
    ("--max-drain-parallelism=2", "/scaleDown/maxDrainParallel", "2"),
    ("--ignore-daemonsets-utilization", "/scaleDown/ignoreDaemonSetsUtilization", "true"),
    ("--ignore-mirror-pods-utilization", "/scaleDown/ignoreMirrorPodsUtilization", "true"),
    ("--max-graceful-termination-sec=90", "/scaleDown/maxGracefulTermination", r#""1m30s""#),
    ("--skip-nodes-with-system-pods=false", "/scaleDown/skipSystemPods", "false"),
    ("--skip-nodes-with-local-storage=false", "/scaleDown/skipLocalStorage", "false"),
    (
        "--skip-nodes-with-custom-controller-pods=false",
        "/scaleDown/skipCustomControllerPods",
        "false",
    ),
    ("--min-replica-count=2", "/scaleDown/minReplicaCount", "2"),
    ("--blocking-system-pod-distruption-timeout=30m", "/scaleDown/systemPodGrace", r#""30m0s""#),
    (
        "--drain-priority-config=0:60,1000:120",
        "/scaleDown/drainPriorities",
        r#"[{"priority":0,"grace":"1m0s"},{"priority":1000,"grace":"2m0s"}]"#,
    ),
    ("--max-pod-eviction-time=1m", "/scaleDown/maxEvictionTime", r#""1m0s""#),
    ("--cordon-node-before-terminating=false", "/scaleDown/cordon", "false"),
    ("--node-delete-delay-after-taint=1s", "/scaleDown/delayAfterTaint", r#""1s""#),
    ("--daemonset-eviction-for-empty-nodes", "/scaleDown/evictDaemonSetsOfEmptyNodes", "true"),
    (
        "--daemonset-eviction-for-occupied-nodes=false",
        "/scaleDown/evictDaemonSetsOfOccupiedNodes",
        "false",
    ),
    ("--node-deletion-delay-timeout=1m", "/scaleDown/maxDeletionDelay", r#""1m0s""#),
    ("--node-deletion-batcher-interval=10s", "/scaleDown/batchInterval", r#""10s""#),
    ("--max-bulk-soft-taint-count=0", "/scaleDown/maxSoftTaints", "0"),
    ("", "/scaleDown/unneededFor", r#""10m0s""#),
];

#[test]
fn flags_are_the_settings_of_decisions() {
    for (line, path, wanted) in DECISIONS {
        let spec = kwok(line).unwrap().autoscaler;
        let spec = serde_json::to_value(&spec).unwrap();
        let wanted: Value = serde_json::from_str(wanted).unwrap();
        assert_eq!(spec.pointer(path), Some(&wanted), "{line}");
    }
}

#[test]
fn without_flags_decisions_have_the_settings_of_a_node_autoscaler() {
    let mut wanted = NodeAutoscalerSpec::default();
    // The only default that differs.
    wanted.scale_down.delay_after_taint = Span(SignedDuration::from_secs(5));
    assert_eq!(kwok("").unwrap().autoscaler, wanted);
}

/// A flag with the process settings that it changes.
type ProcessCase = (&'static str, fn(&mut ProcessSettings));

const PROCESS: &[ProcessCase] = &[
    ("--address=127.0.0.1:9", |p| p.address = "127.0.0.1:9".to_owned()),
    ("--kubeconfig=/etc/k", |p| p.kubeconfig = Some("/etc/k".into())),
    ("--kubernetes=https://h", |p| p.api_server = Some("https://h".to_owned())),
    ("--user-agent=a", |p| p.user_agent = "a".to_owned()),
    ("--namespace=n", |p| p.namespace = "n".to_owned()),
    ("--leader-elect=false", |p| p.lease = None),
    ("--leader-elect-lease-duration=20s", |p| {
        p.lease.as_mut().unwrap().duration = Duration::from_secs(20)
    }),
    ("--leader-elect-renew-deadline=9s", |p| {
        p.lease.as_mut().unwrap().renew_within = Duration::from_secs(9)
    }),
    ("--leader-elect-retry-period=1s", |p| {
        p.lease.as_mut().unwrap().retry_every = Duration::from_secs(1)
    }),
    ("--leader-elect-resource-name=l", |p| p.lease.as_mut().unwrap().name = "l".to_owned()),
    ("--leader-elect-resource-lock=endpoints", |_| {}),
    ("--scan-interval=30s", |p| p.longest_pause = Duration::from_secs(30)),
    ("--write-status-configmap=false", |p| p.status_map = None),
    ("--status-config-map-name=s", |p| p.status_map = Some("s".to_owned())),
    ("--max-inactivity=1m", |p| p.health.max_inactivity = SignedDuration::from_mins(1)),
    ("--max-failing-time=2m", |p| p.health.max_failing_time = SignedDuration::from_mins(2)),
    ("--max-startup-time=30m", |p| p.health.max_startup_time = SignedDuration::from_mins(30)),
    ("--logging-format=json", |p| p.logs_json = true),
];

#[test]
fn flags_are_the_settings_of_the_process() {
    for (line, change) in PROCESS {
        let mut wanted = kwok("").unwrap().process;
        change(&mut wanted);
        assert_eq!(kwok(line).unwrap().process, wanted, "{line}");
    }
    let startup = kwok("--max-startup-time=1m").unwrap().process.health.max_startup_time;
    assert_eq!(startup, SignedDuration::from_mins(15), "no less than the other limits");
}

#[test]
fn every_flag_that_acts_has_a_test() {
    let decisions = DECISIONS.iter().map(|(line, ..)| *line);
    let lines = decisions.chain(PROCESS.iter().map(|(line, _)| *line));
    let words: BTreeSet<&str> =
        lines.flat_map(str::split_whitespace).map(|word| word.split('=').next().unwrap()).collect();
    // Those of providers, below.
    let providers = [
        "grpc-expander-cert",
        "grpc-expander-url",
        "cloud-provider",
        "cloud-config",
        "nodes",
        "node-group-auto-discovery",
        "clusterapi-cloud-config-authoritative",
    ];
    for flag in FLAGS.iter().filter(|flag| flag.effect == Effect::Acts) {
        let is_tested = words.contains(&*format!("--{}", flag.name));
        assert!(is_tested || providers.contains(&flag.name), "--{}", flag.name);
    }
}

#[test]
fn a_flag_without_effect_is_logged_with_the_cause() {
    for (line, wanted) in [
        ("", None),
        ("--max-nodes-total=5", None),
        ("--regional", Some("--regional has no effect: GCE only")),
        ("--v=4", Some("--v has no effect: PLIMSOLL_LOG sets the level")),
        (
            "--max-empty-bulk-delete=5",
            Some(
                "--max-empty-bulk-delete no longer exists: max-scale-down-parallelism takes its place",
            ),
        ),
        ("word", Some("the argument `word` has no effect")),
        (
            "--leader-elect-resource-lock=configmaps",
            Some("--leader-elect-resource-lock=configmaps: a Lease is used"),
        ),
        (
            "--gpu-total=k80:0:2",
            Some(
                "--gpu-total=k80:0:2 has no effect: `k80` is not a resource such as nvidia.com/gpu",
            ),
        ),
        ("--nodes=1:2:a", Some("--nodes has no effect: kwok knows the bounds of its groups")),
    ] {
        let notices = kwok(line).unwrap().notices;
        assert_eq!(notices, Vec::from_iter(wanted), "{line}");
    }
}

#[test]
fn what_cannot_be_is_refused() {
    for (line, wanted) in [
        (
            "--cloud-provider=kwok --cores-total=9",
            "--cores-total: `9` is not MIN:MAX, with 0 <= MIN <= MAX",
        ),
        (
            "--cloud-provider=kwok --cores-total=9:1",
            "--cores-total: `9:1` is not MIN:MAX, with 0 <= MIN <= MAX",
        ),
        (
            "--cloud-provider=kwok --gpu-total=nvidia.com/gpu",
            "--gpu-total: `` is not MIN:MAX, with 0 <= MIN <= MAX",
        ),
        ("--cloud-provider=kwok --scan-interval=0s", "--scan-interval: must be positive"),
        (
            "--cloud-provider=kwok --address=8085",
            "--address: `8085` is not an address; write it like `:8085`",
        ),
        (
            "--cloud-provider=kwok --leader-elect-renew-deadline=15s",
            "--leader-elect-renew-deadline must be less than the lease duration",
        ),
        ("--cloud-provider=kwok --expander=grpc", "--expander=grpc needs --grpc-expander-url"),
        (
            "--cloud-provider=kwok --expander=cheapest",
            "spec.expanders[0]: `cheapest` is not one of",
        ),
        (
            "--cloud-provider=kwok --balancing-label=a --balancing-ignore-label=b",
            "cannot be given together",
        ),
        (
            "--cloud-provider=kwok --scale-down-utilization-threshold=2",
            "spec.scaleDown.utilizationThreshold",
        ),
        ("", "--cloud-provider is missing; expected externalgrpc, clusterapi, aws or kwok"),
        (
            "--cloud-provider=gce",
            "--cloud-provider: `gce` is not externalgrpc, clusterapi, aws or kwok",
        ),
        ("--cloud-provider=externalgrpc", "--cloud-config is missing"),
        (
            "--cloud-provider=kwok --drain-priority-config=0:1,2",
            "--drain-priority-config: `2` in `0:1,2` is not PRIORITY:SECONDS",
        ),
        (
            "--cloud-provider=kwok --drain-priority-config=0:1 --max-graceful-termination-sec=60",
            "cannot be given together with --max-graceful-termination-sec",
        ),
        ("--cloud-provider=aws --nodes=2:1:a", "--nodes: `2:1:a` is not MIN:MAX:GROUP"),
        ("--cloud-provider=aws --nodes=a", "--nodes: `a` is not MIN:MAX:GROUP"),
        ("--cloud-provider=aws --nodes=1:2:", "--nodes: `1:2:` is not MIN:MAX:GROUP"),
        (
            "--cloud-provider=aws --node-group-auto-discovery=mig:namePrefix=p",
            "--node-group-auto-discovery: `mig:namePrefix=p` does not begin with `asg:`",
        ),
        ("--cloud-provider=aws --node-group-auto-discovery=asg:tag=", "expected asg:tag=KEY"),
    ] {
        let refused = read(line, &Surroundings::default()).unwrap_err();
        assert!(refused.contains(wanted), "{line}: {refused}");
    }
}

#[test]
fn an_external_grpc_server_is_found_in_the_cloud_config() {
    let line = "--cloud-provider=externalgrpc --cloud-config=/etc/c";
    let plain = with_cloud_config(line, "address: h:8086\ngrpc_timeout: 10s\nother: 1\n").unwrap();
    let connections = Value::Object(plain.autoscaler.providers.connections());
    assert_eq!(
        connections,
        json!({"externalGrpc": {"address": "h:8086", "timeout": "10s", "discover": true}})
    );
    assert_eq!(plain.cloud, Cloud::ExternalGrpc { tls: None });
    let tls = "address: h:1\ncert: /c\nkey: /k\ncacert: /ca\n";
    let files = TlsFiles { ca: "/ca".into(), certificate: "/c".into(), key: "/k".into() };
    let secure = with_cloud_config(line, tls).unwrap();
    assert_eq!(secure.cloud, Cloud::ExternalGrpc { tls: Some(files) });
    for (file, wanted) in [
        ("key: k\n", "--cloud-config: the address is missing"),
        ("address: h:1\ncert: /c\n", "--cloud-config: cert, key and cacert must be given together"),
        ("address: h:1\ngrpc_timeout: long\n", "`long` is not a duration"),
        ("address: h\n", "spec.providers.externalGrpc.address: `h` is not an address"),
        ("- a\n", "--cloud-config: expected YAML with an address"),
    ] {
        let refused = with_cloud_config(line, file).unwrap_err();
        assert!(refused.contains(wanted), "{file}: {refused}");
    }
}

#[test]
fn aws_groups_are_named_or_found_by_tags() {
    let line = "--cloud-provider=aws --nodes=1:5:workers --nodes 0:2:a:b \
        --node-group-auto-discovery=asg:tag=on,cluster/c=owned --node-group-auto-discovery=asg:tag=x=y";
    let setup = with_environment(line, &[("AWS_REGION", "eu-west-1")]);
    let connections = Value::Object(setup.autoscaler.providers.connections());
    let tags = json!({"on": "", "cluster/c": "owned", "x": "y"});
    assert_eq!(connections, json!({"aws": {"region": "eu-west-1", "discover": [{"tags": tags}]}}));
    let group = |id: &str, min, max| GroupBounds { id: id.to_owned(), min, max };
    assert_eq!(setup.groups, [group("workers", 1, 5), group("a:b", 0, 2)]);
    assert_eq!(setup.cloud, Cloud::Aws);
}

#[test]
fn aws_services_may_be_elsewhere() {
    let file = "; a comment\n[Global]\nZone = a\n[ServiceOverride \"1\"]\nService = ec2\nRegion = r\n\
        URL = \"http://127.0.0.1:5000\"\nSigningRegion = r\n[ServiceOverride \"2\"]\nService=s3\nRegion=r\nURL=u\nSigningRegion=r\n";
    let setup = with_cloud_config("--cloud-provider=aws --cloud-config=/c", file).unwrap();
    let connections = Value::Object(setup.autoscaler.providers.connections());
    assert_eq!(connections, json!({"aws": {"endpoints": {"ec2": "http://127.0.0.1:5000"}}}));
    assert_eq!(
        setup.notices,
        [
            "--cloud-config: section [Global] has no effect",
            "--cloud-config: the service `s3` is not used"
        ]
    );
    for (file, wanted) in [
        ("a = b\n", "`a = b` is not in a section"),
        (
            "[ServiceOverride \"1\"]\nService = ec2\n",
            "URL is missing in section [ServiceOverride \"1\"]",
        ),
    ] {
        let refused =
            with_cloud_config("--cloud-provider=aws --cloud-config=/c", file).unwrap_err();
        assert!(refused.contains(wanted), "{refused}");
    }
}

#[test]
fn cluster_api_groups_are_found_in_the_management_cluster() {
    let flags = |line: &str| with_environment(&format!("--cloud-provider=clusterapi {line}"), &[]);
    let discover = |setup: &Setup| {
        Value::Object(setup.autoscaler.providers.connections())["clusterApi"]["discover"].clone()
    };
    assert_eq!(discover(&flags("")), json!([{}]));
    let found = flags(
        "--node-group-auto-discovery=clusterapi:namespace=n,clusterName=c,pool=a \
         --node-group-auto-discovery=clusterapi:namespace=m",
    );
    let wanted = json!([
        {"namespace": "n", "clusterName": "c", "labels": {"pool": "a"}}, {"namespace": "m"},
    ]);
    assert_eq!(discover(&found), wanted);
    let management = |line: &str| {
        let Cloud::ClusterApi { management, .. } = flags(line).cloud else { panic!("{line}") };
        management
    };
    for (line, wanted) in [
        ("", Management::Workload),
        ("--clusterapi-cloud-config-authoritative", Management::Pod),
        ("--cloud-config=/m", Management::Kubeconfig("/m".into())),
        ("--cloud-config=/m --kubeconfig=/w", Management::Kubeconfig("/m".into())),
    ] {
        assert_eq!(management(line), wanted, "{line}");
    }
    let variables = [
        ("CAPI_GROUP", "g"),
        ("CAPI_VERSION", "v1beta1"),
        ("CAPI_SCALE_ZERO_DEFAULT_ARCH", "arm64"),
    ];
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(
        with_environment("--cloud-provider=clusterapi", &variables).cloud,
        Cloud::ClusterApi {
            management: Management::Workload,
            group: some("g"),
            version: some("v1beta1"),
            architecture: some("arm64"),
        }
    );
}

#[test]
fn kwok_reads_config_maps_of_its_namespace() {
    for (variables, config_map, namespace) in [
        (&[][..], "kwok-provider-config", None),
        (&[("POD_NAMESPACE", "n"), ("KWOK_PROVIDER_CONFIGMAP", "c")], "c", Some("n")),
        (&[("POD_NAMESPACE", "")], "kwok-provider-config", None),
    ] {
        let wanted = Cloud::Kwok {
            config_map: config_map.to_owned(),
            namespace: namespace.map(str::to_owned),
        };
        assert_eq!(with_environment("--cloud-provider=kwok", variables).cloud, wanted);
    }
}
