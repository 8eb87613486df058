//! Running the program as a user does: arguments in, output and exit code out.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What one run of the program left behind.
pub(crate) struct Run {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Run {
    /// Standard output as JSON.
    #[track_caller]
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|e| panic!("{e} in {:?}; messages: {}", self.stdout, self.stderr))
    }
}

/// Run `tether` with a cache folder of its own.
pub(crate) fn tether(args: &[&str]) -> Run {
    let home = std::env::temp_dir().join("tether-tests-home");
    let out = Command::new(env!("CARGO_BIN_EXE_tether"))
        .args(args)
        .env("TETHER_HOME", home)
        .stdin(Stdio::null())
        .output()
        .expect("the program starts");
    Run {
        code: out.status.code().expect("it is not killed"),
        stdout: String::from_utf8(out.stdout).expect("UTF-8"),
        stderr: String::from_utf8_lossy(&out.stderr).into_owned(),
    }
}

/// A tiny model of the tests.
pub(crate) fn tiny(name: &str) -> String {
    data("models").join(name).display().to_string()
}

pub(crate) fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

/// A run that must fail with exit code 2 and one message that holds every one of `parts`.
#[track_caller]
pub(crate) fn refused(args: &[&str], parts: &[&str]) {
    let run = tether(args);
    assert_eq!(run.code, 2, "{args:?}: {}{}", run.stdout, run.stderr);
    assert!(run.stdout.is_empty(), "{args:?} printed {:?}", run.stdout);
    assert!(!run.stderr.contains("panicked"), "{}", run.stderr);
    for part in parts {
        assert!(run.stderr.contains(part), "{args:?}: {part:?} is not in {:?}", run.stderr);
    }
}
