//! `tether bench guided`: what the guide costs, what it gains, and that it never invents a name.
//!
//! # Place
//! Part of `cli`; the measurements themselves are in `bench::guided`.

use crate::bench::completion::Positions;
use crate::bench::guided::{
    Access, Accuracy, Function, Sample, Setting, functions, median, missing_names, predict, ratios,
    write,
};
use crate::cli::Outcome;
use crate::cli::bars;
use crate::cli::env::Environment;
use crate::cli::model_args::ModelArgs;
use crate::cli::output::{message, print, table};
use crate::constrain::{MonitorLevels, Normalisation};
use crate::engine::{SamplingParams, Selection};
use crate::repo::{ProjectConfig, PythonChoice};
use crate::runtime::{
    CompleteConfig, GuideMode, Model, PromptStyle, Repository, Target, ToolChoice,
};
use anyhow::Context;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    #[command(flatten)]
    model: ModelArgs,
    /// The sampled positions (scripts/eval/positions.py writes them).
    #[arg(long, value_name = "FILE", default_value = ".cache/eval/positions.jsonl")]
    positions: PathBuf,
    /// The folder that holds one project for each package.
    #[arg(long, value_name = "DIR", default_value = ".cache/eval/projects")]
    projects: PathBuf,
    /// The interpreter with the packages that the projects need.
    #[arg(long, value_name = "PATH")]
    python: Option<PathBuf>,
    /// Functions to write.
    #[arg(long, value_name = "N", default_value_t = 300)]
    functions: usize,
    /// Member accesses to predict.
    #[arg(long, value_name = "N", default_value_t = 600)]
    members: usize,
    /// Most tokens of one body.
    #[arg(long, short = 'n', value_name = "N", default_value_t = 96)]
    max_tokens: usize,
    /// Most tokens of the file that the model is shown.
    #[arg(long, value_name = "N", default_value_t = 512)]
    prompt_tokens_max: usize,
    /// Keep every sample in this folder.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

const MEMBERS: MonitorLevels = MonitorLevels::MEMBERS;

pub(in crate::cli) fn run(args: &Args, env: &Environment) -> anyhow::Result<Outcome> {
    let positions = Positions::read(&args.positions)?;
    let mut model = args.model.load_batch(env, 16384, 8)?;
    let mut found = functions(&positions.positions);
    spread(&mut found, args.functions);
    let mut bench = Bench {
        args,
        env,
        samples: Vec::new(),
        accesses: Vec::new(),
        missing: Vec::new(),
        prompts: Vec::new(),
        n_differ: 0,
        n_spec_differ: 0,
        n_checked: 0,
    };
    let n_members = args.members;
    let packages: Vec<String> = packages(&found);
    let bar = bars::items((found.len() + n_members) as u64, "measuring");
    for package in &packages {
        let of = |f: &&Function| f.package == *package;
        let mut repository = bench.open(package)?;
        let chosen: Vec<Function> = found.iter().filter(of).cloned().collect();
        bench.write_functions(&mut model, &mut repository, &chosen, &bar)?;
        let share = n_members.div_ceil(packages.len());
        bench.predict_members(&mut model, &mut repository, &positions, package, share, &bar)?;
    }
    bar.finish_and_clear();
    bench.report(&model)
}

/// Every so many functions of each package, so that `n` are left.
fn spread(found: &mut Vec<Function>, n: usize) {
    let all = found.len();
    if all > n && n > 0 {
        let mut i = 0;
        found.retain(|_| {
            i += 1;
            (i - 1) * n / all != i * n / all
        });
    } else if n == 0 {
        found.clear();
    }
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

fn packages(found: &[Function]) -> Vec<String> {
    let mut names: Vec<String> = found.iter().map(|f| f.package.clone()).collect();
    names.dedup();
    names
}

struct Bench<'a> {
    args: &'a Args,
    env: &'a Environment,
    samples: Vec<Sample>,
    accesses: Vec<Access>,
    missing: Vec<String>,
    /// What a peer needs to write the same functions.
    prompts: Vec<Value>,
    n_checked: usize,
    /// Guided bodies that differ among seven others, and with speculation.
    n_differ: usize,
    n_spec_differ: usize,
}

impl Bench<'_> {
    fn open(&self, package: &str) -> anyhow::Result<Repository> {
        let mut config = ProjectConfig::new(self.args.projects.join(package));
        if let Some(python) = self.args.python.clone().or_else(|| self.env.python.clone()) {
            config.python = PythonChoice::Path(python);
        }
        Ok(Repository::open(config, &ToolChoice::Native)?)
    }

    fn config(&self, guide: GuideMode, speculate: bool, max_tokens: usize) -> CompleteConfig {
        let params =
            SamplingParams { max_tokens: Some(max_tokens), speculate, ..SamplingParams::greedy() };
        CompleteConfig {
            style: PromptStyle::Plain,
            prompt_tokens_max: self.args.prompt_tokens_max,
            ..CompleteConfig::new(guide, params)
        }
    }

    fn write_functions(
        &mut self,
        model: &mut Model,
        repository: &mut Repository,
        chosen: &[Function],
        bar: &indicatif::ProgressBar,
    ) -> anyhow::Result<()> {
        let snapshot = repository.project.snapshot();
        let guide = GuideMode::Monitor(MEMBERS);
        let setting = |label, guide, speculate| Setting {
            label,
            config: self.config(guide, speculate, self.args.max_tokens),
        };
        let settings = [
            setting("unguided", GuideMode::Off, false),
            setting("guided", guide, false),
            setting("unguided, speculating", GuideMode::Off, true),
            setting("guided, speculating", guide, true),
        ];
        let mut group: Vec<(Target, String)> = Vec::new();
        for function in chosen {
            bar.inc(1);
            let Ok(target) = function.target(&self.args.projects, &snapshot) else {
                continue;
            };
            let first = self.samples.len() / settings.len();
            let tool = repository.tool.as_mut();
            let done = write(model, tool, function, &target, &settings, first)?;
            self.n_spec_differ += usize::from(done[0].0.body != done[2].0.body);
            self.n_spec_differ += usize::from(done[1].0.body != done[3].0.body);
            self.missing.extend(missing_names(&done[3].1, &target, tool));
            self.n_checked += done[3].0.closed;
            self.prompts.push(json!({
                "package": function.package,
                "file": function.file,
                "function": done[3].0.function,
                "body_start": target.range.start,
                "body_end": target.range.end,
                "indent": target.indent,
                "ids": model.prompt(&target, &settings[0].config)?,
                "max_tokens": self.args.max_tokens,
                "our_ms": done[3].0.wall_ms,
            }));
            group.push((target, done[1].0.body.clone()));
            self.samples.extend(done.into_iter().map(|(sample, _)| sample));
            if group.len() == 8 {
                self.write_together(model, repository, &settings[1], &mut group)?;
            }
        }
        if !group.is_empty() {
            self.write_together(model, repository, &settings[1], &mut group)?;
        }
        Ok(())
    }

    /// The same functions side by side: each must come out as it did alone.
    fn write_together(
        &mut self,
        model: &mut Model,
        repository: &mut Repository,
        setting: &Setting,
        group: &mut Vec<(Target, String)>,
    ) -> anyhow::Result<()> {
        let (targets, alone): (Vec<Target>, Vec<String>) = group.drain(..).unzip();
        let together = model.complete_all(&targets, &setting.config, repository.tool.as_mut())?;
        self.n_differ += together.iter().zip(&alone).filter(|(t, a)| t.body != **a).count();
        Ok(())
    }

    fn predict_members(
        &mut self,
        model: &mut Model,
        repository: &mut Repository,
        positions: &Positions,
        package: &str,
        n: usize,
        bar: &indicatif::ProgressBar,
    ) -> anyhow::Result<()> {
        let snapshot = repository.project.snapshot();
        let guide = GuideMode::Monitor(MEMBERS);
        let of = |selection| CompleteConfig { selection, ..self.config(guide, false, 12) };
        let setting = |label, config| Setting { label, config };
        let score = |by| of(Selection::Score(by));
        let settings = [
            setting("greedy", of(Selection::Greedy)),
            setting("unguided", self.config(GuideMode::Off, false, 12)),
            setting("score joint", score(Normalisation::Joint)),
            setting("score without-end", score(Normalisation::WithoutEnd)),
            setting("score per-token", score(Normalisation::PerToken)),
            setting("score per-byte", score(Normalisation::PerByte)),
            setting("beam 4", of(Selection::Beam(4))),
        ];
        let of_package: Vec<_> =
            positions.positions.iter().filter(|p| p.package == package).collect();
        let mut n_done = 0;
        let stride = coprime(7919, of_package.len());
        for k in 0..of_package.len() {
            if n_done == n {
                break;
            }
            let position = of_package[k * stride % of_package.len()];
            let tool = repository.tool.as_mut();
            let accesses =
                predict(model, tool, &snapshot, &self.args.projects, position, &settings)?;
            if !accesses.is_empty() {
                n_done += 1;
                bar.inc(1);
                self.accesses.extend(accesses);
            }
        }
        Ok(())
    }

    fn report(self, model: &Model) -> anyhow::Result<Outcome> {
        let summary = self.summary(model);
        if let Some(out) = &self.args.out {
            self.save(out, &summary)?;
        }
        print(&self.text())?;
        for name in self.missing.iter().take(10) {
            message(&format!("written at a constrained place and not listed there: {name}"));
        }
        let is_fine = self.missing.is_empty() && self.n_differ == 0 && self.n_spec_differ == 0;
        Ok(if is_fine { Outcome::Fine } else { Outcome::Negative })
    }

    fn save(&self, out: &Path, summary: &Value) -> anyhow::Result<()> {
        std::fs::create_dir_all(out).with_context(|| format!("cannot make {}", out.display()))?;
        let put = |name: &str, text: String| {
            let path = out.join(name);
            std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
        };
        let lines = |values: Vec<String>| values.join("\n") + "\n";
        put("functions.jsonl", lines(self.samples.iter().map(|s| json!(s).to_string()).collect()))?;
        put("members.jsonl", lines(self.accesses.iter().map(|a| json!(a).to_string()).collect()))?;
        put("prompts.jsonl", lines(self.prompts.iter().map(Value::to_string).collect()))?;
        put("guided.json", format!("{summary:#}\n"))?;
        put("guided.md", self.text())
    }

    fn passes(&self, setting: &str) -> f64 {
        let of = self.samples.iter().filter(|s| s.setting == setting && s.n_tokens > 1);
        let (mut tokens, mut passes) = (0, 0);
        for sample in of {
            tokens += sample.n_tokens - 1;
            passes += sample.n_passes;
        }
        tokens as f64 / passes.max(1) as f64
    }

    fn labels<'s>(names: impl Iterator<Item = &'s str>) -> Vec<&'s str> {
        let mut found: Vec<&str> = Vec::new();
        for name in names {
            if !found.contains(&name) {
                found.push(name);
            }
        }
        found
    }

    fn summary(&self, model: &Model) -> Value {
        let settings = Self::labels(self.samples.iter().map(|s| s.setting));
        let mut writing = BTreeMap::new();
        for label in &settings {
            let of = || self.samples.iter().filter(|s| s.setting == *label);
            let ratio = ratios(&self.samples, label, "unguided");
            writing.insert(
                *label,
                json!({
                    "functions": of().count(),
                    "tokens": of().map(|s| s.n_tokens).sum::<usize>(),
                    "ms_per_token_median": median(of().filter_map(Sample::ms_per_token).collect()),
                    "ratio_to_unguided_median": ratio.map(|r| r.of_medians),
                    "ratio_to_unguided_sums": ratio.map(|r| r.of_sums),
                    "tokens_per_pass": self.passes(label),
                    "wall_ms_median": median(of().map(|s| s.wall_ms).collect()),
                    "tool_ms_median": median(of().map(|s| s.tool_ms).collect()),
                    "asked": of().map(|s| s.asked).sum::<usize>(),
                    "closed": of().map(|s| s.closed).sum::<usize>(),
                    "changed": of().map(|s| s.changed).sum::<usize>(),
                }),
            );
        }
        let members = Self::labels(self.accesses.iter().map(|a| a.setting));
        let accuracy: BTreeMap<&str, Value> = members
            .iter()
            .map(|label| {
                let sum = Accuracy::of(&self.accesses, label);
                let of = self.accesses.iter().filter(|a| a.setting == *label);
                let ms = median(of.map(|a| a.ms).collect());
                (*label, json!({ "n": sum.n, "right": sum.n_right, "percent": sum.percent(), "ms_median": ms }))
            })
            .collect();
        json!({
            "model": model.fingerprint().to_string(),
            "model_path": model.files().path(),
            "device": model.engine().backend().description(),
            "threads": model.threads(),
            "writing": writing,
            "members": accuracy,
            "constrained_names_checked": self.n_checked,
            "constrained_names_missing": self.missing.len(),
            "bodies_different_among_others": self.n_differ,
            "bodies_different_with_speculation": self.n_spec_differ,
        })
    }

    fn text(&self) -> String {
        let number = |x: Option<f64>| x.map_or_else(|| "–".to_owned(), |x| format!("{x:.3}"));
        let rows: Vec<Vec<String>> = Self::labels(self.samples.iter().map(|s| s.setting))
            .into_iter()
            .map(|label| {
                let of = || self.samples.iter().filter(|s| s.setting == label);
                let ratio = ratios(&self.samples, label, "unguided");
                vec![
                    label.to_owned(),
                    of().count().to_string(),
                    number(median(of().filter_map(Sample::ms_per_token).collect())),
                    number(ratio.map(|r| r.of_medians)),
                    number(ratio.map(|r| r.of_sums)),
                    number(Some(self.passes(label))),
                    number(median(of().map(|s| s.wall_ms).collect())),
                ]
            })
            .collect();
        let header = [
            "setting",
            "functions",
            "ms/token",
            "median ratio",
            "ratio of sums",
            "tokens/pass",
            "ms/function",
        ];
        let mut text = table(&header, &rows, &[1, 2, 3, 4, 5, 6]);
        let rows: Vec<Vec<String>> = Self::labels(self.accesses.iter().map(|a| a.setting))
            .into_iter()
            .map(|label| {
                let sum = Accuracy::of(&self.accesses, label);
                let of = self.accesses.iter().filter(|a| a.setting == label);
                vec![
                    label.to_owned(),
                    sum.n.to_string(),
                    format!("{:.1}", sum.percent()),
                    number(median(of.map(|a| a.ms).collect())),
                ]
            })
            .collect();
        text.push('\n');
        text.push_str(&table(&["member names", "positions", "right %", "ms"], &rows, &[1, 2, 3]));
        text.push_str(&format!(
            "\nnames at constrained places: {} checked, {} that do not exist\n\
             bodies that differ among seven others: {}; with speculation: {}\n",
            self.n_checked,
            self.missing.len(),
            self.n_differ,
            self.n_spec_differ
        ));
        text
    }
}

#[cfg(test)]
mod tests {
    use super::coprime;

    #[test]
    fn a_stride_meets_every_place_once() {
        for n in [1, 2, 30, 89, 7919, 15838] {
            let mut met: Vec<usize> = (0..n).map(|k| k * coprime(7919, n) % n).collect();
            met.sort_unstable();
            assert!(met.iter().copied().eq(0..n), "{n}");
        }
    }
}
