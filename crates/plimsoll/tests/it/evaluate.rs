//! How `evaluate` treats input that it cannot use.

use std::fs;

use crate::plimsoll;

#[test]
fn problems_name_file_document_and_field() {
    let folder = tempfile::tempdir().unwrap();
    for (name, text, wanted) in [
        ("a.yaml", "kind: [\n", "not YAML"),
        ("b.json", "{", "not JSON"),
        ("c.yaml", "a: 1\n---\n7\n", "document 1: kind: required"),
        ("c.yaml", "kind: ConfigMap\n---\n7\n", "document 2: expected an object"),
    ] {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        let done = plimsoll().args(["evaluate", "-f"]).arg(&path).output().unwrap();
        let said = String::from_utf8(done.stderr).unwrap();
        assert_eq!(done.status.code(), Some(2), "{said}");
        assert!(
            said.starts_with(&format!("{}: ", path.display())) && said.contains(wanted),
            "{said}"
        );
    }
}
