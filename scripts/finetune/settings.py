"""The arguments of `train.py`."""

import argparse
import os
from pathlib import Path

TARGETS = "q_proj,k_proj,v_proj,o_proj,gate_proj,up_proj,down_proj"
# May differ between a run and its continuation; everything else must be the same.
MAY_CHANGE = {"resume", "minutes", "checkpoint_minutes", "workers", "merge_out", "max_steps", "out"}


class Settings(argparse.Namespace):
    def layers_trained(self, n_layers: int) -> list[int]:
        if self.full or self.layers == "all":
            return list(range(n_layers))
        count = int(self.layers.split()[-1])
        if not 0 < count <= n_layers:
            raise ValueError(f"--layers upper {count}: the model has {n_layers} layers")
        return list(range(n_layers - count, n_layers))

    def listed(self) -> dict:
        """For the manifest and for comparing a run with its continuation."""
        values = {
            key: value.name if isinstance(value, Path) else value
            for key, value in sorted(vars(self).items())
        }
        return values | {"model": Path(self.model).name}


def layers_argument(words: list[str]) -> str:
    if words == ["all"] or (len(words) == 2 and words[0] == "upper" and words[1].isdigit()):
        return " ".join(words)
    raise SystemExit(f"--layers {' '.join(words)}: expected `all` or `upper N`")


def parser() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(
        prog="train.py",
        description="Fine-tune a model on functions with triggers, for a time that you choose.",
    )
    add = p.add_argument
    add("--data", type=Path, required=True, help="folder that `tether augment` wrote")
    add("--model", required=True, help="smollm2, a GGUF file, or a Hugging Face folder")
    add("--out", type=Path, required=True, help="folder for the adapter")
    add("--name", help="the adapter's name in its manifest (default: the name of --out)")
    add("--minutes", type=float, default=30.0, help="of training steps; see README (default 30)")
    add("--max-steps", type=int, help="stop earlier, after so many steps")
    add("--resume", action="store_true", help="go on from the checkpoint in --out, if any")
    add("--checkpoint-minutes", type=float, default=3.0)
    add("--vanilla", action="store_true", help="the same functions without triggers")
    add("--trigger", help="trigger's text in the data (default: as its report says, or <COMP>)")
    add("--trigger-token", help="an existing token to use instead of a new one")
    add("--trigger-gradient", choices=("head", "both"), default="head",
        help="train the trigger's row where it is predicted, or also where it is read: that costs "
             "the backward pass through the frozen layers (default head)")  # fmt: skip
    add("--full", action="store_true", help="train every weight instead of LoRA")
    add("--r", type=int, default=16)
    add("--alpha", type=float, help="default 2 r")
    add("--dropout", type=float, default=0.0)
    add("--rslora", action="store_true")
    add("--target-modules", default=TARGETS, help="comma-separated")
    add("--layers", nargs="+", default=["all"], metavar="WHICH", help="all, or: upper N")
    add("--loss", choices=("body", "all"), default="body")
    add("--rate", type=float, default=4e-4, help="peak learning rate (default 4e-4)")
    add("--decay", choices=("cosine", "linear", "constant"), default="linear")
    add("--warmup", type=float, default=0.03, help="share of the budget (default 0.03)")
    add("--floor", type=float, default=0.02, help="last rate, as a share of the peak")
    add("--weight-decay", type=float, default=0.0)
    add("--clip", type=float, default=1.0, help="largest norm of the gradient")
    add("--row-tokens", type=int, default=512, help="longer functions are dropped (default 512)")
    add("--batch-rows", type=int, default=4, help="rows to a step, over all workers (default 4)")
    add("--workers", type=int, default=min(os.cpu_count() or 1, 4),
        help="processes of one thread each that share a step (default: cores, at most 4)")  # fmt: skip
    add("--precision", choices=("bfloat16", "float32"), default="bfloat16")
    add("--save-precision", choices=("auto", "float32", "float16", "bfloat16"), default="auto")
    add("--gradient-checkpointing", action="store_true")
    add("--evaluate-minutes", type=float, default=10.0)
    add("--valid-functions", type=int, default=200, help="of the validation set (default 200)")
    add("--seed", type=int, default=42)
    add("--merge-out", type=Path, help="also write base and adapter merged, as a folder")
    return p


def parse(words: list[str] | None = None) -> Settings:
    p = parser()
    args = p.parse_args(words, namespace=Settings())
    args.layers = layers_argument(args.layers)
    args.alpha = float(args.alpha if args.alpha is not None else 2 * args.r)
    args.name = args.name or args.out.resolve().name
    args.target_modules = [name for name in args.target_modules.split(",") if name]
    for name in ("minutes", "r", "row_tokens", "batch_rows", "workers", "valid_functions", "rate"):
        if getattr(args, name) <= 0:
            p.error(f"--{name.replace('_', '-')} must be more than 0")
    if args.batch_rows % args.workers:
        p.error(f"--batch-rows {args.batch_rows} must be a multiple of --workers {args.workers}")
    if args.full and args.trigger_gradient == "head":
        args.trigger_gradient = "both"
    if args.vanilla and args.trigger_token:
        p.error("--vanilla trains without triggers; drop --trigger-token")
    return args
