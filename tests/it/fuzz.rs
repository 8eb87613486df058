//! A short run of every fuzz target: real files with drawn damage, and drawn bytes.

#[allow(unreachable_pub)] // shared with the fuzz crate
#[path = "../../fuzz/bodies/gguf_file.rs"]
mod gguf_file;
#[allow(unreachable_pub)] // shared with the fuzz crate
#[path = "../../fuzz/bodies/name_automaton.rs"]
mod name_automaton;
#[allow(unreachable_pub)] // shared with the fuzz crate
#[path = "../../fuzz/bodies/python_lexer.rs"]
mod python_lexer;
#[allow(unreachable_pub)] // shared with the fuzz crate
#[path = "../../fuzz/bodies/python_names.rs"]
mod python_names;
#[allow(unreachable_pub)] // shared with the fuzz crate
#[path = "../../fuzz/bodies/safetensors_file.rs"]
mod safetensors_file;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tether::repo::{Project, ProjectConfig};

/// xorshift64*: the same bytes on every machine.
struct Draw(u64);

impl Draw {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }

    fn bytes(&mut self, n_max: usize) -> Vec<u8> {
        let n = self.below(n_max);
        (0..n).map(|_| self.next() as u8).collect()
    }
}

fn data(file: &str) -> Vec<u8> {
    let models = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/models");
    std::fs::read(models.join(file)).expect("test data is committed")
}

/// One of: bits flipped near the front, a length overwritten with an extreme, the end cut off.
fn damaged(seed: &[u8], front: usize, draw: &mut Draw) -> Vec<u8> {
    let mut bytes = seed.to_vec();
    match draw.below(4) {
        0 => bytes.truncate(draw.below(seed.len())),
        1 => {
            let extreme = [u64::MAX, 1 << 60, u64::from(u32::MAX), 0][draw.below(4)].to_le_bytes();
            let at = draw.below(front - extreme.len());
            bytes[at..at + extreme.len()].copy_from_slice(&extreme);
        }
        _ => {
            for _ in 0..=draw.below(3) {
                bytes[draw.below(front)] ^= 1 << draw.below(8);
            }
        }
    }
    bytes
}

#[test]
fn a_damaged_gguf_file_is_an_error_or_readable() {
    let seed = data("gguf/llama-q4_0.gguf");
    assert!(gguf_file::run(&seed), "the seed itself is good");
    let mut draw = Draw(1);
    let n_taken = (0..4000).filter(|_| gguf_file::run(&damaged(&seed, 6000, &mut draw))).count();
    assert!((1..4000).contains(&n_taken), "some damage is harmless, some is not: {n_taken}");
    (0..500).for_each(|_| {
        let _ = gguf_file::run(&draw.bytes(200));
    });
}

#[test]
fn a_damaged_safetensors_file_is_an_error_or_readable() {
    let seed = data("llama-tied/model-00002-of-00002.safetensors");
    assert!(safetensors_file::run(&seed), "the seed itself is good");
    let mut draw = Draw(2);
    let n_taken =
        (0..4000).filter(|_| safetensors_file::run(&damaged(&seed, 900, &mut draw))).count();
    assert!((1..4000).contains(&n_taken), "some damage is harmless, some is not: {n_taken}");
    (0..500).for_each(|_| {
        let _ = safetensors_file::run(&draw.bytes(200));
    });
}

#[test]
fn masks_of_drawn_names_and_vocabularies_follow_the_rule() {
    let mut draw = Draw(3);
    let n_states: usize = (0..3000).map(|_| name_automaton::run(&draw.bytes(160))).sum();
    assert!(n_states > 3000, "states beyond the first are reached: {n_states}");
}

#[test]
fn the_lexer_takes_any_bytes() {
    let mut draw = Draw(4);
    (0..500).for_each(|_| {
        let _ = python_lexer::run(&draw.bytes(300));
    });
    // Text made of the pieces that change the lexer's state.
    let pieces =
        ["'", "\"\"\"", "f'{", "}", "#", "\n", "\\\n", "(", ")", "x.", "1.", "rb\"", "{{", " "];
    let mut n_places = 0;
    for _ in 0..2000 {
        let n = draw.below(24);
        let text: String = (0..n).map(|_| pieces[draw.below(pieces.len())]).collect();
        n_places += usize::from(python_lexer::run(text.as_bytes()));
    }
    assert!(n_places > 50, "names begin in some of them: {n_places}");
}

/// Python sources of this machine: the standard library's when there is one, and our own.
fn real_sources() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/inventory");
    let (project, report) = Project::open(ProjectConfig::new(root)).expect("a committed project");
    let own = project.snapshot().paths().map(Path::to_path_buf).collect::<Vec<_>>();
    let library = report.environment.stdlib.first().and_then(|d| std::fs::read_dir(d).ok());
    let entries = library.into_iter().flatten().flatten().map(|e| e.path());
    let mut found: Vec<PathBuf> =
        entries.filter(|p| p.extension().is_some_and(|e| e == "py")).chain(own).collect();
    found.sort();
    found
}

/// A piece cut out, doubled, moved or replaced.
fn mutated(text: &str, draw: &mut Draw) -> String {
    const PIECES: [&str; 14] =
        ["(", ")", ".", ":", "\n", "'", "\"\"\"", "\\\n", "\t", "def ", "class ", "é", "{", " = "];
    let mut chars: Vec<char> = text.chars().collect();
    for _ in 0..=draw.below(4) {
        let start = draw.below(chars.len().max(1));
        let end = (start + draw.below(60)).min(chars.len());
        match draw.below(4) {
            0 => drop(chars.drain(start..end)),
            1 => {
                let piece = chars[start..end].to_vec();
                let at = draw.below(chars.len());
                chars.splice(at..at, piece);
            }
            _ => {
                let piece = PIECES[draw.below(PIECES.len())];
                chars.splice(start..start, piece.chars());
            }
        }
    }
    chars.into_iter().collect()
}

/// Memory that this process holds, in bytes, where the system tells.
fn resident_bytes() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm.split(' ').nth(1).and_then(|n| n.parse::<usize>().ok());
    pages.unwrap_or(0) * 4096
}

#[test]
fn names_in_mutated_real_sources_are_listed_in_bounded_time_and_memory() {
    let sources = real_sources();
    let mut draw = Draw(5);
    let (mut n_asked, mut n_listed) = (0, 0);
    let before = resident_bytes();
    let started = Instant::now();
    while started.elapsed() < Duration::from_secs(8) {
        let Ok(text) = std::fs::read_to_string(&sources[draw.below(sources.len())]) else {
            continue; // not UTF-8
        };
        let text = mutated(&text, &mut draw);
        for _ in 0..4 {
            let mut at = draw.below(text.len() + 1);
            // Mostly right after a dot, where most is looked at.
            if let (true, Some(dot)) =
                (draw.below(4) > 0, text.as_bytes()[at..].iter().position(|b| *b == b'.'))
            {
                at += dot + 1;
            }
            while !text.is_char_boundary(at) {
                at -= 1;
            }
            n_asked += 1;
            n_listed += usize::from(python_names::ask(&text, at));
        }
    }
    (0..300).for_each(|_| {
        let _ = python_names::run(&draw.bytes(400));
    });
    assert!(n_listed > 0, "names in {n_listed} of {n_asked}");
    let grown = resident_bytes().saturating_sub(before);
    assert!(grown < 1 << 30, "{grown} bytes more than before");
}
