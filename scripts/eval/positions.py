"""Sample the positions on which completion tools are compared.

For each package: copy its sources to `PROJECTS/PACKAGE/` (so that it is a project of its own, whose
dependencies stay installed packages), draw a seeded sample of its documented functions, and emit every
identifier use in their bodies as one JSON line:

  package, file       the project, and the file relative to PROJECTS
  offset_byte         where the name begins: the cursor
  kind                member (`a.NAME`), name (`NAME` read), keyword (`f(NAME=…)`)
  ctx                 load, store or del; names are loads only, a stored member may be a definition
  receiver            source text before the dot, or null
  name                the identifier that really stands there
  function            qualified name of the sampled function
  span_byte           its first and last byte (end exclusive), decorators excluded
  own_class           the receiver is the enclosing class (`self`, `cls`), a class of the project, or a
                      local that holds a new instance of one
  own                 how: self, cls, class, instance, or null
  forward             the name is bound in this function, but only after the cursor (a comprehension's
                      variable before its `for`): nobody can know it

The text that a tool is shown is the file with `[offset_byte, span_byte[1])` cut out: the function ends at
the cursor, everything after the function stays. Inside f-strings positions are not taken: Python before
3.12 reports them wrongly. Standard library only; run it with the interpreter that has the packages.
"""

import argparse
import ast
import hashlib
import json
import shutil
import sys
import sysconfig
from pathlib import Path

# Package -> importable folders of its wheel.
PACKAGES = {
    "click": ["click"],
    "flask": ["flask"],
    "jinja2": ["jinja2"],
    "marshmallow": ["marshmallow"],
    "httpx": ["httpx"],
    "rich": ["rich"],
    "werkzeug": ["werkzeug"],
    "attrs": ["attr", "attrs"],
    "networkx": ["networkx"],
    "requests": ["requests"],
}
# A package of this repository, for a sample small enough to be committed and tested:
#   python scripts/eval/positions.py --package inventory --projects examples \
#       --out tests/data/completion/positions.jsonl
OWN = {"inventory": ["stockroom"]}
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
SCOPES = FUNCTIONS + (ast.ClassDef, ast.Lambda)


def stage(site, package, folders, projects):
    """Copy one package's sources (stubs and data too, compiled files not) into its own project folder."""
    root = projects / package
    for folder in folders:
        target = root / folder
        if not target.exists():
            skip = shutil.ignore_patterns("__pycache__", "*.so", "*.pyd")
            shutil.copytree(site / folder, target, ignore=skip)
    return root


class Module:
    """One parsed file: its tree, line starts, top-level classes and imported names."""

    def __init__(self, root, path):
        self.path = path
        self.bytes = path.read_bytes()
        self.text = self.bytes.decode("utf-8")
        self.tree = ast.parse(self.text)
        self.starts = [0]
        i = 0
        while i < len(self.bytes):
            if self.bytes[i] == 10 or (self.bytes[i] == 13 and self.bytes[i + 1 : i + 2] != b"\n"):
                self.starts.append(i + 1)
            i += 1
        parts = path.relative_to(root).with_suffix("").parts
        self.is_package = parts[-1] == "__init__"
        self.name = ".".join(parts[:-1] if self.is_package else parts)
        self.classes = set()
        self.imports = {}
        for node in ast.walk(self.tree):
            if isinstance(node, ast.ImportFrom):
                source = self.absolute(node.module, node.level)
                for alias in node.names:
                    self.imports.setdefault(alias.asname or alias.name, (source, alias.name))
        for node in self.tree.body:
            if isinstance(node, ast.ClassDef):
                self.classes.add(node.name)

    def absolute(self, module, level):
        if level == 0:
            return module or ""
        parts = self.name.split(".")
        keep = len(parts) - level + (1 if self.is_package else 0)
        return ".".join(parts[: max(keep, 0)] + ([module] if module else []))

    def offset(self, line, col):
        return self.starts[line - 1] + col

    def span(self, node):
        return self.offset(node.lineno, node.col_offset), self.offset(
            node.end_lineno, node.end_col_offset
        )


def is_own_class(modules, module, name, depth=0):
    """Whether `name`, read in `module`, is a class that this project defines."""
    if name in module.classes:
        return True
    source, original = module.imports.get(name, (None, None))
    target = modules.get(source)
    return target is not None and depth < 6 and is_own_class(modules, target, original, depth + 1)


def bindings(module, function):
    """Name -> sorted byte offsets at which the function binds it (parameters count from its start)."""
    bound = {}

    def add(name, at):
        bound.setdefault(name, []).append(at)

    for node in ast.walk(function):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            add(node.id, module.span(node)[0])
        elif isinstance(node, ast.arg):
            add(node.arg, module.span(node)[0])
        elif (
            isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
            and node is not function
        ):
            add(node.name, module.span(node)[0])
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            for alias in node.names:
                add((alias.asname or alias.name).split(".")[0], module.span(node)[0])
        elif isinstance(node, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)) and node.name:
            add(node.name, module.span(node)[0])
    for places in bound.values():
        places.sort()
    return bound


def annotation_class(node):
    """The bare class name of a simple annotation (`C`, `"C"`), else None."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.isidentifier():
        return node.value
    return None


def own_receivers(modules, module, function, owner):
    """Receiver name -> how it is known to be of a class of this project."""
    own = {}
    arguments = function.args.posonlyargs + function.args.args
    decorators = {d.id for d in function.decorator_list if isinstance(d, ast.Name)}
    if owner is not None and arguments and "staticmethod" not in decorators:
        is_cls = "classmethod" in decorators or function.name in (
            "__new__",
            "__init_subclass__",
            "__class_getitem__",
        )
        own[arguments[0].arg] = "cls" if is_cls else "self"
    for argument in arguments + function.args.kwonlyargs:
        name = annotation_class(argument.annotation)
        if name and is_own_class(modules, module, name):
            own.setdefault(argument.arg, "instance")
    for node in ast.walk(function):
        if (
            isinstance(node, ast.Assign)
            and len(node.targets) == 1
            and isinstance(node.targets[0], ast.Name)
            and isinstance(node.value, ast.Call)
            and isinstance(node.value.func, ast.Name)
            and is_own_class(modules, module, node.value.func.id)
        ):
            own.setdefault(node.targets[0].id, "instance")
    # A name bound more than once may hold something else.
    bound = bindings(module, function)
    return {name: how for name, how in own.items() if len(bound.get(name, ())) <= 1}


def documented_functions(module):
    """Every documented function with its qualified name and the class it stands in directly."""
    found = []

    def walk(node, names, owner):
        for child in ast.iter_child_nodes(node):
            if isinstance(child, FUNCTIONS):
                if ast.get_docstring(child) and len(child.body) > 1:
                    found.append((".".join(names + [child.name]), child, owner))
                walk(child, names + [child.name], None)
            elif isinstance(child, ast.ClassDef):
                walk(child, names + [child.name], child)
            else:
                walk(child, names, owner)

    walk(module.tree, [], None)
    return found


def uses(modules, module, function, owner):
    """The identifier uses in a function's body, docstring excluded, in source order."""
    bound = bindings(module, function)
    own = own_receivers(modules, module, function, owner)
    found, wrong = [], 0

    def add(start, name, kind, ctx, receiver=None, how=None, forward=False):
        nonlocal wrong
        if not module.bytes[start:].startswith(name.encode()):
            # Spelled differently (Python compares in NFKC), or a position that ast has wrong.
            wrong += 1
            return
        found.append(
            {
                "offset_byte": start,
                "kind": kind,
                "ctx": ctx,
                "receiver": receiver,
                "name": name,
                "own_class": how is not None,
                "own": how,
                "forward": forward,
            }
        )

    def walk(node):
        if isinstance(node, ast.JoinedStr):
            return
        if isinstance(node, ast.Attribute):
            value, how = node.value, None
            if isinstance(value, ast.Name):
                how = own.get(value.id)
                if (
                    how is None
                    and value.id not in bound
                    and is_own_class(modules, module, value.id)
                ):
                    how = "class"
            receiver = ast.get_source_segment(module.text, value)
            start = module.span(node)[1] - len(node.attr.encode())
            add(start, node.attr, "member", type(node.ctx).__name__.lower(), receiver, how)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            start = module.span(node)[0]
            places = bound.get(node.id)
            add(start, node.id, "name", "load", forward=bool(places) and places[0] > start)
        elif isinstance(node, ast.keyword) and node.arg:
            add(module.span(node)[0], node.arg, "keyword", "load")
        for child in ast.iter_child_nodes(node):
            walk(child)

    for statement in function.body[1:]:
        walk(statement)
    found.sort(key=lambda use: use["offset_byte"])
    return found, wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--projects", type=Path, required=True, help="folder to copy the packages to"
    )
    parser.add_argument("--out", type=Path, required=True, help="JSON lines to write")
    parser.add_argument("--seed", default="1")
    parser.add_argument("--functions", type=int, default=40, help="documented functions a package")
    parser.add_argument(
        "--package",
        action="append",
        choices=sorted(PACKAGES | OWN),
        help="only this one; repeatable",
    )
    parser.add_argument("--site", type=Path, default=Path(sysconfig.get_paths()["purelib"]))
    args = parser.parse_args()

    rows, n_wrong = [], 0
    for package in args.package or PACKAGES:
        root = stage(args.site, package, (PACKAGES | OWN)[package], args.projects)
        modules = {}
        for path in sorted(root.rglob("*.py")):
            if "tests" in path.relative_to(root).parts:
                continue
            try:
                module = Module(root, path)
            except (SyntaxError, UnicodeDecodeError) as problem:
                print(f"skipped {path}: {problem}", file=sys.stderr)
                continue
            modules[module.name] = module
        drawn = []
        for module in modules.values():
            for name, function, owner in documented_functions(module):
                key = f"{args.seed} {module.name} {name} {function.lineno}".encode()
                drawn.append((hashlib.sha256(key).hexdigest(), module, name, function, owner))
        drawn.sort(key=lambda row: row[0])
        drawn = sorted(drawn[: args.functions], key=lambda row: (row[1].name, row[3].lineno))
        n_rows = 0
        for _, module, name, function, owner in drawn:
            found, wrong = uses(modules, module, function, owner)
            n_wrong += wrong
            head = {"package": package, "file": str(module.path.relative_to(args.projects))}
            for use in found:
                rows.append({**head, **use, "function": name, "span_byte": module.span(function)})
            n_rows += len(found)
        print(f"{package}: {len(drawn)} functions, {n_rows} positions", file=sys.stderr)
    args.out.parent.mkdir(parents=True, exist_ok=True)
    with args.out.open("w", encoding="utf-8") as out:
        for row in rows:
            out.write(json.dumps(row, ensure_ascii=False) + "\n")
    print(
        f"{len(rows)} positions, {n_wrong} dropped because the text there is not the name",
        file=sys.stderr,
    )


if __name__ == "__main__":
    main()
