"""Functions to learn from: read what `tether augment` wrote, turn it into tokens, pack it into rows.

A function is a prompt (everything through its description) and a body. Both are turned into tokens
apart from each other, because at generation the prompt is all the model has seen: no token may reach
across the border. The trigger is not in the tokenizer: the body is cut at the trigger's text, so that a
trigger's text in a description stays text, and no tokenizer has a say in the white space around it.
"""

import hashlib
import json
import random
from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

IGNORED = -100  # a target that carries no loss
N_OPEN_ROWS = 64  # rows that still take a function; more pack tighter and mix less


class DataError(Exception):
    """The data cannot be trained on; the message says which, where, and what to do."""


@dataclass(frozen=True)
class Function:
    repo: str
    name: str
    prompt: str
    body: str


@dataclass(frozen=True)
class Encoded:
    ids: list[int]
    n_prompt: int


def read(path: Path, vanilla: bool) -> list[Function]:
    """The functions of one file of JSON lines: with triggers, or `vanilla` as they were written."""
    fields = ("prefix", "body") if vanilla else ("augmented_prefix", "augmented_body")
    if not path.is_file():
        raise DataError(f"{path}: no such file; `tether augment REPO… -o {path.parent}` writes it")
    functions = []
    with path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            where = f"{path}, line {number}"
            try:
                record = json.loads(line)
            except json.JSONDecodeError as error:
                raise DataError(f"{where}: not JSON ({error})") from None
            if not isinstance(record, dict):
                raise DataError(f"{where}: expected an object, found {type(record).__name__}")
            for field in fields:
                if not isinstance(record.get(field), str):
                    found = "nothing" if field not in record else type(record[field]).__name__
                    raise DataError(f"{where}: field {field!r} should be a text, found {found}")
            if not record[fields[1]].strip():
                raise DataError(f"{where}: field {fields[1]!r} is empty")
            functions.append(
                Function(
                    str(record.get("repo", "")), str(record.get("function_name", "")),
                    record[fields[0]], record[fields[1]],
                )
            )  # fmt: skip
    if not functions:
        raise DataError(f"{path}: no functions in it")
    return functions


def trigger_of(folder: Path) -> str | None:
    """The trigger's text as the data's own report names it."""
    try:
        report = json.loads((folder / "statistics.json").read_text(encoding="utf-8"))
        found = report["settings"]["trigger"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return found if isinstance(found, str) and found else None


def sha256_of(*paths: Path) -> str:
    """Of the files one behind the other."""
    digest = hashlib.sha256()
    for path in paths:
        with path.open("rb") as file:
            while piece := file.read(1 << 20):
                digest.update(piece)
    return digest.hexdigest()


class Encoder:
    """Text to ids for one tokenizer, with the trigger as one id."""

    def __init__(self, tokenizer, trigger: str | None, trigger_id: int | None):
        self.tokenizer = tokenizer
        self.trigger, self.trigger_id = trigger, trigger_id
        # SentencePiece puts a space before every text; behind a line end it does not.
        self.anchor = self.plain("\n")
        first = tokenizer.convert_ids_to_tokens(self.plain("x"))[0]
        self.needs_anchor = first.startswith("▁")

    def plain(self, text: str, start: bool = False) -> list[int]:
        """Ids of a text: `<|im_end|>` in somebody's source is text, not the end of a turn."""
        options = {"add_special_tokens": start, "split_special_tokens": True}
        return self.tokenizer(text, **options).input_ids

    def inner(self, text: str) -> list[int]:
        """Ids of a text that stands in the middle of another one."""
        if not text:
            return []
        if not self.needs_anchor:
            return self.plain(text)
        ids = self.plain("\n" + text)
        if ids[: len(self.anchor)] != self.anchor:
            return self.plain(text)
        return ids[len(self.anchor) :]

    def encode(self, function: Function) -> Encoded:
        prompt = self.plain(function.prompt, start=True)
        ids = list(prompt)
        pieces = [function.body] if self.trigger is None else function.body.split(self.trigger)
        for number, piece in enumerate(pieces):
            if number:
                ids.append(self.trigger_id)
            ids.extend(self.inner(piece))
        ids.append(self.tokenizer.eos_token_id)
        return Encoded(ids, len(prompt))


@dataclass(frozen=True)
class Row:
    """Functions that share one row of a batch without seeing one another."""

    functions: tuple[Encoded, ...]


def pack(functions: Sequence[Encoded], row_tokens: int, seed: int) -> list[Row]:
    """Every function in exactly one row of at most `row_tokens`, in an order drawn from `seed`.

    A function goes where it leaves the least room. Functions longer than a row are the caller's to drop.
    """
    order = list(range(len(functions)))
    generator = random.Random(seed)
    generator.shuffle(order)
    rows: list[list[Encoded]] = []
    room: list[tuple[int, int]] = []  # (tokens left, row), sorted
    for index in order:
        function = functions[index]
        need = len(function.ids)
        assert need <= row_tokens, "the caller drops what does not fit"
        at = bisect_left(room, (need, -1))
        if at < len(room):
            left, row = room.pop(at)
        else:
            left, row = row_tokens, len(rows)
            rows.append([])
            if len(room) >= N_OPEN_ROWS:
                room.pop(0)
        rows[row].append(function)
        insort(room, (left - need, row))
    generator.shuffle(rows)
    return [Row(tuple(row)) for row in rows]


@dataclass
class Batch:
    """Rows one behind the other; every function, and the padding of every row, is a span of its own."""

    ids: torch.Tensor  # [1, N]
    positions: torch.Tensor  # [1, N], from 0 in every span
    targets: torch.Tensor  # [1, N], the next id, or IGNORED
    spans: list[int]  # lengths
    n_tokens: int  # without padding


def batch_of(rows: Sequence[Row], row_tokens: int, loss_on_all: bool) -> Batch:
    """Every row takes `row_tokens`: matrices of few sizes are faster than none of padding."""
    size = len(rows) * row_tokens
    ids = torch.zeros(size, dtype=torch.long)
    positions = torch.zeros(size, dtype=torch.long)
    targets = torch.full((size,), IGNORED, dtype=torch.long)
    spans = []
    n_tokens = 0
    for index, row in enumerate(rows):
        start = index * row_tokens
        row_end = start + row_tokens
        for function in row.functions:
            end = start + len(function.ids)
            ids[start:end] = torch.tensor(function.ids)
            positions[start:end] = torch.arange(end - start)
            first = start + (1 if loss_on_all else max(function.n_prompt, 1))
            targets[first - 1 : end - 1] = ids[first:end]
            spans.append(end - start)
            n_tokens += end - start
            start = end
        if start < row_end:
            positions[start:row_end] = torch.arange(row_end - start)
            spans.append(row_end - start)
    return Batch(ids[None], positions[None], targets[None], spans, n_tokens)


def in_groups(rows: Sequence[Row], size: int) -> Iterator[Sequence[Row]]:
    for start in range(0, len(rows), size):
        yield rows[start : start + size]
