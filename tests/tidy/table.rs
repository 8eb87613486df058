//! What the rules check against: levels, crates, places, sizes.

/// The folders of `src/` and their levels: a folder uses only folders with a lower level.
pub(crate) const LEVELS: &[(u32, &[&str])] = &[
    (0, &["base"]),
    (1, &["format", "device", "repo", "sandbox"]),
    (2, &["tokenizer", "kv", "complete"]),
    (3, &["model", "constrain"]),
    (4, &["engine", "augment"]),
    (5, &["runtime"]),
    (6, &["refine"]),
    (7, &["serve", "batch", "profile"]),
    (8, &["bench"]),
    (9, &["cli"]),
];

/// Folders that speak JSON or TOML at their edge. The engine and what it runs on do not.
pub(crate) const SPEAKS_JSON: &[&str] = &[
    "format",
    "repo",
    "tokenizer",
    "complete",
    "model",
    "constrain",
    "augment",
    "runtime",
    "refine",
    "serve",
    "batch",
    "profile",
    "bench",
    "cli",
];

/// Which places under `src/` may name an outside crate; `*` is every folder. A dependency that is not
/// listed here fails: who may use it is part of adding it. Test code is not bound by this table.
pub(crate) const CRATES: &[(&str, &[&str])] = &[
    ("anyhow", &["cli"]),
    ("clap", &["cli"]),
    ("indicatif", &["cli"]),
    ("directories", &["runtime", "cli"]),
    ("half", &["format", "device", "model"]),
    ("bytemuck", &["format", "device", "model"]),
    ("memmap2", &["format"]),
    ("safetensors", &["format"]),
    ("serde", SPEAKS_JSON),
    ("serde_json", SPEAKS_JSON),
    ("toml", &["repo", "runtime", "cli"]),
    ("sha2", &["format", "augment", "runtime", "bench"]),
    ("tempfile", &["sandbox", "runtime", "bench", "cli"]),
    ("hf-hub", &["runtime"]),
    ("zip", &["runtime"]),
    ("minijinja", &["tokenizer"]),
    ("minijinja-contrib", &["tokenizer"]),
    ("tokenizers", &["tokenizer"]),
    ("aho-corasick", &["tokenizer"]),
    ("fancy-regex", &["model"]),
    ("unicode-normalization", &["repo", "tokenizer", "complete", "constrain", "augment"]),
    ("tree-sitter", &["repo"]),
    ("tree-sitter-python", &["repo"]),
    ("rusqlite", &["repo"]),
    ("cudarc", &["device/cuda"]),
    ("llguidance", &["constrain"]),
    ("toktrie", &["constrain"]),
    ("similar", &["cli"]),
    ("rand_chacha", &["engine"]),
    ("rustix", &["sandbox", "complete"]),
    ("axum", &["serve"]),
    ("tokio", &["serve"]),
    ("libc", &["format", "device", "sandbox", "complete"]),
    ("rustc-hash", &["*"]),
    ("smallvec", &["*"]),
    ("thiserror", &["*"]),
];

/// Parts of the standard library that reach outside the program, and who may use them.
pub(crate) const STD_PATHS: &[(&str, &[&str])] = &[
    ("std::env::var", &["cli"]),
    ("std::env::var_os", &["cli"]),
    ("std::env::vars", &["cli"]),
    ("std::env::args", &["cli"]),
    ("std::env::set_var", &[]),
    ("std::process::Command", &["repo", "sandbox", "complete", "runtime"]),
    ("std::process::exit", &[]),
    ("std::net", &["runtime", "serve", "cli"]),
];

/// Where `unsafe` may be opened, always file by file: SIMD and drivers, the mmap file, the rlimit file,
/// the file that asks where a stack ends.
pub(crate) const UNSAFE_PLACES: &[&str] = &[
    "src/device/cpu/",
    "src/device/cuda/",
    "src/device/emu/",
    "src/format/map",
    "src/sandbox/",
    "src/complete/native/stack",
];

pub(crate) const FILE_LINES_MAX: usize = 800;
/// Files over [`FILE_LINES_MAX`] with the length they may have. This list only shrinks.
pub(crate) const LONG_FILES: &[(&str, usize)] = &[];

pub(crate) const FUNCTION_LINES_MAX: usize = 70;
/// Functions over [`FUNCTION_LINES_MAX`], as `file::function`. This list only shrinks.
pub(crate) const LONG_FUNCTIONS: &[&str] = &[
    "src/constrain/grammar.rs::to_top_level",
    "src/repo/infer/expression.rs::expr_inner",
    "src/repo/infer/flow.rs::header",
    "src/repo/infer/flow.rs::statement",
    "src/repo/infer/narrow.rs::capture",
    "src/repo/layout.rs::walk",
    "src/repo/scope.rs::statement",
    "src/repo/syntax/display.rs::brace_display",
    "src/repo/syntax/expression.rs::primary",
    "src/repo/syntax/lexer.rs::next",
];

/// Names that say nothing about what is inside.
pub(crate) const EMPTY_NAMES: &[&str] =
    &["util", "utils", "helper", "helpers", "common", "misc", "manager", "managers"];
