//! The command line: arguments in, text or JSON out, exit codes.
//!
//! # Place
//! The top of the crate: uses everything, used by `main.rs` only. One file for each verb; verbs never
//! use each other.
//! # Errors
//! Exit code 0: fine. 1: a negative result (findings, failed items). 2: could not run, with one
//! message that says what to do.

mod adapter_args;
mod bars;
mod env;
mod grammar_args;
mod guide_args;
mod model_args;
mod output;
mod repo_args;
mod sampling_args;
mod verb;

use clap::{Parser, Subcommand};
use env::Environment;
use output::{BrokenPipe, message};
use std::process::ExitCode;

/// Run LLaMA-style code models, tied to names that really exist in your repository.
#[derive(Debug, Parser)]
#[command(name = "tether", version, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Fetch a model named in the manifests, verify it, and keep it in the cache.
    Pull(verb::pull::Args),
    /// List the models that have a manifest, and where they are.
    Models(verb::models::Args),
    /// List the adapters that are known by name, or check one against a model.
    Adapters(verb::adapters::Args),
    /// List what a model can run on here, and why not on the rest.
    Devices(verb::devices::Args),
    /// Make a model of a real one's shape with random weights, for measuring and comparing devices.
    Synth(verb::synth::Args),
    /// Write text after a prompt.
    Generate(verb::generate::Args),
    /// Write a function body, or go on at a position, guided by the repository.
    Complete(verb::complete::Args),
    /// Show what the completion tool offers at a position.
    Candidates(verb::candidates::Args),
    /// Analyse a repository and say what is in it.
    Index(verb::index::Args),
    /// Ask a repository's tables in SQL.
    Query(verb::query::Args),
    /// Show where the name at a position is defined.
    Definition(verb::definition::Args),
    /// List the definitions of a repository or a file.
    Symbols(verb::symbols::Args),
    /// Check files for errors that only the repository can tell, under pylint's message ids.
    Check(verb::check::Args),
    /// Make fine-tuning data from repositories: functions with a trigger before names that a tool knows.
    Augment(verb::augment::Args),
    /// Measure prefill and decode rates and where the time goes.
    Profile(verb::profile::Args),
    /// Measure what the program promises.
    Bench(verb::bench::Args),
}

/// Whether a verb found what was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Fine,
    /// It ran, and the answer is no.
    Negative,
}

/// Run the program with the arguments of the process.
pub fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let environment = Environment::read();
    let result = match arguments.verb {
        Verb::Pull(args) => verb::pull::run(&args, &environment),
        Verb::Models(args) => verb::models::run(&args, &environment),
        Verb::Adapters(args) => verb::adapters::run(&args, &environment),
        Verb::Devices(args) => verb::devices::run(&args, &environment),
        Verb::Synth(args) => verb::synth::run(&args),
        Verb::Generate(args) => verb::generate::run(&args, &environment),
        Verb::Complete(args) => verb::complete::run(&args, &environment),
        Verb::Candidates(args) => verb::candidates::run(&args, &environment),
        Verb::Index(args) => verb::index::run(&args, &environment),
        Verb::Query(args) => verb::query::run(&args, &environment),
        Verb::Definition(args) => verb::definition::run(&args, &environment),
        Verb::Symbols(args) => verb::symbols::run(&args, &environment),
        Verb::Check(args) => verb::check::run(&args, &environment),
        Verb::Augment(args) => verb::augment::run(&args, &environment),
        Verb::Profile(args) => verb::profile::run(&args, &environment),
        Verb::Bench(args) => verb::bench::run(&args, &environment),
    };
    match result {
        Ok(Outcome::Fine) => ExitCode::SUCCESS,
        Ok(Outcome::Negative) => ExitCode::from(1),
        Err(error) if error.is::<BrokenPipe>() => ExitCode::SUCCESS,
        Err(error) => {
            message(&format!("error: {}", told(&error)));
            ExitCode::from(2)
        }
    }
}

/// An error and what caused it, each once: many an error's text has its cause in the middle.
fn told(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if text.is_empty() {
            text = cause;
        } else if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_told_with_its_causes_and_says_nothing_twice() {
        let full = anyhow::anyhow!("the disk is full");
        let told_once =
            full.context("cannot write a: the disk is full; make room").context("saving");
        assert_eq!(told(&told_once), "saving: cannot write a: the disk is full; make room");
        assert_eq!(told(&anyhow::anyhow!("inner").context("outer")), "outer: inner");
    }
}
