#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| gas_suggestion_fuzz::call(data));
