//! The Python interpreter's world: where its standard library and packages lie.
//!
//! # Place
//! Uses nothing of `repo`. Asked once when a project is opened.
//! # Invariants
//! - The interpreter runs isolated (`-I -S`): no user site, no `.pth` code, nothing of the project is
//!   imported (modules of the standard library that are written in C are, for their names). It has
//!   `PYTHON_ANSWER_MS_MAX` to answer.
//! # Sources
//! PEP 405 (virtual environments), the `site` module's documentation (path files).

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Longest wait for the interpreter's answer.
const PYTHON_ANSWER_MS_MAX: u64 = 10_000;
/// Longest answer that is read.
const PYTHON_ANSWER_BYTES_MAX: u64 = 1 << 20;

const QUESTION: &str = "\
import sys, json
paths = []
try:
    import sysconfig
    known = sysconfig.get_paths()
    paths = [known.get('purelib'), known.get('platlib')]
    stdlib = [known.get('stdlib'), known.get('platstdlib')]
except Exception:
    stdlib = []
json.dump({
    'version': list(sys.version_info[:3]),
    'path': [p for p in sys.path if p],
    'stdlib': [p for p in stdlib if p],
    'site': [p for p in paths if p],
    'builtin': list(sys.builtin_module_names),
    'executable': sys.executable,
    'prefix': sys.prefix,
}, sys.stdout)
";

/// Modules of the standard library that are written in C, and the names they have. They are imported for
/// it: none of them is the user's.
const NATIVE_QUESTION: &str = "\
import json, sys
native = {}
for name in '_abc _asyncio _bisect _blake2 _bz2 _codecs _collections _csv _datetime _decimal _elementtree _functools \
_hashlib _heapq _io _json _locale _lzma _md5 _multiprocessing _opcode _operator _pickle _posixsubprocess _queue \
_random _sha1 _sha2 _sha3 _sha256 _sha512 _signal _socket _sre _ssl _stat _statistics _string _struct _symtable \
_thread _tracemalloc _typing _uuid _warnings _weakref _zoneinfo array atexit binascii cmath errno faulthandler \
fcntl gc grp itertools marshal math mmap posix pwd pyexpat resource select sys syslog termios time unicodedata \
zlib'.split():
    try:
        native[name] = dir(__import__(name))
    except Exception:
        pass
json.dump(native, sys.stdout)
";

/// Which interpreter describes the environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PythonChoice {
    /// The project's own virtual environment when it has one, else `python3` of the search path.
    Active,
    Path(PathBuf),
    /// None: the project and the built-in types alone.
    Without,
}

/// What an interpreter said, or why it said nothing.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    pub executable: Option<PathBuf>,
    pub version: Option<(u32, u32, u32)>,
    pub stdlib: Vec<PathBuf>,
    pub packages: Vec<PathBuf>,
    pub builtin_modules: Vec<String>,
    /// Why there is no interpreter, when there is none.
    pub fault: Option<String>,
}

#[derive(serde::Deserialize)]
struct Reply {
    version: Vec<u32>,
    path: Vec<PathBuf>,
    stdlib: Vec<PathBuf>,
    site: Vec<PathBuf>,
    builtin: Vec<String>,
    executable: PathBuf,
}

/// Ask the chosen interpreter.
pub(crate) fn discover(choice: &PythonChoice, root: &Path) -> Environment {
    let program = match choice {
        PythonChoice::Without => {
            return Environment {
                fault: Some("no interpreter was asked for".to_owned()),
                ..Environment::default()
            };
        }
        PythonChoice::Path(path) => path.clone(),
        PythonChoice::Active => [".venv/bin/python", "venv/bin/python", ".venv/Scripts/python.exe"]
            .iter()
            .map(|p| root.join(p))
            .find(|p| p.is_file())
            .unwrap_or_else(|| PathBuf::from("python3")),
    };
    match ask(&program, QUESTION) {
        Ok(reply) => from_reply(&program, reply),
        Err(fault) => Environment {
            fault: Some(format!("{}: {fault}", program.display())),
            ..Environment::default()
        },
    }
}

/// The names of modules written in C; nothing when the interpreter does not say.
pub(crate) fn native_names(program: &Path) -> BTreeMap<String, Vec<String>> {
    ask(program, NATIVE_QUESTION).unwrap_or_default()
}

fn ask<T: serde::de::DeserializeOwned>(program: &Path, question: &str) -> Result<T, String> {
    let mut child = Command::new(program)
        .args(["-I", "-S", "-c", question])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|e| e.to_string())?;
    let stdout = child.stdout.take();
    let reader = std::thread::spawn(move || {
        let mut text = Vec::new();
        if let Some(out) = stdout {
            let _ = out.take(PYTHON_ANSWER_BYTES_MAX).read_to_end(&mut text);
        }
        text
    });
    let deadline = Instant::now() + Duration::from_millis(PYTHON_ANSWER_MS_MAX);
    let status = loop {
        match child.try_wait().map_err(|e| e.to_string())? {
            Some(status) => break status,
            None if Instant::now() >= deadline => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("no answer within {PYTHON_ANSWER_MS_MAX} ms"));
            }
            None => std::thread::sleep(Duration::from_millis(2)),
        }
    };
    if !status.success() {
        return Err(format!("ended with {status}"));
    }
    let text = reader.join().map_err(|_| "its answer could not be read".to_owned())?;
    serde_json::from_slice(&text).map_err(|e| format!("its answer is not what was asked for: {e}"))
}

fn from_reply(program: &Path, reply: Reply) -> Environment {
    let version = match reply.version[..] {
        [a, b, c, ..] => Some((a, b, c)),
        _ => None,
    };
    let (major, minor) = version.map_or((3, 0), |v| (v.0, v.1));
    let mut stdlib: Vec<PathBuf> = Vec::new();
    for path in reply.stdlib.into_iter().chain(reply.path) {
        let is_packages = path.ends_with("site-packages") || path.ends_with("dist-packages");
        if !is_packages && path.is_dir() && !stdlib.contains(&path) {
            stdlib.push(path);
        }
    }
    let mut packages: Vec<PathBuf> = Vec::new();
    let mut add = |path: PathBuf| {
        if path.is_dir() && !packages.contains(&path) {
            packages.push(path);
        }
    };
    let venv = venv_of(program).or_else(|| venv_of(&reply.executable));
    let mut with_system = true;
    if let Some(venv) = &venv {
        add(venv.join(format!("lib/python{major}.{minor}/site-packages")));
        add(venv.join("Lib/site-packages"));
        let config = std::fs::read_to_string(venv.join("pyvenv.cfg")).unwrap_or_default();
        with_system = config.lines().any(|l| {
            let l = l.to_ascii_lowercase().replace(' ', "");
            l == "include-system-site-packages=true"
        });
    }
    if with_system {
        for path in reply.site {
            add(path);
        }
        add(PathBuf::from(format!("/usr/local/lib/python{major}.{minor}/dist-packages")));
        add(PathBuf::from("/usr/lib/python3/dist-packages"));
    }
    let more: Vec<PathBuf> = packages.iter().flat_map(|p| path_files(p)).collect();
    for path in more {
        if path.is_dir() && !packages.contains(&path) {
            packages.push(path);
        }
    }
    Environment {
        executable: Some(reply.executable),
        version,
        stdlib,
        packages,
        builtin_modules: reply.builtin,
        fault: None,
    }
}

/// The virtual environment an executable belongs to (its path is not resolved: the link is the point).
fn venv_of(executable: &Path) -> Option<PathBuf> {
    let bin = executable.parent()?;
    [bin.parent(), Some(bin)]
        .into_iter()
        .flatten()
        .find(|d| d.join("pyvenv.cfg").is_file())
        .map(Path::to_path_buf)
}

/// Folders named by the path files of a packages folder. Lines that are code are not run.
fn path_files(packages: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let Ok(entries) = std::fs::read_dir(packages) else {
        return found;
    };
    for entry in entries.flatten() {
        let path = entry.path();
        if path.extension().is_none_or(|e| e != "pth") || !path.is_file() {
            continue;
        }
        let Ok(text) = std::fs::read_to_string(&path) else {
            continue;
        };
        for line in text.lines().map(str::trim) {
            if !line.is_empty() && !line.starts_with('#') && !line.starts_with("import ") {
                found.push(packages.join(line));
            }
        }
    }
    found.sort();
    found
}

/// The folder of standard library stubs that some installed package carries.
pub(crate) fn find_typeshed(packages: &[PathBuf]) -> Option<PathBuf> {
    const PLACES: [&str; 5] = [
        "mypy/typeshed/stdlib",
        "basedpyright/dist/typeshed-fallback/stdlib",
        "pyright/dist/typeshed-fallback/stdlib",
        "jedi/third_party/typeshed/stdlib",
        "typeshed/stdlib",
    ];
    PLACES
        .iter()
        .flat_map(|place| packages.iter().map(move |p| p.join(place)))
        .find(|p| p.join("builtins.pyi").is_file())
}
