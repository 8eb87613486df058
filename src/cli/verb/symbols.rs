//! `tether symbols`: the definitions of a repository or a file, as an outline.
//!
//! # Place
//! Part of `cli`.

use crate::cli::Outcome;
use crate::cli::env::Environment;
use crate::cli::output::{message, print, print_json};
use crate::cli::repo_args::{SourceArgs, not_a_file};
use crate::repo::{Definition, DefinitionKind};
use anyhow::{Context, bail};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    /// A Python project, a folder of one, or one file.
    #[arg(value_name = "DIR|FILE", default_value = ".")]
    target: PathBuf,
    /// The root of the project, when the target is a part of it.
    #[arg(long, value_name = "DIR")]
    repo: Option<PathBuf>,
    #[command(flatten)]
    sources: SourceArgs,
    /// Only names that contain this text (upper and lower case are the same).
    #[arg(long = "match", value_name = "TEXT")]
    matching: Option<String>,
    /// Also list variables and attributes.
    #[arg(long)]
    variables: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(in crate::cli) fn run(args: &Args, env: &Environment) -> anyhow::Result<Outcome> {
    let target = args
        .target
        .canonicalize()
        .with_context(|| format!("there is no {}", args.target.display()))?;
    let folder = if target.is_dir() { Some(target.as_path()) } else { target.parent() };
    let root = match (&args.repo, folder) {
        (Some(repo), _) => repo.clone(),
        (None, Some(folder)) => folder.to_path_buf(),
        (None, None) => bail!("{} lies in no folder", target.display()),
    };
    let (project, _) = args.sources.open(&root, env)?;
    let snapshot = project.snapshot();
    let paths: Vec<PathBuf> =
        snapshot.paths().filter(|p| p.starts_with(&target)).map(Path::to_path_buf).collect();
    if paths.is_empty() {
        bail!("{}", not_a_file(&snapshot, &args.target));
    }
    let wanted = args.matching.as_ref().map(|m| m.to_lowercase());
    let mut shown: Vec<(Definition, usize)> = Vec::new();
    for path in paths {
        let all = snapshot.outline(&path).unwrap_or_default();
        let order = in_order(&all);
        for (i, depth) in order {
            let d = &all[i];
            let is_variable =
                matches!(d.kind, DefinitionKind::Variable | DefinitionKind::Attribute);
            let fits = wanted.as_ref().is_none_or(|w| d.name.to_lowercase().contains(w));
            if fits && (args.variables || !is_variable) {
                shown.push((d.clone(), depth));
            }
        }
    }
    if args.json {
        print_json(&shown.iter().map(|(d, _)| definition_json(d)).collect::<Value>())?;
    } else {
        let flat = wanted.is_some();
        print(&shown.iter().map(|(d, depth)| line(d, *depth, flat)).collect::<String>())?;
    }
    if shown.is_empty() {
        message("no definition has such a name");
        return Ok(Outcome::Negative);
    }
    Ok(Outcome::Fine)
}

/// Indices and depths, each definition after the one it is in, by place.
fn in_order(all: &[Definition]) -> Vec<(usize, usize)> {
    let mut order: Vec<usize> = (0..all.len()).collect();
    order.sort_by_key(|i| (all[*i].parent.is_some(), all[*i].start_byte));
    let mut children: Vec<Vec<usize>> = vec![Vec::new(); all.len()];
    let mut stack = Vec::new();
    for &i in &order {
        match all[i].parent {
            Some(parent) => children[parent].push(i),
            None => stack.push((i, 0)),
        }
    }
    stack.reverse();
    let mut out = Vec::with_capacity(all.len());
    while let Some((i, depth)) = stack.pop() {
        out.push((i, depth));
        stack.extend(children[i].iter().rev().map(|c| (*c, depth + 1)));
    }
    out
}

fn line(d: &Definition, depth: usize, flat: bool) -> String {
    let what = match d.kind {
        DefinitionKind::Module => format!("{} ({})", d.module, d.path.display()),
        DefinitionKind::Variable | DefinitionKind::Attribute => match &d.annotation {
            Some(annotation) => format!("{}: {annotation}", d.name),
            None => d.name.clone(),
        },
        _ => d.signature.clone().unwrap_or_else(|| d.name.clone()),
    };
    if flat {
        let at = format!("{}:{}:{}", d.path.display(), d.start.line, d.start.col);
        return format!("{at}: {} {}:{}  {what}\n", d.kind.as_str(), d.module, d.qualified_name);
    }
    format!("{}{:>5}  {what}\n", "    ".repeat(depth), d.start.line)
}

fn definition_json(d: &Definition) -> Value {
    json!({
        "kind": d.kind.as_str(),
        "name": d.name,
        "qualified_name": d.qualified_name,
        "module": d.module,
        "path": d.path.display().to_string(),
        "line": d.start.line,
        "col": d.start.col,
        "end_line": d.end_line,
        "signature": d.signature,
        "docstring": d.docstring,
        "decorators": d.decorators,
        "type": d.annotation,
    })
}
