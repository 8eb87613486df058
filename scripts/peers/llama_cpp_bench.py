"""Measure llama.cpp as `tether profile` measures itself: prefill in one pass, then single tokens.

    python scripts/peers/llama_cpp_bench.py --model FILE.gguf --reps 3

Prints JSON of the same shape as `tether profile --json`. Only `llama_decode` is timed: choosing the next
token is left out for the peer and included for us.
"""

import argparse
import json
import statistics
import time

from llama_cpp_model import PeerModel


def prompt_ids(n: int, n_vocab: int) -> list[int]:
    """Any ordinary ids do: the time of a dense model does not depend on them."""
    return [1000 + (37 * i) % (min(n_vocab, 30_000) - 1000) for i in range(n)]


def summary(samples: list[float]) -> dict:
    return {"median": statistics.median(samples), "samples": samples}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", required=True)
    parser.add_argument("--prompt-tokens", type=int, default=512)
    parser.add_argument("--gen-tokens", type=int, default=128)
    parser.add_argument("--reps", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()

    model = PeerModel(args.model, args.threads, n_batch=args.prompt_tokens)
    ids = prompt_ids(args.prompt_tokens, model.n_vocab)
    more = prompt_ids(args.gen_tokens, model.n_vocab)
    prefill, decode, first_ms, token_ms = [], [], [], []
    for rep in range(args.reps + 1):
        model.clear()
        start = time.perf_counter()
        model.decode(ids, 0)
        model.logits(1)  # waits for the result
        prefill_s = time.perf_counter() - start
        times = []
        for i, token in enumerate(more):
            before = time.perf_counter()
            model.decode([token], len(ids) + i)
            model.logits(1)
            times.append(time.perf_counter() - before)
        if rep == 0:
            continue  # warm-up
        prefill.append(len(ids) / prefill_s)
        decode.append(len(more) / sum(times))
        first_ms.append(1000 * prefill_s)
        token_ms.append([1000 * t for t in times])
    result = {
        "engine": "llama.cpp (llama-cpp-python 0.3.36)",
        "model": args.model,
        "device": "cpu",
        "threads": args.threads,
        "prompt_tokens": args.prompt_tokens,
        "gen_tokens": args.gen_tokens,
        "prefill_tokens_per_s": summary(prefill),
        "decode_tokens_per_s": summary(decode),
        "first_token_ms": summary(first_ms),
        "token_ms": token_ms,
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
