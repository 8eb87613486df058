"""The loss on held-out functions: a base model on bodies as they were written, adapters on theirs.

    python scripts/finetune/evaluate.py --data DIR --model smollm2 --adapter A [--adapter B] [--split test]

A vanilla adapter is judged on plain bodies, one with a trigger on bodies with triggers. Tokens differ
between the two, so the loss is also given for each character of the plain body: there a trigger costs
what it adds, and all rows can be compared.
"""

import argparse
import sys
from pathlib import Path

import adapter_files
import base_model
import dataset
import functions
import heldout
import merging
import torch
from adapter_files import SaveError
from base_model import Base, ModelError
from decoder import Decoder
from functions import DataError


def parse(words: list[str] | None) -> argparse.Namespace:
    p = argparse.ArgumentParser(prog="evaluate.py", description=__doc__.splitlines()[0])
    p.add_argument("--data", type=Path, required=True, help="folder that `tether augment` wrote")
    p.add_argument("--split", choices=("train", "valid", "test"), default="test")
    p.add_argument("--model", required=True, help="as for train.py")
    p.add_argument("--adapter", type=Path, action="append", default=[], help="may be repeated")
    p.add_argument("--functions", type=int, default=500, help="at most so many (default 500)")
    p.add_argument("--row-tokens", type=int, default=512, help="longer functions are left out")
    p.add_argument("--precision", choices=("bfloat16", "float32"), default="bfloat16")
    p.add_argument("--json", type=Path, help="write the figures there as well")
    return p.parse_args(words)


def row(name: str, decoder: Decoder, pairs: list[dataset.HeldOut], plain: bool, args) -> dict:
    encoded = [pair.plain if plain else pair.encoded for pair in pairs]
    result = heldout.loss_of(decoder, encoded, args.row_tokens)
    characters = sum(pair.n_characters for pair in pairs)
    return {"name": name, "functions": len(pairs)} | result | {
        "nats_per_character": round(result["nats"] / characters, 5)
    }  # fmt: skip


def figures(args: argparse.Namespace, base: Base) -> list[dict]:
    """The base, then each adapter, all on the same functions: those that fit a row for every one."""
    path = args.data / f"{args.split}.jsonl"
    dtype = getattr(torch, args.precision)
    model, tokenizer = base_model.load(base, dtype)
    # One pass for the choice of functions: with triggers they are longest, and every new token is one.
    in_data = functions.trigger_of(args.data) or dataset.DEFAULT_TRIGGER
    longest = dataset.Trigger(in_data, 0, True, in_data)
    fits = dataset.fitting(path, tokenizer, longest, args.row_tokens)[: args.functions]
    pairs = dataset.held_out(path, True, tokenizer, None, args.row_tokens, fits)
    rows = [row(base.name, Decoder(model, None), pairs, True, args)]
    for adapter in args.adapter:
        peft, tokenizer, trigger = merging.load_with_adapter(base, adapter, dtype, in_data)
        pairs = dataset.held_out(path, trigger is None, tokenizer, trigger, args.row_tokens, fits)
        decoder = Decoder(peft, trigger and trigger.id)
        name = adapter_files.read_manifest(adapter)["name"]
        rows.append(row(name, decoder, pairs, trigger is None, args))
    return rows


def table(rows: list[dict]) -> str:
    lines = [
        "| model | functions | nats/token | against base | other tokens | triggers | at triggers "
        "| nats/character |",
        "|---|---|---|---|---|---|---|---|",
    ]
    first = rows[0]["nats_per_token"]
    for found in rows:
        change = 100 * (found["nats_per_token"] / first - 1)
        cells = [
            found["name"], found["functions"], f"{found['nats_per_token']:.3f}", f"{change:+.1f} %",
            found.get("nats_per_other_token", ""), found.get("triggers", ""),
            found.get("nats_per_trigger", ""), f"{found['nats_per_character']:.4f}",
        ]  # fmt: skip
        lines.append("| " + " | ".join(str(cell) for cell in cells) + " |")
    return "\n".join(lines)


def main(words: list[str] | None = None) -> int:
    args = parse(words)
    base_model.be_quiet()
    try:
        rows = figures(args, base_model.locate(args.model))
        if args.json:
            adapter_files.write_json(args.json, rows)
    except (DataError, ModelError, SaveError, ValueError) as error:
        print(f"evaluate.py: {error}", file=sys.stderr)
        return 2
    print(table(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
