"""Make the Q8_0 and Q4_0 files of the measurements from the shipped Q4_1 file, with llama.cpp itself.

    python scripts/peers/requantise.py FILE.gguf FOLDER

Files that exist already are kept. Only speed is measured on them: a file quantised twice loses quality.
"""

import argparse
import os
import sys
from pathlib import Path

import llama_cpp as lib
from llama_cpp_model import quiet

TYPES = {"Q8_0": lib.LLAMA_FTYPE_MOSTLY_Q8_0, "Q4_0": lib.LLAMA_FTYPE_MOSTLY_Q4_0}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("folder", type=Path)
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    base = args.model.name.split(".")[0]
    for name, ftype in TYPES.items():
        out = args.folder / f"{base}.{name}.gguf"
        if not out.exists():
            params = lib.llama_model_quantize_default_params()
            params.ftype = ftype
            params.nthread = os.cpu_count() or 1
            params.allow_requantize = True
            partial = out.with_suffix(".part")
            with quiet():
                status = lib.llama_model_quantize(
                    str(args.model).encode(), str(partial).encode(), params
                )
            if status != 0:
                sys.exit(f"llama_model_quantize failed with {status} for {name}")
            partial.rename(out)
        print(out)


if __name__ == "__main__":
    main()
