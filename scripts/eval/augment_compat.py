"""Compare two augmentations of the same functions: how many have the same text, and why the others differ.

    augment_compat.py REFERENCE.jsonl OTHER.jsonl --out DIFFERENCES.json
                      [--answers REFERENCE.answers.jsonl] [--other-answers OTHER.answers.jsonl | --same-answers]
                      [--all-functions] [--least SHARE]

Both are files as `scripts/golden/toolgen_augment.py` writes them, or the folder of a `tether augment --mode
compat --rejected` run, whose names of the refusing rules are taken for the published program's. Each function
of the reference gets one class, the first that applies, so that one cause is not counted twice:

  identical    code, documentation, augmented code and training example are the same
  extraction   one side lacks the function, or it stands elsewhere or has another name
  cleaning     the cleaned code or the documentation differs
  position     a marker stands on one side only, and the other side did not ask there, or asked about another
               text or cursor
  tool         a marker stands on one side only, though both asked the same question there
  builder      only the training example or its rejection differs

What was asked comes from the answers files. Without --other-answers, markers that differ are counted as `tool`;
with --same-answers, which says that the other side was fed the answers of the reference, as `position`. How
often the names behind a marker are the same (as sets) is counted beside it. --all-functions: the reference is
not a draw, so that a function which only the other side has is a difference.

A short table goes to standard output, everything to --out. Exit code 1 when the identical share is below
--least. Standard library only.
"""

import argparse
import collections
import json
import re
import sys
from pathlib import Path

MARKER = re.compile(r"<LSP-POINT-\d+>")
CLASSES = ["identical", "extraction", "cleaning", "position", "tool", "builder"]
EXAMPLE = [
    "rejected",
    "description",
    "signature",
    "prefix",
    "body",
    "augmented_prefix",
    "augmented_body",
]
SPLITS = ["train", "valid", "test", "rejected"]
DATA = Path(__file__).resolve().parents[2] / "tests/data/augment"
# A rule of the published program -> the rule of `tether augment` that it is part of.
RULES = json.loads((DATA / "rules.json").read_text(encoding="utf-8"))
SHOWN = 5  # differing functions listed below the table, for each class


def read(path):
    """Functions of an output by repository, file, line and column."""
    functions = {}
    for file in [path / f"{split}.jsonl" for split in SPLITS] if path.is_dir() else [path]:
        with open(file, encoding="utf-8") as lines:
            functions |= {key(record): record for record in map(json.loads, lines)}
    for record in functions.values():
        why = record.get("rejected")
        if why:
            # What a refused example lacks is empty on one side and missing on the other.
            record |= {field: record.get(field) or None for field in EXAMPLE}
            record["rejected"] = RULES.get(why, why)
    return functions


def key(record):
    return (record["repo"], record["file_path"], record["line"], record["column"])


def read_questions(path):
    """Function -> offset in its code -> what was asked there and what the answer was."""
    if not path:
        return None
    asked = {}
    with open(path, encoding="utf-8") as file:
        next(file)
        for record in map(json.loads, file):
            starts = [0]
            for item in record["items"]:
                starts.append(starts[-1] + len(item))
            asked[key(record)] = {
                starts[q["item"]]: (q["line"], q["column"], q["sha256"])
                for q in record["questions"]
            }
    return asked


def markers(record):
    """Offset in the code without markers -> the names behind the marker there."""
    found, taken = {}, 0
    code = record["augmented_code"]
    for match in MARKER.finditer(code):
        # A marker-like text of the source is in no dictionary; it stays part of the code.
        if match.group() in record["lsp_dict"]:
            found.setdefault(match.start() - taken, frozenset(record["lsp_dict"][match.group()]))
            taken += len(match.group())
    return found


def classify(reference, other, same_question):
    """The class of one function, and what shows it."""
    if reference is None or other is None:
        return "extraction", {"missing": "reference" if reference is None else "other"}
    if reference["function_name"] != other["function_name"]:
        return "extraction", {"field": "function_name"}
    for field in ("code", "docstring"):
        if reference[field] != other[field]:
            return "cleaning", first_difference(field, reference[field], other[field])
    ours, theirs = markers(reference), markers(other)
    differing = sorted(ours.keys() ^ theirs.keys())
    if differing:
        shown = [
            {"at": at, "item": word(reference, at), "reference": at in ours} for at in differing
        ]
        moved = [at for at in differing if not same_question(at)]
        return ("position" if moved else "tool"), {"markers": shown}
    for field in EXAMPLE:
        if reference.get(field) != other.get(field):
            texts = (reference.get(field) or "", other.get(field) or "")
            return "builder", first_difference(field, *texts)
    return "identical", {}


def first_difference(field, reference, other):
    """Where two texts part, with what stands there."""
    limit = min(len(reference), len(other))
    at = next((i for i in range(limit) if reference[i] != other[i]), limit)
    around = slice(max(0, at - 20), at + 40)
    return {"field": field, "at": at, "reference": reference[around], "other": other[around]}


def word(record, at):
    return re.match(r"\w+|.", record["code"][at:], re.DOTALL).group()


def question_test(where, asked, other_asked, same_answers):
    """A function from an offset to whether both sides asked the same question there."""
    if same_answers:
        return lambda at: False
    if asked is None or other_asked is None:
        return lambda at: True
    ours, theirs = asked.get(where, {}), other_asked.get(where, {})
    return lambda at: at in ours and ours[at] == theirs.get(at)


def compare(args):
    reference, other = read(args.reference), read(args.other)
    asked, other_asked = read_questions(args.answers), read_questions(args.other_answers)
    differences = []
    tally = collections.Counter()
    totals = collections.Counter()
    extra = sorted(other.keys() - reference.keys()) if args.all_functions else []
    for where in [*reference, *extra]:
        test = question_test(where, asked, other_asked, args.same_answers)
        left, right = reference.get(where), other.get(where)
        kind, shown = classify(left, right, test)
        tally[kind] += 1
        if left and right:
            totals["same code"] += left["code"] == right["code"]
            totals["same augmented code"] += left["augmented_code"] == right["augmented_code"]
            ours, theirs = markers(left), markers(right)
            totals["markers of the reference"] += len(ours)
            totals["markers of the other"] += len(theirs)
            both = ours.keys() & theirs.keys()
            totals["markers on both sides"] += len(both)
            totals["of these, with the same names"] += sum(ours[at] == theirs[at] for at in both)
            totals["same verdict of the builder"] += left.get("rejected") == right.get("rejected")
        if kind != "identical":
            name = (left or right)["function_name"]
            function = dict(zip(("repo", "file_path", "line", "column"), where, strict=True))
            differences.append(function | {"function_name": name, "class": kind} | shown)
    functions = sum(tally.values())
    share = tally["identical"] / functions if functions else 0.0
    return {
        "functions": functions,
        "identical_share": share,
        "identical_text_share": totals["same augmented code"] / functions if functions else 0.0,
        "classes": {kind: tally[kind] for kind in CLASSES},
        "totals": dict(totals),
        "differences": differences,
    }


def table(result):
    lines = ["| class | functions | share |", "|---|---|---|"]
    for kind, count in result["classes"].items():
        lines.append(f"| {kind} | {count} | {count / max(result['functions'], 1):.2%} |")
    lines.append(f"| all | {result['functions']} | |")
    lines.append("")
    lines += [f"{name}: {count}" for name, count in result["totals"].items()]
    for kind in CLASSES[1:]:
        examples = [d for d in result["differences"] if d["class"] == kind][:SHOWN]
        for d in examples:
            where = f"{d['repo']}/{d['file_path']}:{d['line']} {d['function_name']}"
            what = d.get("field") or d.get("missing") or [m["item"] for m in d["markers"]][:4]
            lines.append(f"{kind}: {where}: {what}")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("reference", type=Path)
    parser.add_argument("other", type=Path)
    parser.add_argument("--out", required=True, type=Path)
    parser.add_argument("--answers", type=Path, help="the questions of the reference")
    parser.add_argument("--other-answers", type=Path, help="the questions of the other side")
    parser.add_argument("--same-answers", action="store_true", help="both used the same answers")
    parser.add_argument("--all-functions", action="store_true", help="the reference was not drawn")
    parser.add_argument("--least", type=float, default=0.0, help="identical share that must hold")
    args = parser.parse_args()
    result = compare(args)
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(json.dumps(result, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    print(table(result))
    if result["identical_share"] < args.least:
        sys.exit(f"identical: {result['identical_share']:.2%}, wanted {args.least:.2%}")


if __name__ == "__main__":
    main()
