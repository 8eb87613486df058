//! `tether augment`: make fine-tuning data with trigger tokens from repositories.
//!
//! # Place
//! Part of `cli`.

use crate::augment::{
    AugmentConfig, Mode, Progress, Recorded, SplitConfig, Statistics, Tally, augment, claim,
    publish,
};
use crate::base::CandidateSource;
use crate::cli::Outcome;
use crate::cli::bars;
use crate::cli::env::Environment;
use crate::cli::model_args::tokenizer_of;
use crate::cli::output::{message, print, print_json, table};
use crate::cli::repo_args::{SourceArgs, name_skipped};
use crate::repo::ProjectConfig;
use crate::runtime::ToolChoice;
use crate::tokenizer::{AddBos, Specials, Tokenizer};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Instant;

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    /// Folders of Python projects; each is a repository of its own.
    #[arg(value_name = "REPO", required = true)]
    repos: Vec<PathBuf>,
    /// Where the data goes: train.jsonl, valid.jsonl, test.jsonl, statistics.json.
    #[arg(long, short, value_name = "DIR")]
    out: PathBuf,
    /// Whose rules: strict, or compat (the published program's, quirks included).
    #[arg(long, value_name = "MODE", default_value = "strict")]
    mode: Mode,
    /// What is put before names that the tool knows; <COMP>, or <lsp> in compat mode.
    #[arg(long, value_name = "TEXT")]
    trigger: Option<String>,
    /// Who is asked: native, jedi, lsp:COMMAND, or recorded:FILE (answers that another tool gave before).
    #[arg(long, value_name = "TOOL", default_value = "native", value_parser = parse_tool)]
    tool: String,
    /// Ask this tool too, and write where they differ to differences.jsonl.
    #[arg(long, value_name = "TOOL", value_parser = parse_tool)]
    compare: Option<String>,
    #[command(flatten)]
    sources: SourceArgs,
    #[command(flatten)]
    limits: LimitArgs,
    #[command(flatten)]
    split: SplitArgs,
    /// Write the names that were offered too (always so in compat mode).
    #[arg(long)]
    candidates: bool,
    /// Write the file around each function too.
    #[arg(long)]
    context: bool,
    /// Write the functions that a rule refused to rejected.jsonl, with the rule.
    #[arg(long)]
    rejected: bool,
    /// Working threads; one for each core unless given.
    #[arg(long, value_name = "N")]
    threads: Option<NonZeroUsize>,
    /// Write over data that was made with other settings.
    #[arg(long)]
    force: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// What is too large. Functions are measured after cleaning.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Limits")]
struct LimitArgs {
    /// Python files of a project; larger ones are left out (500 in compat mode).
    #[arg(long, value_name = "N")]
    files_max: Option<usize>,
    /// Lines of a file; 5000, or 1000 in compat mode.
    #[arg(long, value_name = "N")]
    file_lines_max: Option<usize>,
    /// Lines of a function; 50.
    #[arg(long, value_name = "N")]
    function_lines_max: Option<usize>,
    /// Lexer items of a function, white space included; 512.
    #[arg(long, value_name = "N")]
    items_max: Option<usize>,
    /// Tokens of a function, counted by --tokenizer (the published limit is 128).
    #[arg(long, value_name = "N", requires = "tokenizer")]
    tokens_max: Option<usize>,
    /// The model whose tokens are counted: a name from `tether models`, a .gguf file or a folder.
    #[arg(long, value_name = "MODEL")]
    tokenizer: Option<String>,
    /// Functions of one repository, drawn by the seed.
    #[arg(long, value_name = "N")]
    functions_max: Option<usize>,
    /// How long one question may take, in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 10_000)]
    deadline_ms: u64,
}

/// What is trained on, and what is kept apart.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Splits")]
struct SplitArgs {
    /// Share of functions kept for validation.
    #[arg(long, value_name = "SHARE", default_value_t = 0.05, value_parser = parse_share)]
    valid_share: f64,
    /// Share of functions kept for the last test.
    #[arg(long, value_name = "SHARE", default_value_t = 0.05, value_parser = parse_share)]
    test_share: f64,
    /// Split function by function; otherwise each repository is in one split.
    #[arg(long)]
    split_functions: bool,
    /// Functions that are this similar, 0 to 1, are not in two splits; 0.7, or none in compat mode.
    #[arg(long, value_name = "SHARE", value_parser = parse_share)]
    similarity_min: Option<f64>,
    /// Decides which repositories are kept apart, and which functions are drawn.
    #[arg(long, value_name = "N", default_value_t = 42)]
    seed: u64,
}

/// What the name of a tool begins with that repeats answers.
const RECORDED: &str = "recorded:";

fn parse_tool(text: &str) -> Result<String, String> {
    match text.strip_prefix(RECORDED) {
        Some("") => Err("recorded: needs the name of a file".to_owned()),
        Some(_) => Ok(text.to_owned()),
        None => text.parse::<ToolChoice>().map(|choice| choice.to_string()),
    }
}

fn parse_share(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
        _ => Err("a number from 0 to 1 was expected".to_owned()),
    }
}

pub(in crate::cli) fn run(args: &Args, env: &Environment) -> anyhow::Result<Outcome> {
    let split = args.split_config();
    let config = args.config();
    anyhow::ensure!(
        split.valid_share + split.test_share < 1.0,
        "--valid-share and --test-share leave nothing for training; together they must be below 1"
    );
    let repos: Vec<ProjectConfig> =
        args.repos.iter().map(|root| args.sources.config(root, env)).collect();
    claim(&args.out, &config, &split, &args.repos, args.force)?;
    let tokenizer = args.limits.tokenizer.as_deref().map(|m| tokenizer_of(m, env)).transpose()?;
    let count = |text: &str| {
        let encode = |t: &Tokenizer| t.encode(text, Specials::AsText, AddBos::Never);
        tokenizer.as_ref().and_then(|t| encode(t).ok()).map_or(0, |ids| ids.len())
    };
    let started = Instant::now();
    let shards = {
        let bar = bars::items(0, "functions");
        let progress = Progress {
            repo: &|name, i, n, report| {
                bar.suspend(|| name_skipped(report));
                bar.reset();
                bar.set_message(format!("{i}/{n} {name}"));
            },
            functions: &|done, all| {
                bar.set_length(all as u64);
                bar.set_position(done as u64);
            },
        };
        let open = |name: &str, project: &_, report: &_| {
            if let Some(file) = name.strip_prefix(RECORDED) {
                let recorded = Recorded::read(Path::new(file)).map_err(|e| e.to_string())?;
                return Ok(Box::new(recorded) as Box<dyn CandidateSource>);
            }
            let choice: ToolChoice = name.parse()?;
            choice.start(project, report, true).map_err(|e| e.to_string())
        };
        let n_threads = args.threads.map_or_else(
            || std::thread::available_parallelism().map_or(1, NonZeroUsize::get),
            NonZeroUsize::get,
        );
        let count: Option<&(dyn Fn(&str) -> usize + Sync)> =
            tokenizer.is_some().then_some(&count as _);
        let shards = augment(&config, &repos, &args.out, n_threads, &open, count, &progress)?;
        bar.finish_and_clear();
        shards
    };
    let asked_s = started.elapsed().as_secs_f64();
    let published = publish(&config, &split, &shards, &args.out)?;
    let statistics = &published.statistics;
    warn(statistics);
    if args.json {
        let mut value = serde_json::to_value(statistics)?;
        value["seconds"] = asked_s.into();
        print_json(&value)?;
    } else {
        print(&as_text(statistics, asked_s)?)?;
    }
    Ok(Outcome::Fine)
}

impl Args {
    fn config(&self) -> AugmentConfig {
        let limits = &self.limits;
        let base = AugmentConfig::new(self.mode);
        AugmentConfig {
            trigger: self.trigger.clone().unwrap_or(base.trigger),
            tool: self.tool.clone(),
            compare: self.compare.clone(),
            files_max: limits.files_max.or(base.files_max),
            file_lines_max: limits.file_lines_max.unwrap_or(base.file_lines_max),
            function_lines_max: limits.function_lines_max.unwrap_or(base.function_lines_max),
            items_max: limits.items_max.unwrap_or(base.items_max),
            tokens_max: limits.tokens_max,
            keep_candidates: base.keep_candidates || self.candidates,
            keep_context: self.context,
            keep_rejected: self.rejected,
            call_ms_max: limits.deadline_ms,
            functions_max: limits.functions_max,
            seed: self.split.seed,
            ..base
        }
    }

    fn split_config(&self) -> SplitConfig {
        let is_compat = self.mode == Mode::Compat;
        SplitConfig {
            valid_share: self.split.valid_share,
            test_share: self.split.test_share,
            by_function: self.split.split_functions,
            similarity_min: self.split.similarity_min.or((!is_compat).then_some(0.7)),
            by_pair: is_compat,
            seed: self.split.seed,
        }
    }
}

/// What the user may not expect.
fn warn(statistics: &Statistics) {
    for rule in statistics.tally.repos_refused.keys() {
        message(&format!("left out: {rule}; --files-max sets the limit"));
    }
    let is_empty = |name: &str| statistics.files.get(name).is_some_and(|file| file.functions == 0);
    let wants_valid = statistics.split.valid_share > 0.0;
    if wants_valid && is_empty("valid.jsonl") {
        message(if statistics.split.by_function {
            "valid.jsonl is empty: there are too few functions; add repositories, or raise --valid-share"
        } else {
            "valid.jsonl is empty: repositories are split whole, and there are too few; add some, or use --split-functions"
        });
    }
}

fn as_text(s: &Statistics, seconds: f64) -> anyhow::Result<String> {
    let t: &Tally = &s.tally;
    let mut rows = Vec::new();
    for (name, file) in &s.files {
        rows.push(vec![
            name.clone(),
            file.functions.to_string(),
            file.triggers.to_string(),
            format!("{:.1} MB", file.bytes as f64 / 1e6),
            file.sha256[..16].to_owned(),
        ]);
    }
    let mut text = table(&["file", "functions", "triggers", "size", "sha256"], &rows, &[1, 2, 3]);
    let refused: u64 = t.refused.values().sum();
    text.push_str(&format!(
        "\nfunctions  {} found, {} kept with {:.2} triggers each, {refused} refused\n",
        t.functions_found, t.functions_kept, s.triggers_mean
    ));
    if refused > 0 {
        text.push_str(&format!("refused    {}\n", t.refused_by_rule()));
    }
    let list = |counts: &std::collections::BTreeMap<String, u64>| {
        let items: Vec<String> = counts.iter().map(|(k, n)| format!("{k} {n}")).collect();
        items.join(", ")
    };
    if !t.files_refused.is_empty() {
        text.push_str(&format!("files      {} read, {}\n", t.files, list(&t.files_refused)));
    }
    if !s.duplicates.is_empty() {
        text.push_str(&format!("duplicates {}\n", list(&s.duplicates)));
    }
    text.push_str(&format!(
        "questions  {} asked, {} knew the name; {}\n",
        t.asked,
        t.known,
        list(&t.answers)
    ));
    if let Some(agreement) = s.agreement {
        text.push_str(&format!(
            "agreement  {:.2} % of positions; {}\n",
            agreement * 100.0,
            list(&t.classes)
        ));
    }
    let rate = t.functions_found as f64 / seconds.max(1e-9);
    text.push_str(&format!("time       {seconds:.1} s, {rate:.0} functions/s\n"));
    Ok(text)
}
