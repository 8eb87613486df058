//! `tether pull`: a model onto this machine, whole and verified.
//!
//! # Place
//! Part of `cli`.

use crate::cli::env::Environment;
use crate::cli::output::{message, print, print_json};
use crate::cli::{Outcome, bars};
use crate::runtime::{PullProgress, PullStep};
use indicatif::ProgressBar;
use std::path::PathBuf;

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    /// A name from `tether models`, or hf:OWNER/NAME[@REVISION].
    model: String,
    /// The Python whose pip fetches packages, with its own settings; python3 unless given.
    #[arg(long, value_name = "PATH")]
    python: Option<PathBuf>,
    /// Print where the model is as JSON.
    #[arg(long)]
    json: bool,
}

pub(in crate::cli) fn run(args: &Args, env: &Environment) -> anyhow::Result<Outcome> {
    let store = env.store(args.python.clone())?;
    let mut progress = Bars { model: args.model.clone(), bar: None };
    let location = store.pull(&args.model, &mut progress);
    progress.clear();
    let path = location?.files.path().display().to_string();
    if args.json {
        print_json(&serde_json::json!({ "name": args.model, "path": path }))?;
    } else {
        print(&format!("{path}\n"))?;
    }
    Ok(Outcome::Fine)
}

/// Steps as bars on a terminal, as lines elsewhere.
struct Bars {
    model: String,
    bar: Option<ProgressBar>,
}

impl Bars {
    fn clear(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

impl PullProgress for Bars {
    fn step(&mut self, step: PullStep, bytes: Option<u64>) {
        self.clear();
        let what = match step {
            PullStep::Waiting => format!("waiting for another program that fetches {}", self.model),
            PullStep::Checking => format!("checking {}", self.model),
            PullStep::Downloading { what } => format!("downloading {what}"),
            PullStep::Unpacking => format!("unpacking {}", self.model),
        };
        let bar = match bytes {
            Some(total) => bars::bytes(total, &what),
            None => bars::unknown(&what),
        };
        if bar.is_hidden() {
            message(&what);
        }
        self.bar = Some(bar);
    }

    fn done(&mut self, bytes: u64) {
        if let Some(bar) = &self.bar {
            bar.set_position(bytes);
        }
    }
}
