"""What llama.cpp predicts at every position of some text: the best id, and how surprised it was.

    python scripts/peers/llama_cpp_eval.py --model FILE.gguf --out peer.json --positions 2000 FILE.py …

The text is cut into windows of 512 tokens that each start afresh. The output holds the ids of every window,
so that another engine can be given exactly the same ones:
`{"windows": [{"ids": [T], "argmax": [T-1], "nll": [T-1]}]}`.
"""

import argparse
import json
from pathlib import Path

import numpy as np
from llama_cpp_model import PeerModel

WINDOW = 512


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--positions", type=int, default=2000)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("files", type=Path, nargs="+")
    args = parser.parse_args()

    model = PeerModel(args.model, args.threads, n_batch=WINDOW)
    ids = model.tokenize("\n".join(file.read_text(encoding="utf-8") for file in args.files))
    windows, n_positions = [], 0
    for start in range(0, len(ids) - 1, WINDOW):
        if n_positions >= args.positions:
            break
        window = ids[start : start + WINDOW]
        model.clear()
        model.decode(window, 0, all_logits=True)
        logits = model.logits(len(window))[:-1].astype(np.float64)
        top = logits.max(axis=1, keepdims=True)
        log_sum = np.log(np.exp(logits - top).sum(axis=1)) + top[:, 0]
        nll = log_sum - logits[np.arange(len(window) - 1), window[1:]]
        windows.append(
            {"ids": window, "argmax": logits.argmax(axis=1).tolist(), "nll": nll.round(6).tolist()}
        )
        n_positions += len(window) - 1
    if n_positions < args.positions:
        parser.error(f"only {n_positions} positions in the text, {args.positions} wanted")
    args.out.write_text(json.dumps({"model": args.model, "windows": windows}))
    mean = float(np.mean([value for window in windows for value in window["nll"]]))
    print(f"{n_positions} positions, perplexity {np.exp(mean):.4f}")


if __name__ == "__main__":
    main()
