//! The arguments that say what keeps names tied to the repository, and how a name is chosen.
//!
//! # Place
//! Part of `cli`; shared by the verbs that write code into a repository.

use crate::base::limit;
use crate::constrain::{MonitorLevels, Normalisation, PAPER_CONFIDENCE};
use crate::engine::Selection;
use crate::runtime::{GuideMode, Model, ToolTimes};
use anyhow::Context;
use std::time::Duration;

/// How the trigger is spelled when nobody says so.
const TRIGGER: &str = "<COMP>";

/// Which guide, and its policy.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Guide")]
pub(super) struct GuideArgs {
    /// What keeps names tied to the repository.
    #[arg(long, value_enum, default_value_t = Guide::Monitor)]
    guide: Guide,
    /// Where the monitor asks.
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        value_name = "LEVELS",
        default_value = "members"
    )]
    level: Vec<Level>,
    /// The token by which a fine-tuned model asks for names; what the adapter's manifest says, or <COMP>.
    #[arg(long, value_name = "TOKEN")]
    trigger: Option<String>,
    /// How a name is chosen: greedy (token by token), score or score:NORM (all names at once; NORM is
    /// joint, without-end, per-token or per-byte), beam:N, paper (ToolGen's published rule; needs
    /// --guide trigger).
    #[arg(long, value_name = "POLICY", default_value = "greedy")]
    policy: Policy,
    /// How likely a trigger must be to be followed, with --policy paper.
    #[arg(long, value_name = "P", default_value_t = PAPER_CONFIDENCE)]
    confidence: f64,
    /// How long one question to the completion tool may take, in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = limit::TOOL_CALL_MS_MAX)]
    tool_timeout_ms: u64,
    /// How long all questions of one text may take together, in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = limit::TOOL_REQUEST_MS_MAX)]
    tool_budget_ms: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Guide {
    Off,
    /// Where a name begins, only names that exist.
    Monitor,
    /// Where a fine-tuned model emits its trigger token.
    Trigger,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Level {
    /// After a dot on a value whose type is known.
    Members,
    /// Modules and names in import statements.
    Imports,
    /// The names of keyword arguments.
    Calls,
    /// Variables, where a name is surely read.
    Names,
}

/// A policy by its spelling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Policy {
    Engine(Selection),
    Paper,
}

impl std::str::FromStr for Policy {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let score = |by| Ok(Self::Engine(Selection::Score(by)));
        match text.split_once(':').unwrap_or((text, "")) {
            ("greedy", "") => Ok(Self::Engine(Selection::Greedy)),
            ("paper", "") => Ok(Self::Paper),
            ("score", "" | "joint") => score(Normalisation::Joint),
            ("score", "without-end") => score(Normalisation::WithoutEnd),
            ("score", "per-token") => score(Normalisation::PerToken),
            ("score", "per-byte") => score(Normalisation::PerByte),
            ("beam", width) => match width.parse() {
                Ok(width @ 1..=limit::BEAM_WIDTH_MAX) => Ok(Self::Engine(Selection::Beam(width))),
                _ => Err(format!(
                    "'{text}' has no width; expected beam:N with N from 1 to {}",
                    limit::BEAM_WIDTH_MAX
                )),
            },
            _ => Err(format!("'{text}' is no policy; expected greedy, score, beam:N or paper")),
        }
    }
}

impl GuideArgs {
    /// The guide, for a model whose vocabulary has the trigger if one is needed.
    pub(super) fn mode(&self, model: &Model) -> anyhow::Result<GuideMode> {
        if self.policy == Policy::Paper && self.guide != Guide::Trigger {
            anyhow::bail!("--policy paper is a rule for triggers; add --guide trigger");
        }
        Ok(match self.guide {
            Guide::Off => GuideMode::Off,
            Guide::Monitor => GuideMode::Monitor(self.levels()),
            Guide::Trigger => {
                let of_adapter = model.adapters().find_map(|a| a.trigger());
                let text = self.trigger.as_deref().or(of_adapter.map(|t| t.text.as_str()));
                let trigger = model
                    .trigger_token(text.unwrap_or(TRIGGER))
                    .context("--guide trigger needs a model that was trained to ask")?;
                match self.policy {
                    Policy::Paper => GuideMode::Paper { trigger, confidence: self.confidence },
                    Policy::Engine(_) => GuideMode::Trigger(trigger),
                }
            }
        })
    }

    fn levels(&self) -> MonitorLevels {
        MonitorLevels {
            members: self.level.contains(&Level::Members),
            imports: self.level.contains(&Level::Imports),
            calls: self.level.contains(&Level::Calls),
            names: self.level.contains(&Level::Names),
        }
    }

    /// How the engine chooses a constrained name.
    pub(super) fn selection(&self) -> Selection {
        match self.policy {
            Policy::Engine(selection) => selection,
            Policy::Paper => Selection::Greedy, // the guide itself decides
        }
    }

    /// Deadlines of the completion tool.
    pub(super) fn times(&self) -> ToolTimes {
        ToolTimes {
            call: Duration::from_millis(self.tool_timeout_ms),
            request: Duration::from_millis(self.tool_budget_ms),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_are_read_and_mistakes_say_what_was_expected() {
        let read = |text: &str| text.parse::<Policy>();
        assert_eq!(read("score"), read("score:joint"));
        assert_eq!(read("beam:4"), Ok(Policy::Engine(Selection::Beam(4))));
        for bad in ["", "beam", "beam:0", "beam:1000000", "score:best", "greedy:1"] {
            assert!(read(bad).expect_err(bad).contains("expected"), "{bad}");
        }
    }
}
