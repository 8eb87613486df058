//! The measurement as a whole: which functions and accesses of a sample, under which settings.
//!
//! # Place
//! Part of `bench::guided`. Repositories are opened by the caller, who knows the interpreter.

use super::GuidedBenchError;
use super::accuracy::{Access, predict};
use super::functions::{Function, Sample, Setting, functions, missing_names, write};
use crate::bench::completion::{Position, Positions};
use crate::constrain::{MonitorLevels, Normalisation};
use crate::engine::{SamplingParams, Selection};
use crate::runtime::{CompleteConfig, GuideMode, Model, PromptStyle, Repository, Target};
use serde::Serialize;
use std::path::PathBuf;

/// How much is measured.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The folder that holds one project for each package.
    pub projects: PathBuf,
    /// Functions to write.
    pub functions: usize,
    /// Member accesses to predict, as far as the sample has them.
    pub members: usize,
    /// Most tokens of one body.
    pub max_tokens: usize,
    /// Most tokens of the file that the model is shown.
    pub prompt_tokens_max: usize,
}

/// What a peer needs to write a function under the same conditions, and how long it took here.
#[derive(Clone, Debug, Serialize)]
pub struct PeerTask {
    pub package: String,
    pub file: PathBuf,
    pub function: String,
    pub body_start: usize,
    pub body_end: usize,
    pub indent: String,
    pub ids: Vec<u32>,
    pub max_tokens: usize,
    pub our_ms: f64,
}

/// Everything that was measured.
#[derive(Clone, Debug, Default)]
pub struct GuidedRun {
    pub samples: Vec<Sample>,
    pub accesses: Vec<Access>,
    pub tasks: Vec<PeerTask>,
    /// Names written where the answer was complete, and those of them that do not exist.
    pub n_checked: usize,
    pub missing: Vec<String>,
    /// Guided bodies that differ among seven others, and bodies that differ with speculation.
    pub n_differ: usize,
    pub n_speculation_differ: usize,
}

/// Functions that are written side by side.
const GROUP: usize = 8;
/// Tokens in which a member's name has to end.
const NAME_TOKENS_MAX: usize = 12;

impl GuidedRun {
    /// Measure. `open` opens the project of a package; `tick` is told of every function and access.
    ///
    /// # Errors
    /// As [`Model::complete`], and when a project is not the one that was sampled.
    pub fn measure(
        model: &mut Model,
        positions: &Positions,
        plan: &Plan,
        open: &mut dyn FnMut(&str) -> Result<Repository, GuidedBenchError>,
        tick: &mut dyn FnMut(),
    ) -> Result<Self, GuidedBenchError> {
        let mut run = Self::default();
        let chosen = spread(functions(&positions.positions), plan.functions);
        let packages = positions.packages();
        let (mut n_left, mut n_packages) = (plan.members, packages.len());
        for package in packages {
            let of_package: Vec<&Function> =
                chosen.iter().filter(|f| f.package == package).collect();
            let mut repository = open(package)?;
            run.write_functions(model, &mut repository, &of_package, plan, tick)?;
            // What a small package lacks, those after it make up for.
            let share = n_left.div_ceil(n_packages);
            let of_package: Vec<&Position> =
                positions.positions.iter().filter(|p| p.package == package).collect();
            n_left -=
                run.predict_members(model, &mut repository, &of_package, share, plan, tick)?;
            n_packages -= 1;
        }
        Ok(run)
    }

    /// Whether every guarantee held.
    pub fn is_kept(&self) -> bool {
        self.missing.is_empty() && self.n_differ == 0 && self.n_speculation_differ == 0
    }

    fn write_functions(
        &mut self,
        model: &mut Model,
        repository: &mut Repository,
        chosen: &[&Function],
        plan: &Plan,
        tick: &mut dyn FnMut(),
    ) -> Result<(), GuidedBenchError> {
        let snapshot = repository.project.snapshot();
        let guide = GuideMode::Monitor(MonitorLevels::MEMBERS);
        let setting = |label, guide, speculate| Setting {
            label,
            config: plan.config(guide, speculate, plan.max_tokens),
        };
        let settings = [
            setting("unguided", GuideMode::Off, false),
            setting("guided", guide, false),
            setting("unguided, speculating", GuideMode::Off, true),
            setting("guided, speculating", guide, true),
        ];
        let mut group: Vec<(Target, String)> = Vec::new();
        for function in chosen {
            tick();
            let target = function.target(&plan.projects, &snapshot)?;
            let first = self.samples.len() / settings.len();
            let tool = repository.tool.as_mut();
            let done = write(model, tool, function, &target, &settings, first)?;
            let body = |k: usize| &done[k].0.body;
            self.n_speculation_differ += usize::from(body(0) != body(2));
            self.n_speculation_differ += usize::from(body(1) != body(3));
            let (fastest, completion) = &done[3];
            self.missing.extend(missing_names(completion, &target, tool));
            self.n_checked += fastest.closed;
            self.tasks.push(PeerTask {
                package: function.package.clone(),
                file: function.file.clone(),
                function: fastest.function.clone(),
                body_start: target.range.start,
                body_end: target.range.end,
                indent: target.indent.clone(),
                ids: model.prompt(&target, &settings[0].config)?,
                max_tokens: plan.max_tokens,
                our_ms: fastest.wall_ms,
            });
            group.push((target, body(1).clone()));
            self.samples.extend(done.into_iter().map(|(sample, _)| sample));
            if group.len() == GROUP {
                self.write_together(model, repository, &settings[1], std::mem::take(&mut group))?;
            }
        }
        self.write_together(model, repository, &settings[1], group)
    }

    /// The same functions side by side: each must come out as it did alone.
    fn write_together(
        &mut self,
        model: &mut Model,
        repository: &mut Repository,
        setting: &Setting,
        group: Vec<(Target, String)>,
    ) -> Result<(), GuidedBenchError> {
        let (targets, alone): (Vec<Target>, Vec<String>) = group.into_iter().unzip();
        let together = model.complete_all(&targets, &setting.config, repository.tool.as_mut())?;
        self.n_differ += together.iter().zip(&alone).filter(|(t, a)| t.body != **a).count();
        Ok(())
    }

    /// Predict up to `n` accesses of one package; how many there were.
    fn predict_members(
        &mut self,
        model: &mut Model,
        repository: &mut Repository,
        positions: &[&Position],
        n: usize,
        plan: &Plan,
        tick: &mut dyn FnMut(),
    ) -> Result<usize, GuidedBenchError> {
        let snapshot = repository.project.snapshot();
        let guide = GuideMode::Monitor(MonitorLevels::MEMBERS);
        let of = |guide, selection| CompleteConfig {
            selection,
            ..plan.config(guide, false, NAME_TOKENS_MAX)
        };
        let setting = |label, guide, selection| Setting { label, config: of(guide, selection) };
        let score = |label, by| setting(label, guide, Selection::Score(by));
        let settings = [
            setting("greedy", guide, Selection::Greedy),
            setting("unguided", GuideMode::Off, Selection::Greedy),
            score("score joint", Normalisation::Joint),
            score("score without-end", Normalisation::WithoutEnd),
            score("score per-token", Normalisation::PerToken),
            score("score per-byte", Normalisation::PerByte),
            setting("beam 4", guide, Selection::Beam(4)),
        ];
        let mut n_done = 0;
        let stride = coprime(7919, positions.len());
        for k in 0..positions.len() {
            if n_done == n {
                break;
            }
            let position = positions[k * stride % positions.len()];
            let tool = repository.tool.as_mut();
            let accesses = predict(model, tool, &snapshot, &plan.projects, position, &settings)?;
            if !accesses.is_empty() {
                n_done += 1;
                tick();
                self.accesses.extend(accesses);
            }
        }
        Ok(n_done)
    }
}

impl Plan {
    fn config(&self, guide: GuideMode, speculate: bool, max_tokens: usize) -> CompleteConfig {
        let params =
            SamplingParams { max_tokens: Some(max_tokens), speculate, ..SamplingParams::greedy() };
        CompleteConfig {
            style: PromptStyle::Plain,
            prompt_tokens_max: self.prompt_tokens_max,
            ..CompleteConfig::new(guide, params)
        }
    }
}

/// `n` of the functions, evenly over their order.
fn spread(all: Vec<Function>, n: usize) -> Vec<Function> {
    let n_all = all.len();
    let is_kept = |i: usize| n >= n_all || i * n / n_all != (i + 1) * n / n_all;
    all.into_iter().enumerate().filter(|(i, _)| is_kept(*i)).map(|(_, f)| f).collect()
}

/// A step near `from` that meets every one of `n` places before it comes to the first again.
fn coprime(from: usize, n: usize) -> usize {
    let gcd = |mut a: usize, mut b: usize| {
        while b != 0 {
            (a, b) = (b, a % b);
        }
        a
    };
    (from..).find(|&step| gcd(step, n.max(1)) == 1).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stride_meets_every_place_once() {
        for n in [1, 2, 30, 89, 7919, 15838] {
            let mut met: Vec<usize> = (0..n).map(|k| k * coprime(7919, n) % n).collect();
            met.sort_unstable();
            assert!(met.iter().copied().eq(0..n), "{n}");
        }
    }

    #[test]
    fn a_spread_keeps_as_many_as_asked_for() {
        let function = |i| Function {
            package: "p".to_owned(),
            file: PathBuf::from("f.py"),
            start_byte: i,
            name: String::new(),
        };
        for (n_all, n) in [(10, 3), (10, 10), (10, 40), (7, 0), (0, 5)] {
            let kept = spread((0..n_all).map(function).collect(), n);
            assert_eq!(kept.len(), n.min(n_all), "{n} of {n_all}");
            assert!(kept.is_sorted());
        }
    }
}
