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
import ast
import collections
import dataclasses
import hashlib
import importlib
import io
import json
import os
import random
import signal
import sys
import time
import tokenize
import warnings
from pathlib import Path

import toolgen_dataset
from toolgen_words import SKIPPED

PLACEHOLDER = "<PLACEHOLDER>"
MARKER = "<LSP-POINT-{}>"
FORMAT = {"format": "toolgen-answers", "version": 1, "tool": "jedi"}


@dataclasses.dataclass(frozen=True)
class Limits:
    """The limits of the published corpus; `count_tokens` is the tokenizer's, and None is no limit."""

    files: int = 500
    file_lines: int = 1000
    function_lines: int = 50
    items: int = 512
    tokens: int = 128
    count_tokens: object = None


@dataclasses.dataclass(frozen=True)
class Function:
    """A function that passed the cleaning. `items` joined is the cleaned code."""

    repo: str
    root: Path
    file_path: str
    name: str
    line: int
    column: int
    end_line: int
    end_column: int
    source: str
    segment: str
    items: tuple
    docstring: str

    @property
    def key(self):
        return (self.repo, self.file_path, self.line, self.column)


# ---- from repositories to cleaned functions ----


def functions(root, limits, counts, strict):
    """Every function of a repository that passes the limits, files by path, functions breadth-first."""
    paths = sorted(python_files(root))
    if len(paths) > limits.files:
        counts["repo_over_file_limit"] += 1
        return
    for path in paths:
        source, tree = parse(root / path, limits, counts)
        if tree is None:
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.AsyncFunctionDef) and not strict:
                counts["function_async"] += 1
            elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                found = function(root, path, source, node, limits, counts)
                if found:
                    counts["function_taken"] += 1
                    yield found


def python_files(root):
    for folder, _, names in os.walk(root):
        for name in names:
            if name.endswith(".py"):
                yield Path(folder, name).relative_to(root).as_posix()


def parse(path, limits, counts):
    """Text and tree of a file, or (None, None) and a count of why not. Line ends become a newline."""
    try:
        source = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        counts["file_unreadable"] += 1
        return None, None
    if len(source.split("\n")) > limits.file_lines:
        counts["file_over_line_limit"] += 1
        return None, None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        counts["file_unparsable"] += 1
        return None, None
    counts["file_taken"] += 1
    return source, tree


def function(root, path, source, node, limits, counts):
    """Clean one function, or count the rule that leaves it out."""
    segment = ast.get_source_segment(source, node)
    try:
        items, docstring = clean(segment)
    except (tokenize.TokenError, IndentationError):
        counts["function_untokenizable"] += 1
        return None
    code = "".join(items)
    if not docstring.strip(" \t\r\n\f\v'\""):
        rule = "function_without_docstring"
    elif len(code.split("\n")) > limits.function_lines:
        rule = "function_over_line_limit"
    elif len(items) > limits.items:
        rule = "function_over_item_limit"
    elif limits.count_tokens and limits.count_tokens(code) > limits.tokens:
        rule = "function_over_token_limit"
    else:
        last = source.split("\n")[node.end_lineno - 1].encode()
        return Function(
            repo=root.name,
            root=root,
            file_path=path,
            name=node.name,
            line=node.lineno,
            column=node.col_offset,  # only white space stands before it: bytes are characters
            end_line=node.end_lineno,
            end_column=len(last[: node.end_col_offset].decode()),
            source=source,
            segment=segment,
            items=tuple(items),
            docstring=docstring,
        )
    counts[rule] += 1
    return None


def clean(segment):
    """The items of a function without comments, documentation and blank lines; and the documentation."""
    items, docstring = [], ""
    end_line, end_column, before = 1, 0, None
    for token in tokenize.generate_tokens(io.StringIO(segment).readline):
        (line, column), text = token.start, token.string
        if line > end_line:
            end_column = 0
        if column > end_column:
            items.append(" " * (column - end_column))
        if token.type == tokenize.STRING and is_documentation(before, column):
            docstring += text
        elif token.type != tokenize.COMMENT:
            items.append(text)
        end_line, end_column = token.end
        before = token.type
    return without_blank_lines(items), docstring


def is_documentation(before, column):
    return before in (None, tokenize.INDENT, tokenize.NEWLINE) or column == 0


def without_blank_lines(items):
    kept, line = [], []
    for item in items:
        line.append(item)
        if item == "\n":
            if "".join(line).strip():
                kept += line
            line = []
    if "".join(line).strip():
        kept += line
    return kept


# ---- triggers ----


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


# ---- the tool and its recorded answers ----


class Jedi:
    """Jedi, one project a repository. A question that takes `timeout` seconds has no answer; 0 waits."""

    def __init__(self, timeout):
        import jedi

        self.jedi, self.timeout = jedi, timeout
        signal.signal(signal.SIGALRM, give_up)
        self.projects = {}

    def head(self, strict):
        version = ".".join(str(part) for part in sys.version_info[:3])
        positions = "strict" if strict else "compat"
        return FORMAT | {
            "tool_version": self.jedi.__version__,
            "python": version,
            "positions": positions,
        }

    def names(self, function, text, line, column):
        """The names, and the exception that stands for none."""
        root = function.root
        if root not in self.projects:
            self.projects[root] = self.jedi.Project(str(root), added_sys_path=[str(root)])
        signal.setitimer(signal.ITIMER_REAL, self.timeout)
        try:
            script = self.jedi.Script(
                text, path=str(root / function.file_path), project=self.projects[root]
            )
            found = [completion.complete for completion in script.complete(line, column)]
        except Exception as error:  # whatever Jedi raises counts as "no names"
            return [], f"{type(error).__name__}: {error}"
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        return [name.strip() for name in found if name and name.strip()], None


def give_up(*_):
    raise TimeoutError("no answer in time")


class Recording:
    """The questions about one function and their answers, as they go into the answers file."""

    def __init__(self, function, tool):
        self.function, self.tool = function, tool
        self.lists, self.questions = [], []

    def names_at(self, index, text, line, column):
        names, error = self.tool.names(self.function, text, line, column)
        if names not in self.lists:
            self.lists.append(names)
        question = {"item": index, "line": line, "column": column, "sha256": sha256(text)}
        question["list"] = self.lists.index(names)
        if error:
            question["error"] = error
        self.questions.append(question)
        return names

    def record(self):
        f = self.function
        return {
            "repo": f.repo,
            "file_path": f.file_path,
            "function_name": f.name,
            "line": f.line,
            "column": f.column,
            "end_line": f.end_line,
            "end_column": f.end_column,
            "items": f.items,
            "lists": self.lists,
            "questions": self.questions,
        }


class Replay:
    """Recorded answers of one function in place of a tool."""

    def __init__(self, record):
        self.record = record
        self.lists = {
            (q["line"], q["column"], q["sha256"]): record["lists"][q["list"]]
            for q in record["questions"]
        }

    def names_at(self, index, text, line, column):
        key = (line, column, sha256(text))
        if key not in self.lists:
            where = f"{self.record['repo']}/{self.record['file_path']}"
            sys.exit(
                f"{where}: no recorded answer for item {index} at {line}:{column} of this text; "
                "the file or the rules have changed, record the answers again"
            )
        return self.lists[key]


def sha256(text):
    return hashlib.sha256(text.encode()).hexdigest()


def record_key(record):
    return (record["repo"], record["file_path"], record["line"], record["column"])


def read_answers(path, strict):
    """Recorded functions by key, and the bytes that hold whole records: a killed run may leave half a line."""
    records, whole = {}, 0
    with open(path, "rb") as file:
        for number, line in enumerate(file):
            if not line.endswith(b"\n"):
                break
            record = json.loads(line)
            if number == 0:
                positions = "strict" if strict else "compat"
                if record.get("format") != FORMAT["format"] or record["positions"] != positions:
                    sys.exit(f"{path}: not answers at {positions} positions")
            else:
                records[record_key(record)] = record
            whole += len(line)
    return records, whole


# ---- the program ----


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
