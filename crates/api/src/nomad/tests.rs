use super::*;
use serde_json::json;

const TARGET: &str = r#"target "nomad-target" { Job = "web" Group = "api" }"#;
const CHECK: &str = "check \"a\" {\n query = \"q\"\n strategy \"pass-through\" {}\n }";

/// A file with one block: line 1 is `scaling`, line 2 its attributes, line 3 `policy`, from line 4 on its body.
fn file(attributes: &str, policy: &str) -> String {
    let target = "target \"nomad-target\" {\nJob = \"web\"\nGroup = \"api\"\n}";
    format!("scaling \"web\" {{\n{attributes}\npolicy {{\n{policy}\n{target}\n}}\n}}\n")
}

fn faults(text: &str) -> Vec<String> {
    let found = read(text, Form::Hcl).err().unwrap_or_default();
    found.iter().map(|fault| format!("{}: {}", fault.line, fault.problem)).collect()
}

fn spec(text: &str, form: Form) -> Value {
    read(text, form).unwrap().remove(0)["spec"].take()
}

#[test]
fn a_mistake_in_a_block_is_refused_by_line_and_field() {
    for (attributes, policy, wanted) in [
        ("enabled = true", CHECK, "1: scaling.web.max: required"),
        ("max = 2.5", CHECK, "2: scaling.web.max: `2.5` is not a whole number"),
        ("max = \"many\"", CHECK, "2: scaling.web.max: `many` is not a whole number"),
        ("max = [5]", CHECK, "2: scaling.web.max: `` is not a whole number"),
        ("enabled = \"yes\"\nmax = 5", CHECK, "2: scaling.web.enabled: expected true or false"),
        ("max = 5\nmni = 1", CHECK, "3: scaling.web.mni: unknown field, did you mean `min`?"),
        ("max = 5\nmin = 6\nenabled = true", CHECK, "3: scaling.web.min: 6 is more than max"),
        ("max = 5\nmin = -1\nenabled = true", CHECK, "3: scaling.web.min: must not be negative"),
        ("max = 5\npolice {}", CHECK, "3: police: unknown block"),
        ("max = 5\npolicy = 1", CHECK, "3: policy: is a block"),
        ("max = 5\nmin = var.min", CHECK, "3: min:"),
        (
            "max = 5",
            "cooldown = \"5 minutes\"",
            "4: scaling.web.policy.cooldown: `5 minutes` is not",
        ),
        ("max = 5", "cooldown = 10", "4: scaling.web.policy.cooldown: `10` is not a duration"),
        ("max = 5", "cooldown = \"-5m\"", "4: scaling.web.policy.cooldown: must not be negative"),
        ("max = 5", "cooldwon = \"5m\"", "4: scaling.web.policy.cooldwon: unknown field"),
        ("max = 5\nenabled = true", "", "4: scaling.web.policy.check: required"),
        (
            "max = 5\nenabled = true",
            "on_check_error = \"error\"",
            "5: scaling.web.policy.on_check_error:",
        ),
        ("max = 5", "check {}", "4: check: needs one name"),
        ("max = 5", "schedule \"a\" {}", "4: schedule: takes no name"),
        ("max = 5", "schedule {}", "4: scaling.web.policy.schedule.start: required"),
        ("max = 5", "target \"b\" {}", "5: scaling.web.policy.target: there may be only one"),
    ] {
        let found = faults(&file(attributes, policy));
        assert!(found.iter().any(|f| f.starts_with(wanted)), "{attributes} {policy}: {found:#?}");
    }
}

#[test]
fn a_mistake_in_a_check_is_refused_by_line_and_field() {
    let path = "scaling.web.policy.check.a";
    for (body, line, wanted) in [
        ("query = \"q\"", 5, "strategy: required"),
        ("strategy \"pass-through\" {}", 5, "query: required"),
        ("strategy \"magic\" {}", 6, "strategy.magic: is not a strategy"),
        ("strategy \"app-sizing-avg\" {}", 6, "strategy.app-sizing-avg: is not a strategy"),
        ("strategy \"target-value\" {}", 6, "strategy.target-value.target: required"),
        (
            "strategy \"target-value\" {\ntarget = \"x\"\n}",
            7,
            "strategy.target-value.target: `x` is not",
        ),
        (
            "strategy \"pass-through\" {\nmax_scale_upp = 1\n}",
            7,
            "strategy.pass-through.max_scale_upp: unknown field, did you mean `max_scale_up`?",
        ),
        ("strategy \"threshold\" {\ndelta = 1\n}", 6, "strategy.threshold: needs lower_bound"),
        (
            "strategy \"threshold\" {\nlower_bound = 1\n}",
            6,
            "strategy.threshold: needs exactly one",
        ),
        (
            "strategy \"fixed-value\" {\nvalue = 1\n}\nstrategy \"pass-through\" {}",
            9,
            "strategy: there may be only one",
        ),
        ("query_window = \"1x\"", 6, "query_window: `1x` is not a duration"),
        ("on_error = \"retry\"", 6, "on_error: `retry` is not"),
        (
            "query_window = \"instant\"\nstrategy \"threshold\" {\nlower_bound = 1\ndelta = 1\n}",
            7,
            "strategy.threshold.within_bounds_trigger: must be 1",
        ),
        ("schedule {\nstart = \"0 0 8 * * *\"\nduration = \"1h\"\n}", 7, "schedule.start: `0 0 8"),
        ("schedule {\nstart = \"0 8 * * *\"\n}", 6, "schedule: needs exactly one of"),
    ] {
        let check = format!("check \"a\" {{\n{body}\n}}");
        let found = faults(&file("max = 5\nenabled = true", &check));
        let wanted = format!("{line}: {path}.{wanted}");
        assert!(found.iter().any(|f| f.starts_with(&wanted)), "{body}: {found:#?}");
    }
}

#[test]
fn a_disabled_policy_is_only_decoded() {
    for (attributes, policy) in [
        ("max = 5\nmin = 9", CHECK),
        ("max = 5", ""),
        ("max = 5", "check \"a\" {}"),
        ("max = 5", "on_check_error = \"error\""),
    ] {
        assert_eq!(
            faults(&file(attributes, policy)),
            Vec::<String>::new(),
            "{attributes} {policy}"
        );
    }
    assert_eq!(spec(&file("max = 5", CHECK), Form::Hcl)["enabled"], json!(false));
    // Another type is read there and never run.
    let other = file("max = 5\nenabled = true\ntype = \"vertical_cpu\"", CHECK);
    assert_eq!(spec(&other, Form::Hcl)["enabled"], json!(false));
}

#[test]
fn missing_blocks_and_names_given_twice_are_refused() {
    for (text, wanted) in [
        ("scaling \"a\" {\nmax = 1\n}", "1: scaling.a.policy: required"),
        ("scaling \"a\" {\nmax = 1\npolicy {}\n}", "3: scaling.a.policy.target: required"),
        ("scaling {}", "1: scaling: needs one name"),
        ("x = 1", "1: x: unknown field"),
        ("scaling \"x\" {\n enabled = true\n", "2: not HCL"),
    ] {
        let found = faults(text);
        assert!(found.iter().any(|f| f.starts_with(wanted)), "{text}: {found:#?}");
    }
    let twice = file("max = 5", CHECK).repeat(2);
    assert!(faults(&twice)[0].ends_with("scaling.web: is the name of two blocks"));
    let checks = file("max = 5", &format!("{CHECK}\n{CHECK}"));
    assert!(faults(&checks)[0].ends_with("check.a: is the name of two checks"));
}

#[test]
fn values_are_converted_and_defaults_kept() {
    let text = file(
        "max = \"5\"\nmin = 1 + 1\nenabled = \"true\"",
        "cooldown = 0\ncooldown_on_scale_up = \"1m\"\non_check_error = \"fail\"\ncheck \"a\" {\n\
         query = jsonencode({a = 1})\nquery_window = \"0s\"\non_error = \"ignore\"\n\
         strategy \"target-value\" {\ntarget = 70\nmax_scale_up = \"3\"\n}\n}",
    );
    assert_eq!(
        spec(&text, Form::Hcl),
        json!({
            "target": {"nomad": {"job": "web", "group": "api"}},
            "min": 2, "max": 5, "enabled": true, "dryRun": false,
            "cooldownOnScaleUp": "1m0s", "onCheckError": "Fail",
            "checks": [{
                "name": "a", "source": "nomad-apm", "query": "{\"a\":1}", "onError": "Ignore",
                "strategy": {"targetValue": {"target": 70.0, "maxScaleUp": 3}},
            }],
        })
    );
}

#[test]
fn targets_become_ours_or_keep_their_name() {
    for (target, wanted, dry) in [
        (
            TARGET.replace(" Group", "\nGroup").replace(" Job", "\nJob").replace(" }", "\n}"),
            json!({"nomad": {"job": "web", "group": "api"}}),
            false,
        ),
        (
            "target \"aws-asg\" {\naws_asg_name = \"w\"\ndry-run = true\nnode_purge = true\n}"
                .to_owned(),
            json!({"awsAutoscalingGroup": {"name": "w", "config": {"node_purge": "true"}}}),
            true,
        ),
        (
            "target \"azure-vmss\" {\nresource_group = \"g\"\n}".to_owned(),
            json!({"named": {"name": "azure-vmss", "config": {"resource_group": "g"}}}),
            false,
        ),
    ] {
        let text = format!("scaling \"web\" {{\nmax = 5\npolicy {{\n{CHECK}\n{target}\n}}\n}}");
        let found = spec(&text, Form::Hcl);
        assert_eq!((&found["target"], &found["dryRun"]), (&wanted, &json!(dry)));
    }
}

#[test]
fn nodes_are_asked_about_in_the_short_form() {
    let with = |query: &str| {
        let check =
            format!("check \"a\" {{\nquery = \"{query}\"\nstrategy \"pass-through\" {{}}\n}}");
        let target = "target \"aws-asg\" {\naws_asg_name = \"w\"\nnode_class = \"c\"\n}";
        faults(&format!(
            "scaling \"w\" {{\nenabled = true\nmax = 5\npolicy {{\n{check}\n{target}\n}}\n}}"
        ))
    };
    assert!(with("percentage-allocated_cpu").is_empty());
    assert!(with("node_percentage-allocated_cpu/node_class=c")[0].starts_with("6: "));
}

#[test]
fn json_says_the_same_with_lines() {
    let fine = r#"{"//": "comment", "scaling": [{"a": {"enabled": true, "max": 3, "policy": [{
        "check": {"x": {"strategy": {"fixed-value": {"value": 2}}}, "y": {"strategy": {"fixed-value": {"value": 1}}}},
        "target": {"t": {}}}]}}, {"b": {"max": 1, "policy": {"target": {"t": {"k": "v"}}}}}]}"#;
    let policies = read(fine, Form::Json).unwrap();
    assert_eq!(policies.len(), 2);
    assert_eq!(policies[0]["spec"]["checks"][1]["name"], "y");
    for (text, wanted) in [
        ("{\n\"scaling\": {\n\"a\": {\n\"max\": 2.5\n}\n}\n}", "4: scaling.a.max: `2.5` is not"),
        ("{\"scaling\": {\"a\": {\"max\": 1,\n\"policy\": 5}}}", "2: policy: expected an object"),
        ("{\"scaling\": 5}", "1: scaling: expected an object under a name"),
        ("{\n\"scaling\": {", "2: not JSON"),
        ("[]", "1: expected an object"),
    ] {
        let found = read(text, Form::Json).unwrap_err();
        let messages: Vec<_> = found.iter().map(|f| format!("{}: {}", f.line, f.problem)).collect();
        assert!(messages.iter().any(|s| s.starts_with(wanted)), "{text}: {messages:?}");
    }
}

#[test]
fn values_that_nomad_reads_are_read() {
    let check = |strategy: &str| {
        format!("check \"a\" {{\nquery = \"q\"\nquery_window = \"1m\"\nstrategy {strategy}\n}}")
    };
    for (attributes, strategy, pointer, wanted) in [
        ("max = \"1e1\"", "\"pass-through\" {}", "/max", json!(10)),
        ("max = \"20.0\"", "\"pass-through\" {}", "/max", json!(20)),
        ("max = 2e1", "\"pass-through\" {}", "/max", json!(20)),
        ("max = \"4\" + 5", "\"pass-through\" {}", "/max", json!(9)),
        ("max = [for n in [1, 7]: n * 3][1]", "\"pass-through\" {}", "/max", json!(21)),
        ("max = true ? 5 : 6", "\"pass-through\" {\nmax_scale_up = \"\"\n}", "/max", json!(5)),
        (
            "max = 5",
            "\"threshold\" {\nlower_bound = \"-Inf\"\ndelta = 1\n}",
            "/checks/0/strategy/threshold/lowerBound",
            json!(f64::MIN),
        ),
        (
            "max = 5",
            "\"target-value\" {\ntarget = \"1e1\"\n}",
            "/checks/0/strategy/targetValue/target",
            json!(10.0),
        ),
        (
            "max = 5",
            "\"fixed-value\" {\nvalue = 20.0\n}",
            "/checks/0/strategy/fixedValue/value",
            json!(20),
        ),
    ] {
        let text = file(&format!("enabled = true\n{attributes}"), &check(strategy));
        assert_eq!(faults(&text), Vec::<String>::new(), "{text}");
        let spec = spec(&text, Form::Hcl);
        assert_eq!(spec.pointer(pointer), Some(&wanted), "{text}: {spec}");
    }
    let json =
        r#"{"scaling": {"a": {"max": "${4+5}", "policy": {"target": {"t": {"k": "a${1+1}b"}}}}}}"#;
    let spec = spec(json, Form::Json);
    assert_eq!((&spec["max"], &spec["target"]["named"]["config"]["k"]), (&json!(9), &json!("a2b")));
}

#[test]
fn values_that_nomad_refuses_are_refused() {
    let check =
        "check \"a\" {\nquery = \"q\"\nstrategy \"target-value\" {\ntarget = 1\nVALUE\n}\n}";
    for (attributes, value, wanted) in [
        ("enabled = 1\nmax = 5", "", "2: scaling.web.enabled: expected true or false"),
        ("max = true", "", "2: scaling.web.max: `true` is not a whole number"),
        ("max = null", "", "2: scaling.web.max: must not be null"),
        ("max = 5\nenabled = true", "threshold = null", "target-value.threshold: must not be null"),
        ("max = 5\nenabled = true", "threshold = \"NaN\"", "threshold: `NaN` is not a number"),
        ("max = 5\nenabled = true", "max_scale_up = \"20.0\"", "max_scale_up: `20.0` is not"),
        ("max = 5\nmax = 6", "", "3: max: is set twice in this block"),
        ("max = 5", "threshold = 1\nthreshold = 2", "9: threshold: is set twice in this block"),
    ] {
        let found = faults(&file(attributes, &check.replace("VALUE", value)));
        assert!(found.iter().any(|f| f.contains(wanted)), "{attributes} {value}: {found:#?}");
    }
    for (attribute, wanted) in [
        ("\"max\": null", "scaling.a.max: must not be null"),
        ("\"enabled\": 1, \"max\": 1", "scaling.a.enabled: expected true or false"),
        ("\"max\": 1,\n\"max\": 2", "2: max: is set twice in this block"),
        ("\"max\": \"${var.x}\"", "1: max: there is no variable `var`"),
    ] {
        let text = format!(
            "{{\"scaling\": {{\"a\": {{{attribute}, \"policy\": {{\"target\": {{\"t\": {{}}}}}}}}}}}}"
        );
        let found = read(&text, Form::Json).unwrap_err();
        let messages: Vec<_> = found.iter().map(|f| format!("{}: {}", f.line, f.problem)).collect();
        assert!(messages.iter().any(|s| s.contains(wanted)), "{text}: {messages:?}");
    }
}

#[test]
fn arithmetic_is_exact_or_refused() {
    for (expression, wanted) in [
        ("4 % 0", "max: 4 cannot be divided by zero"),
        ("4 / 0", "max: 4 cannot be divided by zero"),
        ("9223372036854775807 * 9223372036854775807", "is not a whole number of 64 bits"),
        ("18446744073709551615 + 1", "`18446744073709551616` is not a whole number of 64 bits"),
        ("-9223372036854775807 - 9", "`-9223372036854775816` is not a whole number of 64 bits"),
        ("1e300 * 1e300", "max: the result is too large"),
        ("1e999", "not HCL"),
    ] {
        let found = faults(&file(&format!("max = {expression}"), CHECK));
        assert!(found.iter().any(|f| f.contains(wanted)), "{expression}: {found:#?}");
    }
    let text = file("min = 3 - 5\nmax = 9223372036854775808 - 1", CHECK);
    let spec = spec(&text, Form::Hcl);
    assert_eq!((&spec["min"], &spec["max"]), (&json!(-2), &json!(i64::MAX)));
    // Neither depth nor size of an expression is without bounds.
    let deep = format!("max = {}1{}", "(".repeat(50_000), ")".repeat(50_000));
    assert!(!faults(&file(&deep, CHECK)).is_empty());
    let tens = "[0,1,2,3,4,5,6,7,8,9]";
    let loops = (0..12).fold("0".to_owned(), |inner, n| format!("[for v{n} in {tens}: {inner}]"));
    let found = faults(&file(&format!("max = {loops}"), CHECK));
    assert!(found.iter().any(|f| f.contains("makes too large a value")), "{found:#?}");
}

proptest::proptest! {
    #[test]
    fn no_input_makes_the_parser_panic(text in "(scaling|policy|check|\"a\"|[{}\\[\\]=:,\"\\\\ \n]|max|1|-|\\$|é){0,40}") {
        let _ = read(&text, Form::Hcl);
        let _ = read(&text, Form::Json);
    }
}
