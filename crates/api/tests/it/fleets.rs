//! Admission of Agones' kinds: defaults, fields that are always present, and refusals with their paths.

use plimsoll_api::{Admission, Problem, find};
use serde_json::{Value, json};

fn admit(mut value: Value, old: Option<&Value>) -> Result<Value, Vec<Problem>> {
    let kind = find(None, value["kind"].as_str().unwrap()).unwrap();
    let now = "2026-03-01T12:00:00Z".parse().unwrap();
    (kind.admit)(&mut value, &Admission { old, now }).map(|()| value)
}

/// Returns the paths of what is wrong.
fn paths(value: Value) -> Vec<String> {
    admit(value, None).map_or_else(|p| p.into_iter().map(|p| p.path).collect(), |_| vec![])
}

fn pod() -> Value {
    json!({
        "metadata": {"creationTimestamp": null},
        "spec": {"containers": [{"name": "game", "image": "g", "fieldOfTomorrow": {"a": null}}]},
    })
}

fn server(spec: Value) -> Value {
    let mut whole = json!({"ports": [{"containerPort": 7654}], "template": pod()});
    merge(&mut whole, spec);
    json!({"kind": "GameServer", "metadata": {"name": "a"}, "spec": whole})
}

fn fleet(spec: Value) -> Value {
    let mut whole = json!({"template": {"spec": server(json!({}))["spec"]}});
    merge(&mut whole, spec);
    json!({"kind": "Fleet", "metadata": {"name": "f"}, "spec": whole})
}

fn autoscaler(policy: Value) -> Value {
    json!({"kind": "FleetAutoscaler", "metadata": {"name": "a"}, "spec": {"fleetName": "f", "policy": policy}})
}

fn merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (name, value) in from {
                merge(into.entry(name).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from,
    }
}

#[test]
fn a_new_game_server_gets_its_defaults_and_keeps_its_pod_to_the_letter() {
    let counters = json!({"rooms": {}});
    let lists = json!({"players": {"values": ["x"]}});
    let got = admit(server(json!({"counters": counters, "lists": lists})), None).unwrap();
    let counters = json!({"rooms": {"count": 0, "capacity": 1000}});
    let lists = json!({"players": {"capacity": 1000, "values": ["x"]}});
    assert_eq!(
        got["spec"],
        json!({
            "container": "game",
            "ports": [{"portPolicy": "Dynamic", "range": "default", "container": "game",
                       "containerPort": 7654, "protocol": "UDP"}],
            "health": {"periodSeconds": 5, "failureThreshold": 3, "initialDelaySeconds": 5},
            "scheduling": "Packed",
            "sdkServer": {"logLevel": "Info", "grpcPort": 9357, "httpPort": 9358},
            "eviction": {"safe": "Never"}, "immutableReplicas": 1,
            "template": pod(), "counters": counters, "lists": lists,
        })
    );
    assert_eq!(
        got["status"],
        json!({
            "state": "PortAllocation", "ports": null, "address": "", "addresses": null,
            "nodeName": "", "reservedUntil": null, "players": null, "immutableReplicas": 1,
            "eviction": {"safe": "Never"}, "counters": counters, "lists": lists,
        })
    );
    assert_eq!(got["metadata"]["finalizers"], json!(["agones.dev/controller"]));
    assert_eq!(got["metadata"]["annotations"]["agones.dev/sdk-version"], "1.61.0");
}

#[test]
fn a_game_servers_first_state_depends_on_its_ports_unless_one_is_given() {
    let static_port = json!([{"portPolicy": "Static", "containerPort": 1, "hostPort": 2}]);
    let mut ready = server(json!({}));
    ready["status"] = json!({"state": "Ready"});
    for (value, state) in [
        (server(json!({})), "PortAllocation"),
        (server(json!({"ports": [{"portPolicy": "Passthrough"}]})), "PortAllocation"),
        (server(json!({"ports": static_port})), "Creating"),
        (server(json!({"ports": null})), "Creating"),
        (ready, "Ready"), // B14
    ] {
        assert_eq!(admit(value, None).unwrap()["status"]["state"], state);
    }
}

#[test]
fn a_stored_game_server_is_not_filled_in_again() {
    let stored = admit(server(json!({})), None).unwrap();
    let mut next = stored.clone();
    next["spec"]["health"] = json!({});
    next["status"]["counters"] = json!({"a": {"count": 1, "capacity": 2}});
    let got = admit(next.clone(), Some(&stored)).unwrap();
    assert_eq!(got, next);
}

#[test]
fn a_threshold_of_zero_is_treated_as_each_kind_does() {
    let health = |n: i32| json!({"health": {"failureThreshold": n}});
    let of_template = |n: i32| json!({"template": {"spec": health(n)}});
    let set = |n: i32| {
        let mut set = fleet(of_template(n));
        set["kind"] = "GameServerSet".into();
        set["spec"]["replicas"] = 1.into();
        set
    };
    assert_eq!(paths(server(health(0))), [""; 0]);
    assert_eq!(paths(server(health(-1))), [""; 0]);
    assert_eq!(paths(fleet(of_template(0))), [""; 0]);
    let at = "spec.template.spec.health.failureThreshold";
    assert_eq!(paths(fleet(of_template(-1))), [at]);
    assert_eq!(paths(set(0)), [at]);
}

#[test]
fn a_fleet_always_says_its_strategy_and_scheduling_but_not_its_templates_defaults() {
    let got = admit(
        fleet(json!({"priorities": [{"type": "List", "key": "a"}, {"type": "count", "key": "b"}]})),
        None,
    );
    let got = got.unwrap();
    assert_eq!(
        got["spec"],
        json!({
            "replicas": 0, "scheduling": "Packed",
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}},
            "priorities": [
                {"type": "List", "key": "a", "order": "Ascending"},
                {"type": "count", "key": "b", "order": "ascending"},
            ],
            "template": {"metadata": {}, "spec": {
                "ports": [{"containerPort": 7654}], "health": {}, "sdkServer": {}, "template": pod(),
            }},
        })
    );
}

#[test]
fn an_autoscaler_always_says_every_number_of_its_policy() {
    let inner = json!({"type": "Buffer", "buffer": {"maxReplicas": 5, "bufferSize": 1}});
    let got = admit(autoscaler(json!({"type": "Schedule", "schedule": {"policy": inner}})), None)
        .unwrap();
    assert_eq!(
        got["spec"],
        json!({
            "fleetName": "f",
            "sync": {"type": "FixedInterval", "fixedInterval": {"seconds": 30}},
            "policy": {"type": "Schedule", "schedule": {
                "between": {"start": null, "end": null},
                "activePeriod": {"timezone": "", "startCron": "", "duration": ""},
                "policy": {"type": "Buffer", "buffer": {"maxReplicas": 5, "minReplicas": 0, "bufferSize": 1}},
            }},
        })
    );
}

#[test]
fn an_allocation_turns_what_is_required_and_preferred_into_selectors() {
    let got = admit(
        json!({"kind": "GameServerAllocation", "spec": {
            "required": {"matchLabels": {"a": "b"}}, "preferred": [{"gameServerState": "Allocated"}],
        }}),
        None,
    );
    let got = got.unwrap();
    let required = json!({"matchLabels": {"a": "b"}, "gameServerState": "Ready"});
    let preferred = json!({"gameServerState": "Allocated"});
    assert_eq!(
        got["spec"],
        json!({
            "multiClusterSetting": {"policySelector": {}}, "metadata": {}, "scheduling": "Packed",
            "required": required, "preferred": [preferred], "selectors": [preferred, required],
        })
    );
}

#[test]
fn problems_of_a_game_server_have_its_field_paths() {
    let two = json!([{"name": "a"}, {"name": "b"}]);
    let of_pod = |pod: Value| json!({"template": {"spec": pod}});
    let init = json!([{"name": "i"}, {"name": "s", "restartPolicy": "Always"}]);
    let port = |port: Value| json!({"ports": [port]});
    let resources = |r: Value| of_pod(json!({"containers": [{"name": "game", "resources": r}]}));
    for (spec, wanted) in [
        (json!({"players": {"initialCapacity": 1}}), "spec.players"),
        (json!({"counters": {"a": {"count": -1}}}), "spec.counters.a.count"),
        (json!({"counters": {"a": {"default": -1}}}), "spec.counters.a.default"),
        (json!({"lists": {"a": {"capacity": 1001}}}), "spec.lists.a.capacity"),
        (json!({"lists": {"a": {"values": ["x", "x"]}}}), "spec.lists.a.values[1]"),
        (json!({"counters": {"a": {"count": 9, "capacity": 1}}}), ""),
        (of_pod(json!({"containers": two})), "spec.container"),
        (json!({"container": "c", "template": {"spec": {"containers": two}}}), "spec.container"),
        (json!({"container": "b", "template": {"spec": {"containers": two}}}), ""),
        (json!({"container": "B!", "template": {"spec": {"containers": two}}}), "spec.container"),
        (port(json!({"containerPort": 0})), "spec.ports[0].containerPort"),
        (port(json!({"containerPort": 65536})), "spec.ports[0].containerPort"),
        (port(json!({"portPolicy": "Static"})), "spec.ports[0].containerPort"),
        (port(json!({"portPolicy": "Static", "containerPort": 1})), ""),
        (port(json!({"portPolicy": "None"})), ""),
        (port(json!({"portPolicy": "Some", "containerPort": 1})), "spec.ports[0].portPolicy"),
        (port(json!({"portPolicy": "Passthrough", "hostPort": 1})), "spec.ports[0].hostPort"),
        (port(json!({"containerPort": 1, "container": "x"})), "spec.ports[0].container"),
        (
            json!({"ports": [{"containerPort": 1, "container": "s"}], "template": {"spec": {"initContainers": init}}}),
            "",
        ),
        (
            json!({"ports": [{"containerPort": 1, "container": "i"}], "template": {"spec": {"initContainers": init}}}),
            "spec.ports[0].container",
        ),
        (
            resources(json!({"requests": {"cpu": "2"}, "limits": {"cpu": 1}})),
            "spec.template.spec.containers[0].resources.requests",
        ),
        (
            resources(json!({"limits": {"cpu": "-1"}})),
            "spec.template.spec.containers[0].resources.limits[cpu]",
        ),
        (
            resources(json!({"limits": {"cpu": "x"}})),
            "spec.template.spec.containers[0].resources.limits[cpu]",
        ),
        (
            of_pod(json!({"containers": [{"name": "game", "image": 7}]})),
            "spec.template.spec.containers[0].image",
        ),
        (
            json!({"template": {"metadata": {"labels": {"a b": "c"}}}}),
            "spec.template.metadata.labels",
        ),
        (json!({"sdkServer": {"logLevel": "Loud"}}), "spec.sdkServer.logLevel"),
        (json!({"eviction": {"safe": "Maybe"}}), "spec.eviction.safe"),
    ] {
        let found = paths(server(spec.clone()));
        assert_eq!(found.first().map_or("", String::as_str), wanted, "{spec}: {found:?}");
    }
}

#[test]
fn a_game_server_in_development_needs_an_address_and_static_ports() {
    let with = |address: &str, ports: Value| {
        let mut value = server(json!({"ports": ports}));
        value["metadata"]["annotations"] = json!({"agones.dev/dev-address": address});
        paths(value)
    };
    let fine = json!([{"portPolicy": "Static", "hostPort": 1}]);
    assert_eq!(with("10.0.0.1", fine.clone()), [""; 0], "a container port is not needed");
    assert_eq!(with("", fine.clone()), ["spec.ports[0].containerPort"], "B8: empty is none");
    assert_eq!(with("here", fine), ["metadata.annotations.agones.dev/dev-address"]);
    let dynamic = json!([{"containerPort": 1}]);
    assert_eq!(with("::1", dynamic), ["spec.ports[0].hostPort", "spec.ports[0].portPolicy"]);
}

#[test]
fn problems_of_a_fleet_have_its_field_paths() {
    let rolling = |r: Value| json!({"strategy": {"type": "RollingUpdate", "rollingUpdate": r}});
    let surge = "spec.strategy.rollingUpdate.maxSurge";
    for (spec, wanted) in [
        (rolling(json!({"maxSurge": 0})), surge),
        (rolling(json!({"maxSurge": "0%"})), surge),
        (rolling(json!({"maxSurge": "x"})), surge),
        (rolling(json!({"maxSurge": "25"})), ""),
        (json!({"strategy": {"type": "Recreate", "rollingUpdate": {"maxSurge": 0}}}), ""),
        (json!({"allocationOverflow": {"labels": {"a": "b c"}}}), "spec.allocationOverflow.labels"),
        (json!({"replicas": 2_147_483_648_i64}), "spec.replicas"),
        (
            json!({"priorities": [{"type": "count", "order": "Ascending"}]}),
            "spec.priorities[0].order",
        ),
        (json!({"priorities": [{"type": "Gauge"}]}), "spec.priorities[0].type"),
        (json!({"template": {"metadata": {"labels": {"": "b"}}}}), "spec.template.metadata.labels"),
        (json!({"template": null}), "spec.template"),
    ] {
        let found = paths(fleet(spec.clone()));
        assert_eq!(found.first().map_or("", String::as_str), wanted, "{spec}: {found:?}");
    }
}

#[test]
fn a_fleet_updated_without_a_strategy_gets_one() {
    let stored = admit(fleet(json!({})), None).unwrap();
    let mut next = stored.clone();
    next["spec"]["strategy"] = json!({"type": "RollingUpdate"});
    let got = admit(next, Some(&stored)).unwrap();
    assert_eq!(got["spec"]["strategy"], stored["spec"]["strategy"], "B13");
}

#[test]
fn the_template_of_a_set_cannot_be_changed() {
    let mut set = fleet(json!({"replicas": 1}));
    set["kind"] = "GameServerSet".into();
    let stored = admit(set, None).unwrap();
    let mut next = stored.clone();
    next["spec"]["replicas"] = 7.into();
    assert!(admit(next.clone(), Some(&stored)).is_ok());
    next["spec"]["template"]["spec"]["template"]["spec"]["containers"][0]["image"] = "h".into();
    assert_eq!(admit(next, Some(&stored)).unwrap_err()[0].path, "spec.template");
}

#[test]
fn problems_of_a_policy_have_its_field_paths() {
    let buffer = |b: Value| json!({"type": "Buffer", "buffer": b});
    let count = |b: Value| json!({"type": "Count", "count": b});
    let url = |w: Value| json!({"type": "Webhook", "webhook": w});
    let wasm = |w: Value| json!({"type": "Wasm", "wasm": w});
    let fine = buffer(json!({"maxReplicas": 5, "bufferSize": 1}));
    for (policy, wanted) in [
        (fine, ""),
        (buffer(json!({"maxReplicas": 5})), "spec.policy.buffer.bufferSize"),
        (buffer(json!({"bufferSize": 5})), "spec.policy.buffer.maxReplicas"),
        (
            buffer(json!({"maxReplicas": 5, "bufferSize": 1, "minReplicas": 2_147_483_648_i64})),
            "spec.policy.buffer.minReplicas",
        ),
        (
            count(json!({"key": "a", "bufferCount": 5, "minCount": 0, "maxCount": 3})),
            "spec.policy.count.maxCount",
        ),
        (
            count(json!({"key": "a", "bufferCount": "5%", "maxCount": 3})),
            "spec.policy.count.minCapacity",
        ),
        (count(json!({"key": "", "bufferCount": 5, "maxCount": 9})), ""),
        (
            json!({"type": "List", "list": {"bufferSize": 5, "maxCapacity": 9}}),
            "spec.policy.list.key",
        ),
        (url(json!({"url": "http://a:b/"})), "spec.policy.webhook.url"),
        (url(json!({"url": "http://a/%zz"})), "spec.policy.webhook.url"),
        (url(json!({"service": {"name": ""}})), ""),
        (url(json!({"service": {}})), "spec.policy.webhook.service.name"),
        (url(json!({"url": "https://a", "caBundle": "aGVsbG8="})), "spec.policy.webhook.caBundle"),
        (url(json!({"url": "https://a", "caBundle": "!"})), "spec.policy.webhook.caBundle"),
        (wasm(json!({"from": {"url": {"url": "https://a"}}})), ""),
        (wasm(json!({"from": {}})), "spec.policy.wasm.from"),
        (
            wasm(json!({"from": {"url": {"url": "https://a"}}, "hash": "abc"})),
            "spec.policy.wasm.hash",
        ),
    ] {
        let found = paths(autoscaler(policy.clone()));
        assert_eq!(found.first().map_or("", String::as_str), wanted, "{policy}: {found:?}");
    }
}

#[test]
fn problems_of_a_schedule_or_chain_have_its_field_paths() {
    let schedule = |s: Value| json!({"type": "Schedule", "schedule": s});
    let fine = json!({"type": "Buffer", "buffer": {"maxReplicas": 5, "bufferSize": 1}});
    for (policy, wanted) in [
        (
            schedule(json!({"policy": fine, "between": {"end": ""}})),
            "spec.policy.schedule.between.end",
        ),
        (schedule(json!({"policy": {"type": "Buffer"}})), "spec.policy.schedule.policy.buffer"),
        (
            schedule(json!({"policy": {"type": "Chain", "chain": []}})),
            "spec.policy.schedule.policy.type",
        ),
        (
            schedule(json!({"policy": fine, "activePeriod": {"timezone": "europe/berlin"}})),
            "spec.policy.schedule.activePeriod.timezone",
        ),
        (
            schedule(json!({"policy": fine, "activePeriod": {"startCron": "TZ=UTC 0 8 * * *"}})),
            "spec.policy.schedule.activePeriod.startCron",
        ),
        (
            schedule(json!({"policy": fine, "activePeriod": {"startCron": "0 8 * * 7"}})),
            "spec.policy.schedule.activePeriod.startCron",
        ),
        (schedule(json!({"policy": fine, "activePeriod": {"startCron": "@every 1h"}})), ""),
        (json!({"type": "Chain", "chain": []}), ""),
        (json!({"type": "Chain"}), ""),
        (json!({"type": "Chain", "chain": [{"type": "Chain"}]}), "spec.policy.chain[0].type"),
        (json!({"type": "Chain", "chain": [{"type": "Buffer"}]}), "spec.policy.chain[0]"),
        (json!({"type": "Chain", "chain": [fine, fine]}), "spec.policy.chain"),
    ] {
        let found = paths(autoscaler(policy.clone()));
        assert_eq!(found.first().map_or("", String::as_str), wanted, "{policy}: {found:?}");
    }
}

#[test]
fn a_schedule_that_is_over_may_stay_but_not_change() {
    let inner = json!({"type": "Buffer", "buffer": {"maxReplicas": 5, "bufferSize": 1}});
    let over = json!({"policy": inner, "between": {"end": "2026-01-01T00:00:00Z"}});
    let stored = autoscaler(json!({"type": "Schedule", "schedule": over}));
    assert_eq!(paths(stored.clone()), ["spec.policy.schedule.between.end"], "A12");
    assert!(admit(stored.clone(), Some(&stored)).is_ok());
    let mut next = stored.clone();
    next["spec"]["fleetName"] = "g".into();
    assert!(admit(next, Some(&stored)).is_err());
}

#[test]
fn problems_of_an_allocation_have_its_field_paths() {
    let selector = |s: Value| json!({"selectors": [s]});
    for (spec, wanted) in [
        (json!({}), ""),
        (
            selector(json!({"matchExpressions": [{"key": "a", "operator": "In"}]})),
            "spec.selectors[0].labelSelector",
        ),
        (selector(json!({"players": {"minAvailable": 1}})), ""), // gone upstream, and passed over
        (
            selector(json!({"counters": {"r": {"minCount": 3, "maxCount": 2}}})),
            "spec.selectors[0].counters[r]",
        ),
        (selector(json!({"counters": {"r": {"minCount": 3, "maxCount": 0}}})), ""),
        (selector(json!({"counters": {"r": {"min": "x"}}})), "spec.selectors[0].counters.r.min"),
        (
            json!({"selectors": [{}], "required": {"matchLabels": {"a": "b c"}}}),
            "spec.required.labelSelector",
        ),
        (
            json!({"preferred": [{"lists": {"l": {"maxAvailable": -1}}}]}),
            "spec.preferred[0].lists[l].maxAvailable",
        ),
        (json!({"priorities": [{"type": "Counter"}]}), "spec.priorities[0]"),
        (json!({"scheduling": "Random"}), "spec.scheduling"),
        (json!({"counters": {"r": {"action": "Increment"}}}), "spec.counters[r]"),
        (json!({"counters": {"r": {"action": "increment"}}}), ""),
        (json!({"counters": {"r": {"action": "Explode", "amount": 1}}}), ""),
        (json!({"counters": {"r": {"capacity": -1}}}), "spec.counters[r].capacity"),
        (json!({"lists": {"l": {"capacity": 1001}}}), ""),
        (json!({"metadata": {"labels": {"a": "b c"}}}), "spec.metadata.labels"),
    ] {
        let value = json!({"kind": "GameServerAllocation", "spec": spec});
        let found = paths(value);
        assert_eq!(found.first().map_or("", String::as_str), wanted, "{spec}: {found:?}");
    }
}

#[test]
fn an_empty_text_counts_as_left_out_where_agones_says_so() {
    let mut new = fleet(json!({"scheduling": "", "strategy": {"type": ""}}));
    let template = json!({
        "scheduling": "", "sdkServer": {"logLevel": ""}, "eviction": {"safe": ""},
        "ports": [{"containerPort": 1, "portPolicy": "", "protocol": ""}],
    });
    merge(&mut new["spec"]["template"]["spec"], template.clone());
    let stored = admit(new, None).unwrap();
    assert_eq!(stored["spec"]["scheduling"], "Packed");
    assert_eq!(stored["spec"]["strategy"]["type"], "RollingUpdate");
    assert_eq!(stored["spec"]["template"]["spec"]["ports"], json!([{"containerPort": 1}]));
    let changed = |pointer: &str| {
        let mut next = stored.clone();
        let (parent, name) = pointer.rsplit_once('/').unwrap();
        next.pointer_mut(parent).unwrap()[name] = "".into();
        admit(next, Some(&stored)).unwrap_err()[0].path.clone()
    };
    assert_eq!(changed("/spec/scheduling"), "spec.scheduling");
    assert_eq!(changed("/spec/strategy/type"), "spec.strategy.type");
    let policy = changed("/spec/template/spec/ports/0/portPolicy");
    assert_eq!(policy, "spec.template.spec.ports[0].portPolicy");

    let mut new = server(template);
    new["status"] = json!({"state": "", "ports": null, "addresses": null, "reservedUntil": null});
    let stored = admit(new, None).unwrap();
    assert_eq!(stored["status"]["state"], "PortAllocation");
    assert_eq!(stored["spec"]["ports"][0]["protocol"], "UDP");
    assert_eq!(stored["spec"]["eviction"]["safe"], "Never");
    let mut next = stored.clone();
    next["status"]["state"] = "".into();
    assert_eq!(admit(next, Some(&stored)).unwrap_err()[0].path, "status.state");

    let mut set = fleet(json!({"replicas": 1, "scheduling": ""}));
    set["kind"] = "GameServerSet".into();
    assert_eq!(paths(set), ["spec.scheduling"], "upstream has no webhook that fills in sets");
    let priority = json!({"priorities": [{"type": "Counter", "key": "a", "order": ""}]});
    assert_eq!(paths(fleet(priority)), ["spec.priorities[0].order"]);
}

#[test]
fn an_autoscalers_sync_is_filled_in_with_every_change() {
    let mut new =
        autoscaler(json!({"type": "Buffer", "buffer": {"maxReplicas": 5, "bufferSize": 1}}));
    new["spec"]["sync"] = json!({"type": "", "fixedInterval": {"seconds": 0}});
    let stored = admit(new.clone(), None).unwrap();
    assert_eq!(
        stored["spec"]["sync"],
        json!({"type": "FixedInterval", "fixedInterval": {"seconds": 30}})
    );
    assert_eq!(admit(new, Some(&stored)).unwrap()["spec"]["sync"], stored["spec"]["sync"]);
}

#[test]
fn a_status_written_through_its_subresource_is_not_validated() {
    let mut new = fleet(json!({}));
    new["status"] = json!({"replicas": "many"});
    let mut stored = admit(new, None).unwrap();
    assert_eq!(stored.get("status"), None, "a status that cannot be read is dropped");
    stored["status"] = json!({"replicas": 3});
    let mut next = stored.clone();
    next["status"] = json!({"replicas": -7});
    assert_eq!(admit(next, Some(&stored)).unwrap()["status"]["replicas"], 3);
    let asked = json!({"kind": "GameServerAllocation", "status": {"state": "", "source": ""}});
    assert_eq!(admit(asked, None).unwrap().get("status"), None);
}
