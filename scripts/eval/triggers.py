"""What an adapter does on functions it was not trained on: how often it asks, and what for.

    python3 scripts/eval/triggers.py --tether target/release/tether --data .cache/finetune/data \\
        --repos .cache/finetune/repos --adapter smollm2-toolgen --out bench/runs/DATE-adapters

Draws functions of test.jsonl by seed, writes each with `tether complete --guide trigger --explain`, and
counts the triggers of a function, how many stand where the tool knows names, and how many of the names
written are what the author wrote somewhere in the body. Every function's row goes to triggers.json.
"""

import argparse
import json
import random
import re
import statistics
import subprocess
import sys
from pathlib import Path


def symbols_of(tether, repo, python):
    command = [tether, "symbols", str(repo), "--json", "--python", python]
    listed = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    kinds = ("function", "method")
    root = repo.resolve()
    return {
        (
            str(Path(s["path"]).relative_to(root)),
            s["line"],
            s["name"],
        ): f"{s['module']}:{s['qualified_name']}"
        for s in listed
        if s["kind"] in kinds
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tether", default="target/release/tether")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--repos", type=Path, required=True)
    parser.add_argument("--python", default=".cache/finetune/python/bin/python")
    parser.add_argument("--adapter", required=True)
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--functions", type=int, default=100)
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()

    records = [
        json.loads(line) for line in (arguments.data / "test.jsonl").read_text().splitlines()
    ]
    random.Random(arguments.seed).shuffle(records)
    symbols, rows = {}, []
    for record in records:
        if len(rows) == arguments.functions:
            break
        repo = arguments.repos / record["repo"]
        if record["repo"] not in symbols:
            symbols[record["repo"]] = symbols_of(arguments.tether, repo, arguments.python)
        symbol = symbols[record["repo"]].get(
            (record["file_path"], record["line"], record["function_name"])
        )
        if symbol is None:
            continue
        command = [
            arguments.tether,
            "complete",
            "--repo",
            str(repo),
            "--symbol",
            symbol,
            "--json",
            "--explain",
        ]
        command += [
            "--model",
            arguments.model,
            "--adapter",
            arguments.adapter,
            "--guide",
            "trigger",
        ]
        command += ["--python", arguments.python]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode == 2:
            print(f"{symbol}: {done.stderr.strip()}", file=sys.stderr)
            continue
        answer = json.loads(done.stdout)
        events = [e for e in answer["events"] if e["kind"] == "trigger"]
        known = [e for e in events if e["names"] > 0]
        words = set(re.findall(r"\w+", record["body"]))
        rows.append(
            {
                "symbol": symbol,
                "triggers_by_author": record["n_triggers"],
                "triggers": len(events),
                "known": len(known),
                "of_author": sum(e["name"] in words for e in known),
                "changed": sum(bool(e.get("changed")) for e in known),
                "body": answer["body"],
            }
        )
    total = {
        key: sum(row[key] for row in rows)
        for key in ("triggers_by_author", "triggers", "known", "of_author")
    }
    summary = {
        "adapter": arguments.adapter,
        "functions": len(rows),
        "seed": arguments.seed,
        "triggers_per_function": total["triggers"] / len(rows),
        "triggers_per_function_median": statistics.median(row["triggers"] for row in rows),
        "triggers_per_function_by_author": total["triggers_by_author"] / len(rows),
        "known_share": total["known"] / max(total["triggers"], 1),
        "of_author_share": total["of_author"] / max(total["known"], 1),
        "functions_without_triggers": sum(row["triggers"] == 0 for row in rows),
    }
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / "triggers.json").write_text(
        json.dumps({"summary": summary, "rows": rows}, indent=1) + "\n"
    )
    print(json.dumps(summary, indent=1))


if __name__ == "__main__":
    main()
