//! Runs the inputs that the fuzzer has found.

use std::path::Path;

use plimsoll_apiserver::fuzzing;

#[test]
fn every_input_of_the_corpus_keeps_the_laws() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    for (name, target) in apimachinery::fuzzing::TARGETS.into_iter().chain(fuzzing::TARGETS) {
        let inputs: Vec<_> = std::fs::read_dir(corpus.join(name))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        assert!(inputs.len() >= 8, "{name} has {} inputs", inputs.len());
        for input in inputs {
            let data = std::fs::read(&input).unwrap();
            let kept = std::panic::catch_unwind(|| target(&data));
            assert!(kept.is_ok(), "{name} breaks on {}", input.display());
        }
    }
}
