//! Request bodies: valid ones with random mutations.

use serde_json::{Map, Value, json};

use crate::kill::Random;

const DEPTHS: [usize; 9] = [30, 64, 100, 119, 127, 129, 500, 5000, 100_000];

/// Changes a valid object at random and writes it down.
pub(super) fn changed(mut value: Value, random: &mut Random, grows: bool) -> Vec<u8> {
    let mut insertions = Vec::new();
    for _ in 0..random.below(4) {
        let mut at = random.below(count(&value));
        let root = if random.below(8) == 0 { value.clone() } else { Value::Null };
        if let Some(node) = nth(&mut value, &mut at) {
            *node = other(node, root, random, grows, &mut insertions);
        }
    }
    let mut text = value.to_string();
    for (index, insertion) in insertions.iter().enumerate() {
        text = text.replacen(&format!("\"{}\"", mark(index)), insertion, 1);
    }
    spoiled(text.into_bytes(), random)
}

/// Returns what stands for a text that is no JSON value of ours.
fn mark(index: usize) -> String {
    format!("@insertion-{index}@")
}

fn count(value: &Value) -> u64 {
    1 + match value {
        Value::Array(items) => items.iter().map(count).sum(),
        Value::Object(members) => members.values().map(count).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}

/// Finds a value by its place in the order of the text.
fn nth<'a>(value: &'a mut Value, at: &mut u64) -> Option<&'a mut Value> {
    if *at == 0 {
        return Some(value);
    }
    *at -= 1;
    match value {
        Value::Array(items) => items.iter_mut().find_map(|item| nth(item, at)),
        Value::Object(members) => members.values_mut().find_map(|member| nth(member, at)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}

/// Returns a different value to replace `old`. Numbers stay small where large ones only cost time.
fn other(
    old: &Value,
    root: Value,
    random: &mut Random,
    grows: bool,
    insertions: &mut Vec<String>,
) -> Value {
    let mut insert = |text: String| {
        insertions.push(text);
        Value::String(mark(insertions.len() - 1))
    };
    match random.below(20) {
        0 => Value::Null,
        1 => json!(true),
        2 if grows => json!(-1),
        2 => {
            random.pick(&[json!(i64::MIN), json!(i64::MAX), json!(u64::MAX), json!(1e300)]).clone()
        }
        3 if grows => json!(-2_147_483_649_i64),
        3 => insert(
            (*random.pick(&["1e999", "-1e999", "99999999999999999999999", "0.1e-400"])).to_owned(),
        ),
        4 => insert((*random.pick(&["NaN", "01", "-", "'a'", "{,}", "[1,]", "tru"])).to_owned()),
        5 => json!(""),
        6 => Value::String("x".repeat(1 << random.below(18))),
        7 => json!("\u{0}\u{7f}\u{202e}\u{fffd}/../../%00 \n\r\t\"\\"),
        8 => json!([]),
        9 => json!({}),
        10 => Value::Array(vec![old.clone(); 1 + random.below(200) as usize]),
        11 => (0..random.below(2000))
            .map(|i| (format!("unknown{i}"), old.clone()))
            .collect::<Map<_, _>>()
            .into(),
        12 | 13 => {
            let depth = *random.pick(&DEPTHS);
            insert(format!("{}{}", "[".repeat(depth), "]".repeat(depth)))
        }
        14 | 15 => {
            let depth = *random.pick(&DEPTHS);
            insert(format!("{}1{}", r#"{"a":"#.repeat(depth), "}".repeat(depth)))
        }
        16 => insert(r#"{"a":1,"a":2,"a":{"b":1,"b":2}}"#.to_owned()),
        17 => root,
        18 => json!([old, old]),
        _ => json!(0.5),
    }
}

/// Sometimes breaks the text itself: cut off, with bytes that do not belong there, or padded to a great length.
fn spoiled(mut text: Vec<u8>, random: &mut Random) -> Vec<u8> {
    match random.below(24) {
        0 => text.truncate(random.below(text.len() as u64 + 1) as usize),
        1 => {
            for _ in 0..1 + random.below(8) {
                let at = random.below(text.len() as u64 + 1) as usize;
                text.insert(at, random.next() as u8);
            }
        }
        2 => text.extend(vec![b' '; 1 << random.below(22)]),
        3 => text.extend_from_slice(&text.clone()),
        _ => {}
    }
    text
}

/// Makes operations of a JSON patch: at random, or one that doubles the object again and again.
pub(super) fn json_patch(random: &mut Random) -> Value {
    const PLACES: [&str; 14] = [
        "",
        "/",
        "/metadata",
        "/metadata/labels",
        "/metadata/managedFields",
        "/data",
        "/data/a",
        "/data/-",
        "/spec",
        "/status",
        "/a/b/c",
        "/metadata/labels/~1",
        "/data/~2",
        "/metadata/managedFields/99999999999999999999",
    ];
    if random.below(3) == 0 {
        let to = *random.pick(&["/data/a", "/metadata/annotations/a", "/spec/a", "/data"]);
        let from = *random.pick(&["", "/metadata", "/data"]);
        let copies = *random.pick(&[2, 5, 13, 14, 20, 40]);
        return json!(vec![json!({"op": "copy", "from": from, "path": to}); copies]);
    }
    let length = *random.pick(&[0, 1, 3, 10, 1000]);
    let operations = (0..length).map(|_| {
        let op = *random.pick(&["add", "remove", "replace", "move", "copy", "test", "paint"]);
        let (path, from) = (*random.pick(&PLACES), *random.pick(&PLACES));
        let value = random
            .pick(&[json!(null), json!("x"), json!({"a": {}}), json!([[]]), json!(-1)])
            .clone();
        json!({"op": op, "path": path, "from": from, "value": value})
    });
    operations.collect()
}

/// Returns YAML whose aliases expand exponentially.
pub(super) fn aliases() -> Vec<u8> {
    let mut text = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..12 {
        let before = format!("*a{}", level - 1);
        text += &format!("a{level}: &a{level} [{}]\n", [before.as_str(); 9].join(", "));
    }
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: aliases}}\n{text}").into_bytes()
}

/// Returns random bytes with the prefix of Kubernetes' protobuf.
pub(super) fn protobuf(random: &mut Random) -> Vec<u8> {
    let mut bytes = b"k8s\0\n\x0f\n\x02v1\x12\tConfigMap\x12".to_vec();
    bytes.extend((0..random.below(300)).map(|_| random.next() as u8));
    bytes
}
