//! Any text as a Python file, any place in it: names are listed or not, in bounded time.

use std::cell::RefCell;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tether::base::{CandidateSource, Query};
use tether::complete::NativeTool;
use tether::repo::{Project, ProjectConfig, PythonChoice};

/// Longest that one question may take here; its deadline is shorter.
const TIME_MAX: Duration = Duration::from_secs(5);

thread_local! {
    static TOOL: RefCell<NativeTool> = RefCell::new(tool());
}

fn root() -> &'static Path {
    // The fuzz crate lies one folder deeper.
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let outer = here.parent().filter(|_| here.ends_with("fuzz")).unwrap_or(here);
    Box::leak(outer.join("examples/inventory").into_boxed_path())
}

fn tool() -> NativeTool {
    let mut config = ProjectConfig::new(root());
    config.python = PythonChoice::Without;
    config.n_threads = 1;
    NativeTool::new(Arc::new(Project::open(config).expect("a committed project").0))
}

/// The first two bytes say where the cursor is. Returns whether names were listed.
pub fn run(data: &[u8]) -> bool {
    let Some((at, text)) = data.split_first_chunk::<2>() else {
        return false;
    };
    let text = String::from_utf8_lossy(text);
    let mut offset = usize::from(u16::from_le_bytes(*at)) % (text.len() + 1);
    while !text.is_char_boundary(offset) {
        offset -= 1;
    }
    ask(&text, offset)
}

/// Ask at one place of a text that stands for a file of the project.
pub fn ask(text: &str, offset: usize) -> bool {
    thread_local!(static FILE: std::path::PathBuf = root().join("stockroom/store.py"));
    let started = Instant::now();
    let deadline = started + Duration::from_secs(1);
    let found = FILE.with(|path| {
        let query = Query { path, text, offset, deadline };
        TOOL.with_borrow_mut(|tool| tool.candidates(&query))
    });
    assert!(started.elapsed() < TIME_MAX, "{:?}", started.elapsed());
    assert!(found.start_byte <= offset);
    assert!(found.names.windows(2).all(|w| w[0].name < w[1].name), "sorted and distinct");
    assert_ne!(found.reason.as_deref(), Some("the analysis failed on this file"));
    !found.names.is_empty()
}
