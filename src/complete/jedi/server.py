"""Completion server around Jedi: length-prefixed JSON on stdin and stdout, one answer per question.

A frame is a 4-byte little-endian length and that many bytes of UTF-8 JSON. The first frame configures:
  {"roots": [...], "environment": PATH or null, "memory_bytes_max": N or 0, "case": "exact"}
and is answered by {"ready": true, "jedi": VERSION, "python": VERSION} or {"error": TEXT, "kind": KIND}.
Then each question
  {"id": N, "path": P, "text": T, "line": L, "column": C, "prefix": S, "names_max": M}
(line from 1, column from 0 in code points) is answered by
  {"id": N, "names": [[name, type], …], "truncated": B} or {"id": N, "error": TEXT}.
Names start with `prefix` exactly, compared and given in NFKC, keyword arguments without their `=`.
"""

import json
import os
import struct
import sys
import unicodedata


def read_exactly(stream, n):
    parts = []
    while n > 0:
        part = stream.read(n)
        if not part:
            sys.exit(0)  # the parent is gone
        parts.append(part)
        n -= len(part)
    return b"".join(parts)


def read_frame(stream):
    (n,) = struct.unpack("<I", read_exactly(stream, 4))
    return json.loads(read_exactly(stream, n))


def write_frame(stream, value):
    data = json.dumps(value).encode("utf-8", "backslashreplace")
    stream.write(struct.pack("<I", len(data)) + data)
    stream.flush()


def limit_memory(n_bytes):
    if not n_bytes:
        return
    try:
        import resource

        hard = resource.getrlimit(resource.RLIMIT_AS)[1]
        if hard != resource.RLIM_INFINITY:
            n_bytes = min(n_bytes, hard)
        resource.setrlimit(resource.RLIMIT_AS, (n_bytes, hard))
    except (ImportError, ValueError, OSError):
        pass  # a machine without this limit still completes


class Session:
    def __init__(self, jedi, setup):
        jedi.settings.case_insensitive_completion = False
        jedi.settings.add_bracket_after_function = False
        jedi.settings.auto_import_modules = []  # nothing of the user's is ever imported or run
        # Both environments are another process: what is installed beside this script stays invisible.
        if setup["environment"]:
            self.environment = jedi.create_environment(setup["environment"], safe=False)
        else:
            self.environment = jedi.create_environment(sys.executable, safe=False)
        roots = list(setup["roots"])
        installed = [p for p in self.environment.get_sys_path() if p and p not in roots]
        self.project = jedi.Project(
            roots[0] if roots else os.getcwd(),
            sys_path=roots + installed,
            smart_sys_path=False,
            load_unsafe_extensions=False,
        )
        self.jedi = jedi

    def complete(self, question):
        script = self.jedi.Script(
            question["text"],
            path=question["path"],
            environment=self.environment,
            project=self.project,
        )
        found = {}
        truncated = False
        prefix = question["prefix"]
        for completion in script.complete(question["line"], question["column"], fuzzy=False):
            kind = completion.type
            name = completion.name
            if kind in ("keyword", "path"):
                continue
            if name.endswith("="):
                name, kind = name[:-1], "argument"
            name = unicodedata.normalize("NFKC", name)
            if not name.isidentifier() or not name.startswith(prefix):
                continue
            if len(found) >= question["names_max"] and name not in found:
                truncated = True
                break
            # A keyword argument may share its name with a variable: as a variable it fits everywhere.
            if name not in found or found[name] == "argument":
                found[name] = kind
        return {"names": sorted(found.items()), "truncated": truncated}


def main():
    # Whatever a library prints must not end up between the frames.
    stdin, stdout = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    setup = read_frame(stdin)
    try:
        import jedi
    except ImportError:
        import site

        # Isolated mode hides the user's own packages folder, a common home of jedi.
        sys.path.append(site.getusersitepackages())
        try:
            import jedi
        except ImportError as problem:
            write_frame(stdout, {"error": str(problem), "kind": "no_jedi"})
            return
    limit_memory(setup["memory_bytes_max"])
    try:
        session = Session(jedi, setup)
    except Exception as problem:
        write_frame(
            stdout, {"error": f"{type(problem).__name__}: {problem}", "kind": "environment"}
        )
        return
    version = ".".join(map(str, sys.version_info[:3]))
    write_frame(stdout, {"ready": True, "jedi": jedi.__version__, "python": version})
    while True:
        question = read_frame(stdin)
        try:
            answer = session.complete(question)
        except MemoryError:
            os._exit(3)  # what is left of this process cannot be trusted
        except RecursionError as problem:
            answer = {"error": f"RecursionError: {problem}"}
        except Exception as problem:  # Jedi raises many kinds; the session goes on
            answer = {"error": f"{type(problem).__name__}: {problem}"[:500]}
        answer["id"] = question["id"]
        write_frame(stdout, answer)


if __name__ == "__main__":
    main()
