//! Feeds `apiserver::fuzzing::url`; see there for what must hold.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| apiserver::fuzzing::url(data));
