//! Which files a project has, and which folders its modules are named from.
//!
//! # Place
//! Uses `base`. Used when a project is opened. Reads folders and configuration files only.
//! # Invariants
//! - Every folder is read once (by its canonical path), and none outside the root.
//! - A file belongs to the deepest source root above it.

use super::error::{SkipReason, Skipped};
use crate::base::limit::PYTHON_FILES_MAX;
use rustc_hash::FxHashSet;
use std::path::{Path, PathBuf};

/// What a walk over a project found.
#[derive(Debug, Default)]
pub(crate) struct Layout {
    /// Deepest first.
    pub(crate) roots: Vec<PathBuf>,
    /// Sorted.
    pub(crate) files: Vec<PathBuf>,
    pub(crate) skipped: Vec<Skipped>,
}

/// Walk the project at `root` (canonical). `given` overrides the source roots.
pub(crate) fn scan(root: &Path, given: Option<&[PathBuf]>) -> Layout {
    let mut layout = Layout::default();
    let mut project_dirs = walk(root, &mut layout);
    layout.files.sort();
    let mut roots: Vec<PathBuf> = match given {
        Some(given) => {
            given.iter().map(|g| root.join(g)).map(|g| g.canonicalize().unwrap_or(g)).collect()
        }
        None => {
            project_dirs.push(root.to_path_buf());
            project_dirs.iter().flat_map(|d| roots_of(d)).collect()
        }
    };
    roots.sort_by(|a, b| b.components().count().cmp(&a.components().count()).then(a.cmp(b)));
    roots.dedup();
    layout.roots = roots;
    layout
}

/// Fill in the files; returns folders below the root that are projects of their own.
fn walk(root: &Path, layout: &mut Layout) -> Vec<PathBuf> {
    let mut projects = Vec::new();
    let mut seen: FxHashSet<PathBuf> = FxHashSet::default();
    let mut stack = vec![root.to_path_buf()];
    while let Some(dir) = stack.pop() {
        let canonical = match dir.canonicalize() {
            Ok(path) => path,
            Err(e) => {
                layout.skipped.push(Skipped {
                    path: dir,
                    reason: SkipReason::Unreadable { reason: e.to_string() },
                });
                continue;
            }
        };
        if !seen.insert(canonical) {
            layout.skipped.push(Skipped {
                path: dir,
                reason: SkipReason::Link { reason: "its folder is read already" },
            });
            continue;
        }
        let entries = match std::fs::read_dir(&dir) {
            Ok(entries) => entries,
            Err(e) => {
                layout.skipped.push(Skipped {
                    path: dir,
                    reason: SkipReason::Unreadable { reason: e.to_string() },
                });
                continue;
            }
        };
        let mut is_project = false;
        for entry in entries.flatten() {
            let path = entry.path();
            let Ok(kind) = entry.file_type() else {
                layout.skipped.push(Skipped { path, reason: SkipReason::Vanished });
                continue;
            };
            let name = entry.file_name();
            let name = name.to_string_lossy();
            if kind.is_dir() {
                if !is_left_out(&path, &name) {
                    stack.push(path);
                }
                continue;
            }
            is_project |= matches!(name.as_ref(), "pyproject.toml" | "setup.py" | "setup.cfg");
            let is_python = name.ends_with(".py") || name.ends_with(".pyi");
            if kind.is_symlink() {
                follow(root, path, is_python, &name, layout, &mut stack);
                continue;
            }
            if !is_python {
                continue;
            }
            if !kind.is_file() {
                layout.skipped.push(Skipped { path, reason: SkipReason::NotAFile });
            } else if layout.files.len() >= PYTHON_FILES_MAX {
                layout.skipped.push(Skipped {
                    path,
                    reason: SkipReason::TooManyFiles { n_max: PYTHON_FILES_MAX },
                });
                return projects;
            } else {
                layout.files.push(path);
            }
        }
        if is_project && dir != root {
            projects.push(dir);
        }
    }
    projects
}

fn follow(
    root: &Path,
    path: PathBuf,
    is_python: bool,
    name: &str,
    layout: &mut Layout,
    stack: &mut Vec<PathBuf>,
) {
    let target = path.canonicalize();
    let (inside, is_dir, is_file) = match &target {
        Ok(t) => (t.starts_with(root), t.is_dir(), t.is_file()),
        Err(_) => (false, false, false),
    };
    if target.is_err() {
        if is_python {
            layout
                .skipped
                .push(Skipped { path, reason: SkipReason::Link { reason: "leads nowhere" } });
        }
    } else if is_dir {
        if !inside {
            layout.skipped.push(Skipped {
                path,
                reason: SkipReason::Link { reason: "leads out of the project" },
            });
        } else if !is_left_out(&path, name) {
            stack.insert(0, path); // After every real folder, so that a module keeps its real name.
        }
    } else if is_python && is_file {
        layout.files.push(path);
    } else if is_python {
        layout.skipped.push(Skipped { path, reason: SkipReason::NotAFile });
    }
}

fn is_left_out(path: &Path, name: &str) -> bool {
    name.starts_with('.')
        || matches!(name, "__pycache__" | "node_modules")
        || name.ends_with(".egg-info")
        || name.ends_with(".dist-info")
        || path.join("pyvenv.cfg").is_file()
}

/// The source roots of one project folder.
fn roots_of(dir: &Path) -> Vec<PathBuf> {
    let mut roots = configured(dir);
    let src = dir.join("src");
    if src.is_dir() && !is_package(&src) {
        roots.push(src);
    }
    // Inside a package: modules are named from above its outermost package.
    let mut top = dir.to_path_buf();
    while is_package(&top) {
        match top.parent() {
            Some(parent) => top = parent.to_path_buf(),
            None => break,
        }
    }
    roots.push(top);
    roots.retain(|r| r.is_dir());
    roots.into_iter().map(|r| r.canonicalize().unwrap_or(r)).collect()
}

fn is_package(dir: &Path) -> bool {
    dir.join("__init__.py").is_file() || dir.join("__init__.pyi").is_file()
}

/// Roots that `pyproject.toml` or `setup.cfg` name.
fn configured(dir: &Path) -> Vec<PathBuf> {
    let mut roots = Vec::new();
    if let Ok(text) = std::fs::read_to_string(dir.join("pyproject.toml"))
        && let Ok(table) = text.parse::<toml::Table>()
    {
        let tool = table.get("tool");
        let at = |path: &[&str]| path.iter().try_fold(tool?, |v, k| v.get(k));
        if let Some(toml::Value::Array(list)) = at(&["setuptools", "packages", "find", "where"]) {
            roots.extend(list.iter().filter_map(|v| v.as_str()).map(|s| dir.join(s)));
        }
        if let Some(found) = at(&["setuptools", "package-dir", ""]).and_then(|v| v.as_str()) {
            roots.push(dir.join(found));
        }
        if let Some(toml::Value::Array(list)) = at(&["poetry", "packages"]) {
            roots.extend(list.iter().filter_map(|v| v.get("from")?.as_str()).map(|s| dir.join(s)));
        }
        if let Some(toml::Value::Array(list)) =
            at(&["hatch", "build", "targets", "wheel", "packages"])
        {
            let parents = list.iter().filter_map(|v| Path::new(v.as_str()?).parent());
            roots.extend(parents.map(|p| dir.join(p)));
        }
        if let Some(found) = at(&["pdm", "build", "package-dir"]).and_then(|v| v.as_str()) {
            roots.push(dir.join(found));
        }
    }
    if let Ok(text) = std::fs::read_to_string(dir.join("setup.cfg")) {
        roots.extend(setup_cfg_roots(&text).into_iter().map(|s| dir.join(s)));
    }
    roots
}

/// `package_dir = \n    = src` and `where = src`.
fn setup_cfg_roots(text: &str) -> Vec<String> {
    let mut roots = Vec::new();
    let mut in_package_dir = false;
    for line in text.lines() {
        let indented = line.starts_with([' ', '\t']);
        let line = line.trim();
        let Some((key, value)) = line.split_once('=') else {
            in_package_dir &= indented || line.is_empty();
            continue;
        };
        let (key, value) = (key.trim(), value.trim());
        if !indented {
            in_package_dir = key == "package_dir" || key == "package-dir";
        }
        let from_dir = in_package_dir && (key.is_empty() || !indented);
        if (from_dir || key == "where") && !value.is_empty() {
            roots.push(value.trim_start_matches('=').trim().to_owned());
        }
    }
    roots
}

/// The dotted name of the module in `path`, and whether it is a package.
pub(crate) fn module_name(path: &Path, roots: &[PathBuf]) -> Option<(String, bool)> {
    let root = roots.iter().find(|r| path.starts_with(r))?;
    let relative = path.strip_prefix(root).ok()?;
    let mut parts: Vec<String> =
        relative.iter().map(|c| c.to_string_lossy().into_owned()).collect();
    let file = parts.pop()?;
    let stem = file.strip_suffix(".pyi").or_else(|| file.strip_suffix(".py"))?;
    let is_package = stem == "__init__";
    if !is_package {
        parts.push(stem.to_owned());
    }
    if let Some(first) = parts.first_mut()
        && let Some(plain) = first.strip_suffix("-stubs")
    {
        *first = plain.to_owned();
    }
    if parts.is_empty() {
        return None;
    }
    Some((parts.join("."), is_package))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_are_named_from_the_deepest_root() {
        let roots = [PathBuf::from("/p/src"), PathBuf::from("/p")];
        let name = |p: &str| module_name(Path::new(p), &roots);
        assert_eq!(name("/p/src/a/b.py"), Some(("a.b".to_owned(), false)));
        assert_eq!(name("/p/src/a/__init__.pyi"), Some(("a".to_owned(), true)));
        assert_eq!(name("/p/tests/t.py"), Some(("tests.t".to_owned(), false)));
        assert_eq!(name("/p/src/a-stubs/b.pyi"), Some(("a.b".to_owned(), false)));
        assert_eq!(name("/q/x.py"), None);
    }

    #[test]
    fn setup_cfg_names_its_source_folder() {
        assert_eq!(
            setup_cfg_roots("[options]\npackage_dir =\n    = lib\npackages = find:\n"),
            ["lib"]
        );
        assert_eq!(setup_cfg_roots("[options.packages.find]\nwhere = src\n"), ["src"]);
    }
}
