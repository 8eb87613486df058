"""Stages of `scripts/device-check.sh`: each leaves its numbers, or why it did not run, in one JSON file."""

import argparse
import datetime
import json
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
SECONDS_MAX = 350


class Skipped(Exception):
    """A stage that cannot run here, and why."""


class Check:
    """One run: its tools, its folder, and the results so far."""

    def __init__(self, args):
        self.device = "emu" if args.dry_run else "cuda"
        self.is_dry = args.dry_run
        self.tether = args.tether
        self.measure = args.measure
        self.tests = args.tests
        self.deadline = time.monotonic() + args.seconds
        self.models = pathlib.Path(tempfile.mkdtemp(prefix="tether-check-"))
        self.results = {"command": sys.argv, "date": now(), "machine": machine(), "stages": {}}
        self.out = None

    def run(self, *command, env=None, check=True):
        left = self.deadline - time.monotonic()
        if left < 5:
            raise Skipped("the time was used up by earlier stages")
        done = subprocess.run(
            [str(part) for part in command],
            capture_output=True,
            text=True,
            timeout=left,
            env=os.environ | (env or {}),
            check=False,
        )
        if check and done.returncode != 0:
            raise RuntimeError(f"{command[0]} failed with {done.returncode}: {done.stderr[-2000:]}")
        return done

    def json(self, *command):
        return json.loads(self.run(*command).stdout)

    def synth(self, arch, dtype):
        path = self.models / f"{arch}-{dtype}.gguf"
        if not path.exists():
            self.run(
                self.tether, "synth", "--arch", arch, "--dtype", dtype, "--seed", 1, "-o", path
            )
        return path

    def stage(self, name, body):
        started = time.monotonic()
        try:
            entry = {"status": "passed", "result": body(self)}
        except Skipped as reason:
            entry = {"status": "skipped", "reason": str(reason)}
        except subprocess.TimeoutExpired:
            entry = {"status": "skipped", "reason": "it would have gone past the time limit"}
        except (RuntimeError, AssertionError, OSError, ValueError, KeyError) as error:
            entry = {"status": "failed", "reason": f"{type(error).__name__}: {error}"}
        entry["seconds"] = round(time.monotonic() - started, 1)
        self.results["stages"][name] = entry
        print(
            f"{name}: {entry['status']} ({entry['seconds']} s) {entry.get('reason', '')}",
            flush=True,
        )
        self.save()

    def save(self):
        """After every stage, so that a crash loses nothing."""
        if self.out:
            (self.out / "check.json").write_text(json.dumps(self.results, indent=1) + "\n")


def now():
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")


def machine():
    return {
        "platform": platform.platform(),
        "processor": platform.processor(),
        "cores": os.cpu_count(),
    }


def devices(check):
    """What there is. The name of the GPU names the folder of the results."""
    listed = check.json(check.tether, "devices", "--json")["devices"]
    mine = [d for d in listed if d["name"] == check.device]
    if not mine or mine[0]["problem"]:
        raise RuntimeError(
            mine[0]["problem"] if mine else f"no device {check.device} in this build"
        )
    return {
        "devices": listed,
        "ceilings": check.json(check.tether, "devices", "--measure", check.device, "--json"),
    }


def kernels(check):
    """(a) Every kernel test, on the device."""
    if not check.tests:
        raise Skipped("no test binary: build it with the feature `emu`, and name it with --tests")
    env = {} if check.is_dry else {"TETHER_TEST_DEVICE": "cuda"}
    done = check.run(check.tests, "device::emu::test", env=env, check=False)
    summary = re.findall(r"test result: .*", done.stdout)
    if done.returncode != 0:
        raise RuntimeError(
            "; ".join(re.findall(r"---- (\S+) stdout", done.stdout)) + " " + " ".join(summary)
        )
    # A filter that fits nothing passes too.
    if not re.search(r" [1-9]\d* passed", " ".join(summary)):
        raise RuntimeError(f"no kernel test ran: {summary}")
    return {"summary": summary}


def against_processor(check):
    """(b) What every position of a text costs, against the processor's reference."""
    shapes = [("tiny", "f32"), ("tiny", "bf16"), ("tiny", "q4_0"), ("tiny", "q4_k")]
    if not check.is_dry:
        shapes += [("smollm2", "bf16"), ("smollm2", "q4_0")]
    ids = [(7 * i * i + 3 * i) % 500 + 3 for i in range(24 if check.is_dry else 96)]
    windows = check.models / "windows.json"
    windows.write_text(json.dumps({"windows": [{"ids": ids}]}))
    rows = []
    for arch, dtype in shapes:
        model = check.synth(arch, dtype)
        scores = [
            check.json(check.measure, "score", model, windows, d)
            for d in ("reference", check.device)
        ]
        want, got = (s["windows"][0]["nll"] for s in scores)
        worst = max(abs(a - b) / max(1.0, abs(a)) for a, b in zip(want, got, strict=True))
        limit = 2e-2
        rows.append({"arch": arch, "dtype": dtype, "worst_relative": worst, "limit": limit})
        if worst > limit:
            raise RuntimeError(f"{arch} {dtype}: {worst} away from the reference: {rows}")
    return rows


# Bytes of a cached token in 16 bits: 2 x layers x key-value heads x head size x 2.
CACHE_BYTES = {"tiny": 1024, "smollm2": 23_040, "llama-7b": 524_288}


def rates(check):
    """(c) Decode and prefill rates of batches, with their shares of the measured bandwidth and product rate."""
    ceilings = check.results["stages"]["devices"].get("result", {}).get("ceilings", {})
    shapes = (
        [("tiny", "bf16"), ("tiny", "q4_0")]
        if check.is_dry
        else [
            ("smollm2", "bf16"),
            ("llama-7b", "q4_0"),
            ("llama-7b", "bf16"),
            ("smollm2", "q4_0"),
        ]
    )
    contexts = [32] if check.is_dry else [128, 2048, 8192]
    batches = [1, 2, 4] if check.is_dry else [1, 4, 16, 64]
    n_gen, n_reps = (3, 1) if check.is_dry else (64, 1)
    rows = check.results["rates"] = []
    for context in contexts:
        for arch, dtype in shapes:
            model = check.synth(arch, dtype)
            sizes = ["--prompt-tokens", context, "--gen-tokens", n_gen, "--reps", n_reps]
            batch = ["--batch", ",".join(map(str, batches))]
            where = ["--model", model, "--device", check.device]
            report = check.json(check.tether, "profile", "--json", *where, *sizes, *batch)
            for measured in report["rows"]:
                row = {"arch": arch, "dtype": dtype, "context": context, "batch": measured["batch"]}
                rows.append(row | rate_row(measured, model, arch, dtype, context, ceilings))
            check.save()
    return rows


def rate_row(measured, model, arch, dtype, context, ceilings):
    if "skipped" in measured:
        return {"skipped": measured["skipped"]}
    decode = measured["decode_tokens_per_s"]["median"]
    prefill = measured["prefill_tokens_per_s"]["median"]
    row = {"decode_tokens_per_s": decode, "prefill_tokens_per_s": prefill}
    row["token_ms"] = measured["token_ms"]
    weight_bytes = model.stat().st_size
    # A step reads the weights once, and the cache of every sequence.
    if decode and ceilings.get("copy_bytes_per_s"):
        batch = measured["batch"]
        step_bytes = weight_bytes + batch * context * CACHE_BYTES[arch]
        row["share_of_bandwidth"] = decode / batch * step_bytes / ceilings["copy_bytes_per_s"]
    if prefill and ceilings.get("product_ops_per_s"):
        n_weights = weight_bytes * {"bf16": 1 / 2, "q4_0": 32 / 18}[dtype]
        best = max(ceilings["product_ops_per_s"], ceilings.get("library_ops_per_s") or 0)
        row["share_of_products"] = 2 * n_weights * prefill / best
    return row


def peer(check):
    """(d) The same shapes through transformers, on the same device in the same run."""
    if check.is_dry:
        raise Skipped("there is no GPU in a dry run")
    script = ROOT / "scripts/device/peer.py"
    done = check.run(sys.executable, script, check=False)
    if done.returncode == 3:
        raise Skipped(done.stderr.strip())
    if done.returncode != 0:
        raise RuntimeError(done.stderr[-2000:])
    return json.loads(done.stdout)


def sanitizer(check):
    """(e) Memory errors and races that the device's own tool finds on a small run."""
    tool = shutil.which("compute-sanitizer")
    if check.is_dry or not tool:
        raise Skipped(
            "there is no GPU in a dry run" if check.is_dry else "compute-sanitizer is not installed"
        )
    model = check.synth("tiny", "q4_0")
    found = {}
    for name in ("memcheck", "racecheck"):
        args = [
            "generate",
            "--model",
            model,
            "--prompt",
            "abc",
            "-n",
            4,
            "--ignore-eos",
            "--device",
            "cuda",
        ]
        done = check.run(
            tool, "--tool", name, "--error-exitcode", 9, check.tether, *args, check=False
        )
        found[name] = (done.stdout + done.stderr)[-600:]
        if done.returncode != 0:
            raise RuntimeError(f"{name}: {found[name]}")
    return found


def table(results):
    lines = ["| stage | status | seconds | |", "|---|---|---|---|"]
    for name, entry in results["stages"].items():
        lines.append(
            f"| {name} | {entry['status']} | {entry['seconds']} | {entry.get('reason', '')} |"
        )
    lines += [
        "",
        "| shape | type | context | batch | decode, 1/s | of bandwidth | prefill, 1/s | of products |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in results.get("rates", []):
        cells = [row["arch"], row["dtype"], row["context"], row["batch"]]
        if "skipped" in row:
            lines.append(f"| {' | '.join(map(str, cells))} | {row['skipped']} | | | |")
            continue
        for rate, share in (
            ("decode_tokens_per_s", "share_of_bandwidth"),
            ("prefill_tokens_per_s", "share_of_products"),
        ):
            cells.append(f"{row[rate]:.1f}" if row[rate] else "–")
            cells.append(f"{row[share]:.0%}" if share in row else "–")
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines) + "\n"


def arguments():
    parser = argparse.ArgumentParser(prog="device-check.sh", description=__doc__)
    release = ROOT / "target/release"
    parser.add_argument(
        "--dry-run", action="store_true", help="run on the emulator what the emulator can run"
    )
    parser.add_argument("--tether", default=release / "tether", help="the program")
    parser.add_argument(
        "--measure", default=release / "examples/measure", help="the example `measure`"
    )
    parser.add_argument(
        "--tests", help="the test binary of the library, built with the feature `emu`"
    )
    parser.add_argument("--out", type=pathlib.Path, help="where results go")
    parser.add_argument("--seconds", type=float, default=SECONDS_MAX, help="time for all stages")
    return parser.parse_args()


def main():
    check = Check(arguments())
    args = arguments()
    for tool in (check.tether, check.measure):
        if not pathlib.Path(tool).exists():
            sys.exit(
                f"device-check: {tool} is not there; build it first (see the head of device-check.sh)"
            )
    try:
        check.stage("devices", devices)
        gpu = "emulator"
        if not check.is_dry and check.results["stages"]["devices"]["status"] == "passed":
            listed = check.results["stages"]["devices"]["result"]["devices"]
            gpu = next(d["description"] for d in listed if d["name"] == "cuda").split(",")[0]
        name = f"{datetime.date.today()}-{re.sub('[^a-z0-9]+', '-', gpu.lower()).strip('-')}"
        folder = check.models if check.is_dry else ROOT / "bench/runs" / name
        check.out = args.out or folder
        check.out.mkdir(parents=True, exist_ok=True)
        for stage in (kernels, against_processor, rates, peer, sanitizer):
            check.stage(stage.__name__, stage)
        (check.out / "table.md").write_text(table(check.results))
        print(table(check.results))
    finally:
        if args.out or not check.is_dry:
            shutil.rmtree(check.models, ignore_errors=True)
    failed = [n for n, e in check.results["stages"].items() if e["status"] == "failed"]
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
