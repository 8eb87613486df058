//! An inference engine for LLaMA-style code models that keeps what a model writes tied to names that
//! really exist in the user's repository.
//!
//! ```no_run
//! use std::path::PathBuf;
//! use tether::constrain::MonitorLevels;
//! use tether::engine::SamplingParams;
//! use tether::repo::ProjectConfig;
//! use tether::runtime::{
//!     CompleteConfig, GuideMode, LoadConfig, Model, ModelFiles, PromptStyle, Repository, Target,
//!     ToolChoice,
//! };
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // A model on the best device there is.
//! let files = ModelFiles::Gguf(PathBuf::from("SmolLM2-135M-Instruct.Q4_1.gguf"));
//! let mut model = Model::load(&files, &LoadConfig::single(), &mut |_done, _all| {})?;
//!
//! // A repository, and a function in it.
//! let config = ProjectConfig::new("examples/inventory");
//! let mut repository = Repository::open(config, &ToolChoice::Native)?;
//! let snapshot = repository.project.snapshot();
//! let function = snapshot.find_symbol("stockroom.store:Store.count_items")?;
//! let text = snapshot.text(&function.path).ok_or("analysed above")?;
//!
//! // Its body, with every name after a dot held to what exists.
//! let members = MonitorLevels::MEMBERS;
//! let params = SamplingParams { max_tokens: Some(256), ..SamplingParams::greedy() };
//! let config = CompleteConfig::new(GuideMode::Monitor(members), params);
//! let done = model.complete(&Target::body(&function, &text), &config, repository.tool.as_mut())?;
//! println!("{}", done.body);
//! println!("asked {} times", done.output.guide.stats.asked);
//! # Ok(())
//! # }
//! ```
//!
//! # Place
//! The folders and the one direction of their arrows are described in `ARCHITECTURE.md` and checked
//! by `tests/tidy.rs`: a folder uses only folders with a lower number. [`runtime`] is where a
//! program begins; [`constrain`], [`repo`] and [`engine`] can be used on their own.

pub mod augment;
pub mod base;
pub mod bench;
pub mod cli;
pub mod complete;
pub mod constrain;
pub mod device;
pub mod engine;
pub mod format;
pub mod kv;
pub mod model;
pub mod profile;
pub mod repo;
pub mod runtime;
pub mod sandbox;
pub mod tokenizer;
