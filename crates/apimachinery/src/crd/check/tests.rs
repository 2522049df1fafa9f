use serde_json::json;

use super::*;

fn errors(schema: Value, value: Value) -> Vec<String> {
    let schema = json!({"type": "object", "properties": {"spec": schema}});
    let schema = Structural::read(&schema).unwrap();
    object(&schema, false, &json!({"spec": value}), None).iter().map(ToString::to_string).collect()
}

#[test]
fn messages_match_kube_apiserver() {
    for (schema, value, expected) in [
        (
            json!({"type": "object"}),
            json!(5),
            r#"spec: Invalid value: "integer": spec in body must be of type object: "integer""#,
        ),
        (json!({"type": "object", "required": ["a"]}), json!({}), "spec.a: Required value"),
        (
            json!({"type": "integer", "multipleOf": 2}),
            json!(3),
            "spec: Invalid value: 3: spec in body should be a multiple of 2",
        ),
        (
            json!({"type": "number", "minimum": 1, "exclusiveMinimum": true}),
            json!(1),
            "spec: Invalid value: 1: spec in body should be greater than 1",
        ),
        (
            json!({"type": "integer", "maximum": 5}),
            json!(9),
            "spec: Invalid value: 9: spec in body should be less than or equal to 5",
        ),
        (
            json!({"type": "integer", "format": "int64"}),
            json!(u64::MAX),
            r#"spec: Invalid value: "number": spec in body must be of type integer: "number""#,
        ),
        (
            json!({"type": "integer", "format": "int32"}),
            json!(5_000_000_000_i64),
            r#"<nil>: Invalid value: "": Checked value must be of type integer with format int32 in spec"#,
        ),
        (
            json!({"type": "string", "format": "date-time"}),
            json!("x"),
            r#"spec: Invalid value: "x": spec in body must be of type date-time: "x""#,
        ),
    ] {
        assert_eq!(errors(schema, value), [expected]);
    }
}

#[test]
fn messages_about_strings_and_collections_match_kube_apiserver() {
    for (schema, value, expected) in [
        (
            json!({"type": "string", "enum": ["a", "b"]}),
            json!("c"),
            r#"spec: Unsupported value: "c": supported values: "a", "b""#,
        ),
        (
            json!({"type": "string", "minLength": 2}),
            json!("b"),
            r#"spec: Invalid value: "b": spec in body should be at least 2 chars long"#,
        ),
        (
            json!({"type": "string", "maxLength": 4}),
            json!("bbbbb"),
            "spec: Too long: may not be more than 4 bytes",
        ),
        (
            json!({"type": "string", "pattern": "^a"}),
            json!("b"),
            r#"spec: Invalid value: "b": spec in body should match '^a'"#,
        ),
        (
            json!({"type": "object", "minProperties": 1}),
            json!({}),
            "spec: Invalid value: 0: spec in body should have at least 1 properties",
        ),
        (
            json!({"type": "array", "minItems": 1}),
            json!([]),
            "spec: Invalid value: 0: spec in body should have at least 1 items",
        ),
        (
            json!({"type": "array", "maxItems": 2}),
            json!([1, 2, 3]),
            "spec: Too many: 3: must have at most 2 items",
        ),
        (
            json!({"type": "array", "x-kubernetes-list-type": "set"}),
            json!(["a", "a"]),
            r#"spec[1]: Duplicate value: "a""#,
        ),
        (
            json!({"x-kubernetes-int-or-string": true}),
            json!(true),
            r#"spec: Invalid value: "boolean": spec in body must be of type integer,string: "boolean""#,
        ),
        (
            json!({"type": "object", "not": {"required": ["a"]}}),
            json!({"a": 1}),
            r#"<nil>: Invalid value: "": "spec" must not validate the schema (not)"#,
        ),
    ] {
        assert_eq!(errors(schema, value), [expected]);
    }
}

#[test]
fn valid_values_have_no_errors() {
    for (schema, value) in [
        (json!({"type": "integer"}), json!(2.0)),
        (json!({"type": "string", "nullable": true}), json!(null)),
        (json!({"x-kubernetes-int-or-string": true}), json!("10%")),
        (
            json!({"type": "object", "oneOf": [{"required": ["a"]}, {"required": ["b"]}]}),
            json!({"a": 1}),
        ),
    ] {
        assert_eq!(errors(schema, value), Vec::<String>::new());
    }
}
