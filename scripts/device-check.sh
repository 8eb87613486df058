#!/usr/bin/env bash
# Everything that only a machine with an NVIDIA GPU can say, in one run of under six minutes: kernel tests on the device,
# results against the processor, rates and their share of what the device can do, the same shapes through transformers,
# and compute-sanitizer. Needs no network, no nvcc and no Rust: it uses what was built elsewhere with
#
#     cargo build --release --example measure && cargo build --release && cargo test --release --no-run --features emu
#
# Results go to bench/runs/<date>-<gpu>/. `--dry-run` runs every stage that the emulator can, on small models; it needs
# the program and the example built with `--features emu`, and `make device-dry-run` builds them and runs it.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
command -v python3 >/dev/null || { echo "device-check: python3 is needed to gather the results" >&2; exit 2; }
exec python3 "$here/device/check.py" "$@"
