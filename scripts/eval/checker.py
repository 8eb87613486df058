"""Measure the checker against pylint: false alarms, recall and speed.

Four parts, each with the threshold that it must hold:

  packages    both tools over the whole pinned packages: E0602 and E1101 that only ours reports, per
              20,000 lines; and how many times faster ours is, as whole processes
  mutations   a seeded sample of names and attributes in function bodies is given a suffix that exists
              nowhere; of what pylint reports about those, the share that ours reports
  codereval   the true functions of CoderEval put back into their files, each file alone: the share that
              ours flags E0602 or E1101 (skipped where the data is absent)

Both tools are run through `tether check`, so that they answer in the same form. Run it with the interpreter
that has the packages and pylint (scripts/eval/requirements.txt):

  .venv-eval/bin/python scripts/eval/checker.py --tether target/release/tether --out bench/runs/DATE-checker

Everything is written below --out: `checker.json` with every difference, `packages.csv`, `mutations.csv`, and
`checker.md`. Standard library only. Exit code 1 when a threshold does not hold.
"""

import argparse
import ast
import csv
import json
import os
import platform
import random
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from pathlib import Path

from positions import PACKAGES, stage

SUFFIX = "_qxz"
IDS = ["E0602", "E1101"]
# Measure -> threshold; the first two are upper bounds, the others lower ones.
ALARMS_PER_20K_MAX = 1.0
FLAGGED_SHARE_MAX = 0.01
RECALL_MIN = 0.90
SPEED_MIN = 50.0
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def check(tether, repo, files=(), tool="native", ids=IDS):
    """Findings and wall-clock seconds of one run of `tether check`."""
    command = [str(tether), "check", "--repo", str(repo), "--json", "--python", sys.executable]
    command += ["--tool", tool, "--enable", ",".join(ids), "--timeout", "1800", "--threads", "1"]
    started = time.perf_counter()
    run = subprocess.run(
        command + [str(f) for f in files], capture_output=True, text=True, check=False
    )
    seconds = time.perf_counter() - started
    if run.returncode not in (0, 1):
        sys.exit(f"{' '.join(command)}\n{run.stderr}")
    return json.loads(run.stdout), seconds


def key(finding, root):
    """What both tools must agree on: the file, the line, the message, the name it is about."""
    path = os.path.relpath(finding["path"], os.path.realpath(root))
    return path, finding["line"], finding["id"], finding["names"][-1] if finding["names"] else ""


def loose(finding, root):
    """Without the line: a chain over several lines begins elsewhere for each tool."""
    path, _, message, name = key(finding, root)
    return path, message, name


def compare_packages(tether, projects):
    rows = []
    for package in PACKAGES:
        root = projects / package
        ours, ours_s = check(tether, root)
        peer, peer_s = check(tether, root, tool="pylint")
        known = {loose(f, root) for f in peer["findings"]}
        extra = [f for f in ours["findings"] if loose(f, root) not in known]
        found = {loose(f, root) for f in ours["findings"]}
        rows.append(
            {
                "package": package,
                "lines": ours["n_lines"],
                "ours": len(ours["findings"]),
                "pylint": len(peer["findings"]),
                "only_ours": len(extra),
                "both": len(known & found),
                "ours_s": round(ours_s, 3),
                "pylint_s": round(peer_s, 3),
                "differences": [[*key(f, root), f["message"]] for f in extra],
            }
        )
        print(
            f"{package}: only ours {len(extra)}, {ours_s:.2f} s against {peer_s:.1f} s", flush=True
        )
    return rows


def uses(path):
    """Names and attributes that function bodies read: (line, byte column, name, kind)."""
    tree = ast.parse(path.read_bytes())
    found = {}
    for function in ast.walk(tree):
        if not isinstance(function, FUNCTIONS):
            continue
        for node in (n for statement in function.body for n in ast.walk(statement)):
            if isinstance(node, ast.JoinedStr):
                for inner in ast.walk(node):
                    if hasattr(inner, "lineno"):
                        found[(inner.lineno, inner.col_offset)] = None
            if not isinstance(getattr(node, "ctx", None), ast.Load):
                continue
            if isinstance(node, ast.Name):
                found.setdefault((node.lineno, node.col_offset), (node.id, "name"))
            elif isinstance(node, ast.Attribute) and not node.attr.startswith("__"):
                at = (node.end_lineno, node.end_col_offset - len(node.attr.encode()))
                found.setdefault(at, (node.attr, "attribute"))
    return [(line, col, *what) for (line, col), what in sorted(found.items()) if what]


def mutate(path, rng, gap):
    """Rename a sample of uses, at least `gap` lines apart; gives what was renamed."""
    lines = path.read_bytes().split(b"\n")
    picked, last = [], -gap
    for line in sorted({u[0] for u in uses(path)}):
        if line - last < gap or rng.random() < 0.4:
            continue
        here = [u for u in uses_of(path) if u[0] == line]
        members = [u for u in here if u[3] == "attribute"]
        pool = members if members and rng.random() < 0.6 else here
        _, col, name, kind = rng.choice(pool)
        text = lines[line - 1]
        raw = name.encode()
        if text[col : col + len(raw)] != raw:
            continue
        renamed = f"{name}{SUFFIX}{len(picked)}"
        lines[line - 1] = text[:col] + renamed.encode() + text[col + len(raw) :]
        picked.append((line, renamed, kind))
        last = line
    path.write_bytes(b"\n".join(lines))
    return picked


_USES = {}


def uses_of(path):
    if path not in _USES:
        _USES[path] = uses(path)
    return _USES[path]


def about_mutations(report, root):
    """(file, name) -> message, of the findings about names that were renamed."""
    keys = (key(finding, root) for finding in report["findings"])
    return {(path, name): message for path, _, message, name in keys if SUFFIX in name}


def mutations(tether, projects, files_max, gap, seed):
    rows, missed, only_ours = [], [], []
    for package in PACKAGES:
        rng = random.Random(f"{seed}-{package}")
        with tempfile.TemporaryDirectory() as scratch:
            root = Path(scratch) / package
            shutil.copytree(projects / package, root)
            files = sorted(p for p in root.rglob("*.py") if "tests" not in p.parts)
            files = [p for p in files if p.stat().st_size > 2000]
            rng.shuffle(files)
            files = sorted(files[:files_max])
            for path in files:
                uses_of(path)
            kinds = {}
            for path in files:
                for line, name, kind in mutate(path, rng, gap):
                    kinds[(os.path.relpath(path, root), name)] = (line, kind)
            ours, _ = check(tether, root, files)
            peer, _ = check(tether, root, files, tool="pylint")
            found, expected = about_mutations(ours, root), about_mutations(peer, root)
            for message in IDS:
                names = {n for n, m in expected.items() if m == message}
                rows.append(
                    {
                        "package": package,
                        "message": message,
                        "mutated": sum(
                            1 for _, k in kinds.values() if (k == "name") == (message == "E0602")
                        ),
                        "pylint": len(names),
                        "ours_too": len(names & found.keys()),
                        "only_ours": sum(
                            1 for n, m in found.items() if m == message and n not in expected
                        ),
                    }
                )
            for name in sorted(expected.keys() - found.keys()):
                path = root / name[0]
                line = kinds.get(name, (1, ""))[0]
                source = path.read_text(encoding="utf-8").split("\n")[line - 1].strip()
                missed.append([package, name[0], line, expected[name], name[1], source])
            only_ours += [[package, *n] for n in sorted(found.keys() - expected.keys())]
        part = [r for r in rows if r["package"] == package]
        print(
            f"{package}: {[(r['message'], r['ours_too'], r['pylint']) for r in part]}", flush=True
        )
    return rows, missed, only_ours


def restored(record):
    """The file with the true function in it, and the function's lines."""
    meta = record["metadata"]
    context = meta["lsp-context"]
    before, _, after = context.partition("<PLACEHOLDER>")
    truth = meta["ground_truth"]
    first = before.count("\n") + 1
    indent = before[before.rfind("\n") + 1 :]
    lines = truth.split("\n")
    stripped = truth.lstrip(" ")
    shifted = "\n".join(
        [lines[0], *(indent + line if line.strip() else line for line in lines[1:])]
    )
    for body in (truth, stripped, shifted):
        text = before + body + after
        try:
            ast.parse(text)
        except SyntaxError:
            continue
        return text, first, first + body.count("\n")
    return None


def codereval(tether, path):
    flagged, n, unparsed = [], 0, 0
    with tempfile.TemporaryDirectory() as scratch:
        for i, line in enumerate(path.read_text(encoding="utf-8").splitlines()):
            record = json.loads(line)
            put = restored(record)
            if put is None:
                unparsed += 1
                continue
            n += 1
            text, first, last = put
            root = Path(scratch) / str(i)
            file = root.joinpath(*record["metadata"]["fpath_tuple"])
            file.parent.mkdir(parents=True)
            file.write_text(text, encoding="utf-8")
            report, _ = check(tether, root)
            inside = [f for f in report["findings"] if first <= f["line"] <= last]
            if inside:
                texts = [f"{f['line']}: {f['id']} {f['message']}" for f in inside]
                flagged.append([record["metadata"]["task_id"], texts])
    return {"functions": n, "flagged": flagged, "not_parsed": unparsed}


def table(rows, columns):
    head = "| " + " | ".join(columns) + " |\n|" + "---|" * len(columns) + "\n"
    return head + "".join("| " + " | ".join(str(r[c]) for c in columns) + " |\n" for r in rows)


def write_csv(path, rows):
    columns = [c for c in rows[0] if c != "differences"]
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)


def measures(packages, mutated, functions):
    lines = sum(r["lines"] for r in packages)
    alarms = sum(r["only_ours"] for r in packages) / lines * 20_000
    speed = sum(r["pylint_s"] for r in packages) / sum(r["ours_s"] for r in packages)
    out = [
        (
            "E0602 and E1101 that only ours reports, per 20,000 lines",
            alarms,
            "<=",
            ALARMS_PER_20K_MAX,
        ),
        ("times faster than pylint, whole runs", speed, ">=", SPEED_MIN),
    ]
    for message in IDS:
        part = [r for r in mutated if r["message"] == message]
        recall = sum(r["ours_too"] for r in part) / max(1, sum(r["pylint"] for r in part))
        out.append((f"recall of {message}", recall, ">=", RECALL_MIN))
    if functions:
        share = len(functions["flagged"]) / functions["functions"]
        out.append(("true functions of CoderEval flagged", share, "<=", FLAGGED_SHARE_MAX))
    return [
        {
            "measure": name,
            "value": round(value, 4),
            "bound": f"{op} {bound}",
            "holds": value <= bound if op == "<=" else value >= bound,
        }
        for name, value, op, bound in out
    ]


def version(command):
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    return (run.stdout or run.stderr).strip().splitlines()[0]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--tether", type=Path, default=Path("target/release/tether"))
    parser.add_argument("--projects", type=Path, default=Path(".cache/eval/projects"))
    parser.add_argument(
        "--codereval", type=Path, default=Path("../shared/data/codereval/CoderEval-ALL.jsonl")
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--files", type=int, default=12, help="files mutated in each package")
    parser.add_argument("--gap", type=int, default=12, help="lines between two mutations")
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--parts", default="packages,mutations,codereval")
    args = parser.parse_args()
    tether = args.tether.resolve()
    parts = args.parts.split(",")
    for package, folders in PACKAGES.items():
        stage(Path(sysconfig.get_path("purelib")), package, folders, args.projects)
    result = {
        "parts": parts,
        "seed": args.seed,
        "files_max": args.files,
        "gap_lines": args.gap,
        "tether": version([str(tether), "--version"]),
        "commit": version(["git", "rev-parse", "HEAD"]),
        "pylint": version([sys.executable, "-m", "pylint", "--version"]),
        "python": platform.python_version(),
        "machine": f"{platform.machine()}, {os.cpu_count()} processors",
    }
    packages = compare_packages(tether, args.projects) if "packages" in parts else []
    mutated, missed, only = [], [], []
    if "mutations" in parts:
        mutated, missed, only = mutations(tether, args.projects, args.files, args.gap, args.seed)
    functions = None
    if "codereval" in parts and args.codereval.is_file():
        functions = codereval(tether, args.codereval)
        print(
            f"codereval: {len(functions['flagged'])} of {functions['functions']} flagged",
            flush=True,
        )
    args.out.mkdir(parents=True, exist_ok=True)
    rows = measures(packages, mutated, functions) if packages and mutated else []
    result |= {
        "measures": rows,
        "packages": packages,
        "mutations": mutated,
        "missed": missed,
        "mutated_only_ours": only,
        "codereval": functions,
    }
    (args.out / "checker.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    if packages:
        write_csv(args.out / "packages.csv", packages)
    if mutated:
        write_csv(args.out / "mutations.csv", mutated)
    text = f"# The checker against {result['pylint']}\n\n"
    if rows:
        text += table(rows, ["measure", "value", "bound", "holds"]) + "\n"
    if packages:
        columns = ["package", "lines", "ours", "pylint", "both", "only_ours", "ours_s", "pylint_s"]
        text += table(packages, columns) + "\n"
    if mutated:
        text += table(mutated, ["package", "message", "mutated", "pylint", "ours_too", "only_ours"])
    (args.out / "checker.md").write_text(text, encoding="utf-8")
    for row in rows:
        print(
            f"{row['measure']}: {row['value']} ({row['bound']}) {'holds' if row['holds'] else 'FAILS'}"
        )
    sys.exit(0 if all(r["holds"] for r in rows) else 1)


if __name__ == "__main__":
    main()
