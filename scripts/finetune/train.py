"""Fine-tune a model on functions with triggers: LoRA or whole, for a budget of minutes.

    python scripts/finetune/train.py --data DIR --model smollm2 --out ADAPTER --minutes 45

DIR is what `tether augment` wrote. ADAPTER becomes a folder in PEFT's format with a manifest,
`tether.json`. README.md beside this file says what is trained and how.
"""

import signal
import sys
import tempfile
import time
from pathlib import Path

import adapter_files
import base_model
import functions
import merging
import settings as arguments
import torch.multiprocessing as processes
from adapter_files import SaveError
from base_model import Base, ModelError, log
from functions import DataError
from settings import Settings
from team import Team
from trainer import Trainer, TrainingError


def work(rank: int, args: Settings, base: Base, meeting: str | None) -> None:
    """What every process of the team does; the first one speaks and writes."""
    started = time.monotonic()
    base_model.be_quiet()
    team = Team(rank, args.workers, meeting)
    trainer = Trainer(args, base, team)
    if rank == 0:
        for name in (signal.SIGTERM, signal.SIGINT):
            signal.signal(name, lambda *_: setattr(trainer, "stopping", True))
    else:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the first one finishes the step
    announce(trainer)
    # Nothing is trained yet: this is the base model, on the bodies as they were written.
    first = trainer.evaluate(trainer.corpus.plain_valid)
    trainer.say(f"base model on the plain bodies: {first['nats_per_token']:.4f} nats/token")
    if args.resume:
        trainer.resume()
    try:
        trainer.run()
    except RuntimeError:
        # A signal to all processes ends the others before the first one has seen it.
        if not trainer.stopping:
            raise
        trainer.save_checkpoint()
        raise Stopped from None
    (stopped,) = team.from_first(float(trainer.stopping))
    trainer.save_checkpoint()
    if stopped:
        raise Stopped
    last = trainer.look()
    if rank == 0:
        finish(trainer, first, last, (time.monotonic() - started) / 60)
    team.part()


class Stopped(Exception):
    """A signal ended the run; its checkpoint is written."""


def announce(trainer: Trainer) -> None:
    data = trainer.corpus
    n_trained = sum(value.numel() for value in trainer.parameters.values())
    trainer.say(
        f"{len(data.train)} functions, {data.n_tokens} tokens ({data.too_long} functions too long, "
        f"dropped); {len(data.valid)} to validate; {n_trained} parameters trained"
    )


def finish(trainer: Trainer, first: dict, last: dict, minutes_whole: float) -> None:
    args = trainer.args
    adapter_files.save_adapter(
        args.out,
        trainer.decoder,
        trainer.tokenizer,
        trainer.base,
        trainer.corpus.trigger,
        args.save_precision,
    )
    results = trainer.results(first, last, minutes_whole)
    adapter_files.write_json(args.out / adapter_files.MANIFEST, trainer.manifest(results))
    if args.merge_out:
        merging.write(args.merge_out, trainer.base, args.out)
    (args.out / adapter_files.CHECKPOINT).unlink(missing_ok=True)
    log(
        f"{args.out}: validation {first['nats_per_token']:.4f} (base, plain bodies) -> "
        f"{last['nats_per_token']:.4f} nats/token, {results['tokens_per_second']} tokens/s"
    )


def with_team(args: Settings, base: Base) -> None:
    if args.workers == 1:
        work(0, args, base, None)
        return
    with tempfile.TemporaryDirectory() as folder:
        meeting = str(Path(folder) / "meeting")
        context = processes.get_context("spawn")
        others = [
            context.Process(target=work_beside, args=(rank, args, base, meeting), daemon=True)
            for rank in range(1, args.workers)
        ]
        for other in others:
            other.start()
        try:
            work(0, args, base, meeting)
            for other in others:
                other.join(timeout=60)
        finally:
            for other in others:
                other.kill()


def work_beside(rank: int, args: Settings, base: Base, meeting: str) -> None:
    try:
        work(rank, args, base, meeting)
    except Stopped:
        pass
    except Exception as error:  # the first process reports what went wrong
        sys.exit(f"train.py, process {rank}: {type(error).__name__}: {error}")


def main(words: list[str] | None = None) -> int:
    args = arguments.parse(words)
    try:
        # What is wrong with the data should show before a model is loaded.
        for name in ("train.jsonl", "valid.jsonl"):
            functions.read(args.data / name, args.vanilla)
        base = base_model.locate(args.model)
        with_team(args, base)
    except (DataError, ModelError, SaveError, TrainingError, ValueError) as error:
        print(f"train.py: {error}", file=sys.stderr)
        return 2
    except Stopped:
        log("stopped; the same command with --resume goes on from here")
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
