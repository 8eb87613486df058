//! The `tether` program: everything is in [`tether::cli`].

fn main() -> std::process::ExitCode {
    tether::cli::main()
}
