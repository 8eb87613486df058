//! Opening a repository and the completion tool that answers for it.
//!
//! # Place
//! Part of `runtime`; picks among the tools of `complete`.

use super::RuntimeError;
use crate::base::{CandidateSource, limit};
use crate::complete::{Jedi, JediConfig, Lsp, LspConfig, NativeTool};
use crate::repo::{IndexReport, Project, ProjectConfig};
use std::path::PathBuf;
use std::sync::Arc;

/// Who is asked for names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToolChoice {
    /// Our own project database; the only tool whose answers may forbid a name.
    Native,
    /// Jedi, in a Python process.
    Jedi,
    /// A language server, by its command line.
    Lsp(String),
}

impl std::fmt::Display for ToolChoice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Native => f.write_str("native"),
            Self::Jedi => f.write_str("jedi"),
            Self::Lsp(command) => write!(f, "lsp:{command}"),
        }
    }
}

impl std::str::FromStr for ToolChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            None if text == "native" => Ok(Self::Native),
            None if text == "jedi" => Ok(Self::Jedi),
            Some(("lsp", command)) if !command.trim().is_empty() => {
                Ok(Self::Lsp(command.to_owned()))
            }
            _ => Err(format!("'{text}' is no tool; expected native, jedi or lsp:COMMAND")),
        }
    }
}

impl ToolChoice {
    /// Start the tool for a project that was analysed. `waits_for_restart`: whether questions wait for a tool that
    /// failed, for work that nobody waits for.
    ///
    /// # Errors
    /// Tools that do not start.
    pub fn start(
        &self,
        project: &Arc<Project>,
        report: &IndexReport,
        waits_for_restart: bool,
    ) -> Result<Box<dyn CandidateSource>, RuntimeError> {
        let python = report.environment.executable.clone();
        Ok(match self {
            ToolChoice::Native => Box::new(NativeTool::new(Arc::clone(project))),
            ToolChoice::Jedi => {
                let mut roots = vec![project.root().to_owned()];
                roots.extend(project.source_roots().iter().cloned());
                roots.dedup();
                Box::new(Jedi::start(JediConfig {
                    python: python.clone().unwrap_or_else(|| PathBuf::from("python3")),
                    environment: python,
                    roots,
                    memory_bytes_max: limit::TOOL_MEMORY_BYTES_MAX,
                    start_ms_max: limit::TOOL_START_MS_MAX,
                    hang_ms_max: limit::TOOL_HANG_MS_MAX,
                    waits_for_restart,
                })?)
            }
            ToolChoice::Lsp(command) => Box::new(Lsp::start(LspConfig {
                command: command.clone(),
                root: project.root().to_owned(),
                settings: LspConfig::usual_settings(python.as_deref()),
                initialization_options: LspConfig::usual_initialization_options(python.as_deref()),
                start_ms_max: limit::TOOL_START_MS_MAX,
                hang_ms_max: limit::TOOL_HANG_MS_MAX,
                waits_for_restart,
            })?),
        })
    }
}

/// A repository and whoever lists names in it.
pub struct Repository {
    pub project: Arc<Project>,
    pub report: IndexReport,
    pub tool: Box<dyn CandidateSource>,
}

impl Repository {
    /// Analyse a project and start its tool.
    ///
    /// # Errors
    /// Folders that hold no Python, tools that do not start.
    pub fn open(mut config: ProjectConfig, choice: &ToolChoice) -> Result<Self, RuntimeError> {
        config.needs_python &= !matches!(choice, ToolChoice::Lsp(_));
        let (project, report) = Project::open(config)?;
        let project = Arc::new(project);
        let tool = choice.start(&project, &report, false)?;
        Ok(Self { project, report, tool })
    }
}
