use super::*;
use crate::fields::{reset, update};
use crate::schema::Types;
use jiff::Timestamp;
use serde_json::json;

fn shape<'a>(api_version: &str) -> Option<Shape<'a>> {
    match api_version {
        "v1" => Types::builtin().kind("", "v1", "ConfigMap"),
        "apps/v1" => Types::builtin().kind("apps", "v1", "Deployment"),
        _ => None,
    }
}

fn write<'a>(api_version: &'a str, manager: &'a str, seconds: i64) -> WriteContext<'a> {
    WriteContext {
        api_version,
        shape: &shape,
        is_builtin: true,
        manager,
        subresource: "",
        ignored: reset(true, "", false, ""),
        now: Timestamp::from_second(seconds).unwrap(),
    }
}

fn config(data: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data})
}

fn managers(object: &Value) -> Vec<(String, String, Value)> {
    let entries = object["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    entries
        .iter()
        .map(|e| (text(&e["manager"]), text(&e["operation"]), e["fieldsV1"].clone()))
        .collect()
}

#[test]
fn applied_fields_are_owned_and_omitted_ones_are_removed() {
    let first =
        apply(None, &config(&json!({"a": "1", "b": "2"})), &write("v1", "me", 1), false).unwrap();
    assert_eq!(first["data"], json!({"a": "1", "b": "2"}));
    assert_eq!(
        managers(&first),
        [("me".into(), "Apply".into(), json!({"f:data": {"f:a": {}, "f:b": {}}}))]
    );
    let second =
        apply(Some(&first), &config(&json!({"a": "1"})), &write("v1", "me", 2), false).unwrap();
    assert_eq!(second["data"], json!({"a": "1"}));
    assert_eq!(second["metadata"]["managedFields"][0]["time"], "1970-01-01T00:00:02Z");
}

#[test]
fn applying_the_same_configuration_again_changes_nothing() {
    let first = apply(None, &config(&json!({"a": "1"})), &write("v1", "me", 1), false).unwrap();
    assert_eq!(
        apply(Some(&first), &config(&json!({"a": "1"})), &write("v1", "me", 9), false).unwrap(),
        first
    );
}

#[test]
fn a_shared_field_stays_until_its_last_owner_omits_it() {
    let first = apply(None, &config(&json!({"a": "1"})), &write("v1", "me", 1), false).unwrap();
    let both =
        apply(Some(&first), &config(&json!({"a": "1"})), &write("v1", "you", 2), false).unwrap();
    assert_eq!(managers(&both).len(), 2);
    let one = apply(Some(&both), &config(&json!({})), &write("v1", "me", 3), false).unwrap();
    assert_eq!(one["data"], json!({"a": "1"}));
    let none = apply(Some(&one), &config(&json!({})), &write("v1", "you", 4), false).unwrap();
    assert_eq!(none["data"].get("a"), None);
}

#[test]
fn fields_of_other_managers_conflict_unless_forced() {
    let mut live = config(&json!({"a": "1", "b": "2"}));
    update(None, &mut live, &write("v1", "kubectl-create", 1));
    let wanted = config(&json!({"a": "9"}));
    let Err(Error::Conflicts(conflicts)) =
        apply(Some(&live), &wanted, &write("v1", "me", 2), false)
    else {
        panic!()
    };
    assert_eq!(
        conflicts.to_string(),
        "Apply failed with 1 conflict: conflict with \"kubectl-create\" using v1: .data.a"
    );
    let forced = apply(Some(&live), &wanted, &write("v1", "me", 2), true).unwrap();
    assert_eq!(forced["data"], json!({"a": "9", "b": "2"}));
    assert_eq!(
        managers(&forced),
        [
            ("me".into(), "Apply".into(), json!({"f:data": {"f:a": {}}})),
            ("kubectl-create".into(), "Update".into(), json!({"f:data": {".": {}, "f:b": {}}}))
        ]
    );
    let wanted = config(&json!({"a": "9", "b": "9"}));
    let two = apply(Some(&live), &wanted, &write("v1", "me", 2), false).unwrap_err();
    assert_eq!(
        two.to_string(),
        "Apply failed with 2 conflicts: conflicts with \"kubectl-create\" using v1:\n- .data.a\n- .data.b"
    );
}

#[test]
fn an_update_takes_ownership_of_changed_fields() {
    let first =
        apply(None, &config(&json!({"a": "1", "b": "2"})), &write("v1", "me", 1), false).unwrap();
    let mut second = first.clone();
    second["data"]["a"] = json!("7");
    update(Some(&first), &mut second, &write("v1", "you", 2));
    assert_eq!(
        managers(&second),
        [
            ("me".into(), "Apply".into(), json!({"f:data": {"f:b": {}}})),
            ("you".into(), "Update".into(), json!({"f:data": {"f:a": {}}}))
        ]
    );
}

#[test]
fn reset_managers_stay_reset_until_the_next_apply() {
    let mut live = config(&json!({"a": "1"}));
    update(None, &mut live, &write("v1", "me", 1));
    let mut reset = live.clone();
    reset["metadata"]["managedFields"] = json!([{}]);
    update(Some(&live), &mut reset, &write("v1", "me", 2));
    assert_eq!(reset["metadata"].get("managedFields"), None);
    let mut again = reset.clone();
    again["data"]["a"] = json!("2");
    update(Some(&reset), &mut again, &write("v1", "me", 3));
    assert_eq!(again["metadata"].get("managedFields"), None);
    let applied =
        apply(Some(&again), &config(&json!({"b": "1"})), &write("v1", "me", 4), false).unwrap();
    assert_eq!(
        managers(&applied),
        [
            ("me".into(), "Apply".into(), json!({"f:data": {"f:b": {}}})),
            ("before-first-apply".into(), "Update".into(), json!({"f:data": {".": {}, "f:a": {}}}))
        ]
    );
}

#[test]
fn the_oldest_updaters_are_merged() {
    let mut live = config(&json!({}));
    for n in 0..12 {
        let mut next = live.clone();
        next["data"][format!("k{n:02}")] = json!("v");
        let manager = format!("m{n:02}");
        let old = (n > 0).then_some(&live);
        update(old, &mut next, &write("v1", &manager, n));
        live = next;
    }
    let names: Vec<String> = managers(&live).into_iter().map(|(name, _, _)| name).collect();
    assert_eq!(names.len(), 10);
    assert!(
        names.contains(&"ancient-changes".into()) && !names.contains(&"m02".into()),
        "{names:?}"
    );
}

#[test]
fn list_items_belong_to_the_manager_that_applies_them() {
    let deployment = |containers: Value| {
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"},
               "spec": {"template": {"spec": {"containers": containers}}}})
    };
    let me = write("apps/v1", "me", 1);
    let first = apply(None, &deployment(json!([{"name": "a", "image": "1"}])), &me, false).unwrap();
    let you = write("apps/v1", "you", 1);
    let both = apply(Some(&first), &deployment(json!([{"name": "b", "image": "1"}])), &you, false)
        .unwrap();
    let containers = &both["spec"]["template"]["spec"]["containers"];
    assert_eq!(*containers, json!([{"name": "a", "image": "1"}, {"name": "b", "image": "1"}]));
    let swapped =
        apply(Some(&both), &deployment(json!([{"name": "c", "image": "1"}])), &me, false).unwrap();
    let names: Vec<&Value> = swapped["spec"]["template"]["spec"]["containers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|container| &container["name"])
        .collect();
    assert_eq!(names, ["b", "c"]);
}

#[test]
fn messages_about_wrong_types_match_kube_apiserver() {
    let wrong = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "n"}, "foo": 1});
    assert_eq!(
        apply(None, &wrong, &write("v1", "me", 1), false).unwrap_err().to_string(),
        "failed to create typed patch object (n/a; /v1, Kind=ConfigMap): .foo: field not declared in schema"
    );
    let kind = check_kind(&wrong, "apps/v1", "Deployment").unwrap_err();
    assert_eq!(kind.to_string(), "invalid object type: /v1, Kind=ConfigMap");
    let managed = json!({"metadata": {"managedFields": []}});
    let managed = apply(None, &managed, &write("v1", "me", 1), false).unwrap_err();
    assert_eq!(managed.to_string(), "metadata.managedFields must be nil");
}

/// Objects as kube-apiserver 1.36.3 returned them on creation, of kinds for which it sets no fields itself.
#[test]
fn creating_an_object_records_the_same_fields_as_kube_apiserver() {
    let objects = include_str!("../../../tests/data/managed-fields.json");
    let objects: Vec<Value> = serde_json::from_str(objects).unwrap();
    assert_eq!(objects.len(), 10);
    for object in objects {
        let (api_version, kind) =
            (object["apiVersion"].as_str().unwrap(), object["kind"].as_str().unwrap());
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let shape = |_: &str| Types::builtin().kind(group, version, kind);
        let mut new = object.clone();
        clear(&mut new);
        let ignored = reset(true, kind, true, "");
        update(
            None,
            &mut new,
            &WriteContext { shape: &shape, ignored, ..write(api_version, "tester", 0) },
        );
        let fields = |object: &Value| object["metadata"]["managedFields"][0]["fieldsV1"].clone();
        assert_eq!(fields(&new), fields(&object), "{kind}");
    }
}
