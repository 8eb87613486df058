//! Every limit of the program, by name.
//!
//! # Place
//! Uses nothing. A queue, cache, prompt, child process or retry without an entry here is a defect.

/// Largest vocabulary accepted from a file, in tokens.
pub const VOCAB_TOKENS_MAX: usize = 2_000_000;
/// Largest number of tensors accepted from a file.
pub const FILE_TENSORS_MAX: u64 = 100_000;
/// Largest number of metadata entries accepted from a GGUF file.
pub const FILE_METADATA_MAX: u64 = 100_000;
/// Largest name of a tensor or metadata key, in bytes.
pub const FILE_NAME_BYTES_MAX: u64 = 1 << 16;
/// Largest safetensors header, in bytes.
pub const SAFETENSORS_HEADER_BYTES_MAX: u64 = 100 << 20;
/// Most dimensions of a tensor.
pub const TENSOR_DIMS_MAX: usize = 8;

/// How long pip may take to download a model, in milliseconds.
pub const PIP_MS_MAX: u64 = 3_600_000;
/// How much of pip's last error output is kept for messages, in bytes.
pub const PIP_STDERR_BYTES_MAX: usize = 16 << 10;
/// How long a model hub may take to answer at all, in milliseconds.
pub const HUB_ANSWER_MS_MAX: u64 = 10_000;
/// How long a model hub may be silent in the middle of a download, in milliseconds.
pub const HUB_SILENCE_MS_MAX: u64 = 60_000;

/// Tokens in one block of the key/value cache.
pub const KV_BLOCK_TOKENS: usize = 32;
/// Full contexts that a cache has room for unless its size is given.
pub const KV_CONTEXTS_MAX: usize = 8;
/// Rows (new tokens over all sequences) of one step.
pub const STEP_ROWS_MAX: usize = 512;
/// Sequences that run in one step.
pub const STEP_SEQS_MAX: usize = 64;

/// Largest rank of an adapter's low-rank terms.
pub const LOW_RANK_MAX: usize = 1024;
/// Adapters loaded beside one model.
pub const ADAPTERS_MAX: usize = 64;
/// Largest `adapter_config.json` or `tether.json`, in bytes.
pub const ADAPTER_CONFIG_BYTES_MAX: u64 = 1 << 20;

/// Shapes of steps whose launches a GPU keeps as graphs; the one not used for longest gives way.
pub const DEVICE_GRAPHS_MAX: usize = 32;
/// Partial results of attention over splits of the keys, counted in (row, split).
pub const ATTENTION_PARTIALS_MAX: usize = 4096;
/// Samples of one request.
pub const SAMPLES_MAX: usize = 64;
/// Alternatives reported for one token.
pub const LOGPROBS_MAX: usize = 100;
/// Rows of one step that may be drafts, over all sequences.
pub const DRAFT_ROWS_MAX: usize = 32;
/// Widest beam over the names at one place.
pub const BEAM_WIDTH_MAX: usize = 64;
/// Longest draft of one sequence, in tokens.
pub const DRAFT_TOKENS_MAX: usize = 10;

/// Longest name a completion tool may offer, in bytes; longer ones are dropped and counted.
pub const CANDIDATE_BYTES_MAX: usize = 1024;
/// Most names of one answer that are used; past it the answer is no longer `Closed`.
pub const CANDIDATES_MAX: usize = 50_000;
/// Default deadline of one call of a completion tool, in milliseconds.
pub const TOOL_CALL_MS_MAX: u64 = 500;
/// Default time that all calls for one request may take together, in milliseconds.
pub const TOOL_REQUEST_MS_MAX: u64 = 20_000;
/// How long a completion tool may take to start, in milliseconds.
pub const TOOL_START_MS_MAX: u64 = 20_000;
/// How long after a missed deadline a tool may still work on that call before it is killed.
pub const TOOL_HANG_MS_MAX: u64 = 5_000;
/// Memory that the Jedi process may take, in bytes.
pub const TOOL_MEMORY_BYTES_MAX: u64 = 4 << 30;
/// Longest message of a completion tool, in bytes.
pub const TOOL_FRAME_BYTES_MAX: usize = 16 << 20;
/// Longest header line of a language server's message, in bytes.
pub const TOOL_HEADER_BYTES_MAX: usize = 4 << 10;
/// Messages from a tool that wait to be read; past it the tool's pipe fills and it has to wait.
pub const TOOL_FRAMES_WAITING_MAX: usize = 4;
/// Messages to a tool that wait to be written; past it a call is answered "timed out".
pub const TOOL_WRITES_WAITING_MAX: usize = 16;
/// How much of a tool's last error output is kept for messages, in bytes.
pub const TOOL_STDERR_BYTES_MAX: usize = 4 << 10;
/// Restarts of one tool in a minute.
pub const TOOL_RESTARTS_PER_MINUTE_MAX: usize = 6;
/// Pause before the first restart after a failure, in milliseconds; doubles with each failure.
pub const TOOL_BACKOFF_MS_MIN: u64 = 100;
/// Longest pause before a restart, in milliseconds.
pub const TOOL_BACKOFF_MS_MAX: u64 = 10_000;
/// Address space of the Jedi process, in bytes.
pub const JEDI_MEMORY_BYTES_MAX: u64 = 4 << 30;
/// Documents kept open in one language server; the least recently used is closed.
pub const LSP_DOCUMENTS_MAX: usize = 64;
/// How long a language server may take to leave when asked to, in milliseconds.
pub const LSP_SHUTDOWN_MS_MAX: u64 = 500;

/// Grammars that are compiled at the same time.
pub const GRAMMARS_COMPILING_MAX: usize = 2;
/// Callers that wait for a grammar; past it a request is refused.
pub const GRAMMARS_WAITING_MAX: usize = 64;
/// Compiled grammars of one generation; two generations are kept.
pub const GRAMMARS_KEPT_MAX: usize = 32;

/// Largest Python file that is analysed, in bytes.
pub const PYTHON_FILE_BYTES_MAX: u64 = 16 << 20;
/// Deepest nesting of brackets that is parsed.
pub const PYTHON_NESTING_MAX: usize = 2_000;
/// Most Python files of one repository.
pub const PYTHON_FILES_MAX: usize = 200_000;

/// How much of pylint's output is read, in bytes.
pub const PYLINT_OUTPUT_BYTES_MAX: usize = 64 << 20;
/// How much of pylint's last error output is shown, in characters.
pub const PYLINT_STDERR_BYTES_SHOWN_MAX: usize = 600;
/// How long pylint may take unless told otherwise, in seconds.
pub const PYLINT_S_MAX: u64 = 600;
