#![no_main]

#[path = "../bodies/name_automaton.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|data: &[u8]| body::run(data));
