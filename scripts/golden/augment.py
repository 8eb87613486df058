"""Write tests/data/augment: the answers of Jedi about a small repository, and what compat makes of them.

The repository is committed; the files that an editor or Git would spoil are written here. A file over the
line limit is made in a copy of the repository, here and in the test, and never committed. See the README there.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
DATA = HERE.parents[1] / "tests/data/augment"

DOS = '''"""Lines end as on DOS."""


def both(left, right):
    """Return both arguments over
    two lines."""
    pair = """a
b"""
    return left, right, pair
'''
FUNCTION = '''def {name}(size):
    """Return what {what}."""
{body}
'''


def special_files():
    """File name -> bytes."""
    marked = FUNCTION.format(name="marked", what="comes after a mark", body="    return size")
    latin = FUNCTION.format(name="latin", what="stands in “other” bytes", body="    return size")
    return {
        "dos.py": DOS.replace("\n", "\r\n").encode(),
        "marked.py": b"\xef\xbb\xbf" + marked.encode(),
        "latin.py": latin.encode("cp1252"),
        "limits.py": limits().encode(),
    }


def limits():
    """Functions at the line and item limits, and just over them."""
    parts = ['"""At the limits, and one over them."""\n']
    for lines in (50, 51):
        body = "\n".join(["    pass"] * (lines - 1))
        parts.append(FUNCTION.format(name=f"lines_{lines}", what=f"{lines} lines give", body=body))
    # Without the zeros 14: eight before the newline, three after it, and three empty ones at the end.
    for items in (512, 513):
        more, signs = divmod(items - 15, 3)
        zeros = "-" * signs + "0" + ", 0" * more
        body = f"    return {zeros}"
        parts.append(FUNCTION.format(name=f"items_{items}", what=f"{items} items give", body=body))
    return "\n\n".join(parts)


def long_file():
    """1001 lines when split at newlines, the last one empty: one over the limit."""
    text = FUNCTION.format(
        name="in_long_file", what="stands in a long file", body="    return size"
    )
    return text + "#\n" * (1000 - text.count("\n"))


def main():
    for name, content in special_files().items():
        (DATA / "library/lending" / name).write_bytes(content)
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder, "library")
        shutil.copytree(DATA / "library", root)
        (root / "lending/long.py").write_text(long_file(), encoding="utf-8", newline="\n")
        command = [sys.executable, str(HERE / "toolgen_augment.py"), str(root)]
        command += ["--answers", str(DATA / "compat.answers.jsonl")]
        command += ["--out", str(DATA / "compat.jsonl"), "--stats", str(DATA / "compat.stats.json")]
        subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
