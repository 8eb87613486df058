"""A training run: steps for as long as its clock has time, checkpoints, and looks at held-out functions."""

import math
import time
from dataclasses import dataclass, field
from importlib.metadata import version

import adapter_files
import base_model
import dataset
import functions
import heldout
import settings as arguments
import torch
from adapter_files import SaveError
from base_model import Base, log
from clock import Clock, rate
from decoder import Decoder, with_lora
from functions import DataError
from settings import Settings
from team import Team

N_BAD_MAX = 10  # steps in a row without a finite loss
N_CURVE = 40  # points of the loss curve in the manifest
REPORT_S = 20
PACKAGES = ("torch", "transformers", "peft", "tokenizers", "safetensors", "gguf")


class TrainingError(Exception):
    """The run cannot go on; the message says why and what to do."""


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

    def minutes(self) -> float:
        return round(self.spent_s / 60, 2)

    def tokens_per_second(self) -> float:
        return round(self.tokens / max(self.spent_s, 1e-9), 1)


class Trainer:
    def __init__(self, args: Settings, base: Base, team: Team):
        self.args, self.base, self.team = args, base, team
        torch.manual_seed(args.seed)
        # Trained whole, the weights stay exact and only the products are rounded.
        dtype = torch.float32 if args.full else getattr(torch, args.precision)
        model, self.tokenizer = base_model.load(base, dtype)
        n_rows = model.get_input_embeddings().weight.shape[0]
        self.corpus = dataset.read(args, self.tokenizer, n_rows)
        self.decoder = self.decoder_of(model)
        self.decoder.check_window(args.row_tokens)
        self.parameters = self.decoder.parameters()
        self.optimizer = torch.optim.AdamW(
            self.parameters.values(), lr=args.rate, weight_decay=args.weight_decay
        )
        self.progress = Progress()
        self.clock = Clock(args.minutes * 60)
        self.stopping = False
        self.n_bad = 0
        self.recent: list[float] = []  # losses since the last report
        self.reported = 0.0

    def decoder_of(self, model) -> Decoder:
        args, trigger = self.args, self.corpus.trigger
        if trigger and trigger.is_new:
            dataset.add_row(model, self.tokenizer)
        trigger_id = trigger.id if trigger else None
        if args.full:
            return Decoder(model.requires_grad_(True), trigger_id)
        return Decoder(
            with_lora(model, trigger_id, args),
            trigger_id,
            n_frozen=args.layers_trained(model.config.num_hidden_layers)[0],
            through_all=args.trigger_gradient == "both",
            checkpointing=args.gradient_checkpointing,
        )

    def cast(self):
        wanted = self.args.full and self.args.precision == "bfloat16"
        return torch.autocast("cpu", torch.bfloat16, enabled=wanted)

    # ---- steps ----

    def run(self) -> None:
        """Until the clock, `--max-steps` or a signal says so."""
        args, progress = self.args, self.progress
        while True:
            rows = functions.pack(self.corpus.train, args.row_tokens, args.seed + progress.epoch)
            while progress.row < len(rows):
                at = self.clock.progress()
                over = at >= 1.0 or self.stopping or progress.step >= (args.max_steps or math.inf)
                now = rate(at, args.rate, args.warmup, args.decay, args.floor)
                now, over = self.team.from_first(now, float(over))
                if over:
                    return
                self.clock.start()
                group = rows[progress.row : progress.row + args.batch_rows]
                loss, n_tokens = self.step(group, now)
                self.clock.stop()
                progress.step += 1
                progress.row += args.batch_rows
                progress.tokens += n_tokens
                progress.spent_s = self.clock.spent_s
                self.between_steps(loss, now)
            progress.epoch, progress.row = progress.epoch + 1, 0

    def step(self, rows: list[functions.Row], learning_rate: float) -> tuple[float, int]:
        """One update from these rows: the loss for each token, and the tokens of the rows."""
        args, values = self.args, list(self.parameters.values())
        if args.dropout:  # the same after a pause as without one
            torch.manual_seed(args.seed + self.progress.step * self.team.size + self.team.rank + 1)
        self.decoder.settle()
        counts = torch.zeros(3, dtype=torch.float64)  # nats, losses, tokens
        for group in functions.in_groups(self.team.share(rows), heldout.N_ROWS_AT_ONCE):
            batch = functions.batch_of(group, args.row_tokens, args.loss == "all")
            with self.cast():
                loss, losses, _ = self.decoder.losses(batch)
            loss.backward()
            sums = [float(loss.detach()), len(losses), batch.n_tokens]
            counts += torch.tensor(sums, dtype=torch.float64)
        gradient = torch.cat(
            [(v.grad if v.grad is not None else torch.zeros_like(v)).flatten() for v in values]
        )
        nats, n_losses, n_tokens = self.team.sum(counts).tolist()
        self.update(values, self.team.sum(gradient) / n_losses, nats, learning_rate)
        return nats / n_losses, int(n_tokens)

    def update(self, values: list, gradient: torch.Tensor, nats: float, learning_rate: float):
        norm = float(gradient.norm())
        if not (math.isfinite(norm) and math.isfinite(nats)):
            self.n_bad += 1
            self.progress.skipped += 1
            self.optimizer.zero_grad(set_to_none=True)
            if self.n_bad > N_BAD_MAX:
                raise TrainingError(
                    f"{self.n_bad} steps in a row without a finite loss; try a lower --rate"
                )
            return
        self.n_bad = 0
        if 0 < self.args.clip < norm:
            gradient = gradient * (self.args.clip / norm)
        for value, part in zip(values, gradient.split([v.numel() for v in values]), strict=True):
            value.grad = part.view_as(value)
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)

    def between_steps(self, loss: float, learning_rate: float) -> None:
        args, p = self.args, self.progress
        self.recent.append(loss)
        if p.step == 1 or time.monotonic() - self.reported > REPORT_S:
            self.reported = time.monotonic()
            mean, self.recent = sum(self.recent) / len(self.recent), []
            p.curve.append([p.step, p.minutes(), round(mean, 4) if math.isfinite(mean) else None])
            self.say(
                f"step {p.step}, {p.minutes():.1f} of {args.minutes:g} min, epoch {p.epoch}, "
                f"loss {mean:.3f}, rate {learning_rate:.1e}, {p.tokens_per_second():.0f} tokens/s"
            )
        look, save = self.team.from_first(
            self.clock.due("evaluate", args.evaluate_minutes * 60),
            self.clock.due("checkpoint", args.checkpoint_minutes * 60),
        )
        if look:
            self.look()
        if save:
            try:
                self.save_checkpoint()
            except SaveError as error:  # the run is worth more than this checkpoint
                self.say(f"warning: {error}")

    def say(self, text: str) -> None:
        if self.team.rank == 0:
            log(text)

    def look(self) -> dict:
        """The loss on the held-out functions, as they are trained on."""
        started = time.monotonic()
        result = self.evaluate(self.corpus.valid)
        p = self.progress
        p.evaluating_s += time.monotonic() - started
        p.valid_curve.append([p.step, p.minutes(), result["nats_per_token"]])
        self.say(f"step {p.step}: validation loss {result['nats_per_token']:.4f}")
        return result

    def evaluate(self, encoded: list[functions.Encoded]) -> dict:
        with self.cast():
            return heldout.loss_of(self.decoder, encoded, self.args.row_tokens, self.team)

    # ---- checkpoints ----

    def save_checkpoint(self) -> None:
        if self.team.rank:
            return
        state = {
            "arguments": self.args.listed(),
            "data": self.corpus.files,
            "base": self.base.sha256,
            "parameters": {name: value.detach() for name, value in self.parameters.items()},
            "optimizer": self.optimizer.state_dict(),
            "progress": vars(self.progress),
        }
        adapter_files.save_checkpoint(self.args.out, state)
        self.say(f"step {self.progress.step}: checkpoint")

    def resume(self) -> None:
        state = adapter_files.load_checkpoint(self.args.out)
        if state is None:
            self.say(f"{self.args.out}: no checkpoint, starting from the beginning")
            return
        mine, old = self.args.listed(), state["arguments"]
        differ = [
            f"--{key.replace('_', '-')} was {old[key]!r}, is {mine[key]!r}"
            for key in mine
            if key in old and key not in arguments.MAY_CHANGE and old[key] != mine[key]
        ]
        if state["data"] != self.corpus.files:
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
        self.say(f"going on from step {self.progress.step}, {self.progress.minutes():.1f} min")

    # ---- what came of it ----

    def results(self, first: dict, last: dict, minutes_whole: float) -> dict:
        p = self.progress
        lower = 100 * (1 - last["nats_per_token"] / first["nats_per_token"])
        return {
            "steps": p.step,
            "steps_skipped": p.skipped,
            "tokens": p.tokens,
            "epochs": round(p.tokens / self.corpus.n_tokens, 2),
            "minutes": p.minutes(),
            "minutes_evaluating": round(p.evaluating_s / 60, 2),
            "minutes_last_process": round(minutes_whole, 2),
            "tokens_per_second": p.tokens_per_second(),
            "valid_functions": len(self.corpus.valid),
            "valid_base_plain": first,
            "valid_adapter": last,
            "lower_by_percent": round(lower, 2),
            "loss_curve": p.curve[:: max(1, len(p.curve) // N_CURVE)],
            "valid_curve": p.valid_curve,
        }

    def manifest(self, results: dict) -> dict:
        trigger, data = self.corpus.trigger, self.corpus
        versions = {name: version(name) for name in PACKAGES}
        return {
            "format": 1,
            "name": self.args.name,
            "base": {
                "name": self.base.name,
                "file": self.base.file,
                "sha256": self.base.sha256,
            },
            "data": {
                "files": data.files,
                "functions": len(data.train),
                "tokens": data.n_tokens,
                "too_long": data.too_long,
            },
            "trigger": trigger.listed() if trigger else None,
            "prompt_style": "toolgen",
            "vanilla": self.args.vanilla,
            "settings": self.args.listed()
            | {"versions": versions, "machine": adapter_files.machine()},
            "results": results,
        }
