//! The command line: arguments in, text or JSON out, exit codes.
//!
//! # Place
//! The top of the crate: uses everything, used by `main.rs` only.

use std::process::ExitCode;

/// Run the program with the arguments of the process.
pub fn main() -> ExitCode {
    ExitCode::SUCCESS
}
