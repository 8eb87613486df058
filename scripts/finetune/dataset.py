"""The data of a run: the functions of a folder in tokens, with the trigger that stands in them."""

from dataclasses import dataclass
from pathlib import Path

import functions
import torch
from base_model import ModelError
from functions import DataError, Encoder
from settings import Settings

DEFAULT_TRIGGER = "<COMP>"
# What the trigger's new row starts as: the mean of these tokens' rows. They stand where triggers stand,
# just before names, so the row starts with the right length and company.
PUNCTUATION = (".", "(", " ", " =", ",")


@dataclass(frozen=True)
class Trigger:
    text: str
    id: int
    is_new: bool
    in_data: str  # how the data writes it

    def listed(self) -> dict:
        return {"text": self.text, "id": self.id, "is_new": self.is_new}


@dataclass
class Dataset:
    train: list[functions.Encoded]
    valid: list[functions.Encoded]
    plain_valid: list[functions.Encoded]  # the same functions as they were written
    too_long: int
    files: dict[str, str]  # sha256
    trigger: Trigger | None

    @property
    def n_tokens(self) -> int:
        return sum(len(function.ids) for function in self.train)


def trigger_for(args: Settings, tokenizer, table_rows: int) -> Trigger | None:
    """The trigger's text in the data, and the token that stands for it."""
    if args.vanilla:
        return None
    in_data = args.trigger or functions.trigger_of(args.data) or DEFAULT_TRIGGER
    known = tokenizer.get_vocab()
    if args.trigger_token:
        if args.trigger_token not in known:
            raise ModelError(f"--trigger-token {args.trigger_token!r}: the model has no such token")
        return Trigger(args.trigger_token, known[args.trigger_token], False, in_data)
    if in_data in known:
        raise ModelError(f"{in_data!r} is a token of the model: name it with --trigger-token")
    return Trigger(in_data, table_rows, True, in_data)


def encoders(tokenizer, trigger: Trigger | None) -> tuple[Encoder, Encoder]:
    """One that knows the trigger, one for bodies as they were written."""
    plain = Encoder(tokenizer, None, None)
    return (Encoder(tokenizer, trigger.in_data, trigger.id) if trigger else plain), plain


def read(args: Settings, tokenizer, table_rows: int) -> Dataset:
    trigger = trigger_for(args, tokenizer, table_rows)
    encoder, _ = encoders(tokenizer, trigger)
    path = args.data / "train.jsonl"
    train = functions.read(path, args.vanilla)
    if trigger and not any(trigger.in_data in function.body for function in train):
        raise DataError(
            f"{path}: {trigger.in_data!r} is in no body; "
            "name the data's trigger with --trigger, or train with --vanilla"
        )
    encoded = [encoder.encode(function) for function in train]
    kept = [function for function in encoded if len(function.ids) <= args.row_tokens]
    if not kept:
        raise DataError(f"{path}: every function has more than {args.row_tokens} tokens")
    valid_path = args.data / "valid.jsonl"
    pairs = held_out(valid_path, args.vanilla, tokenizer, trigger, args.row_tokens)
    pairs = pairs[: args.valid_functions]
    return Dataset(
        kept,
        [pair.encoded for pair in pairs],
        [pair.plain for pair in pairs],
        len(encoded) - len(kept),
        {file.name: functions.sha256_of(file) for file in (path, valid_path)},
        trigger,
    )


@dataclass(frozen=True)
class HeldOut:
    encoded: functions.Encoded
    plain: functions.Encoded
    n_characters: int  # of the body as it was written


def fitting(path: Path, tokenizer, trigger: Trigger | None, row_tokens: int) -> list[int]:
    """Which functions of a file fit a row both with triggers and without."""
    encoder, plain_encoder = encoders(tokenizer, trigger)
    plain = functions.read(path, vanilla=True)
    either = functions.read(path, vanilla=False) if trigger else plain
    found = [
        number
        for number, pair in enumerate(zip(either, plain, strict=True))
        if len(encoder.encode(pair[0]).ids) <= row_tokens
        and len(plain_encoder.encode(pair[1]).ids) <= row_tokens
    ]
    if not found:
        raise DataError(f"{path}: every function has more than {row_tokens} tokens")
    return found


def held_out(
    path: Path,
    vanilla: bool,
    tokenizer,
    trigger: Trigger | None,
    row_tokens: int,
    numbers: list[int] | None = None,
) -> list[HeldOut]:
    """Functions of a file as they are learned and as they were written: those of `numbers`, or those
    that fit."""
    if numbers is None:
        numbers = fitting(path, tokenizer, trigger, row_tokens)
    encoder, plain_encoder = encoders(tokenizer, trigger)
    plain = functions.read(path, vanilla=True)
    learned = functions.read(path, vanilla)
    return [
        HeldOut(
            encoder.encode(learned[number]),
            plain_encoder.encode(plain[number]),
            len(plain[number].body),
        )
        for number in numbers
    ]


@torch.no_grad()
def add_row(model, tokenizer) -> None:
    """One row more in the embedding (and the head): the mean of `PUNCTUATION`."""
    rows = [tokenizer(text, add_special_tokens=False).input_ids[-1] for text in PUNCTUATION]
    tables = model.get_input_embeddings, model.get_output_embeddings
    n_old = tables[0]().weight.shape[0]
    means = [table().weight[rows].float().mean(0) for table in tables]
    model.resize_token_embeddings(n_old + 1, mean_resizing=False)
    for table, mean in zip(tables, means, strict=True):
        table().weight[n_old] = mean.to(table().weight.dtype)
    model.requires_grad_(False)
