//! The causes of rejections are those of Agones: their fields, types and number.

use plimsoll_api::{Admission, find, refusal};
use serde_json::{Value, json};

/// Returns the field and the reason of every cause by which a new object is refused.
fn causes(mut value: Value) -> Vec<(String, String)> {
    let kind = find(None, value["kind"].as_str().unwrap()).unwrap();
    let now = "2026-03-01T12:00:00Z".parse().unwrap();
    let Err(problems) = (kind.admit)(&mut value, &Admission { old: None, now }) else {
        return vec![];
    };
    let status = refusal(kind, "", &problems);
    let text = |cause: &Value, field: &str| cause[field].as_str().unwrap().to_owned();
    let causes = status["details"]["causes"].as_array().unwrap().iter();
    causes.map(|cause| (text(cause, "field"), text(cause, "reason"))).collect()
}

fn assert_causes(value: Value, wanted: &[(&str, &str)]) {
    let found = causes(value.clone());
    let wanted: Vec<_> = wanted
        .iter()
        .map(|(field, reason)| ((*field).to_owned(), format!("FieldValue{reason}")))
        .collect();
    assert_eq!(found, wanted, "{value}");
}

fn server(spec: Value) -> Value {
    let mut whole = json!({"template": {"spec": {"containers": [{"name": "game"}]}}});
    whole.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    json!({"kind": "GameServer", "metadata": {"name": "a"}, "spec": whole})
}

fn fleet(spec: Value) -> Value {
    let mut whole = json!({"template": {"spec": server(json!({}))["spec"]}});
    whole.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    json!({"kind": "Fleet", "metadata": {"name": "f"}, "spec": whole})
}

#[test]
fn game_servers_are_refused_with_the_causes_that_agones_returns() {
    let containers = |list: Value| json!({"template": {"spec": {"containers": list}}});
    let amounts =
        json!({"requests": {"memory": "2Gi", "cpu": "2"}, "limits": {"memory": "1Gi", "cpu": "1"}});
    for (spec, wanted) in [
        (
            containers(json!([{"name": "a"}, {"name": "b"}])),
            vec![("spec.container", "Required"), ("spec.container", "Invalid")],
        ),
        (
            containers(json!([{"name": "a", "resources": amounts}])),
            vec![("spec.template.spec.containers[0].resources.requests", "Invalid"); 2],
        ),
        (json!({"players": {}}), vec![("spec.players", "Forbidden")]),
        (
            json!({"ports": [{"portPolicy": "Passthrough", "containerPort": 1, "hostPort": 2}]}),
            vec![
                ("spec.ports[0].containerPort", "Required"),
                ("spec.ports[0].hostPort", "Forbidden"),
            ],
        ),
        (
            json!({"ports": [{"protocol": "SCTP"}]}),
            vec![("spec.ports[0].protocol", "NotSupported")],
        ),
        (json!({"container": "x".repeat(64)}), vec![]),
        (json!({"counters": {"a": 7}}), vec![("spec.counters.a", "TypeInvalid")]),
        (
            json!({"lists": {"a": {"values": ["x", "x"]}}}),
            // The first values are copied into the status before the schema is asked, upstream too.
            vec![
                ("spec.lists.a.values[1]", "Duplicate"),
                ("status.lists.a.values[1]", "Duplicate"),
            ],
        ),
    ] {
        assert_causes(server(spec), &wanted);
    }
    let mut long = server(json!({}));
    long["metadata"]["name"] = "a".repeat(64).into();
    assert_causes(long, &[("metadata.name", "TooLong")]);
}

#[test]
fn fleets_are_refused_with_the_causes_that_agones_returns() {
    let rolling = json!({"rollingUpdate": {"maxSurge": 0, "maxUnavailable": "x"}});
    let overflow = json!({"labels": {"a": "b c", "d": "e f"}});
    for (spec, wanted) in [
        (
            json!({"strategy": rolling}),
            vec![
                ("spec.strategy.rollingUpdate.maxUnavailable", "Invalid"),
                ("spec.strategy.rollingUpdate.maxSurge", "Invalid"),
            ],
        ),
        (json!({"strategy": {"type": "Blue"}}), vec![("spec.strategy.type", "NotSupported")]),
        (
            json!({"allocationOverflow": overflow}),
            vec![("spec.allocationOverflow.labels", "Invalid"); 2],
        ),
        (
            json!({"replicas": -1, "scheduling": "Random"}),
            vec![("spec.replicas", "Invalid"), ("spec.scheduling", "NotSupported")],
        ),
        (json!({"template": null}), vec![("spec.template", "Required")]),
    ] {
        assert_causes(fleet(spec), &wanted);
    }
}

#[test]
fn autoscalers_are_refused_with_the_causes_that_agones_returns() {
    let webhook = json!({"url": "http://a:b/", "service": {"namespace": "n", "name": "s"}});
    let schedule = json!({
        "between": {"start": "2026-02-01T00:00:00Z", "end": "2026-01-01T00:00:00Z"},
        "activePeriod": {"timezone": "Nowhere", "startCron": "x", "duration": "x"},
        "policy": {"type": "Buffer", "buffer": {"maxReplicas": 1, "bufferSize": 1}},
    });
    let period = "spec.policy.schedule.activePeriod";
    for (policy, wanted) in [
        (json!({"type": "Buffer"}), vec![("spec.policy.buffer", "Required")]),
        (
            json!({"type": "Buffer", "buffer": {"maxReplicas": 2, "minReplicas": 3, "bufferSize": 5}}),
            vec![
                ("spec.policy.buffer.minReplicas", "Invalid"),
                ("spec.policy.buffer.maxReplicas", "Invalid"),
                ("spec.policy.buffer.minReplicas", "Invalid"),
            ],
        ),
        (json!({"type": "Webhook", "webhook": {}}), vec![("spec.policy.webhook", "Required")]),
        (
            json!({"type": "Webhook", "webhook": webhook}),
            vec![("spec.policy.webhook.url", "Duplicate"), ("spec.policy.webhook.url", "Invalid")],
        ),
        (
            json!({"type": "Schedule", "schedule": schedule}),
            vec![
                (&*format!("{period}.timezone"), "Invalid"),
                ("spec.policy.schedule.between.end", "Invalid"),
                (&*format!("{period}.startCron"), "Invalid"),
                (&*format!("{period}.duration"), "Invalid"),
            ],
        ),
        (
            json!({"type": "Chain", "chain": [{"type": "Buffer"}, {"type": "List"}]}),
            vec![
                ("spec.policy.chain[0]", "Required"),
                ("spec.policy.chain[0].policy.buffer", "Required"),
                ("spec.policy.chain", "Invalid"),
                ("spec.policy.chain[1]", "Required"),
                ("spec.policy.chain[1].policy.list", "Required"),
            ],
        ),
        (json!({"type": "Guess"}), vec![("spec.policy.type", "NotSupported")]),
    ] {
        let spec = json!({"fleetName": "f", "policy": policy});
        assert_causes(json!({"kind": "FleetAutoscaler", "metadata": {}, "spec": spec}), &wanted);
    }
}

#[test]
fn allocations_are_refused_with_the_causes_that_agones_returns() {
    let rooms = json!({"rooms": {"minCount": 3, "maxCount": -1}});
    for (spec, wanted) in [
        (json!({"scheduling": "Random"}), vec![("spec.scheduling", "NotSupported")]),
        (
            json!({"priorities": [{"type": "", "key": "", "order": ""}]}),
            vec![("spec.priorities[0]", "Invalid"); 2],
        ),
        (
            json!({"priorities": [{"type": "Counter", "key": "a", "order": "Up"}]}),
            vec![("spec.priorities[0]", "Invalid")],
        ),
        (
            json!({"selectors": [{"gameServerState": "", "counters": rooms}]}),
            vec![
                ("spec.selectors[0].gameServerState", "Invalid"),
                ("spec.selectors[0].counters[rooms].maxCount", "Invalid"),
                ("spec.selectors[0].counters[rooms]", "Invalid"),
            ],
        ),
        (
            json!({"required": {"matchLabels": {"a": "b c", "d": "e f"}}}),
            vec![("spec.required.labelSelector", "Invalid")],
        ),
        (
            json!({"metadata": {"labels": {"a b": "c d"}, "annotations": {"": ""}}}),
            vec![
                ("spec.metadata.labels", "Invalid"),
                ("spec.metadata.labels", "Invalid"),
                ("spec.metadata.annotations", "Invalid"),
                ("spec.metadata.annotations", "Invalid"),
            ],
        ),
    ] {
        assert_causes(json!({"kind": "GameServerAllocation", "spec": spec}), &wanted);
    }
}
