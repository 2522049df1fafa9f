//! Feeds `apimachinery::fuzzing::json_patch`; see there for what must hold.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| apimachinery::fuzzing::json_patch(data));
