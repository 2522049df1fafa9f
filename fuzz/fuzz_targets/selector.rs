//! Feeds `engine::fuzzing::selector`; see there for what must hold.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| engine::fuzzing::selector(data));
