//! The `tether` program: everything is in [`tether::cli`].
//!
//! # Place
//! Uses `cli`, and nothing else.

fn main() -> std::process::ExitCode {
    tether::cli::main()
}
