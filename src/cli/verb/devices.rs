//! `tether devices`: what a model can run on here, and why not on the rest.
//!
//! # Place
//! Part of `cli`.

use crate::cli::Outcome;
use crate::cli::env::Environment;
use crate::cli::model_args::Device;
use crate::cli::output::{print, print_json, table};
use crate::runtime::{ceilings, devices};
use serde_json::json;
use std::num::NonZeroUsize;

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    /// Measure what a device can do at best: bytes copied and bf16 products in a second.
    #[arg(long, value_enum, value_name = "DEVICE")]
    measure: Option<Device>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(in crate::cli) fn run(args: &Args, env: &Environment) -> anyhow::Result<Outcome> {
    if let Some(device) = args.measure {
        return measure(device, env, args.json);
    }
    let devices = devices();
    if args.json {
        let rows: Vec<_> = devices
            .iter()
            .map(|d| json!({ "name": d.name, "description": d.description, "problem": d.problem }))
            .collect();
        print_json(&json!({ "devices": rows }))?;
        return Ok(Outcome::Fine);
    }
    let rows: Vec<Vec<String>> = devices
        .into_iter()
        .map(|d| {
            let usable = if d.problem.is_none() { "yes" } else { "no" };
            vec![d.name.to_owned(), usable.to_owned(), d.problem.unwrap_or(d.description)]
        })
        .collect();
    print(&table(&["device", "usable", "what it is, or why not"], &rows, &[]))?;
    Ok(Outcome::Fine)
}

fn measure(device: Device, env: &Environment, as_json: bool) -> anyhow::Result<Outcome> {
    let threads = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    let found = ceilings(device.choice(), threads, env.home.as_deref())?;
    if as_json {
        print_json(&json!({
            "copy_bytes_per_s": found.copy_bytes_per_s,
            "product_ops_per_s": found.product_ops_per_s,
            "library_ops_per_s": found.library_ops_per_s,
        }))?;
    } else {
        print(&format!(
            "copy {:.1} GB/s, bf16 products {:.3} TFLOP/s{}\n",
            found.copy_bytes_per_s / 1e9,
            found.product_ops_per_s / 1e12,
            found.library_ops_per_s.map_or_else(String::new, |ops| {
                format!(", by the vendor's library {:.3}", ops / 1e12)
            })
        ))?;
    }
    Ok(Outcome::Fine)
}
