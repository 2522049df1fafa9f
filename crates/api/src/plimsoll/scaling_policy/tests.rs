use super::*;
use jiff::Timestamp;
use serde_json::json;

fn policy(spec: Value) -> Value {
    json!({
        "apiVersion": "plimsoll.dev/v1alpha1", "kind": "ScalingPolicy",
        "metadata": {"name": "web"}, "spec": spec
    })
}

fn problems(spec: Value) -> Vec<String> {
    let now = Admission { old: None, now: Timestamp::UNIX_EPOCH };
    let found = admit(&mut policy(spec), &now);
    found.err().unwrap_or_default().iter().map(ToString::to_string).collect()
}

/// A valid spec with some fields changed: `null` takes one away.
fn with(changes: Value) -> Value {
    let mut spec = json!({
        "target": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
        "max": 5,
        "checks": [{"name": "a", "query": "q", "strategy": {"passThrough": {}}}],
    });
    for (key, value) in changes.as_object().unwrap() {
        spec[key] = value.clone();
    }
    spec.as_object_mut().unwrap().retain(|_, value| !value.is_null());
    spec
}

fn with_check(changes: Value) -> Value {
    let mut check = with(json!({}))["checks"][0].clone();
    for (key, value) in changes.as_object().unwrap() {
        check[key] = value.clone();
    }
    check.as_object_mut().unwrap().retain(|_, value| !value.is_null());
    with(json!({"checks": [check]}))
}

#[test]
fn a_mistake_in_the_policy_is_refused_by_its_field() {
    for (changes, wanted) in [
        (json!({"max": null}), "spec: missing field `max`"),
        (json!({"min": 6}), "spec.min: 6 is more than max, which is 5"),
        (json!({"min": -1}), "spec.min: must not be negative"),
        (json!({"mni": 1}), "spec.mni: unknown field, did you mean `min`?"),
        (json!({"checks": null}), "spec.checks: needs at least one check or rule"),
        (json!({"cooldown": "-1s"}), "spec.cooldown: must not be negative"),
        (json!({"cooldown": 5}), "spec.cooldown: invalid type: integer `5`, expected"),
        (json!({"onCheckError": "hold"}), "spec.onCheckError: unknown variant `hold`"),
        (json!({"target": {}}), "spec.target: is empty"),
        (json!({"target": {"kind": "Fleet"}}), "spec.target.name: required"),
        (
            json!({"target": {"docker": {"service": "a"}, "webhook": {"url": "b"}}}),
            "spec.target: names more than one",
        ),
        (
            json!({"target": {"dokcer": {}}}),
            "spec.target.dokcer: unknown field, did you mean `docker`?",
        ),
        (json!({"schedule": {"start": "0 8 * * *"}}), "spec.schedule: needs exactly one of"),
        (
            json!({"schedule": {"start": "8 h", "duration": "1h"}}),
            "spec.schedule.start: `8 h`: 2 fields",
        ),
        (
            json!({"schedule": {"start": "0 8 * * *", "duration": "0s"}}),
            "spec.schedule.duration: must be positive",
        ),
        (
            json!({"schedule": {"start": "0 8 * * *", "duration": "1h", "timeZone": "Mars"}}),
            "spec.schedule.timeZone: is not a time zone",
        ),
        (json!({"rules": ["if only"]}), "spec.rules[0]: `if only`: not a rule"),
        (
            json!({"rules": [{"metric": "cpu", "operation": ">", "value": 1, "for": "5m", "action": "ScaleIn"}]}),
            "spec.rules[0].count: required",
        ),
        (
            json!({"behavior": {"scaleUp": {"policies": [{"type": "Pods", "value": 0, "period": "1m"}]}}}),
            "spec.behavior.scaleUp.policies[0].value: must be at least 1",
        ),
    ] {
        let found = problems(with(changes.clone()));
        assert!(found.len() == 1 && found[0].starts_with(wanted), "{changes}: {found:?}");
    }
}

#[test]
fn a_mistake_in_a_check_is_refused_by_its_field() {
    let path = "spec.checks[0]";
    for (changes, wanted) in [
        (json!({"name": ""}), "name: must not be empty"),
        (json!({"query": null}), "query: required"),
        (json!({"strategy": null}), "strategy: required: one of targetValue"),
        (
            json!({"strategy": {"passThrough": {}, "fixedValue": {"value": 1}}}),
            "strategy: has 2 strategies",
        ),
        (json!({"strategy": {"fixedValue": {}}}), "strategy.fixedValue: missing field `value`"),
        (
            json!({"strategy": {"passThrough": {"maxScaleup": 1}}}),
            "strategy.passThrough.maxScaleup: unknown field, did you mean `maxScaleUp`?",
        ),
        (
            json!({"strategy": {"passThrough": {"maxScaleUp": -1}}}),
            "strategy.passThrough.maxScaleUp: must not be negative",
        ),
        (json!({"strategy": {"threshold": {"delta": 1}}}), "strategy.threshold: needs lowerBound"),
        (
            json!({"strategy": {"threshold": {"lowerBound": 1}}}),
            "strategy.threshold: needs exactly one of delta",
        ),
        (
            json!({"strategy": {"threshold": {"lowerBound": 1, "value": -1}}}),
            "strategy.threshold.value: must not be negative",
        ),
        (json!({"window": "1x"}), "window: `1x` is not a duration"),
        (
            json!({"window": "instant", "strategy": {"threshold": {"lowerBound": 1, "delta": 1}}}),
            "strategy.threshold.withinBoundsTrigger: must be 1",
        ),
    ] {
        let found = problems(with_check(changes.clone()));
        let wanted = format!("{path}.{wanted}");
        assert!(found.iter().any(|p| p.starts_with(&wanted)), "{changes}: {found:?}");
    }
    let twice = with(json!({}))["checks"][0].clone();
    let found = problems(with(json!({"checks": [twice, twice]})));
    assert_eq!(found, ["spec.checks[1].name: `a` is the name of two checks"]);
}

#[test]
fn the_documented_example_is_accepted_and_its_sentence_becomes_fields() {
    let mut value = policy(json!({
        "target": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
        "min": 2, "max": 20, "enabled": true, "dryRun": false, "evaluationInterval": "10s",
        "cooldown": "5m", "cooldownOnScaleUp": "1m", "onCheckError": "Hold",
        "schedule": {"start": "0 8 * * 1-5", "end": "0 20 * * 1-5", "timeZone": "UTC"},
        "checks": [{
            "name": "cpu", "group": "", "source": "prometheus", "query": "avg(cpu)", "window": "1m",
            "windowOffset": "0s", "schedule": {}, "onError": "Hold",
            "strategy": {"targetValue": {"target": 70, "threshold": 0.01, "maxScaleUp": 5, "maxScaleDown": 2}},
        }],
        "rules": [
            {"metric": "cpu", "operation": ">=", "value": 60, "for": "10m", "action": "ScaleOut", "count": 1},
            "if cpu <= 40 for 25m then scale in by 2",
        ],
        "behavior": {
            "scaleUp": {"stabilizationWindow": "0s", "tolerance": 0, "selectPolicy": "Max",
                        "policies": [{"type": "Percent", "value": 100, "period": "15s"}]},
            "scaleDown": {"stabilizationWindow": "5m", "policies": [{"type": "Pods", "value": 4, "period": "1m"}]},
        },
    }));
    value["status"] = json!({
        "lastAction": {"at": "2026-01-01T00:00:00Z", "from": 3, "to": 5}, "originalCount": 3,
        "history": [{"at": "2026-01-01T00:00:00Z", "wanted": 5, "from": 3, "to": 4}],
    });
    admit(&mut value, &Admission { old: None, now: Timestamp::UNIX_EPOCH }).unwrap();
    assert_eq!(value["spec"]["rules"][1]["action"], "ScaleIn");
    let policy: ScalingPolicy = serde_json::from_value(value).unwrap();
    assert!(policy.spec.warnings().is_empty());
}

#[test]
fn scaling_in_faster_than_out_is_odd() {
    let rules =
        json!(["if cpu > 60 for 10m then scale out by 1", "if cpu < 20 for 5m then scale in by 1"]);
    let mut value = policy(with(json!({"rules": rules})));
    admit(&mut value, &Admission { old: None, now: Timestamp::UNIX_EPOCH }).unwrap();
    let policy: ScalingPolicy = serde_json::from_value(value).unwrap();
    assert_eq!(policy.spec.warnings()[0].path, "spec.rules[1].for");
}
