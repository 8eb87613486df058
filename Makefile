# What people and CI type. Everything that is made lies in target/, .venv*/ and .cache/; nothing is made twice.
#
#   make demo      from nothing: build, fetch a model, write functions without and with the guide
#   make test      all tests, the CUDA kernels included: compiled with nvcc, run on an emulator; make lint: format, lints
#   make kernels-all  compile the kernels for every architecture; make emu-asan: emulate them with the address sanitiser
#   make device-dry-run  every stage of the device check that the emulator can run; scripts/device-check.sh is for a GPU
#   make bench     measure against llama.cpp and check the promised numbers
#   make bench-checker  the static checker against pylint: false alarms, recall, speed
#   make bench-completion   measure the completion tool on ten pinned packages and check its thresholds
#   make docs      rewrite the generated parts of the documentation
#   make bench-guided      measure guided decoding against unguided, and against transformers with Jedi
#   make goldens   rewrite the tiny models and their goldens with transformers, trigger insertion's with Jedi
#   make test-train  fine-tune: the trainer's tests, then augment, train (two minutes) and serve on a tiny model
#   make fuzz      fuzz every target for FUZZ_SECONDS each

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.PHONY: help demo build test test-rust test-python kernels-all emu-asan lint docs bench bench-completion bench-jedi bench-checker \
    bench-augment-jedi goldens peers fuzz test-train device-dry-run

PYTHON ?= python3
CARGO ?= cargo
FUZZ_SECONDS ?= 60
PIP_FLAGS := --quiet --disable-pip-version-check
TETHER := target/release/tether

help:
	@sed -n 's/^#   //p' Makefile

# ---- what people see ----

demo: build .venv/.stamp
	$(TETHER) pull smollm2
	.venv/bin/python scripts/demo/run.py --tether $(TETHER)

# Cargo knows what is out of date.
build:
	$(CARGO) build --release --locked

# ---- checks ----

test: test-rust test-python

# The development profile keeps assertions and overflow checks; Cargo.toml optimises it enough.
# nvcc comes with .venv; that it compiles the kernels is part of the test.
test-rust: .venv/.stamp
	TETHER_KERNELS=nvcc $(CARGO) test --locked --features emu

test-python: .venv/.stamp
	cd examples/inventory && ../../.venv/bin/python -m unittest --quiet
	cd examples/inventory && ../../.venv/bin/python -m pylint --errors-only --persistent=no stockroom
	.venv/bin/python -m unittest discover --quiet -s scripts/eval -p '*_test.py'

# torch is large, so neither `make test` nor CI does this.
test-train: build .venv-train/.stamp
	cd scripts/finetune && ../../.venv-train/bin/python -W ignore -m unittest
	.venv-train/bin/python scripts/finetune/end_to_end.py --tether $(TETHER) --minutes 2

kernels-all: .venv/.stamp
	TETHER_KERNELS=nvcc TETHER_CUDA_ARCHS=all $(CARGO) check --locked --lib

# A folder of its own: the sanitised library must not be mistaken for the plain one.
emu-asan:
	TETHER_EMU_FLAGS=-fsanitize=address ASAN_OPTIONS=detect_leaks=0:verify_asan_link_order=0 \
	    $(CARGO) test --locked --features emu --target-dir target/asan --lib device::emu

device-dry-run:
	$(CARGO) build --release --locked --features emu --bins --example measure
	tests=$$($(CARGO) test --release --locked --features emu --lib --no-run --message-format=json \
	    | sed -n 's/.*"executable":"\([^"]*\)".*/\1/p' | tail -n 1); \
	scripts/device-check.sh --dry-run --tests "$$tests"

lint: .venv/.stamp
	$(CARGO) fmt --check
	$(CARGO) clippy --locked --all-targets -- -D warnings
	$(CARGO) clippy --locked --all-targets --features emu -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --locked --no-deps
	.venv/bin/ruff check --quiet
	.venv/bin/ruff format --quiet --check

docs:
	UPDATE_EXPECT=1 $(CARGO) test --locked --quiet --test tidy
	UPDATE_EXPECT=1 $(CARGO) test --locked --quiet --lib the_documentation_lists

fuzz:
	@$(CARGO) fuzz --version >/dev/null 2>&1 || { echo "install cargo-fuzz: cargo install cargo-fuzz"; exit 2; }
	@for target in $$($(CARGO) fuzz list); do \
	    echo "fuzz $$target"; \
	    RUSTC_BOOTSTRAP=1 $(CARGO) fuzz run $$target -- -max_total_time=$(FUZZ_SECONDS) -rss_limit_mb=2048; \
	done

# ---- measurements and goldens ----

bench: build peers
	$(CARGO) build --release --locked --example measure
	$(TETHER) pull smollm2
	$(PYTHON) bench/run.py

# Against pylint, on pinned packages; writes bench/runs/DATE-checker.
bench-checker: build .venv-eval/.stamp
	.venv-eval/bin/python scripts/eval/checker.py --tether $(TETHER) \
	    --out bench/runs/$(shell date +%F)-checker

bench-completion: build .cache/eval/positions.jsonl
	$(TETHER) bench completion --python .venv-eval/bin/python --replay 60 --index \
	    --thresholds bench/completion/thresholds.csv --thresholds bench/completion/reached.csv \
	    --out .cache/eval/native

# Jedi at the same positions: half an hour. `bench completion --peer .cache/eval/jedi/answers.jsonl` sets ours beside it.
bench-jedi: build .cache/eval/positions.jsonl
	$(TETHER) bench completion --python .venv-eval/bin/python --tool jedi --out .cache/eval/jedi

# ToolGen's published augmentation in plain Python with Jedi (Python 3.11; ten minutes), then ours with the answers that
# Jedi gave there, and of each function whether both agree, or why not.
bench-augment-jedi: build .cache/eval/positions.jsonl
	.venv-eval/bin/python scripts/golden/toolgen_augment.py $(addprefix .cache/eval/projects/,click flask rich) \
	    --max-functions 320 --resume --answers .cache/eval/augment/compat.answers.jsonl \
	    --out .cache/eval/augment/compat.jsonl --stats .cache/eval/augment/compat.stats.json
	$(TETHER) augment $(addprefix .cache/eval/projects/,click flask rich) --mode compat --rejected --force \
	    --tool recorded:.cache/eval/augment/compat.answers.jsonl --out .cache/eval/augment/compat
	.venv-eval/bin/python scripts/eval/augment_compat.py .cache/eval/augment/compat.jsonl .cache/eval/augment/compat \
	    --same-answers --least 0.99 --out bench/runs/$(shell date +%F)-augment/compat.json

# What the guide costs and gains, on real functions; then the same functions by a plain loop over transformers and Jedi.
bench-guided: build .cache/eval/positions.jsonl .venv-guided/.stamp
	$(TETHER) pull smollm2
	$(TETHER) bench guided --threads 2 --python .venv-eval/bin/python --out .cache/eval/guided
	.venv-guided/bin/python scripts/peers/toolgen_loop.py --threads 2 --functions 30 --run .cache/eval/guided \
	    --projects .cache/eval/projects

peers: .venv-peers/.stamp

goldens: .venv-golden/.stamp
	.venv-golden/bin/python scripts/golden/make.py
	.venv-golden/bin/python scripts/golden/adapters.py
	.venv-golden/bin/python scripts/golden/augment.py
	git --no-pager diff --stat -- tests/data/models tests/data/augment

# ---- virtual environments ----

.venv/.stamp: scripts/requirements.txt kernels/requirements.txt
	$(PYTHON) -m venv .venv
	.venv/bin/python -m pip install $(PIP_FLAGS) $(addprefix -r ,$^)
	touch $@

.venv-eval/.stamp: scripts/eval/requirements.txt
	$(PYTHON) -m venv .venv-eval
	.venv-eval/bin/python -m pip install $(PIP_FLAGS) -r $<
	touch $@

.cache/eval/positions.jsonl: scripts/eval/positions.py .venv-eval/.stamp
	.venv-eval/bin/python $< --projects .cache/eval/projects --out $@

# Built here and for this processor: a ready-made wheel would be a slower peer.
.venv-peers/.stamp: scripts/peers/requirements.txt
	$(PYTHON) -m venv .venv-peers
	CMAKE_ARGS="-DGGML_NATIVE=ON" .venv-peers/bin/python -m pip install $(PIP_FLAGS) \
	    --no-binary llama_cpp_python -r $<
	touch $@

.venv-guided/.stamp: scripts/peers/requirements-guided.txt
	$(PYTHON) -m venv .venv-guided
	.venv-guided/bin/python -m pip install $(PIP_FLAGS) -r $<
	touch $@

.venv-train/.stamp: scripts/finetune/requirements.txt
	$(PYTHON) -m venv .venv-train
	.venv-train/bin/python -m pip install $(PIP_FLAGS) -r $<
	touch $@

.venv-golden/.stamp: scripts/golden/requirements.txt
	$(PYTHON) -m venv .venv-golden
	.venv-golden/bin/python -m pip install $(PIP_FLAGS) -r $<
	touch $@
