"""The code that adapters are trained on: pinned wheels and the standard library, one folder each.

    python3 scripts/finetune/corpus.py --out .cache/finetune

writes OUT/repos/NAME for every line of corpus.txt (Python files only), OUT/repos/stdlib from the interpreter
that runs this, OUT/python (an environment without packages, so that what is installed here does not change the
data) and OUT/corpus.json (names, versions, hashes, licences). Then:

    tether augment .cache/finetune/repos/* --python .cache/finetune/python/bin/python \\
        --tokenizer smollm2 --tokens-max 128 --functions-max 1000 -o .cache/finetune/data
"""

import argparse
import json
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

HERE = Path(__file__).parent
LINE = re.compile(
    r"^(?P<name>[\w.-]+)==(?P<version>\S+) --hash=sha256:(?P<sha256>[0-9a-f]{64})\s+# (?P<licence>.+)$"
)
# Tests of the library, and what is not Python's own code or not code to learn from.
NOT_STDLIB = {
    "test",
    "tests",
    "idlelib",
    "lib2to3",
    "turtledemo",
    "ensurepip",
    "site-packages",
    "__pycache__",
    "dist-packages",
}


def read_list(path):
    packages = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if not line or line.startswith("#"):
            continue
        match = LINE.match(line)
        if not match:
            sys.exit(
                f"{path}:{number}: expected NAME==VERSION --hash=sha256:… # LICENCE, got {line!r}"
            )
        packages.append(match.groupdict())
    return packages


def download(listed, folder):
    folder.mkdir(parents=True, exist_ok=True)
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--quiet",
        "--disable-pip-version-check",
        "--no-deps",
    ]
    # Wheels for any platform, whatever machine this is.
    command += [
        "--only-binary",
        ":all:",
        "--implementation",
        "py",
        "--abi",
        "none",
        "--platform",
        "any",
    ]
    subprocess.run([*command, "--require-hashes", "-r", str(listed), "-d", str(folder)], check=True)


def wheel_of(folder, name, version):
    normal = re.sub(r"[-_.]+", "_", name).lower()
    for path in folder.glob("*.whl"):
        parts = path.name.split("-")
        if re.sub(r"[-_.]+", "_", parts[0]).lower() == normal and parts[1] == version:
            return path
    sys.exit(f"no wheel of {name} {version} in {folder}; delete the folder and run this again")


def unpack(wheel, folder):
    with zipfile.ZipFile(wheel) as archive:
        for member in sorted(archive.namelist()):
            top = member.split("/")[0]
            if member.endswith(".py") and not top.endswith((".data", ".dist-info")):
                archive.extract(member, folder)


def copy_stdlib(folder):
    source = Path(sysconfig.get_paths()["stdlib"])
    for path in sorted(source.rglob("*.py")):
        inner = path.relative_to(source)
        if not NOT_STDLIB & set(inner.parts) and not inner.parts[0].startswith("config-"):
            target = folder / inner
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=Path(".cache/finetune"))
    parser.add_argument("--list", type=Path, default=HERE / "corpus.txt")
    arguments = parser.parse_args()

    packages = read_list(arguments.list)
    wheels, repos = arguments.out / "wheels", arguments.out / "repos"
    download(arguments.list, wheels)
    shutil.rmtree(repos, ignore_errors=True)
    for package in packages:
        unpack(
            wheel_of(wheels, package["name"], package["version"]), repos / package["name"].lower()
        )
    copy_stdlib(repos / "stdlib")
    environment = arguments.out / "python"
    if not environment.exists():
        subprocess.run(
            [sys.executable, "-m", "venv", "--without-pip", str(environment)], check=True
        )
    corpus = {
        "python": platform.python_version(),
        "stdlib_licence": "PSF-2.0",
        "packages": packages,
    }
    (arguments.out / "corpus.json").write_text(json.dumps(corpus, indent=1) + "\n")
    n_files = sum(1 for _ in repos.rglob("*.py"))
    print(
        f"{len(packages)} packages and the standard library of Python {corpus['python']}:",
        f"{n_files} files in {repos}",
    )


if __name__ == "__main__":
    main()
