//! A timeline that Perfetto and Chrome's tracing page open.
//!
//! # Place
//! Part of `profile`; pure.
//! # Sources
//! The "Trace Event Format" document of the Chromium project: complete events (`X`) and names of threads (`M`).

use super::Timeline;
use serde_json::{Value, json};

const PROCESS: u32 = 1;
const STEPS: u32 = 1;
const KERNELS: u32 = 2;

/// The timeline as an object of trace events. Times in microseconds.
pub fn chrome_trace(timeline: &Timeline, device: &str) -> Value {
    let name = |kind: &str, thread: u32, text: &str| json!({ "ph": "M", "name": kind, "pid": PROCESS, "tid": thread, "args": { "name": text } });
    let mut events = vec![
        name("process_name", STEPS, &format!("tether on {device}")),
        name("thread_name", STEPS, "steps"),
        name("thread_name", KERNELS, "kernels"),
    ];
    for step in &timeline.steps {
        events.push(json!({
            "ph": "X", "name": step.name, "pid": PROCESS, "tid": STEPS, "ts": step.start_us, "dur": step.us,
            "args": { "rows": step.n_rows },
        }));
    }
    for run in &timeline.kernels {
        let per_s = |n: u64| (run.us > 0.0).then(|| n as f64 / run.us * 1e6);
        events.push(json!({
            "ph": "X", "name": run.name, "pid": PROCESS, "tid": KERNELS, "ts": run.start_us, "dur": run.us,
            "args": {
                "bytes": run.bytes, "ops": run.ops,
                "bytes_per_s": per_s(run.bytes), "ops_per_s": per_s(run.ops),
            },
        }));
    }
    json!({ "displayTimeUnit": "ns", "traceEvents": events })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::KernelRun;
    use crate::profile::StepSpan;

    #[test]
    fn every_event_has_what_a_viewer_needs() {
        let kernel = KernelRun { name: "matvec", start_us: 3.0, us: 2.0, bytes: 8, ops: 4 };
        let step = StepSpan { name: "decode", start_us: 1.0, us: 9.0, n_rows: 1 };
        let timeline = Timeline { steps: vec![step], kernels: vec![kernel] };
        let trace = chrome_trace(&timeline, "emu");
        let events = trace["traceEvents"].as_array().unwrap();
        let spans: Vec<&Value> = events.iter().filter(|e| e["ph"] == "X").collect();
        assert_eq!(spans.len(), 2);
        for event in events {
            assert!(
                event["name"].is_string() && event["pid"].is_number() && event["tid"].is_number()
            );
        }
        assert!(spans.iter().all(|e| e["ts"].is_number() && e["dur"].is_number()));
        assert_eq!(spans[1]["args"]["bytes_per_s"], 4e6);
        assert_ne!(spans[0]["tid"], spans[1]["tid"], "steps and kernels have lines of their own");
    }
}
