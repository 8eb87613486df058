"""From a repository to names that were asked for, on a tiny model: augment, train, serve, look.

    .venv-train/bin/python scripts/finetune/end_to_end.py --tether target/release/tether [--minutes 2]

The tiny model knows nothing; in two minutes it learns the example repository by heart. What is shown is
that the parts fit: the data is read, the adapter is served, and the triggers it was taught are emitted.
"""

import argparse
import ast
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
EXAMPLE = REPOSITORY / "examples" / "inventory"
N_FUNCTIONS = 12
N_SERVED = 3
MODEL = REPOSITORY / "tests" / "data" / "models" / "llama"


def run(*words: object) -> str:
    command = [str(word) for word in words]
    print("+ " + " ".join(command), flush=True)
    # Threads that share the operations of a model this small wait for each other a hundred times longer
    # than they work as soon as anything else runs, and two minutes would teach nothing.
    env = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, cwd=REPOSITORY, env=env)
    if done.returncode:
        sys.exit(f"{command[0]} ended with {done.returncode}")
    return done.stdout


def learn_by_heart(data: Path) -> list[dict]:
    """The shortest functions with triggers, of whatever split: memory is the point here."""
    lines = []
    for name in ("train", "valid", "test"):
        path = data / f"{name}.jsonl"
        lines += path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    records = [json.loads(line) for line in lines]
    records = [record for record in records if "<COMP>" in record["augmented_body"]]
    records = sorted(records, key=lambda r: len(r["prefix"] + r["augmented_body"]))[:N_FUNCTIONS]
    assert len(records) == N_FUNCTIONS, f"{data}: {len(records)} functions with triggers"
    text = "".join(json.dumps(record) + "\n" for record in records)
    for name in ("train", "valid"):
        (data / f"{name}.jsonl").write_text(text, encoding="utf-8")
    return records


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tether", type=Path, default=REPOSITORY / "target/release/tether")
    parser.add_argument("--minutes", type=float, default=2.0)
    parser.add_argument("--out", type=Path, default=REPOSITORY / ".cache" / "finetune-test")
    args = parser.parse_args()
    shutil.rmtree(args.out, ignore_errors=True)
    data, adapter = args.out / "data", args.out / "adapter"
    run(args.tether, "augment", EXAMPLE, "-o", data)
    records = learn_by_heart(data)
    run(
        sys.executable, Path(__file__).with_name("train.py"), "--data", data, "--model", MODEL,
        "--out", adapter, "--minutes", args.minutes, "--rate", "1e-2", "--r", "32",
        "--trigger-gradient", "both", "--row-tokens", "1024", "--batch-rows", "2", "--workers", "1",
    )  # fmt: skip
    results = json.loads((adapter / "tether.json").read_text())["results"]
    base, learned = (
        results[name]["nats_per_token"] for name in ("valid_base_plain", "valid_adapter")
    )
    assert learned < base / 2, f"{learned} nats a token, {base} before: nothing was learned"
    serve(args.tether, adapter, records)


def symbol_of(record: dict) -> str:
    """As `tether complete` names a function, found by its line."""
    path = EXAMPLE / record["file_path"]
    module = ".".join(path.relative_to(EXAMPLE).with_suffix("").parts)

    def inside(node: ast.AST, names: tuple[str, ...]):
        for child in ast.iter_child_nodes(node):
            if isinstance(child, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
                yield child, (*names, child.name)
                yield from inside(child, (*names, child.name))

    for node, names in inside(ast.parse(path.read_text(encoding="utf-8")), ()):
        if node.lineno == record["line"] and node.name == record["function_name"]:
            return f"{module}:{'.'.join(names)}"
    raise AssertionError(f"{path}:{record['line']}: no {record['function_name']} there")


def serve(tether: Path, adapter: Path, records: list[dict]) -> None:
    """Functions that were learned, written by the program: the model asks, the tool answers."""
    n_asked, n_same = [], 0
    for record in records[:N_SERVED]:
        text = run(
            tether, "complete", "--repo", EXAMPLE, "--symbol", symbol_of(record), "--model", MODEL,
            "--adapter", adapter, "--guide", "trigger", "--max-tokens", "32", "--json",
        )  # fmt: skip
        answer = json.loads(text)
        print(answer["body"])
        n_asked.append(sum(event["kind"] == "trigger" for event in answer["events"]))
        n_same += answer["body"].rstrip() == record["body"].rstrip()
    print(f"triggers emitted: {n_asked}; written as they stand: {n_same} of {len(n_asked)}")
    assert all(n_asked), "a function was written without a trigger"
    assert n_same, "nothing was learned by heart"


if __name__ == "__main__":
    main()
