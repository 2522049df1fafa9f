use serde_json::json;

use super::*;
use crate::schema::Types;

fn pod() -> Option<Shape<'static>> {
    Types::builtin().kind("", "v1", "Pod")
}

fn decoded(text: &str) -> Decoded {
    json(text.as_bytes(), pod()).unwrap()
}

#[test]
fn unknown_and_duplicate_fields_are_listed_in_document_order() {
    let text = r#"{"metadata":{"name":"a","name":"b","labels":{"a":"b","a":"c"}},"foo":1,
        "spec":{"a":1,"a":2,"containers":[{"x":1,"name":"a","name":"b"},{"x":1}]}}"#;
    assert_eq!(
        decoded(text).strict,
        [
            r#"duplicate field "metadata.name""#,
            r#"duplicate field "metadata.labels.a""#,
            r#"unknown field "foo""#,
            r#"unknown field "spec.a""#,
            r#"unknown field "spec.containers[0].x""#,
            r#"duplicate field "spec.containers[0].name""#,
            r#"unknown field "spec.containers[1].x""#,
        ]
    );
}

#[test]
fn type_errors_match_go() {
    let with = |spec: &str| format!(r#"{{"kind":"Pod","spec":{spec}}}"#);
    for (spec, expected) in [
        ("5", "json: cannot unmarshal number into Go struct field Pod.spec of type v1.PodSpec"),
        (
            r#"{"containers":"x"}"#,
            "json: cannot unmarshal string into Go struct field PodSpec.spec.containers of type []v1.Container",
        ),
        (
            r#"{"containers":[5]}"#,
            "json: cannot unmarshal number into Go struct field PodSpec.spec.containers of type v1.Container",
        ),
        (
            r#"{"containers":[{"ports":[{"containerPort":80.5}]}]}"#,
            "json: cannot unmarshal number 80.5 into Go struct field ContainerPort.spec.containers.ports.containerPort of type int32",
        ),
        (
            r#"{"nodeSelector":{"a":5}}"#,
            "json: cannot unmarshal number into Go struct field PodSpec.spec.nodeSelector of type string",
        ),
        (
            r#"{"nodeSelector":[]}"#,
            "json: cannot unmarshal array into Go struct field PodSpec.spec.nodeSelector of type map[string]string",
        ),
        (
            r#"{"containers":[{"livenessProbe":{"httpGet":{"port":true}}}]}"#,
            "json: cannot unmarshal bool into Go struct field HTTPGetAction.spec.containers.livenessProbe.ProbeHandler.httpGet.port of type int32",
        ),
        (
            r#"{"volumes":[{"emptyDir":5}]}"#,
            "json: cannot unmarshal number into Go struct field Volume.spec.volumes.VolumeSource.emptyDir of type v1.EmptyDirVolumeSource",
        ),
        (
            r#"{"containers":[{"resources":{"limits":"x"}}]}"#,
            "json: cannot unmarshal string into Go struct field ResourceRequirements.spec.containers.resources.limits of type v1.ResourceList",
        ),
        (
            r#"{"hostNetwork":"true"}"#,
            "json: cannot unmarshal string into Go struct field PodSpec.spec.hostNetwork of type bool",
        ),
    ] {
        let error = json(with(spec).as_bytes(), pod()).unwrap_err();
        assert_eq!(error.to_string(), expected, "{spec}");
    }
    let time = r#"{"metadata":{"creationTimestamp":5}}"#;
    assert_eq!(
        json(time.as_bytes(), pod()).unwrap_err().to_string(),
        "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.creationTimestamp of type string"
    );
}

#[test]
fn empty_fields_follow_gos_serialization_rules() {
    let text = r#"{"metadata":{"name":"a","labels":{},"annotations":{"a":null}},
        "spec":{"hostNetwork":false,"terminationGracePeriodSeconds":0,"containers":[{"name":"a","command":[null],
        "resources":{"limits":{"cpu":0.1,"memory":"1024Mi"}},"ports":[{"hostPort":0}]}]}}"#;
    assert_eq!(
        decoded(text).value,
        json!({"metadata": {"name": "a", "annotations": {"a": ""}},
            "spec": {"terminationGracePeriodSeconds": 0, "containers": [{"name": "a", "command": [""],
            "resources": {"limits": {"cpu": "100m", "memory": "1Gi"}}, "ports": [{"containerPort": 0}]}]},
            "status": {}})
    );
}

#[test]
fn without_a_shape_all_fields_are_kept_and_duplicates_listed() {
    let decoded = json(br#"{"a":{"b":null,"b":1},"c":[]}"#, None).unwrap();
    assert_eq!(decoded.value, json!({"a": {"b": 1}, "c": []}));
    assert_eq!(decoded.strict, [r#"duplicate field "a.b""#]);
}
