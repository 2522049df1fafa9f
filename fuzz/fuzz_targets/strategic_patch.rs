//! Feeds `apimachinery::fuzzing::strategic_patch`; see there for what must hold.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| apimachinery::fuzzing::strategic_patch(data));
