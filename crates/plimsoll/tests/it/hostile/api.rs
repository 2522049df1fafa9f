//! Requests to the Kubernetes API: valid ones with random mutations.

use serde_json::{Value, json};

use super::body;
use super::target::NAMESPACES;
use crate::kill::Random;

/// A request, before it is written to a connection.
pub(super) struct Request {
    pub(super) method: String,
    pub(super) path: String,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
    /// Whether its answer may have no end.
    pub(super) watches: bool,
}

/// A kind, the folder of its objects, and a valid one.
struct Sample {
    folder: String,
    /// Whether more of a number means more work: no attack, but what was asked for.
    grows: bool,
    object: Value,
}

/// Makes any request.
pub(super) fn request(random: &mut Random) -> Request {
    let namespace = NAMESPACES[usize::from(random.below(8) == 0)];
    let name = format!("x{}", random.below(60));
    if random.below(25) == 0 {
        return session(random, namespace, &name);
    }
    let Sample { folder, grows, object } = sample(random, namespace, &name);
    let json = "application/json";
    let at = format!("{folder}/{name}");
    let mut request = match random.below(20) {
        0..6 => {
            let (query, kind) =
                (create_query(random), *random.pick(&[json, json, json, "application/yaml"]));
            with_body(
                "POST",
                format!("{folder}{query}"),
                kind,
                body::changed(object, random, grows),
            )
        }
        6 | 7 => with_body("PUT", at, json, body::changed(object, random, grows)),
        8 => patch(at, "merge-patch+json", body::changed(object, random, grows)),
        9 => patch(at, "strategic-merge-patch+json", body::changed(object, random, grows)),
        10 | 11 => {
            patch(at, "json-patch+json", body::changed(body::json_patch(random), random, true))
        }
        12 => {
            let manager = "m".repeat(1 << random.below(9));
            let at = format!("{at}?fieldManager={manager}&force=true");
            patch(at, "apply-patch+yaml", body::changed(object, random, grows))
        }
        13 => bare("GET", format!("{folder}{}", list_query(random))),
        14 => {
            let query = list_query(random).replacen('?', "?watch=1&", 1);
            Request { watches: true, ..bare("GET", format!("{folder}{query}")) }
        }
        15 => {
            let options = json!({"gracePeriodSeconds": 5, "propagationPolicy": "Foreground", "preconditions": {"uid": "x"}});
            with_body("DELETE", at, json, body::changed(options, random, false))
        }
        16 if namespace == NAMESPACES[0] && folder.contains(namespace) => {
            bare("DELETE", format!("{folder}{}", list_query(random)))
        }
        16 | 17 => bare("GET", odd_path(random, &at)),
        18 => {
            let part = *random.pick(&[
                "status", "scale", "log", "exec", "eviction", "binding", "proxy", "nonsense",
            ]);
            let body = body::changed(json!({"spec": {"replicas": 1}, "status": {}}), random, true);
            let method: &str = random.pick::<&str>(&["GET", "PUT", "POST"]);
            with_body(method, format!("{at}/{part}"), json, body)
        }
        _ => {
            let (kind, body) = match random.below(2) {
                0 => ("application/yaml", body::aliases()),
                _ => ("application/vnd.kubernetes.protobuf", body::protobuf(random)),
            };
            with_body("POST", folder, kind, body)
        }
    };
    odd_headers(&mut request, random);
    request
}

/// Makes a request of a listener that knows only a few paths.
pub(super) fn plain(random: &mut Random, paths: &[(&str, &str, Value)]) -> Request {
    let (method, path, object) = random.pick(paths).clone();
    let mut request = with_body(
        method,
        path.to_owned(),
        "application/json",
        body::changed(object, random, false),
    );
    match random.below(10) {
        0 => request.path = odd_path(random, path),
        1 => {
            request.method =
                (*random.pick(&["BREW", "OPTIONS", "TRACE", "DELETE", "CONNECT"])).to_owned()
        }
        _ => {}
    }
    odd_headers(&mut request, random);
    request
}

fn with_body(method: &str, path: String, kind: &str, body: Vec<u8>) -> Request {
    let headers = vec![("content-type".to_owned(), kind.to_owned())];
    Request { method: method.to_owned(), path, headers, body, watches: false }
}

fn patch(path: String, kind: &str, body: Vec<u8>) -> Request {
    with_body("PATCH", path, &format!("application/{kind}"), body)
}

fn bare(method: &str, path: String) -> Request {
    Request {
        method: method.to_owned(),
        path,
        headers: Vec::new(),
        body: Vec::new(),
        watches: false,
    }
}

fn create_query(random: &mut Random) -> String {
    let some = [
        "",
        "",
        "?dryRun=All",
        "?dryRun=Some",
        "?fieldValidation=Strict",
        "?fieldValidation=x",
        "?pretty=1&pretty=2",
    ];
    (*random.pick(&some)).to_owned()
}

fn list_query(random: &mut Random) -> String {
    let long = format!("labelSelector={}", "a,".repeat(1 << random.below(10)));
    let nested = format!("labelSelector=a+in+{}", "(".repeat(1 << random.below(10)));
    let some = [
        "limit=1",
        "limit=-1",
        "limit=99999999999999999999",
        "continue=AAAA",
        "continue=%00",
        "resourceVersion=-1",
        "resourceVersion=99999999999",
        "resourceVersion=x",
        "resourceVersionMatch=Exact",
        "timeoutSeconds=1",
        "timeoutSeconds=-1",
        "timeoutSeconds=9223372036854775807",
        "timeoutSeconds=18446744073709551616",
        "labelSelector=!!a",
        "labelSelector=a=b,c!=d,e+in+(f,g)",
        "fieldSelector=metadata.name=a",
        "fieldSelector=a.b.c=d",
        "fieldSelector==",
        "gracePeriodSeconds=-1",
        "gracePeriodSeconds=9223372036854775807",
        "sendInitialEvents=true",
        "allowWatchBookmarks=x",
        "%=%&&==",
        &long,
        &nested,
    ];
    let chosen: Vec<&str> = (0..1 + random.below(3)).map(|_| *random.pick(&some)).collect();
    format!("?{}", chosen.join("&"))
}

fn odd_path(random: &mut Random, path: &str) -> String {
    let cut = random.below(path.len() as u64 + 1) as usize;
    match random.below(9) {
        0 => path[..cut].to_owned() + "/",
        1 => format!("{}%00{}", &path[..cut], &path[cut..]),
        2 => format!("{}/../../..{}", &path[..cut], &path[cut..]),
        3 => format!("{path}/{}", "y".repeat(1 << random.below(15))),
        4 => path.replace('/', "//"),
        5 => format!("{path}%ff%fe%c0%80"),
        6 => (*random.pick(&[
            "/openapi/v2",
            "/openapi/v3",
            "/api",
            "/apis",
            "/version",
            "/livez?verbose",
            "/metrics",
            "/",
        ]))
        .to_owned(),
        7 => format!("/apis/{}/v1/things", "g.".repeat(1 << random.below(10))),
        _ => format!("{path}?{}", "a=b&".repeat(1 << random.below(12))),
    }
}

fn odd_headers(request: &mut Request, random: &mut Random) {
    let mut add = |name: &str, value: String| request.headers.push((name.to_owned(), value));
    match random.below(30) {
        0 => add("x-long", "h".repeat(1 << random.below(18))),
        1 => (0..1 << random.below(9)).for_each(|i| add(&format!("x-{i}"), "v".to_owned())),
        2 => add("accept", "application/json;as=Table;v=v1;g=meta.k8s.io,*/*;q=x".to_owned()),
        3 => add("accept", "application/vnd.kubernetes.protobuf".to_owned()),
        4 => add("accept-encoding", "gzip, br, identity;q=0".to_owned()),
        5 => add("expect", "100-continue".to_owned()),
        6 => add("upgrade", "websocket".to_owned()),
        7 => add("impersonate-user", "system:admin".to_owned()),
        8 => add("authorization", "Bearer ".to_owned() + &"t".repeat(1 << random.below(14))),
        9 => add("content-type", "text/plain; charset=\"".to_owned()),
        10 => add("content-encoding", "gzip".to_owned()),
        _ => {}
    }
}

/// Returns a valid object of some kind.
#[expect(clippy::too_many_lines, reason = "a table of objects")]
fn sample(random: &mut Random, namespace: &str, name: &str) -> Sample {
    let in_namespace =
        |group: &str, plural: &str| format!("/{group}/namespaces/{namespace}/{plural}");
    let meta = json!({"name": name, "namespace": namespace, "labels": {"a": "b"}, "annotations": {"c": "d"}});
    let pod = json!({"containers": [{"name": "main", "image": "x:1", "env": [{"name": "A", "value": "b"}],
        "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}}, "ports": [{"containerPort": 80}]}],
        "terminationGracePeriodSeconds": 1});
    let server = json!({"ports": [{"name": "game", "containerPort": 7000, "portPolicy": "Dynamic"}],
        "counters": {"rooms": {"count": 1, "capacity": 5}}, "lists": {"players": {"capacity": 3, "values": ["x"]}},
        "template": {"spec": pod}});
    if random.below(2) == 0 {
        return other_sample(random, in_namespace, &meta, &pod);
    }
    let (folder, kind, version, grows, spec) = match random.below(14) {
        0..3 => (
            in_namespace("api/v1", "configmaps"),
            "ConfigMap",
            "v1",
            false,
            json!({"data": {"a": "b"}, "binaryData": {"c": "AAAA"}}),
        ),
        3 => (
            in_namespace("api/v1", "secrets"),
            "Secret",
            "v1",
            false,
            json!({"stringData": {"a": "b"}, "type": "Opaque"}),
        ),
        4 => (in_namespace("api/v1", "pods"), "Pod", "v1", false, json!({"spec": pod})),
        5 => (
            in_namespace("api/v1", "services"),
            "Service",
            "v1",
            false,
            json!({"spec": {"ports": [{"port": 80}], "selector": {"a": "b"}}}),
        ),
        6 => (
            in_namespace("api/v1", "events"),
            "Event",
            "v1",
            false,
            json!({"involvedObject": {"namespace": namespace, "name": "x"}, "reason": "R", "message": "m"}),
        ),
        7 => (
            in_namespace("apis/agones.dev/v1", "gameservers"),
            "GameServer",
            "agones.dev/v1",
            true,
            json!({"spec": server}),
        ),
        8 => (
            in_namespace("apis/agones.dev/v1", "fleets"),
            "Fleet",
            "agones.dev/v1",
            true,
            json!({"spec": {"replicas": 1, "template": {"spec": server}}}),
        ),
        9 => (
            in_namespace("apis/autoscaling.agones.dev/v1", "fleetautoscalers"),
            "FleetAutoscaler",
            "autoscaling.agones.dev/v1",
            true,
            json!({"spec": {"fleetName": name, "policy": {"type": "Buffer", "buffer": {"bufferSize": 1, "maxReplicas": 2}}}}),
        ),
        10 => (
            in_namespace("apis/allocation.agones.dev/v1", "gameserverallocations"),
            "GameServerAllocation",
            "allocation.agones.dev/v1",
            false,
            json!({"spec": {"selectors": [{"matchLabels": {"a": "b"}, "counters": {"rooms": {"minAvailable": 1}}}], "priorities": [{"type": "Counter", "key": "rooms"}]}}),
        ),
        11 => (
            in_namespace("apis/apps/v1", "deployments"),
            "Deployment",
            "apps/v1",
            true,
            json!({"spec": {"replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}}, "spec": pod}}}),
        ),
        12 => (
            in_namespace("apis/coordination.k8s.io/v1", "leases"),
            "Lease",
            "coordination.k8s.io/v1",
            false,
            json!({"spec": {"holderIdentity": "x", "leaseDurationSeconds": 5}}),
        ),
        _ => return definition(name),
    };
    Sample { folder, grows, object: object(version, kind, &meta, &spec) }
}

/// Returns a valid object of a kind of workloads, policies or nodes.
#[expect(clippy::too_many_lines, reason = "a table of objects")]
fn other_sample(
    random: &mut Random,
    in_namespace: impl Fn(&str, &str) -> String,
    meta: &Value,
    pod: &Value,
) -> Sample {
    let own = "plimsoll.dev/v1alpha1";
    let global = |plural: &str| format!("/apis/{own}/{plural}");
    let labels = json!({"matchLabels": {"a": "b"}});
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": pod});
    let mut once = template.clone();
    once["spec"]["restartPolicy"] = json!("Never");
    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": meta["name"]});
    let (folder, kind, version, grows, spec) = match random.below(10) {
        0 => (
            in_namespace("apis/apps/v1", "replicasets"),
            "ReplicaSet",
            "apps/v1",
            true,
            json!({"spec": {"replicas": 1, "selector": labels, "template": template}}),
        ),
        1 => (
            in_namespace("apis/batch/v1", "jobs"),
            "Job",
            "batch/v1",
            true,
            json!({"spec": {"completions": 1, "parallelism": 1, "backoffLimit": 1, "template": once}}),
        ),
        2 => (
            in_namespace("apis/apps/v1", "daemonsets"),
            "DaemonSet",
            "apps/v1",
            true,
            json!({"spec": {"selector": labels, "template": template}}),
        ),
        3 => (
            in_namespace("apis/plimsoll.dev/v1alpha1", "scalingpolicies"),
            "ScalingPolicy",
            own,
            true,
            json!({"spec": {"target": target, "min": 1, "max": 2, "evaluationInterval": "5s", "checks": [
                {"name": "c", "source": "kubernetes", "query": "cpu", "strategy": {"targetValue": {"target": 50}}},
            ]}}),
        ),
        4 => (
            in_namespace("apis/plimsoll.dev/v1alpha1", "autoscalepolicies"),
            "AutoScalePolicy",
            own,
            true,
            json!({"spec": {"serviceId": "s", "target": target, "metric": "CPUUtilizationPercent", "threshold": 80, "min": 1,
                            "max": 2, "action": "up", "amount": 1}}),
        ),
        5 => (
            global("metricsources"),
            "MetricSource",
            own,
            false,
            json!({"spec": {"timeout": "1s", "prometheus": {"url": "http://127.0.0.1:1"}}}),
        ),
        6 => (
            global("nodegroups"),
            "NodeGroup",
            own,
            true,
            json!({"spec": {"min": 0, "max": 1, "provider": {"simulated": {"startAfter": "0s"}},
                            "template": {"capacity": {"cpu": "1", "memory": "1Gi"}}}}),
        ),
        7 => (
            global("nodeautoscalers"),
            "NodeAutoscaler",
            own,
            true,
            json!({"spec": {"seed": 1, "scaleDown": {"unneededFor": "10s"}}}),
        ),
        8 => (
            in_namespace("apis/discovery.k8s.io/v1", "endpointslices"),
            "EndpointSlice",
            "discovery.k8s.io/v1",
            false,
            json!({"addressType": "IPv4", "endpoints": [{"addresses": ["10.0.0.1"], "conditions": {"ready": true}}],
                   "ports": [{"name": "http", "port": 80, "protocol": "TCP"}]}),
        ),
        _ => (
            in_namespace("apis/metrics.k8s.io/v1beta1", "pods"),
            "PodMetrics",
            "metrics.k8s.io/v1beta1",
            false,
            json!({"window": "1s", "containers": []}),
        ),
    };
    let mut meta = meta.clone();
    if folder.starts_with("/apis/plimsoll.dev/v1alpha1/") && !folder.contains("/namespaces/") {
        meta["namespace"] = Value::Null;
    }
    Sample { folder, grows, object: object(version, kind, &meta, &spec) }
}

fn object(version: &str, kind: &str, meta: &Value, spec: &Value) -> Value {
    let mut object = json!({"apiVersion": version, "kind": kind, "metadata": meta});
    for (key, value) in spec.as_object().into_iter().flatten() {
        object[key] = value.clone();
    }
    object
}

/// Asks for a session in a container, or with its ports, with headers of which some are missing or wrong.
fn session(random: &mut Random, namespace: &str, name: &str) -> Request {
    let part = *random.pick(&["exec", "attach", "portforward"]);
    let query = *random.pick(&[
        "?command=true&stdout=1",
        "?command=&container=none&stdin=1&tty=1",
        "?stdout=1&stderr=1&stdin=1",
        "?ports=80",
        "?ports=0,70000,x",
        "?command=%00",
        "",
    ]);
    let method = *random.pick(&["GET", "GET", "POST", "PUT"]);
    let path = format!("/api/v1/namespaces/{namespace}/pods/{name}/{part}{query}");
    let mut request = bare(method, path);
    let headers = [
        ("connection", ["Upgrade", "keep-alive, Upgrade", "close", "\"Upgrade"]),
        ("upgrade", ["websocket", "SPDY/3.1", "h2c", "websocket, websocket"]),
        ("sec-websocket-version", ["13", "0", "13, 8", "999999999999999999999"]),
        ("sec-websocket-key", ["dGhlIHNhbXBsZSBub25jZQ==", "", "!", "AAAA"]),
        (
            "sec-websocket-protocol",
            ["v5.channel.k8s.io", "v4.channel.k8s.io,", "SPDY/3.1+portforward.k8s.io", ",,,"],
        ),
        ("x-stream-protocol-version", ["v4.channel.k8s.io", "v9", "", "portforward.k8s.io"]),
    ];
    for (name, values) in headers {
        if random.below(5) > 0 {
            request.headers.push((name.to_owned(), (*random.pick(&values)).to_owned()));
        }
    }
    // After an upgrade there is no other answer on the connection.
    Request { watches: true, ..request }
}

/// Returns a definition of a kind of the attackers' own.
fn definition(name: &str) -> Sample {
    let schema = json!({"type": "object", "properties": {
        "spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        "size": {"type": "integer", "minimum": 1, "default": 2},
        "items": {"type": "array", "maxItems": 5, "items": {"type": "string", "pattern": "^a*$"}},
    }});
    let names = json!({"plural": format!("{name}s"), "singular": name, "kind": "Thing".to_owned() + name, "listKind": format!("Thing{name}List")});
    let object = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{name}s.attack.example.com")},
        "spec": {"group": "attack.example.com", "scope": "Namespaced", "names": names,
                 "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]},
    });
    Sample {
        folder: "/apis/apiextensions.k8s.io/v1/customresourcedefinitions".to_owned(),
        grows: false,
        object,
    }
}
