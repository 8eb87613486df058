//! `tether adapters`: the adapters that can be asked for by name, or one of them against a model.
//!
//! # Place
//! Part of `cli`.

use crate::cli::Outcome;
use crate::cli::adapter_args::AdapterSpec;
use crate::cli::env::Environment;
use crate::cli::output::{message, print, print_json, table};
use crate::runtime::{OpenAdapter, check_adapter};
use serde_json::{Value, json};
use std::path::Path;

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    /// Look at this one only: a name, a folder that peft saved, or a GGUF file.
    #[arg(value_name = "[NAME=]ADAPTER")]
    adapter: Option<AdapterSpec>,
    /// Check that it fits this model: a name from `tether models`, a .gguf file, or a folder.
    #[arg(long, short, value_name = "MODEL", requires = "adapter")]
    model: Option<String>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// An adapter, or why it cannot be read.
struct Row {
    name: String,
    path: String,
    open: Result<OpenAdapter, String>,
    /// Tensors that were compared with a model, or what does not fit.
    fit: Option<Result<usize, String>>,
}

pub(in crate::cli) fn run(args: &Args, env: &Environment) -> anyhow::Result<Outcome> {
    let rows = match &args.adapter {
        Some(spec) => vec![one(spec, args.model.as_deref(), env)?],
        None => {
            let listed = env.adapters()?.list();
            listed.into_iter().map(|(name, path)| row(&name, &path)).collect()
        }
    };
    if args.json {
        print_json(&json!({ "adapters": rows.iter().map(as_json).collect::<Vec<_>>() }))?;
    } else if rows.is_empty() {
        let folders = env.adapters()?.folders;
        let folder = folders.first().map(|f| f.display().to_string()).unwrap_or_default();
        message(&format!("no adapters are known by name; put their folders into {folder}"));
    } else {
        let header =
            ["name", "base", "rank", "modules", "parameters", "trigger", "size", "problem"];
        let cells: Vec<Vec<String>> = rows.iter().map(cells).collect();
        print(&table(&header, &cells, &[4, 6]))?;
    }
    let is_fine = |r: &Row| r.open.is_ok() && !matches!(r.fit, Some(Err(_)));
    Ok(if rows.iter().all(is_fine) { Outcome::Fine } else { Outcome::Negative })
}

fn row(name: &str, path: &Path) -> Row {
    Row {
        name: name.to_owned(),
        path: path.display().to_string(),
        open: OpenAdapter::open(name, path).map_err(|e| e.to_string()),
        fit: None,
    }
}

fn one(spec: &AdapterSpec, model: Option<&str>, env: &Environment) -> anyhow::Result<Row> {
    let (name, path) = spec.find(env)?;
    let mut row = row(&name, &path);
    if let (Some(model), Ok(open)) = (model, &row.open) {
        let files = env.store(None)?.resolve(model)?.files;
        row.fit = Some(check_adapter(open, &files).map_err(|e| e.to_string()));
    }
    Ok(row)
}

/// `q_proj 20, k_proj 20`: modules with the number of layers that have them.
fn modules(open: &OpenAdapter) -> String {
    let modules = open.adapter.modules();
    let first = modules.first().map(|(_, n)| *n);
    match first.filter(|n| modules.len() > 1 && modules.iter().all(|(_, m)| m == n)) {
        Some(n) => {
            let names: Vec<&str> = modules.iter().map(|(name, _)| name.as_str()).collect();
            format!("{} in {n} layers", names.join(" "))
        }
        None => {
            let each = modules.iter().map(|(name, n)| format!("{name} {n}"));
            each.collect::<Vec<_>>().join(", ")
        }
    }
}

fn base(open: &OpenAdapter) -> Option<String> {
    let named = open.manifest.as_ref().and_then(|m| m.base.name.clone());
    named.or_else(|| open.adapter.config().and_then(|c| c.base.clone()))
}

fn ranks(open: &OpenAdapter) -> String {
    let ranks: Vec<String> = open.adapter.ranks().iter().map(usize::to_string).collect();
    if ranks.is_empty() { "–".to_owned() } else { ranks.join(", ") }
}

fn cells(row: &Row) -> Vec<String> {
    let none = || "–".to_owned();
    let problem = match (&row.open, &row.fit) {
        (Err(problem), _) | (_, Some(Err(problem))) => problem.clone(),
        (_, Some(Ok(n))) => format!("none; all {n} tensors fit"),
        _ => none(),
    };
    let Ok(open) = &row.open else {
        let mut cells = vec![row.name.clone()];
        cells.extend((0..6).map(|_| none()));
        cells.push(problem);
        return cells;
    };
    vec![
        row.name.clone(),
        base(open).unwrap_or_else(none),
        ranks(open),
        modules(open),
        open.adapter.n_parameters().to_string(),
        open.trigger().map_or_else(none, |t| format!("{} ({})", t.text, t.id)),
        format!("{:.1} MB", open.bytes as f64 / 1e6),
        problem,
    ]
}

fn as_json(row: &Row) -> Value {
    let mut object = json!({ "name": row.name, "path": row.path });
    let problem = match (&row.open, &row.fit) {
        (Err(problem), _) | (_, Some(Err(problem))) => Some(problem),
        _ => None,
    };
    object["problem"] = json!(problem);
    if let Some(fit) = &row.fit {
        object["tensors_that_fit"] = json!(fit.as_ref().ok());
    }
    let Ok(open) = &row.open else { return object };
    let modules = open.adapter.modules().into_iter();
    object["base"] = json!(base(open));
    object["ranks"] = json!(open.adapter.ranks());
    object["modules"] = modules.map(|(name, n)| (name, Value::from(n))).collect();
    object["parameters"] = json!(open.adapter.n_parameters());
    object["bytes"] = json!(open.bytes);
    object["key"] = json!(open.key().to_string());
    object["trigger"] = json!(open.trigger().map(|t| json!({ "text": t.text, "id": t.id })));
    let manifest = open.manifest.as_ref();
    object["prompt_style"] = json!(manifest.and_then(|m| m.prompt_style.clone()));
    object["license"] = json!(manifest.and_then(|m| m.license.clone()));
    object["description"] = json!(manifest.and_then(|m| m.description.clone()));
    object
}
