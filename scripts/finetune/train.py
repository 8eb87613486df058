"""Fine-tune a model on functions with triggers: LoRA or whole, for a budget of minutes.

    python scripts/finetune/train.py --data DIR --model smollm2 --out ADAPTER --minutes 45

DIR is what `tether augment` wrote. ADAPTER becomes a folder in PEFT's format with a manifest,
`tether.json`. README.md beside this file says what is trained and how.
"""

import math
import signal
import sys
import tempfile
import time
from dataclasses import dataclass, field
from datetime import timedelta
from importlib.metadata import version
from pathlib import Path

import adapter_files
import base_model
import functions
import settings as arguments
import torch
import torch.distributed as dist
import torch.multiprocessing as processes
from adapter_files import SaveError
from base_model import ModelError, log
from clock import Clock, rate
from decoder import Decoder
from functions import DataError, Encoder
from settings import Settings

PUNCTUATION = [".", "(", " ", " =", ","]  # what the new row starts as: the mean of these
N_BAD_MAX = 10  # steps in a row without a finite loss


@dataclass
class Data:
    train: list[functions.Encoded]
    valid: list[functions.Encoded]
    plain_valid: list[functions.Encoded]  # the same functions as they were written
    too_long: int
    files: dict[str, str]
    trigger: dict | None
    n_tokens: int


@dataclass
class Progress:
    """What a checkpoint holds beside weights and optimiser."""

    step: int = 0
    tokens: int = 0
    epoch: int = 0
    row: int = 0
    spent_s: float = 0.0
    evaluating_s: float = 0.0
    skipped: int = 0
    curve: list = field(default_factory=list)  # [step, minutes, training loss]
    valid_curve: list = field(default_factory=list)  # [step, minutes, validation loss]


def trigger_for(args: Settings, tokenizer, table_rows: int) -> dict | None:
    """The trigger's text in the data, and the token that stands for it."""
    if args.vanilla:
        return None
    in_data = args.trigger or functions.trigger_of(args.data) or "<COMP>"
    if args.trigger_token:
        known = tokenizer.get_vocab()
        if args.trigger_token not in known:
            raise ModelError(f"--trigger-token {args.trigger_token!r}: the model has no such token")
        found = known[args.trigger_token]
        return {"text": args.trigger_token, "id": found, "is_new": False, "in_data": in_data}
    if in_data in tokenizer.get_vocab():
        raise ModelError(f"{in_data!r} is a token of the model: name it with --trigger-token")
    return {"text": in_data, "id": table_rows, "is_new": True, "in_data": in_data}


def read_data(args: Settings, tokenizer, table_rows: int) -> Data:
    trigger = trigger_for(args, tokenizer, table_rows)
    encoder = Encoder(tokenizer, trigger and trigger["in_data"], trigger and trigger["id"])
    plain_encoder = Encoder(tokenizer, None, None)
    train_path, valid_path = args.data / "train.jsonl", args.data / "valid.jsonl"
    train = functions.read(train_path, args.vanilla)
    if trigger and not any(trigger["in_data"] in function.body for function in train):
        raise DataError(
            f"{train_path}: {trigger['in_data']!r} is in no body; "
            "name the data's trigger with --trigger, or train with --vanilla"
        )
    encoded = [encoder.encode(function) for function in train]
    kept = [function for function in encoded if len(function.ids) <= args.row_tokens]
    if not kept:
        raise DataError(f"{train_path}: every function has more than {args.row_tokens} tokens")
    valid = functions.read(valid_path, args.vanilla)
    plain = functions.read(valid_path, vanilla=True)
    pairs = [
        (encoder.encode(a), plain_encoder.encode(b)) for a, b in zip(valid, plain, strict=True)
    ]
    # Both in the same functions: those that fit either way, the first so many.
    pairs = [p for p in pairs if max(len(p[0].ids), len(p[1].ids)) <= args.row_tokens]
    pairs = pairs[: args.valid_functions]
    if not pairs:
        raise DataError(f"{valid_path}: every function has more than {args.row_tokens} tokens")
    return Data(
        kept,
        [a for a, _ in pairs],
        [b for _, b in pairs],
        len(encoded) - len(kept),
        {path.name: functions.sha256_of(path) for path in (train_path, valid_path)},
        trigger,
        sum(len(function.ids) for function in kept),
    )


@torch.no_grad()
def add_row(model, tokenizer) -> None:
    """One row more in the embedding (and the head), which starts as the mean of punctuation."""
    rows = [tokenizer(text, add_special_tokens=False).input_ids[-1] for text in PUNCTUATION]
    old = model.get_input_embeddings().weight.shape[0]
    mean_in = model.get_input_embeddings().weight[rows].float().mean(0)
    mean_out = model.get_output_embeddings().weight[rows].float().mean(0)
    model.resize_token_embeddings(old + 1, mean_resizing=False)
    model.get_input_embeddings().weight[old] = mean_in
    model.get_output_embeddings().weight[old] = mean_out
    model.requires_grad_(False)


class Team:
    """The processes that share a step. Alone it is one process and nothing is sent."""

    def __init__(self, rank: int, size: int):
        self.rank, self.size = rank, size

    def sum(self, tensor: torch.Tensor) -> torch.Tensor:
        if self.size > 1:
            dist.all_reduce(tensor)
        return tensor

    def from_first(self, values: list[float]) -> list[float]:
        tensor = torch.tensor(values, dtype=torch.float64)
        if self.size > 1:
            dist.broadcast(tensor, 0)
        return tensor.tolist()

    def share(self, rows):
        return rows[self.rank :: self.size]


class Trainer:
    def __init__(self, args: Settings, base, team: Team):
        self.args, self.base, self.team = args, base, team
        torch.manual_seed(args.seed)
        dtype = torch.float32 if args.full else getattr(torch, args.precision)
        model, self.tokenizer = base_model.load(base, dtype)
        self.data = read_data(args, self.tokenizer, model.get_input_embeddings().weight.shape[0])
        trigger = self.data.trigger
        if trigger and trigger["is_new"]:
            add_row(model, self.tokenizer)
        self.decoder = Decoder(model, trigger and trigger["id"], args)
        self.parameters = self.decoder.parameters()
        self.optimizer = torch.optim.AdamW(
            self.parameters.values(), lr=args.rate, weight_decay=args.weight_decay
        )
        self.progress = Progress()
        self.clock = Clock(args.minutes * 60)
        self.stopping = False
        self.bad_steps = 0

    # ---- evaluation ----

    @torch.no_grad()
    def evaluate(self, encoded: list[functions.Encoded]) -> dict:
        """Nats for each token of the bodies, end of text included; and at the triggers alone."""
        rows = functions.pack(encoded, self.args.row_tokens, seed=0)
        sums = torch.zeros(4, dtype=torch.float64)
        self.decoder.settle()
        for group in functions.in_groups(self.team.share(rows), 2):
            batch = functions.batch_of(group, self.args.row_tokens, loss_on_all=False)
            with self.cast():
                _, losses, targets = self.decoder.losses(batch)
            triggers = targets == (
                self.decoder.trigger_id if self.decoder.trigger_id is not None else -1
            )
            sums += torch.tensor(
                [losses.double().sum(), len(losses), losses[triggers].double().sum(), triggers.sum()],
                dtype=torch.float64,
            )  # fmt: skip
        nats, tokens, trigger_nats, n_triggers = self.team.sum(sums).tolist()
        result = {"nats_per_token": round(nats / max(tokens, 1), 5), "tokens": int(tokens)}
        if n_triggers:
            others = (nats - trigger_nats) / max(tokens - n_triggers, 1)
            result |= {
                "triggers": int(n_triggers),
                "nats_per_trigger": round(trigger_nats / n_triggers, 5),
                "nats_per_other_token": round(others, 5),
            }
        return result

    def cast(self):
        wanted = self.args.full and self.args.precision == "bfloat16"
        return torch.autocast("cpu", torch.bfloat16, enabled=wanted)

    # ---- steps ----

    def step(self, rows: list[functions.Row], learning_rate: float) -> tuple[float, int]:
        """One update from these rows: the loss for each token, and the tokens of the rows."""
        self.decoder.settle()
        total, counts = 0.0, torch.zeros(3, dtype=torch.float64)
        for group in functions.in_groups(self.team.share(rows), 2):
            batch = functions.batch_of(group, self.args.row_tokens, self.args.loss == "all")
            with self.cast():
                loss, losses, _ = self.decoder.losses(batch)
            loss.backward()
            total += float(loss.detach())
            counts += torch.tensor([0.0, len(losses), batch.n_tokens], dtype=torch.float64)
        counts[0] = total
        values = list(self.parameters.values())
        gradient = torch.cat(
            [(v.grad if v.grad is not None else torch.zeros_like(v)).flatten() for v in values]
        )
        self.team.sum(gradient)
        total, n_losses, n_tokens = self.team.sum(counts).tolist()
        self.optimizer.zero_grad(set_to_none=True)
        gradient /= max(n_losses, 1)
        norm = float(gradient.norm())
        if not (math.isfinite(norm) and math.isfinite(total)):
            self.bad_steps += 1
            self.progress.skipped += 1
            if self.bad_steps > N_BAD_MAX:
                raise RuntimeError(
                    f"{self.bad_steps} steps without a finite loss; try a lower --rate"
                )
            return float("nan"), int(n_tokens)
        self.bad_steps = 0
        if self.args.clip > 0 and norm > self.args.clip:
            gradient *= self.args.clip / norm
        for value, part in zip(values, gradient.split([v.numel() for v in values]), strict=True):
            value.grad = part.view_as(value)
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return total / max(n_losses, 1), int(n_tokens)

    def run(self) -> None:
        args, progress = self.args, self.progress
        seen_loss, seen_steps, last_report = 0.0, 0, time.monotonic()
        last_saved = last_evaluated = self.clock.spent_s
        while True:
            rows = functions.pack(self.data.train, args.row_tokens, args.seed + progress.epoch)
            while progress.row < len(rows):
                at = self.clock.progress()
                done = at >= 1.0 or self.stopping or (args.max_steps or math.inf) <= progress.step
                learning_rate, done = self.team.from_first(
                    [rate(at, args.rate, args.warmup, args.decay, args.floor), float(done)]
                )
                if done:
                    return
                self.clock.start()
                group = rows[progress.row : progress.row + args.batch_rows]
                loss, n_tokens = self.step(group, learning_rate)
                self.clock.stop()
                progress.step += 1
                progress.row += args.batch_rows
                progress.tokens += n_tokens
                progress.spent_s = self.clock.spent_s
                seen_loss, seen_steps = seen_loss + loss, seen_steps + 1
                if time.monotonic() - last_report > 20 or progress.step == 1:
                    last_report = time.monotonic()
                    self.report(seen_loss / seen_steps, learning_rate)
                    seen_loss, seen_steps = 0.0, 0
                evaluate, save = self.team.from_first([
                    float(self.clock.spent_s - last_evaluated > args.evaluate_minutes * 60),
                    float(self.clock.spent_s - last_saved > args.checkpoint_minutes * 60),
                ])  # fmt: skip
                if evaluate:
                    last_evaluated = self.clock.spent_s
                    self.look()
                if save:
                    last_saved = self.clock.spent_s
                    self.save_checkpoint()
            progress.epoch, progress.row = progress.epoch + 1, 0

    def report(self, loss: float, learning_rate: float) -> None:
        p = self.progress
        minutes = p.spent_s / 60
        p.curve.append([p.step, round(minutes, 2), round(loss, 4)])
        if self.team.rank == 0:
            log(
                f"step {p.step}, {minutes:.1f} of {self.args.minutes:g} min, epoch {p.epoch}, "
                f"loss {loss:.3f}, rate {learning_rate:.1e}, {p.tokens / max(p.spent_s, 1e-9):.0f} tokens/s"
            )

    def look(self) -> dict:
        started = time.monotonic()
        result = self.evaluate(self.data.valid)
        self.progress.evaluating_s += time.monotonic() - started
        p = self.progress
        p.valid_curve.append([p.step, round(p.spent_s / 60, 2), result["nats_per_token"]])
        if self.team.rank == 0:
            log(f"step {p.step}: validation loss {result['nats_per_token']:.4f}")
        return result

    # ---- checkpoints ----

    def save_checkpoint(self) -> None:
        if self.team.rank:
            return
        state = {
            "arguments": self.args.listed(),
            "data": self.data.files,
            "base": self.base.sha256,
            "parameters": {name: value.detach() for name, value in self.parameters.items()},
            "optimizer": self.optimizer.state_dict(),
            "progress": vars(self.progress),
        }
        adapter_files.save_checkpoint(self.args.out, state)
        log(f"step {self.progress.step}: checkpoint")

    def resume(self) -> None:
        state = adapter_files.load_checkpoint(self.args.out)
        if state is None:
            log(f"{self.args.out}: no checkpoint, starting from the beginning")
            return
        mine, old = self.args.listed(), state["arguments"]
        differ = [
            f"--{key.replace('_', '-')} was {old.get(key)!r}, is {mine[key]!r}"
            for key in mine
            if key not in arguments.MAY_CHANGE and old.get(key) != mine[key]
        ]
        if state["data"] != self.data.files:
            differ.append("the data's files changed")
        if state["base"] != self.base.sha256:
            differ.append("the base model changed")
        if differ:
            raise DataError("this run cannot go on from that checkpoint: " + "; ".join(differ))
        with torch.no_grad():
            for name, value in self.parameters.items():
                value.copy_(state["parameters"][name])
        self.optimizer.load_state_dict(state["optimizer"])
        self.progress = Progress(**state["progress"])
        self.clock = Clock(self.args.minutes * 60, self.progress.spent_s)
        log(f"going on from step {self.progress.step}, {self.progress.spent_s / 60:.1f} min")

    # ---- the result ----

    def manifest(self, results: dict) -> dict:
        trigger = self.data.trigger
        return {
            "format": 1,
            "name": self.args.name,
            "base": {
                "name": self.base.name, "file": self.base.file, "sha256": self.base.sha256,
            },
            "data": {
                "files": self.data.files,
                "functions": len(self.data.train),
                "tokens": self.data.n_tokens,
                "too_long": self.data.too_long,
            },
            "trigger": trigger and {key: trigger[key] for key in ("text", "id", "is_new")},
            "prompt_style": "toolgen",
            "vanilla": self.args.vanilla,
            "settings": self.args.listed()
            | {
                "versions": {
                    name: version(name)
                    for name in ("torch", "transformers", "peft", "tokenizers", "safetensors", "gguf")
                },
                "machine": adapter_files.machine(),
            },
            "results": results,
        }  # fmt: skip

    def results(self, first: dict, last: dict, started: float) -> dict:
        p = self.progress
        every = max(1, len(p.curve) // 40)
        return {
            "steps": p.step,
            "tokens": p.tokens,
            "epochs": round(p.tokens / self.data.n_tokens, 2),
            "minutes": round(p.spent_s / 60, 2),
            "minutes_evaluating": round(p.evaluating_s / 60, 2),
            "minutes_this_process": round((time.monotonic() - started) / 60, 2),
            "tokens_per_second": round(p.tokens / max(p.spent_s, 1e-9), 1),
            "steps_skipped": p.skipped,
            "valid_functions": len(self.data.valid),
            "valid_base_plain": first,
            "valid_adapter": last,
            "lower_by_percent": round(
                100 * (1 - last["nats_per_token"] / first["nats_per_token"]), 2
            ),
            "loss_curve": p.curve[::every],
            "valid_curve": p.valid_curve,
        }


def work(rank: int, size: int, args: Settings, base, meeting: str) -> None:
    torch.set_num_threads(1 if size > 1 else torch.get_num_threads())
    if size > 1:
        dist.init_process_group(
            "gloo", init_method=f"file://{meeting}", rank=rank, world_size=size,
            timeout=timedelta(minutes=10),
        )  # fmt: skip
    started = time.monotonic()
    trainer = Trainer(args, base, Team(rank, size))
    if rank == 0:
        announce(trainer)
        for name in (signal.SIGTERM, signal.SIGINT):
            signal.signal(name, lambda *_: setattr(trainer, "stopping", True))
    else:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Nothing is trained yet: this is the base model, on the bodies as they were written.
    first = trainer.evaluate(trainer.data.plain_valid)
    if rank == 0:
        log(f"base model on the plain bodies: {first['nats_per_token']:.4f} nats/token")
    if args.resume:
        trainer.resume()
    trainer.run()
    if rank == 0 and trainer.stopping:
        trainer.save_checkpoint()
        log("stopped; --resume goes on from here")
    stopped, _ = trainer.team.from_first([float(trainer.stopping), 0.0])
    if not stopped:
        trainer.save_checkpoint()
        last = trainer.look()
        if rank == 0:
            finish(trainer, first, last, started)
    if size > 1:
        dist.destroy_process_group()


def announce(trainer: Trainer) -> None:
    data = trainer.data
    n_trained = sum(value.numel() for value in trainer.parameters.values())
    log(
        f"{len(data.train)} functions, {data.n_tokens} tokens ({data.too_long} too long, dropped); "
        f"{len(data.valid)} to validate; {n_trained} parameters trained"
    )


def finish(trainer: Trainer, first: dict, last: dict, started: float) -> None:
    args, data = trainer.args, trainer.data
    adapter_files.save_adapter(
        args.out,
        trainer.decoder,
        trainer.tokenizer,
        trainer.base,
        data.trigger,
        args.save_precision,
    )
    results = trainer.results(first, last, started)
    adapter_files.write_json(args.out / adapter_files.MANIFEST, trainer.manifest(results))
    (args.out / adapter_files.CHECKPOINT).unlink(missing_ok=True)
    log(
        f"{args.out}: validation {first['nats_per_token']:.4f} (base, plain bodies) -> "
        f"{last['nats_per_token']:.4f} nats/token, {results['tokens_per_second']} tokens/s"
    )


def main(words: list[str] | None = None) -> int:
    args = arguments.parse(words)
    try:
        base = base_model.locate(args.model)
        args.out.mkdir(parents=True, exist_ok=True)
        functions.read(args.data / "train.jsonl", args.vanilla)
        functions.read(args.data / "valid.jsonl", args.vanilla)
        with tempfile.TemporaryDirectory() as folder:
            meeting = str(Path(folder) / "meeting")
            context = processes.get_context("spawn")
            others = [
                context.Process(
                    target=work, args=(rank, args.workers, args, base, meeting), daemon=True
                )
                for rank in range(1, args.workers)
            ]
            for other in others:
                other.start()
            work(0, args.workers, args, base, meeting)
            for other in others:
                other.join(timeout=60)
    except (DataError, ModelError, SaveError, ValueError) as error:
        print(f"train.py: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
