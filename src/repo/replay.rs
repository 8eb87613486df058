//! Replay of real code: at each name in the body of a function, with the rest of the function cut
//! away, is the name that was written offered?
//!
//! # Place
//! Test code. Measures the answers as a decoder meets them.

use super::file::File;
use super::syntax::*;
use super::{Project, ProjectConfig, PythonChoice};
use crate::base::Answer;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

#[derive(Default, Debug)]
struct Tally {
    n: usize,
    offered: usize,
    closed: usize,
    open: usize,
    unknown: usize,
    false_closed: usize,
}

/// Positions of attribute names and name uses in a function body: start, end, is it a member.
fn positions(file: &File, func: FuncId) -> Vec<(usize, usize, bool, bool)> {
    let node = file.ast.function(func);
    let mut out = Vec::new();
    for expr in &file.ast.exprs[node.exprs.range()] {
        if expr.span.start < node.header_end {
            continue;
        }
        match expr.kind {
            ExprKind::Attribute { value, name } => {
                let end = expr.span.end as usize;
                let start = end.saturating_sub(name.as_str().len());
                if file.text.get(start..end) == Some(name.as_str()) {
                    let on_self = matches!(file.ast.kind(value), ExprKind::Name(n) if n.as_str() == "self" || n.as_str() == "cls");
                    out.push((start, end, true, on_self));
                }
            }
            ExprKind::Name(name) => {
                let (start, end) = (expr.span.start as usize, expr.span.end as usize);
                if file.text.get(start..end) == Some(name.as_str()) {
                    out.push((start, end, false, false));
                }
            }
            _ => {}
        }
    }
    out.sort_unstable();
    out
}

#[test]
fn evaluate_packages() {
    let Ok(list) = std::env::var("TETHER_REPLAY") else {
        return;
    };
    std::thread::Builder::new()
        .stack_size(256 << 20)
        .spawn(move || evaluate(&list))
        .unwrap()
        .join()
        .unwrap();
}

fn evaluate(list: &str) {
    let verbose = std::env::var_os("TETHER_REPLAY_VERBOSE").is_some();
    let limit: usize =
        std::env::var("TETHER_REPLAY_FUNCTIONS").ok().and_then(|v| v.parse().ok()).unwrap_or(40);
    let mut dump =
        std::env::var_os("TETHER_REPLAY_DUMP").map(|p| std::fs::File::create(p).unwrap());
    let mut all: BTreeMap<&str, Tally> = BTreeMap::new();
    let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
    for root in list.split(':') {
        let mut config = ProjectConfig::new(root);
        config.python = PythonChoice::Path("/work/pkgs-venv/bin/python".into());
        let (project, report) = Project::open(config).unwrap();
        let snapshot = project.snapshot();
        let mut session = super::Session::new(std::sync::Arc::new(project));
        let mut functions: Vec<(std::sync::Arc<File>, FuncId)> = Vec::new();
        for file in snapshot.files.iter().flatten() {
            for f in 0..file.ast.functions.len() as u32 {
                let node = file.ast.function(FuncId(f));
                if node.docstring.is_some() && node.body.len > 1 {
                    functions.push((file.clone(), FuncId(f)));
                }
            }
        }
        let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
        let mut times: Vec<Duration> = Vec::new();
        let mut local: BTreeMap<&str, Tally> = BTreeMap::new();
        let mut taken = 0;
        while taken < limit && !functions.is_empty() {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let (file, func) = functions.swap_remove((seed >> 33) as usize % functions.len());
            taken += 1;
            let node = file.ast.function(func);
            for (start, end, member, on_self) in positions(&file, func) {
                let truth = &file.text[start..end];
                let mut text = file.text[..start].to_owned();
                text.push_str(&file.text[node.span.end as usize..]);
                let t = Instant::now();
                let found =
                    session.names_at(&file.path, &text, start, Some(t + Duration::from_secs(5)));
                times.push(t.elapsed());
                let offered_now = found.names.iter().any(|c| &*c.name == truth);
                let offered = offered_now;
                if let Some(dump) = &mut dump {
                    use std::io::Write;
                    let _ = writeln!(
                        dump,
                        "{}\t{start}\t{}\t{truth}\t{member}\t{offered}\t{:?}",
                        file.path.display(),
                        node.span.end,
                        found.answer
                    );
                }
                for key in
                    [if member { "member" } else { "name" }, if on_self { "self" } else { "" }]
                {
                    if key.is_empty() {
                        continue;
                    }
                    for tally in [local.entry(key).or_default(), all.entry(key).or_default()] {
                        tally.n += 1;
                        tally.offered += usize::from(offered);
                        match found.answer {
                            Answer::Closed => {
                                tally.closed += 1;
                                tally.false_closed += usize::from(!offered);
                            }
                            Answer::Open => tally.open += 1,
                            _ => tally.unknown += 1,
                        }
                    }
                }
                if member && !offered {
                    let reason = found.reason.as_deref().unwrap_or("");
                    *reasons.entry(reason.chars().take(50).collect()).or_default() += 1;
                }
                if verbose
                    && !offered
                    && (found.answer == Answer::Closed
                        || std::env::var_os("TETHER_REPLAY_ALL").is_some())
                {
                    let at = file.position(start as u32);
                    let line = file.text[..start].rsplit('\n').next().unwrap_or("");
                    println!(
                        "{:?} {}:{} {}█ {truth}  [{} names] {:?}",
                        found.answer,
                        file.path.display(),
                        at.line,
                        line.trim_start(),
                        found.names.len(),
                        found.reason
                    );
                }
            }
        }
        times.sort();
        let pick = |q: f64| {
            times
                .get((times.len() as f64 * q) as usize)
                .or(times.last())
                .copied()
                .unwrap_or_default()
        };
        println!(
            "{root}: {} files {} lines, {:.0} ms open; latency p50 {:?} p95 {:?} max {:?}; {local:?}",
            report.n_files,
            report.n_lines,
            report.elapsed_ms,
            pick(0.5),
            pick(0.95),
            pick(1.0)
        );
    }
    println!("ALL {all:#?}");
    let mut reasons: Vec<_> = reasons.into_iter().collect();
    reasons.sort_by_key(|r| std::cmp::Reverse(r.1));
    for (reason, n) in reasons.iter().take(25) {
        println!("{n:6} {reason}");
    }
}
