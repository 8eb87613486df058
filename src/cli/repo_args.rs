//! The arguments that say which repository is worked on, and who is asked about it.
//!
//! # Place
//! Part of `cli`; shared by the verbs that need a repository.

use super::env::Environment;
use super::output::message;
use crate::base::{LineCol, LineIndex};
use crate::repo::{IndexReport, Project, ProjectConfig, PythonChoice, Snapshot};
use crate::runtime::{Repository, ToolChoice};
use anyhow::Context;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Which repository, and who lists names in it.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Repository")]
pub(super) struct RepoArgs {
    /// The root of the Python project.
    #[arg(long, value_name = "DIR", default_value = ".")]
    repo: PathBuf,
    #[command(flatten)]
    sources: SourceArgs,
    /// Who lists the names: native, jedi, or lsp:COMMAND (a language server over stdio).
    #[arg(long, value_name = "TOOL", default_value = "native")]
    tool: ToolChoice,
}

/// How a repository is read.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Repository")]
pub(super) struct SourceArgs {
    /// A folder that modules are named from, when it is not found (may be given several times).
    #[arg(long, value_name = "DIR")]
    source_root: Vec<PathBuf>,
    /// The project's own Python: its standard library and installed packages are looked up.
    #[arg(long, value_name = "PATH")]
    pub(super) python: Option<PathBuf>,
}

impl SourceArgs {
    /// What a project in this folder is opened with.
    pub(super) fn config(&self, root: &Path, env: &Environment) -> ProjectConfig {
        let mut config = ProjectConfig::new(root);
        if !self.source_root.is_empty() {
            config.source_roots = Some(self.source_root.clone());
        }
        if let Some(python) = self.python.clone().or_else(|| env.python.clone()) {
            config.python = PythonChoice::Path(python);
        }
        config
    }

    /// Analyse the project in a folder. Files that had to be skipped are named.
    pub(super) fn open(
        &self,
        root: &Path,
        env: &Environment,
    ) -> anyhow::Result<(Project, IndexReport)> {
        let (project, report) = Project::open(self.config(root, env))?;
        name_skipped(&report);
        Ok((project, report))
    }
}

/// Say which files were left out, and why.
pub(super) fn name_skipped(report: &IndexReport) {
    for skipped in &report.skipped {
        message(&format!("skipped {}: {}", skipped.path.display(), skipped.reason));
    }
}

impl RepoArgs {
    /// Analyse the repository. Files that had to be skipped are named.
    pub(super) fn open(&self, env: &Environment) -> anyhow::Result<Repository> {
        let repository = Repository::open(self.sources.config(&self.repo, env), &self.tool)?;
        name_skipped(&repository.report);
        Ok(repository)
    }

    /// A position `FILE:LINE:COL` as a file of the repository and a byte offset. The file is looked
    /// for from here and from the repository's root.
    pub(super) fn position(
        &self,
        snapshot: &Snapshot,
        position: &str,
    ) -> anyhow::Result<(PathBuf, Arc<str>, usize)> {
        match (&self.tool, find_position(snapshot, &self.repo, position)) {
            // A language server knows files of other languages.
            (ToolChoice::Lsp(_), Err(error)) => {
                let (file, at) = parse_position(position)?;
                let tried = [self.repo.join(&file), file];
                let Some(path) = tried.iter().find_map(|p| p.canonicalize().ok()) else {
                    return Err(error);
                };
                let text = std::fs::read_to_string(&path)
                    .with_context(|| format!("cannot read {}", path.display()))?;
                let offset = LineIndex::new(&text)
                    .offset(&text, at)
                    .with_context(|| format!("no position {position}"))?;
                Ok((path, Arc::from(text), offset))
            }
            (_, found) => found,
        }
    }
}

/// A position `FILE:LINE:COL` as a file of the repository at `root` and a byte offset.
pub(super) fn find_position(
    snapshot: &Snapshot,
    root: &Path,
    position: &str,
) -> anyhow::Result<(PathBuf, Arc<str>, usize)> {
    let (file, at) = parse_position(position)?;
    let tried = [file.clone(), root.join(&file)];
    let (path, text) = tried
        .iter()
        .find_map(|p| snapshot.text(p).map(|t| (p.clone(), t)))
        .with_context(|| not_a_file(snapshot, &file))?;
    let offset = LineIndex::new(&text)
        .offset(&text, at)
        .with_context(|| format!("no position {position}"))?;
    let path = path.canonicalize().unwrap_or(path);
    Ok((path, text, offset))
}

/// `FILE:LINE:COL`, both counted from 1, columns in characters.
fn parse_position(text: &str) -> anyhow::Result<(PathBuf, LineCol)> {
    let parsed = text.rsplit_once(':').and_then(|(rest, col)| {
        let (file, line) = rest.rsplit_once(':')?;
        let at = LineCol { line: line.parse().ok()?, col: col.parse().ok()? };
        (!file.is_empty()).then(|| (PathBuf::from(file), at))
    });
    parsed.with_context(|| {
        format!("'{text}' is not a position; expected FILE:LINE:COL, lines and columns from 1")
    })
}

/// What to say when a file is not part of the project: the files with the nearest names.
pub(super) fn not_a_file(snapshot: &Snapshot, file: &Path) -> String {
    let name = file.file_name();
    let same: Vec<String> = snapshot
        .paths()
        .filter(|p| p.file_name() == name)
        .take(5)
        .map(|p| p.display().to_string())
        .collect();
    if same.is_empty() {
        let n = snapshot.n_files();
        return format!("{} is not one of the {n} Python files of the repository", file.display());
    }
    format!("{} is not a file of the repository; it has {}", file.display(), same.join(", "))
}
