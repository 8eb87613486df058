"""Check that llama.cpp reads our GGUF test files as their goldens say.

    python scripts/peers/llama_cpp_golden.py

It keeps keys and values in f16 and rounds activations for quantised weights, hence the tolerances.
"""

import json
import struct
import sys
from pathlib import Path

import numpy as np
from llama_cpp import Llama

MODELS = Path(__file__).resolve().parents[2] / "tests" / "data" / "models"
TOLERANCE = {"f32": 0.01, "f16": 0.01, "q8_0": 0.15, "q4_0": 0.15}


def read_safetensors(path: Path) -> dict[str, np.ndarray]:
    data = path.read_bytes()
    (n_header,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + n_header])
    header.pop("__metadata__", None)
    body = data[8 + n_header :]
    types = {"F32": "<f4", "I32": "<i4"}
    return {
        name: np.frombuffer(
            body[slice(*entry["data_offsets"])], dtype=types[entry["dtype"]]
        ).reshape(entry["shape"])
        for name, entry in header.items()
    }


def main() -> int:
    n_wrong = 0
    for file in sorted((MODELS / "gguf").glob("*.gguf")):
        name, qtype = file.stem.rsplit("-", 1)
        own = file.with_name(f"{file.stem}.golden.safetensors")
        golden = read_safetensors(own if own.exists() else MODELS / name / "golden.safetensors")
        prompt = json.loads((MODELS / name / "golden.json").read_text())["prompt"]
        ids = golden["input_ids"].tolist()
        model = Llama(
            str(file), n_ctx=128, n_threads=1, n_threads_batch=1, logits_all=True, verbose=False
        )
        same_ids = model.tokenize(prompt.encode(), add_bos=False, special=False) == ids
        model.eval(ids)
        error = float(np.abs(model.scores[: len(ids)] - golden["logits"]).max())
        good = same_ids and error <= TOLERANCE[qtype]
        n_wrong += not good
        print(
            f"{'ok   ' if good else 'WRONG'} {file.name}: same ids {same_ids}, largest error {error:.4f}"
        )
    return 1 if n_wrong else 0


if __name__ == "__main__":
    sys.exit(main())
