//! The CRDs in `deploy/` are those of the kinds. `PLIMSOLL_BLESS=1` writes them.

use std::fs;
use std::path::Path;

#[test]
fn crds_in_deploy_are_fresh() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/crds");
    let bless = std::env::var_os("PLIMSOLL_BLESS").is_some();
    let mut wanted = Vec::new();
    for kind in plimsoll_api::KINDS {
        let Some(crd) = kind.crd else { continue };
        let name = format!("{}.{}.yaml", kind.plural, kind.group);
        let text = format!(
            "# Generated from the fields of the kind by `cargo xtask generate`.\n{}",
            serde_saphyr::to_string(&crd()).unwrap()
        );
        let path = folder.join(&name);
        if bless {
            fs::create_dir_all(&folder).unwrap();
            fs::write(&path, text).unwrap();
        } else {
            let is_fresh = fs::read_to_string(&path).is_ok_and(|there| there == text);
            assert!(is_fresh, "deploy/crds/{name} is not fresh: run `cargo xtask generate`");
        }
        wanted.push(name);
    }
    for entry in fs::read_dir(&folder).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        if !wanted.contains(&name) {
            assert!(bless, "deploy/crds/{name} belongs to no kind: run `cargo xtask generate`");
            fs::remove_file(entry.path()).unwrap();
        }
    }
}
