"""Let `tether complete` write ten functions of each of three packages, and account for every question.

    python scripts/eval/complete_packages.py --tether target/release/tether --site SITE_PACKAGES -o OUT_FOLDER

SITE_PACKAGES holds the packages pinned in `requirements.txt`. Functions are drawn with a fixed seed among the
documented ones of 3 to 15 body lines. Writes `complete.json` (everything `--json` says) and `complete.md`. Exit
code 1 when a question is not accounted for: every one asked must be an event, with one of the four answers.
"""

import argparse
import ast
import json
import random
import subprocess
import sys
from importlib.metadata import distributions
from pathlib import Path

PACKAGES = ["click", "flask", "rich"]
N_FUNCTIONS = 10
SEED = 7


def documented(package: Path) -> list[str]:
    """Symbols of the documented functions of a package, in the order of its files."""
    symbols = []
    for file in sorted(package.rglob("*.py")):
        module = ".".join(file.relative_to(package.parent).with_suffix("").parts).removesuffix(
            ".__init__"
        )
        tree = ast.parse(file.read_text(encoding="utf-8"))
        stack = [(tree, [])]
        while stack:
            node, names = stack.pop()
            for child in ast.iter_child_nodes(node):
                if isinstance(child, ast.ClassDef):
                    stack.append((child, [*names, child.name]))
                elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                    body = child.body[1:] if ast.get_docstring(child) else []
                    n_lines = body[-1].end_lineno - body[0].lineno + 1 if body else 0
                    if 3 <= n_lines <= 15 and not overloaded(child):
                        symbols.append(f"{module}:{'.'.join([*names, child.name])}")
    return symbols


def overloaded(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any("overload" in ast.unparse(decorator) for decorator in function.decorator_list)


def complete(args: argparse.Namespace, package: Path, symbol: str) -> dict:
    command = [
        args.tether,
        "complete",
        "--json",
        "--repo",
        package,
        "--symbol",
        symbol,
        "--model",
        args.model,
    ]
    command += ["--python", sys.executable, "--max-tokens", 160]
    done = subprocess.run(
        [str(c) for c in command], capture_output=True, text=True, timeout=300, check=False
    )
    if done.returncode not in (0, 1):
        sys.exit(f"{symbol}: {done.stderr.strip().splitlines()[-1:]}")
    return json.loads(done.stdout)


def is_accounted_for(result: dict) -> bool:
    guide, events = result["guide"], result["events"]
    answers = ["closed", "open", "unknown", "timed_out"]
    return len(events) == guide["asked"] == sum(guide[a] for a in answers) and all(
        e["answer"] in answers and guide[e["answer"]] >= 1 for e in events
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tether", type=Path, default=Path("target/release/tether"))
    parser.add_argument("--site", type=Path, required=True)
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("-o", "--out", type=Path, required=True)
    args = parser.parse_args()

    versions = {d.metadata["Name"].lower(): d.version for d in distributions(path=[str(args.site)])}
    results, rows = [], []
    for name in PACKAGES:
        package = args.site / name
        for symbol in random.Random(SEED).sample(documented(package), N_FUNCTIONS):
            result = complete(args, package, symbol)
            result |= {"package": f"{name} {versions[name]}", "accounted": is_accounted_for(result)}
            results.append(result)
            guide = result["guide"]
            counts = [
                guide[k] for k in ("asked", "closed", "open", "unknown", "timed_out", "changed")
            ]
            parses = {True: "yes", False: "no", None: "?"}[result["parses"]]
            rows.append(
                [
                    result["package"],
                    f"`{symbol}`",
                    *counts,
                    result["tokens"],
                    result["finish_reason"],
                    parses,
                ]
            )
            print(*rows[-1], flush=True)
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "complete.json").write_text(json.dumps(results, indent=1) + "\n")
    header = [
        "package",
        "function",
        "asked",
        "closed",
        "open",
        "unknown",
        "timed out",
        "changed",
        "tokens",
        "end",
    ]
    header.append("parses")
    table = [header, ["---"] * len(header), *rows]
    total = ["", "all"] + [sum(row[i] for row in rows) for i in range(2, 9)] + ["", ""]
    text = "\n".join("| " + " | ".join(map(str, row)) + " |" for row in [*table, total]) + "\n"
    (args.out / "complete.md").write_text(text)
    return 0 if all(r["accounted"] for r in results) else 1


if __name__ == "__main__":
    sys.exit(main())
