"""ToolGen's functions: which ones of a repository are taken, and what cleaning leaves of them."""

import ast
import dataclasses
import io
import os
import tokenize
import warnings
from pathlib import Path


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
