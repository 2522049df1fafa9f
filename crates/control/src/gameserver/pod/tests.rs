use super::*;

/// A server as it is stored, from what a person writes.
fn server(spec: Value) -> GameServer {
    let mut object = json!({
        "apiVersion": "agones.dev/v1",
        "kind": "GameServer",
        "metadata": {"name": "my.server", "namespace": "games", "uid": "u1"},
        "spec": spec,
    });
    let kind = api::find(None, "GameServer").unwrap();
    let admission = api::Admission { old: None, now: jiff::Timestamp::UNIX_EPOCH };
    (kind.admit)(&mut object, &admission).unwrap();
    serde_json::from_value(object).unwrap()
}

fn pod_of(spec: Value, found: &[u16]) -> Value {
    let server = server(spec);
    let mut ports = server.spec.ports_view();
    decide::gameserver::ports::assign(&mut ports, "default", found);
    build(&server, &ports, found, &Settings::default()).unwrap()
}

fn game() -> Value {
    json!({"spec": {"containers": [{"name": "game", "image": "game:1"}]}})
}

#[test]
fn a_pod_carries_what_makes_it_a_game_servers() {
    let pod = pod_of(json!({"ports": [{"containerPort": 7654}], "template": game()}), &[7001]);
    let meta = &pod["metadata"];
    assert_eq!((&meta["name"], &meta["namespace"]), (&json!("my.server"), &json!("games")));
    assert_eq!(meta["labels"]["agones.dev/role"], "gameserver");
    assert_eq!(meta["labels"]["agones.dev/gameserver"], "my.server");
    assert_eq!(meta["labels"]["agones.dev/safe-to-evict"], "false");
    assert_eq!(meta["annotations"]["agones.dev/container"], "game");
    assert_eq!(meta["annotations"]["agones.dev/sdk-version"], SDK_VERSION);
    assert_eq!(meta["annotations"]["cluster-autoscaler.kubernetes.io/safe-to-evict"], "false");
    assert_eq!(meta["annotations"][HOST_PORTS_ANNOTATION], "[7001]");
    let owner = &meta["ownerReferences"][0];
    assert_eq!((&owner["uid"], &owner["controller"]), (&json!("u1"), &json!(true)));
    let spec = &pod["spec"];
    assert_eq!((&spec["hostname"], &spec["restartPolicy"]), (&json!("my-server"), &json!("Never")));
    let port = &spec["containers"][0]["ports"][0];
    assert_eq!(*port, json!({"containerPort": 7654, "hostPort": 7001, "protocol": "UDP"}));
    let affinity =
        &spec["affinity"]["podAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"];
    assert_eq!(affinity[0]["weight"], 100);
    assert_eq!(spec["serviceAccountName"], "agones-sdk");
    assert_eq!(spec["containers"][0]["volumeMounts"][0]["mountPath"], TOKEN_PATH);
}

#[test]
fn the_sdk_server_runs_before_and_beside_the_game() {
    let sdk = json!({"grpcPort": 9000, "httpPort": 9001, "logLevel": "Debug"});
    let pod = pod_of(json!({"sdkServer": sdk, "template": game()}), &[]);
    let sidecar = &pod["spec"]["initContainers"][0];
    assert_eq!(sidecar["name"], SIDECAR);
    assert_eq!(sidecar["restartPolicy"], "Always");
    assert_eq!(sidecar["args"], json!(["sdk-server", "--grpc-port=9000", "--http-port=9001"]));
    assert_eq!(sidecar["livenessProbe"], Value::Null, "it would warn whenever a game ends");
    let env = |container: &Value, name: &str| {
        let all = container["env"].as_array().unwrap();
        all.iter().find(|var| var["name"] == name).map(|var| var["value"].clone())
    };
    assert_eq!(env(sidecar, "GAMESERVER_NAME"), Some(json!("my.server")));
    assert_eq!(env(sidecar, "LOG_LEVEL"), Some(json!("Debug")));
    assert_eq!(env(sidecar, "AGONES_SDK_GRPC_PORT"), None);
    let game = &pod["spec"]["containers"][0];
    assert_eq!(env(game, "AGONES_SDK_GRPC_PORT"), Some(json!("9000")));
    assert_eq!(env(game, "AGONES_SDK_HTTP_PORT"), Some(json!("9001")));
    let probe = &game["livenessProbe"];
    assert_eq!(probe["httpGet"], json!({"path": "/gshealthz", "port": 8080}));
    assert_eq!((&probe["periodSeconds"], &probe["failureThreshold"]), (&json!(5), &json!(3)));
}

#[test]
fn what_the_template_says_is_kept() {
    let template = json!({
        "metadata": {"labels": {"team": "a", "agones.dev/safe-to-evict": "kept"}},
        "spec": {
            "hostname": "h",
            "restartPolicy": "OnFailure",
            "serviceAccountName": "mine",
            "someday": {"a": "field"},
            "containers": [{
                "name": "game",
                "image": "game:1",
                "env": [{"name": "AGONES_SDK_GRPC_PORT", "value": "1"}, {"name": "A", "value": "b"}],
                "livenessProbe": {"exec": {"command": ["true"]}},
            }],
        },
    });
    let pod = pod_of(json!({"scheduling": "Distributed", "template": template}), &[]);
    assert_eq!(pod["metadata"]["labels"]["team"], "a");
    assert_eq!(pod["metadata"]["labels"]["agones.dev/safe-to-evict"], "kept");
    let spec = &pod["spec"];
    assert_eq!(spec["hostname"], "h");
    assert_eq!(spec["restartPolicy"], "OnFailure");
    assert_eq!(spec["serviceAccountName"], "mine");
    assert_eq!(spec["someday"], json!({"a": "field"}));
    assert!(spec["affinity"].is_null() && spec["volumes"].is_null());
    let game = &spec["containers"][0];
    assert_eq!(game["livenessProbe"], json!({"exec": {"command": ["true"]}}));
    let grpc: Vec<_> = game["env"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|v| v["name"] == "AGONES_SDK_GRPC_PORT")
        .collect();
    assert_eq!(grpc.len(), 1);
    assert_eq!(grpc[0]["value"], "9357");
}

#[test]
fn ports_go_to_their_containers_in_every_policy() {
    let template = json!({"spec": {
        "containers": [{"name": "game", "image": "g"}, {"name": "chat", "image": "c"}],
    }});
    let ports = json!([
        {"name": "both", "containerPort": 1000, "protocol": "TCPUDP"},
        {"name": "same", "portPolicy": "Passthrough", "container": "chat", "protocol": "TCP"},
        {"name": "fixed", "portPolicy": "Static", "containerPort": 2000, "hostPort": 9000},
        {"name": "inside", "portPolicy": "None", "containerPort": 3000},
    ]);
    let spec = json!({"container": "game", "ports": ports, "template": template});
    let pod = pod_of(spec, &[7001, 7002]);
    let opened = |index: usize| pod["spec"]["containers"][index]["ports"].clone();
    assert_eq!(
        opened(0),
        json!([
            {"containerPort": 1000, "hostPort": 7001, "protocol": "TCP"},
            {"containerPort": 2000, "hostPort": 9000, "protocol": "UDP"},
            {"containerPort": 3000, "protocol": "UDP"},
            {"containerPort": 1000, "hostPort": 7001, "protocol": "UDP"},
        ])
    );
    assert_eq!(opened(1), json!([{"containerPort": 7002, "hostPort": 7002, "protocol": "TCP"}]));
    let assigned =
        &pod["metadata"]["annotations"]["agones.dev/container-passthrough-port-assignment"];
    assert_eq!(assigned, r#"{"chat":[0]}"#);
}

#[test]
fn those_who_evict_are_evictable_what_is_safe() {
    let evictable = |safe: &str| {
        let pod = pod_of(json!({"eviction": {"safe": safe}, "template": game()}), &[]);
        let meta = &pod["metadata"];
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        (text(&meta["annotations"][SAFE_TO_EVICT]), text(&meta["labels"][SAFE_TO_EVICT_LABEL]))
    };
    assert_eq!(evictable("Always"), ("true".into(), "true".into()));
    assert_eq!(evictable("OnUpgrade"), ("false".into(), "true".into()));
    assert_eq!(evictable("Never"), ("false".into(), "false".into()));
}
