//! `tether bench`: measurements of what the program promises.
//!
//! # Place
//! Part of `cli`: arguments, and what is printed and kept. The measurements themselves are in `bench`.

mod completion;
mod guided;

use crate::bench::completion::Positions;
use crate::cli::Outcome;
use crate::cli::env::Environment;
use crate::repo::{ProjectConfig, PythonChoice};
use crate::runtime::{Repository, RuntimeError, ToolChoice};
use anyhow::Context;
use std::path::{Path, PathBuf};

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Ask a completion tool at every identifier of a sample of real functions.
    Completion(completion::Args),
    /// Write real functions with and without the guide, and predict real member accesses.
    Guided(guided::Args),
}

pub(in crate::cli) fn run(args: &Args, env: &Environment) -> anyhow::Result<Outcome> {
    match &args.what {
        What::Completion(args) => completion::run(args, env),
        What::Guided(args) => guided::run(args, env),
    }
}

/// What is measured on, and where the run is kept.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Sample")]
struct SampleArgs {
    /// The sampled positions (scripts/eval/positions.py writes them).
    #[arg(long, value_name = "FILE", default_value = ".cache/eval/positions.jsonl")]
    positions: PathBuf,
    /// The folder that holds one project for each package.
    #[arg(long, value_name = "DIR", default_value = ".cache/eval/projects")]
    projects: PathBuf,
    /// The interpreter with the packages that the projects need.
    #[arg(long, value_name = "PATH")]
    python: Option<PathBuf>,
    /// Write the run to this folder: every answer or sample, the tables, and what was run where.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

impl SampleArgs {
    fn read(&self) -> anyhow::Result<Positions> {
        Ok(Positions::read(&self.positions)?)
    }

    /// One project and its tool.
    fn open(
        &self,
        env: &Environment,
        project: &Path,
        tool: &ToolChoice,
    ) -> Result<Repository, RuntimeError> {
        let mut config = ProjectConfig::new(project);
        if let Some(python) = self.python.clone().or_else(|| env.python.clone()) {
            config.python = PythonChoice::Path(python);
        }
        Repository::open(config, tool)
    }

    /// The folder of the run, made, when runs are to be kept.
    fn folder(&self) -> anyhow::Result<Option<&Path>> {
        if let Some(folder) = &self.out {
            std::fs::create_dir_all(folder)
                .with_context(|| format!("cannot make {}", folder.display()))?;
        }
        Ok(self.out.as_deref())
    }

    /// Write a file of the run, when runs are to be kept.
    fn write(&self, name: &str, text: &str) -> anyhow::Result<()> {
        let Some(folder) = self.folder()? else {
            return Ok(());
        };
        let path = folder.join(name);
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
    }
}
