"""Put triggers into functions by ToolGen's published rules, quirks included ("compat").

An implementation of its own, in plain Python, that shares nothing with the program, so that `tether augment
--mode compat` has something to be compared with. It asks Jedi before each item of a function what names it
sees there; where the item is one of them, a trigger is put before it. `toolgen_dataset.py` then makes the
training example, or names the rule that rejects the function.

    toolgen_augment.py REPO... --out FILE.jsonl [--max-functions N] [--seed S] [--trigger '<lsp>']
                       [--answers FILE [--resume] | --replay FILE] [--stats FILE] [--timeout SECONDS]
                       [--strict-positions] [--max-files N] [--count-tokens MODULE:FUNCTION [--max-tokens N]]

--out gets one JSON object a function that passes the cleaning: `repo`, `file_path`, `function_name`, `line`
(1-based) and `column` (0-based) of its `def`, `code`, `augmented_code` (numbered markers), `lsp_dict`
(marker: names), `docstring`; then either `rejected` (the rule's name) or `description`, `signature`,
`prefix`, `body`, `augmented_prefix`, `augmented_body`.

--answers gets every question and Jedi's answer, one JSON object a function, after a head line:

    {"format": "toolgen-answers", "version": 1, "tool": "jedi", "tool_version": ..., "python": ...,
     "positions": "compat" | "strict"}
    {"repo": ..., "file_path": ..., "function_name": ..., "line": ..., "column": ..., "end_line": ...,
     "end_column": ..., "items": [text, ...], "lists": [[name, ...], ...],
     "questions": [{"item": i, "line": ..., "column": ..., "sha256": ..., "list": k, "error": ...?}, ...]}

`items` are the items of the cleaned function: joined they are `code`. Question `i` is asked about the file in
which the function is cut to the items before `i`, and the cursor (line 1-based, column 0-based, in characters)
stands where item `i` would begin; `sha256` is that of the whole text asked about, as UTF-8 with "\n" line ends.
`lists[list]` is Jedi's answer in Jedi's order: each completion's remaining text, trimmed, empty ones left out,
the SKIPPED words still in. `error` is the exception that stood for "no names". `line` to `end_column` are the
function's span in the file (columns in characters). --replay reads the functions and the answers back: no Jedi.

Only questions whose answer can matter are asked. Jedi offers names (some with `=`, which no item equals),
and, directly inside a subscript, the written-out keys of a dictionary. So identifiers are asked about, and
strings and numbers only right after `[` or where the position is already wrong; for everything else the
answer is "no names".

--strict-positions repairs the positions: a line break inside an item counts, only this one function is cut
(not every equal text), async functions take part, and an overriding method whose name carries a marker is kept.

It runs on Python 3.11, whose tokenizer gives an f-string as one item; 3.12 and later give several.
"""

import argparse
import collections
import importlib
import json
import random
import sys
import time
from pathlib import Path

import toolgen_dataset
from toolgen_answers import Jedi, Recording, Replay, read_answers
from toolgen_function import Limits, functions
from toolgen_words import SKIPPED

PLACEHOLDER = "<PLACEHOLDER>"
MARKER = "<LSP-POINT-{}>"


def augment(function, names_at, strict):
    """The code with numbered markers, and the names behind each marker.

    `names_at(index, text, line, column)` answers what the tool sees at a position of a text.
    """
    cut = cutter(function, strict)
    line, column = function.line, function.column
    emitted, augmented, markers = "", "", {}
    # Where other text is replaced too, the cursor may stand anywhere.
    others = function.source.replace(function.segment, "", 1)
    drifted = not strict and (function.segment in others or PLACEHOLDER in others)
    for index, item in enumerate(function.items):
        if could_be_a_name(item, emitted, drifted):
            names = names_at(index, cut(emitted), line, column)
            names = [name for name in names if name not in SKIPPED]
            if item in names:
                marker = MARKER.format(len(markers) + 1)
                markers[marker] = names
                augmented += marker
        emitted += item
        augmented += item
        if item == "\n" or (strict and "\n" in item):
            line += item.count("\n")
            column = len(item) - item.rfind("\n") - 1
        else:
            column += len(item)
            drifted = drifted or "\n" in item
    return augmented, markers


def could_be_a_name(item, emitted, drifted):
    """Whether any completion can equal this item; see the head of this file."""
    if not item.strip() or item in SKIPPED:
        return False
    if item.isidentifier():
        return True
    is_literal = item[-1] in "'\"" or item[0].isdigit() or item[0] == "."
    return is_literal and (drifted or emitted.rstrip().endswith("["))


def cutter(function, strict):
    """From the text emitted so far to the whole file in which the function is no longer than that."""
    if strict:
        lines = function.source.split("\n")
        start = sum(len(line) + 1 for line in lines[: function.line - 1]) + function.column
        end = sum(len(line) + 1 for line in lines[: function.end_line - 1]) + function.end_column
        head, tail = function.source[:start], function.source[end:]
        return lambda emitted: head + emitted + tail
    rest = function.source.replace(function.segment, PLACEHOLDER)
    return lambda emitted: rest.replace(PLACEHOLDER, emitted)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("repos", metavar="REPO", nargs="+", type=Path)
    parser.add_argument("--out", required=True, type=Path)
    parser.add_argument("--max-functions", type=int, metavar="N", help="draw N of all functions")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--trigger", default="<lsp>")
    parser.add_argument("--answers", type=Path, metavar="FILE", help="write questions and answers")
    parser.add_argument("--resume", action="store_true", help="go on with an --answers file")
    parser.add_argument("--replay", type=Path, metavar="FILE", help="its functions, its answers")
    parser.add_argument("--timeout", type=float, default=0, help="seconds a question; 0: no limit")
    parser.add_argument("--stats", type=Path, metavar="FILE", help="write counts, a JSON object")
    parser.add_argument("--strict-positions", action="store_true")
    parser.add_argument("--max-files", type=int, default=500, help="a larger repository is skipped")
    parser.add_argument("--count-tokens", metavar="MODULE:FUNCTION", help="from text to its tokens")
    parser.add_argument("--max-tokens", type=int, default=128, help="needs --count-tokens")
    args = parser.parse_args()
    if args.replay and (args.answers or args.max_functions):
        parser.error("--replay takes its functions and answers from the file")
    if args.resume and not args.answers:
        parser.error("--resume goes on with an --answers file: name it")
    return args


def chosen(args, counts):
    """The functions to work on, and what is recorded about them already."""
    count_tokens = None
    if args.count_tokens:
        module, _, name = args.count_tokens.partition(":")
        count_tokens = getattr(importlib.import_module(module), name)
    limits = Limits(args.max_files, tokens=args.max_tokens, count_tokens=count_tokens)
    found = []
    names = [root.resolve().name for root in args.repos]
    if len(set(names)) < len(names):
        sys.exit(
            "two repositories have one name; functions are told apart by it, rename one folder"
        )
    for root in args.repos:
        if not root.is_dir():
            sys.exit(f"{root}: not a folder; name the root of a repository")
        found += functions(root.resolve(), limits, counts, args.strict_positions)
    records, whole = {}, 0
    if args.replay or (args.resume and args.answers.exists()):
        records, whole = read_answers(args.replay or args.answers, args.strict_positions)
    if args.replay:
        found = [f for f in found if f.key in records]
        if len(found) < len(records):
            sys.exit(f"{args.replay}: {len(records)} functions, {len(found)} of them found")
    elif args.max_functions and args.max_functions < len(found):
        draw = random.Random(args.seed).sample(range(len(found)), args.max_functions)
        found = [found[i] for i in sorted(draw)]
    return found, records, whole


def answers_file(args, whole, tool):
    if not args.answers:
        return None
    args.answers.parent.mkdir(parents=True, exist_ok=True)
    file = open(args.answers, "r+b" if whole else "wb")  # noqa: SIM115 closed by the caller
    file.truncate(whole)
    file.seek(whole)
    if not whole:
        write_line(file, tool.head(args.strict_positions))
    return file


def write_line(file, record):
    file.write(json.dumps(record, ensure_ascii=False).encode() + b"\n")
    file.flush()


def output(function, augmented, markers, args):
    record = {
        "repo": function.repo,
        "file_path": function.file_path,
        "function_name": function.name,
        "line": function.line,
        "column": function.column,
        "code": "".join(function.items),
        "augmented_code": augmented,
        "lsp_dict": markers,
        "docstring": function.docstring,
    }
    return record | toolgen_dataset.example(record, args.trigger, args.strict_positions)


def main():
    args = parse_arguments()
    counts = collections.Counter()
    found, records, whole = chosen(args, counts)
    tool = None if args.replay else Jedi(args.timeout)
    answers = answers_file(args, whole, tool)
    started = time.monotonic()
    args.out.parent.mkdir(parents=True, exist_ok=True)
    with open(args.out, "wb") as out:
        for done, function in enumerate(found, 1):
            replayed = function.key in records
            source = Replay(records[function.key]) if replayed else Recording(function, tool)
            augmented, markers = augment(function, source.names_at, args.strict_positions)
            if answers and not replayed:
                write_line(answers, source.record())
            if not replayed:
                counts["questions"] += len(source.questions)
            record = output(function, augmented, markers, args)
            counts["triggers"] += len(markers)
            counts["rejected_" + record["rejected"] if "rejected" in record else "kept"] += 1
            write_line(out, record)
            if done % 20 == 0 or done == len(found):
                seconds = time.monotonic() - started
                print(f"{done} of {len(found)} functions, {seconds:.0f} s", file=sys.stderr)
    if answers:
        answers.close()
    if args.stats:
        text = json.dumps(dict(sorted(counts.items())), indent=1)
        args.stats.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
