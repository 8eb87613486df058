"""Let a model write function bodies in a small package, without and with the guide, side by side.

    make demo
    .venv/bin/python scripts/demo/run.py --tether target/release/tether [--model smollm2] [--symbol S …]

Each body is written into a copy of the package, and pylint is asked what is wrong with it there. Exit code 1
when fewer than three functions show an invented name that the guide prevented.
"""

import argparse
import ast
import json
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MODES = {"off": "unguided", "monitor": "guided"}
# pylint's messages for a name that does not exist.
NO_SUCH_NAME = {
    "no-member",
    "undefined-variable",
    "used-before-assignment",
    "access-member-before-definition",
    "no-name-in-module",
    "import-error",
    "unexpected-keyword-arg",
}
SHOWN_MIN = 3
LINES_MAX = 14


@dataclass
class Written:
    """One body as the model wrote it."""

    body: str
    seconds: float
    n_tokens: int | None
    guide: dict
    messages: list[dict]

    @property
    def invented(self) -> list[str]:
        return [m["message"] for m in self.messages if m["symbol"] in NO_SUCH_NAME]


def complete(args: argparse.Namespace, repository: Path, symbol: str, mode: str) -> dict:
    command = [args.tether, "complete", "--json", "--write", "--model", args.model]
    command += ["--repo", repository, "--symbol", symbol, "--guide", mode]
    # This Python brings the stubs of the standard library along.
    command += ["--python", sys.executable]
    if args.max_tokens:
        command += ["--max-tokens", args.max_tokens]
    done = subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, check=False
    )
    if done.returncode == 2 or not done.stdout.strip():
        sys.exit(f"tether complete {symbol} failed:\n{done.stderr.strip()}")
    return json.loads(done.stdout)


def lines_of(path: Path, symbol: str) -> range:
    """Lines of the function in the file as it is now; all lines when it no longer parses."""
    text = path.read_text(encoding="utf-8")
    everything = range(1, text.count("\n") + 2)
    try:
        body = ast.parse(text).body
    except SyntaxError:
        return everything
    node = None
    for name in symbol.split(":")[1].split("."):
        node = next((n for n in body if getattr(n, "name", None) == name), None)
        if node is None:
            return everything
        body = node.body
    return range(node.lineno, node.end_lineno + 1)


def pylint(repository: Path, path: Path, symbol: str) -> list[dict]:
    """pylint's errors inside the function."""
    command = [sys.executable, "-m", "pylint", "--errors-only", "--output-format=json2"]
    command += ["--persistent=no", path.relative_to(repository)]
    done = subprocess.run(
        [str(part) for part in command], cwd=repository, capture_output=True, text=True, check=False
    )
    try:
        messages = json.loads(done.stdout)["messages"]
    except (ValueError, KeyError):
        sys.exit(f"pylint failed:\n{done.stderr.strip() or done.stdout.strip()}")
    lines = lines_of(path, symbol)
    return [m for m in messages if m["line"] in lines]


def write(args: argparse.Namespace, symbol: str, mode: str, scratch: Path) -> tuple[Path, Written]:
    repository = scratch / f"{symbol.replace(':', '.')}-{mode}"
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(args.repository, repository, ignore=ignore)
    start = time.perf_counter()
    result = complete(args, repository, symbol, mode)
    seconds = time.perf_counter() - start
    written = Written(
        result["body"], seconds, result.get("tokens"), result.get("guide") or {}, messages=[]
    )
    return repository / (symbol.split(":")[0].replace(".", "/") + ".py"), written


def column(written: Written, width: int) -> list[str]:
    """What fills one of the two columns."""
    # The model may begin with empty lines that hold white space.
    text = re.sub(r"\A(?:[ \t]*\n)+", "", written.body)
    body = textwrap.dedent(text.rstrip()).splitlines() or ["(nothing)"]
    if len(body) > LINES_MAX:
        body = body[:LINES_MAX] + ["…"]
    lines = [
        part
        for line in body
        for part in (
            textwrap.wrap(line, width, subsequent_indent="    ", drop_whitespace=False) or [""]
        )[:3]
    ]
    tokens = f", {written.n_tokens} tokens" if written.n_tokens else ""
    lines += ["", f"[{written.seconds:.1f} s{tokens}]"]
    seen = []
    for message in written.messages:
        text = f"pylint {message['messageId']}: {message['message']}"
        if text not in seen:
            seen.append(text)
    for text in seen[:4] or ["pylint: nothing to say"]:
        lines += textwrap.wrap(text, width)
    return lines


def show(symbol: str, both: dict[str, Written], width: int) -> None:
    print(f"── {symbol} " + "─" * max(0, 2 * width + 2 - len(symbol)))
    left, right = (column(both[mode], width) for mode in MODES)
    print(f"{'unguided':{width}} │ guided")
    for i in range(max(len(left), len(right))):
        a, b = (side[i] if i < len(side) else "" for side in (left, right))
        print(f"{a:{width}} │ {b}".rstrip())
    guide = both["monitor"].guide
    if guide:
        counts = ", ".join(f"{key} {guide[key]}" for key in guide if isinstance(guide[key], int))
        print(f"the guide: {counts}")
    print(flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tether", type=Path, default=ROOT / "target" / "release" / "tether")
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--max-tokens", type=int)
    parser.add_argument("--symbol", action="append", help="instead of those of examples/demo.json")
    args = parser.parse_args()
    demo = json.loads((ROOT / "examples" / "demo.json").read_text())
    args.repository = ROOT / demo["repository"]
    symbols = args.symbol or demo["symbols"]
    width = max(40, (shutil.get_terminal_size((120, 24)).columns - 3) // 2)

    start = time.perf_counter()
    shown = {"off": 0, "monitor": 0, "prevented": 0}
    with tempfile.TemporaryDirectory() as scratch, ThreadPoolExecutor(2) as pool:
        for symbol in symbols:
            written = {mode: write(args, symbol, mode, Path(scratch)) for mode in MODES}
            judged = {
                mode: pool.submit(
                    pylint, path.parents[symbol.split(":")[0].count(".")], path, symbol
                )
                for mode, (path, _) in written.items()
            }
            for mode, (_, body) in written.items():
                body.messages = judged[mode].result()
            both = {mode: body for mode, (_, body) in written.items()}
            show(symbol, both, width)
            invented = {mode: bool(both[mode].invented) for mode in MODES}
            shown["off"] += invented["off"]
            shown["monitor"] += invented["monitor"]
            shown["prevented"] += invented["off"] and not invented["monitor"]
    print(
        f"names that do not exist: in {shown['off']} of {len(symbols)} bodies unguided, "
        f"in {shown['monitor']} guided; {time.perf_counter() - start:.0f} s in all"
    )
    if shown["prevented"] < SHOWN_MIN and not args.symbol:
        print(f"expected at least {SHOWN_MIN} functions where the guide made the difference")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
