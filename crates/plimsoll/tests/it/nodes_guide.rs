//! The commands and objects of the guide to nodes do what the page says. Every block is taken from the page, and none is left out.

mod certificates;
mod external_grpc;
mod live;
mod moving;
mod shell;

use std::fs;

use serde_json::Value;

use crate::guide::blocks;
use crate::root;

/// The commands that the page has outside of sessions, by a part of each that no other has. Those of sessions run in `guide.rs`.
const COMMANDS: [&str; 9] = [
    live::SAVE,
    live::UP,
    live::WHY,
    moving::GRANT,
    external_grpc::SERVER,
    external_grpc::SECRET,
    external_grpc::OTHER_DIRECTION,
    moving::FORTH,
    moving::BACK,
];
/// The excerpts of objects and files. A test of the provider compares the MachineDeployment with an example, and uses it.
const EXCERPTS: [&str; 4] =
    [moving::OPT_OUT, "kind: MachineDeployment", external_grpc::CONNECTION, external_grpc::CONFIG];

fn page() -> String {
    fs::read_to_string(root().join("docs/guide/nodes.md")).unwrap()
}

/// Returns the only block with a text.
fn block(language: &str, part: &str) -> String {
    let mut found = blocks(&page(), language);
    found.retain(|block| block.contains(part));
    assert_eq!(found.len(), 1, "{part}: {found:?}");
    found.remove(0)
}

#[test]
fn every_command_and_every_excerpt_of_the_page_has_a_test() {
    for (language, parts) in [("sh", &COMMANDS[..]), ("yaml", &EXCERPTS[..])] {
        for part in parts {
            block(language, part);
        }
        let unknown: Vec<String> = blocks(&page(), language)
            .into_iter()
            .filter(|block| !parts.iter().any(|part| block.contains(part)))
            .collect();
        assert_eq!(unknown, Vec::<String>::new(), "{language}");
    }
    for block in blocks(&page(), "json") {
        serde_json::from_str::<Value>(&block).unwrap();
    }
    let languages = ["sh", "yaml", "json", "console"];
    let known: usize = languages.iter().map(|language| blocks(&page(), language).len()).sum();
    let fences = page().lines().filter(|line| line.trim_start().starts_with("```")).count();
    assert_eq!(fences, 2 * known, "each block has a language of these");
}
