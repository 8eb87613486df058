"""Jedi, and its answers recorded and read back; `toolgen_augment.py` describes the file."""

import hashlib
import json
import signal
import sys

FORMAT = {"format": "toolgen-answers", "version": 1, "tool": "jedi"}


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
