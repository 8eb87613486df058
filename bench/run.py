"""Measure tether against llama.cpp on this machine, now: the numbers that the project promises.

    make bench                 builds both and runs this
    python bench/run.py --tether target/release/tether --measure target/release/examples/measure \
        --peer-python .venv-peers/bin/python [--quick] [--only decode,memory]

Peer and ours take turns (A B A B …), so that a change of the machine's mood meets both. Every sample is kept
under bench/runs/<date>-<machine>/: `samples.json` is written after each case, `table.md` at the end. Exit
code 0 when every row holds, 1 when one does not or could not be measured.
"""

import argparse
import json
import math
import os
import platform
import re
import statistics
import subprocess
import sys
import time
from datetime import datetime, timezone
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PEERS = ROOT / "scripts" / "peers"
CACHE = ROOT / ".cache" / "bench"
FORMATS = ["Q4_1", "Q8_0", "Q4_0"]
# About twenty tokens; greedy, one new token: from the start of the process to its end.
SHORT_PROMPT = 'def read_lines(path):\n    """Return the lines of a text file."""\n'
# Text of our own, so that every clone scores the same positions.
SCORED_TEXT = ["examples/inventory/**/*.py", "scripts/**/*.py", "bench/*.py"]
N_POSITIONS = 2000


class Failed(Exception):
    """A case could not be measured; the message says why."""


def run(command: list[object], timeout_s: int = 300) -> str:
    command = [str(part) for part in command]
    try:
        done = subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, timeout=timeout_s, check=False
        )
    except FileNotFoundError as error:
        raise Failed(f"{command[0]}: {error.strerror}") from error
    except subprocess.TimeoutExpired as error:
        raise Failed(f"{' '.join(command[:3])}: over {timeout_s} s") from error
    if done.returncode != 0:
        last = (done.stderr.strip() or "no message").splitlines()[-1]
        raise Failed(f"{' '.join(command[:3])}: exit {done.returncode}: {last}")
    return done.stdout


def run_json(command: list[object], timeout_s: int = 300) -> dict:
    out = run(command, timeout_s)
    try:
        return json.loads(out)
    except ValueError as error:
        raise Failed(f"{command[0]}: no JSON in its output: {error}") from error


def run_measured(command: list[object]) -> tuple[float, int]:
    """Wall time in seconds and peak resident bytes of one run of a program."""
    start = time.perf_counter()
    with subprocess.Popen(
        [str(part) for part in command], cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    ) as process:
        message = process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    wall_s = time.perf_counter() - start
    if process.returncode != 0:
        raise Failed(f"{command[1]}: {message.decode(errors='replace').strip().splitlines()[-1:]}")
    return wall_s, usage.ru_maxrss * 1024


class Bench:
    def __init__(self, args: argparse.Namespace):
        self.args = args
        self.models = self.find_models()
        stamp = datetime.now(timezone.utc).strftime("%Y-%m-%d-%H%M")
        self.folder = ROOT / "bench" / "runs" / f"{stamp}-{machine_name()}"
        self.samples: dict = {"about": self.about()}
        self.rows: list[tuple[str, str, str, str, bool | None]] = []

    def find_models(self) -> dict[str, Path]:
        shipped = self.args.model
        if shipped is None:
            listing = run_json([self.args.tether, "models", "--json"])
            models = listing if isinstance(listing, list) else listing["models"]
            entry = next((m for m in models if m["name"] == "smollm2"), None)
            if entry is None or not entry.get("path"):
                raise Failed("smollm2 is not in the cache; run `tether pull smollm2`")
            shipped = Path(entry["path"])
        out = run([self.args.peer_python, PEERS / "requantise.py", shipped, CACHE])
        made = {path.suffixes[-2].lstrip("."): path for path in map(Path, out.split())}
        return {"Q4_1": shipped} | made

    def about(self) -> dict:
        git = subprocess.run(
            ["git", "describe", "--always", "--dirty"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        return {
            "started": datetime.now(timezone.utc).isoformat(timespec="seconds"),
            "command": sys.argv,
            "commit": git.stdout.strip(),
            "machine": machine(),
            "threads": self.args.threads,
            "load_before": os.getloadavg(),
            "models": {name: path.stat().st_size for name, path in self.models.items()},
            "peer": run([self.args.peer_python, "-m", "pip", "freeze"]).split(),
        }

    def keep(self, case: str, samples: object) -> None:
        self.samples[case] = samples
        self.folder.mkdir(parents=True, exist_ok=True)
        text = json.dumps(self.samples, indent=1, default=str)
        # Results are kept in the repository: no path of this machine in them.
        text = text.replace(str(ROOT), ".").replace(str(Path.home()), "~")
        (self.folder / "samples.json").write_text(text + "\n")

    def row(self, what: str, measured: str, wanted: str, ratio: str, good: bool | None) -> None:
        self.rows.append((what, measured, wanted, ratio, good))
        print(f"  {verdict(good):12} {what}: {measured} (wanted {wanted}) {ratio}", flush=True)

    # ---- cases ----

    def speed(self) -> None:
        """Prefill and decode against the peer, format by format."""
        n_rounds, reps = (1, 1) if self.args.quick else (4, 2)
        threads = ["--threads", self.args.threads]
        for name in FORMATS:
            model = self.models[name]
            sizes = ["--prompt-tokens", 512, "--gen-tokens", 128, "--reps", reps]
            peer = [self.args.peer_python, PEERS / "llama_cpp_bench.py", "--model", model]
            ours = [self.args.tether, "profile", "--json", "--model", model]
            runs = {"peer": [], "ours": []}
            for _ in range(n_rounds):
                runs["peer"].append(run_json(peer + sizes + threads))
                runs["ours"].append(run_json(ours + sizes + threads))
            self.keep(f"speed {name}", runs)
            for what, key in (
                ("decode", "decode_tokens_per_s"),
                ("prefill 512", "prefill_tokens_per_s"),
            ):
                theirs, own = (
                    statistics.median(s for r in runs[side] for s in r[key]["samples"])
                    for side in ("peer", "ours")
                )
                wanted = {"decode": 1.3, "prefill 512": 3.0}[what] if name == "Q4_1" else 1.0
                self.row(
                    f"{what}, {name}, tokens/s",
                    f"{own:.0f} against {theirs:.0f}",
                    f"≥ {wanted} ×",
                    f"{own / theirs:.2f} ×",
                    own >= wanted * theirs,
                )

    def first_token(self) -> None:
        """Start of the process to its first token, the file in the page cache."""
        command = [
            self.args.tether,
            "generate",
            "--model",
            self.models["Q4_1"],
            "--prompt",
            SHORT_PROMPT,
        ]
        command += ["--max-tokens", 1, "--temperature", 0, "--threads", self.args.threads]
        run_measured(command)  # fills the page cache
        samples = [run_measured(command)[0] for _ in range(3 if self.args.quick else 9)]
        self.keep("first token", samples)
        median = statistics.median(samples)
        self.row("start to first token, s", f"{median:.3f}", "≤ 0.4", "", median <= 0.4)

    def memory(self) -> None:
        """Peak resident memory of a whole profile run, mapped file pages included."""
        command = [self.args.tether, "profile", "--json", "--model", self.models["Q4_1"]]
        command += ["--prompt-tokens", 512, "--gen-tokens", 128, "--reps", 1]
        command += ["--threads", self.args.threads]
        _, peak = run_measured(command)
        layers, kv_heads, head_dim, bytes_each = 30, 3, 64, 2
        cache = 2 * layers * kv_heads * head_dim * bytes_each * (512 + 128)
        file = self.models["Q4_1"].stat().st_size
        limit = file + cache + 80 * 10**6
        self.keep("memory", {"peak": peak, "file": file, "cache": cache})
        self.row(
            "peak resident memory, MB",
            f"{peak / 1e6:.0f}",
            f"≤ {limit / 1e6:.0f} (file {file / 1e6:.0f} + cache {cache / 1e6:.0f} + 80)",
            "",
            peak <= limit,
        )

    def guided(self) -> None:
        """Time per token with and without the guide, on functions where both write the same."""
        demo = json.loads((ROOT / "examples" / "demo.json").read_text())
        symbols = demo["symbols"] + demo["also_measured"]
        command = [
            self.args.tether,
            "complete",
            "--json",
            "--repo",
            ROOT / "examples" / "inventory",
        ]
        command += ["--model", self.models["Q4_1"], "--threads", self.args.threads]
        samples, same = [], []
        for _ in range(1 if self.args.quick else 3):
            for symbol in symbols:
                pair = {
                    mode: run_json([*command, "--symbol", symbol, "--guide", mode])
                    for mode in ("off", "monitor")
                }
                samples.append({"symbol": symbol} | pair)
                is_same = pair["off"]["body"] == pair["monitor"]["body"]
                if is_same and pair["off"]["tokens"] > 4:
                    same.append(tuple(per_token_ms(pair[mode]) for mode in ("off", "monitor")))
        self.keep("guided", samples)
        if not same:
            raise Failed("the guide changed every function: nothing to compare token by token")
        off, on = (statistics.median(side) for side in zip(*same, strict=True))
        self.row(
            f"guided per token, ms ({len(same)} runs with the same text)",
            f"{on:.2f} against {off:.2f}",
            "≤ 1.1 ×",
            f"{on / off:.2f} ×",
            on <= 1.1 * off,
        )

    def indexing(self) -> None:
        """Lines a second through the index, on one core: the standard library of this Python."""
        result = run_json([self.args.measure, "index", Path(os.__file__).parent])
        self.keep("indexing", result)
        rate = result["n_lines"] / statistics.median(result["seconds"])
        self.row(
            f"indexing {result['n_lines']} lines, lines/s",
            f"{rate:,.0f}",
            "≥ 100,000",
            "",
            rate >= 1e5,
        )

    def agreement(self) -> None:
        """Top-1 agreement and perplexity against the peer on Python text."""
        files = sorted(path for pattern in SCORED_TEXT for path in ROOT.glob(pattern))
        theirs_file = CACHE / "peer-scores.json"
        command = [
            self.args.peer_python,
            PEERS / "llama_cpp_eval.py",
            "--model",
            self.models["Q4_1"],
        ]
        command += [
            "--out",
            theirs_file,
            "--positions",
            N_POSITIONS,
            "--threads",
            self.args.threads,
        ]
        run([*command, *files])
        theirs = json.loads(theirs_file.read_text())["windows"]
        ours = run_json([self.args.measure, "score", self.models["Q4_1"], theirs_file])["windows"]
        pairs = [
            pair
            for t, o in zip(theirs, ours, strict=True)
            for pair in zip(t["argmax"], o["argmax"], strict=True)
        ]
        share = sum(a == b for a, b in pairs) / len(pairs)
        ppl_theirs, ppl_ours = (
            math.exp(statistics.fmean(v for window in side for v in window["nll"]))
            for side in (theirs, ours)
        )
        self.keep("agreement", {"theirs": theirs, "ours": ours})
        self.row(
            f"same best token, {len(pairs)} positions",
            f"{100 * share:.2f} %",
            "≥ 97 %",
            "",
            share >= 0.97,
        )
        self.row(
            "perplexity",
            f"{ppl_ours:.4f} against {ppl_theirs:.4f}",
            "within 1 %",
            f"{ppl_ours / ppl_theirs:.4f} ×",
            abs(ppl_ours / ppl_theirs - 1) <= 0.01,
        )

    def all(self) -> bool:
        cases = [
            self.speed,
            self.first_token,
            self.memory,
            self.guided,
            self.indexing,
            self.agreement,
        ]
        for case in cases:
            if self.args.only and case.__name__ not in self.args.only.split(","):
                continue
            print(f"{case.__name__}: {case.__doc__}", flush=True)
            try:
                case()
            except (Failed, KeyError) as error:
                self.keep(case.__name__, {"failed": repr(error)})
                self.row(case.__name__, "not measured", str(error), "", None)
        self.samples["about"]["load_after"] = os.getloadavg()
        self.keep("rows", self.rows)
        table = markdown(self.rows)
        (self.folder / "table.md").write_text(f"{self.samples['about']['machine']}\n\n{table}")
        print(f"\n{table}\nsamples: {self.folder.relative_to(ROOT)}")
        return all(good for *_, good in self.rows)


def per_token_ms(result: dict) -> float:
    """Milliseconds for each token after the first, so that the prompt is left out."""
    return result["timings"]["decode_ms"] / (result["tokens"] - 1)


def verdict(good: bool | None) -> str:
    return {True: "holds", False: "DOES NOT HOLD", None: "not measured"}[good]


def markdown(rows: list[tuple]) -> str:
    lines = ["| what | measured | wanted | ratio | |", "|---|---|---|---|---|"]
    lines += [
        f"| {what} | {got} | {want} | {ratio} | {verdict(good)} |"
        for what, got, want, ratio, good in rows
    ]
    return "\n".join(lines) + "\n"


def machine() -> str:
    """Processor, cores and memory: never a host name."""
    processor, memory = platform.machine(), ""
    try:
        cpuinfo = Path("/proc/cpuinfo").read_text()
        processor = re.search(r"model name\s*: (.*)", cpuinfo)[1].strip()
        family = [re.search(rf"{key}\s*: (.*)", cpuinfo)[1] for key in ("cpu family", "model")]
        processor += f" (family {family[0]}, model {family[1]})"
        kib = int(re.search(r"MemTotal:\s*(\d+)", Path("/proc/meminfo").read_text())[1])
        memory = f", {kib / 2**20:.0f} GiB"
    except (OSError, TypeError):
        pass
    return f"{processor}, {os.cpu_count()} cores{memory}"


def machine_name() -> str:
    short = machine().split("(")[0].split(",")[0]
    return re.sub(r"[^a-z0-9]+", "-", short.lower()).strip("-") + f"-{os.cpu_count()}c"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tether", type=Path, default=ROOT / "target" / "release" / "tether")
    parser.add_argument(
        "--measure", type=Path, default=ROOT / "target" / "release" / "examples" / "measure"
    )
    parser.add_argument("--peer-python", type=Path, default=ROOT / ".venv-peers" / "bin" / "python")
    parser.add_argument("--model", type=Path, help="the shipped GGUF file; default: from the cache")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--quick", action="store_true", help="few samples: does it run at all?")
    parser.add_argument("--only", help="names of cases, with commas")
    try:
        return 0 if Bench(parser.parse_args()).all() else 1
    except Failed as error:
        print(f"cannot measure: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
