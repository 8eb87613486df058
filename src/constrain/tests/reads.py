"""For every file of the standard library: where names are read, and where keyword arguments are named.

One JSON line a file. `reads`: byte offsets of names that are loaded, not in annotations or patterns, and not
bound by a comprehension around them. `keywords`: byte offsets of the names of keyword arguments.
"""

import ast
import json
import pathlib
import sys
import sysconfig


def names_in(target):
    return {n.id for n in ast.walk(target) if isinstance(n, ast.Name)}


class Reads(ast.NodeVisitor):
    def __init__(self, text):
        self.starts = [0]
        for line in text.splitlines(keepends=True):
            self.starts.append(self.starts[-1] + len(line))
        self.reads, self.keywords, self.bound = [], [], []

    def offset(self, node):
        return self.starts[node.lineno - 1] + node.col_offset

    def visit_Name(self, node):
        if isinstance(node.ctx, ast.Load) and not any(node.id in names for names in self.bound):
            self.reads.append(self.offset(node))

    def visit_Call(self, node):
        self.keywords += [self.offset(k) for k in node.keywords if k.arg]
        self.generic_visit(node)

    def comprehension(self, node):
        self.bound.append(set().union(*(names_in(g.target) for g in node.generators)))
        self.generic_visit(node)
        self.bound.pop()

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = comprehension

    def visit_AnnAssign(self, node):
        for part in (node.target, node.value):
            if part:
                self.visit(part)

    def visit_arg(self, node):
        pass

    def function(self, node):
        for part in [*node.decorator_list, node.args, *node.body]:
            self.visit(part)

    visit_FunctionDef = visit_AsyncFunctionDef = function


def main():
    root = pathlib.Path(sysconfig.get_paths()["stdlib"])
    for path in sorted(root.rglob("*.py")):
        data = path.read_bytes()
        others = {"site-packages", "dist-packages", "test", "tests", "idlelib", "lib2to3"}
        if others & set(path.parts) or b"\r" in data or b"\f" in data:
            continue
        try:
            tree = ast.parse(data)
            data.decode("utf-8")
        except (SyntaxError, ValueError):
            continue
        if data.startswith(b"\xef\xbb\xbf"):
            continue
        visitor = Reads(data)
        visitor.visit(tree)
        line = {"path": str(path), "reads": visitor.reads, "keywords": visitor.keywords}
        sys.stdout.write(json.dumps(line) + "\n")


main()
