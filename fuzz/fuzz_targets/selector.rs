//! Feeds `apimachinery::fuzzing::selector`; see there for what must hold.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| apimachinery::fuzzing::selector(data));
