"""What a training run leaves behind: the adapter in PEFT's format, its manifest, and checkpoints.

Everything is written beside its place and renamed into it: a full disk or a kill leaves the old file.
"""

import json
import os
import platform
import shutil
from pathlib import Path

import torch
from dataset import Trigger
from peft.utils.save_and_load import get_peft_model_state_dict
from safetensors.torch import save_file
from tokenizers import AddedToken

MANIFEST = "tether.json"
CHECKPOINT = "checkpoint.pt"
SMALL_BYTES = 12_000_000  # adapters above this are stored in 16 bits unless told otherwise


class SaveError(Exception):
    """Something could not be written; the message says what and why."""


def write_whole(path: Path, write) -> None:
    """`write(temporary path)`, then rename; on any failure the old file stays and nothing else does."""
    part = path.with_name(f".{path.name}.part")
    try:
        write(part)
        with part.open("rb+") as file:
            os.fsync(file.fileno())
        part.chmod(0o644)  # some writers make files only their owner can read
        os.replace(part, path)
    except (OSError, RuntimeError) as error:  # torch.save reports a full disk as RuntimeError
        part.unlink(missing_ok=True)
        raise SaveError(f"{path} could not be written: {error}") from error


def write_json(path: Path, value) -> None:
    text = json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    write_whole(path, lambda part: part.write_text(text, encoding="utf-8"))


def save_checkpoint(folder: Path, state: dict) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(folder / CHECKPOINT, lambda part: torch.save(state, part))


def load_checkpoint(folder: Path) -> dict | None:
    path = folder / CHECKPOINT
    if not path.is_file():
        return None
    return torch.load(path, map_location="cpu", weights_only=True)


def stored(tensors: dict[str, torch.Tensor], precision: str) -> dict[str, torch.Tensor]:
    """The tensors in the precision asked for; `auto` takes 16 bits only where size demands it.

    float16 keeps three bits more than bfloat16, and adapters lie well inside its range.
    """
    n_bytes = sum(4 * value.numel() for value in tensors.values())
    if precision == "auto":
        precision = "float32" if n_bytes <= SMALL_BYTES else "float16"
    dtype = getattr(torch, precision)
    out = {name: value.detach().to(dtype).contiguous() for name, value in tensors.items()}
    for name, value in out.items():
        if not torch.isfinite(value).all():
            raise SaveError(
                f"{name} holds values that are not numbers or too large for {precision}"
            )
    return out


def save_adapter(folder: Path, decoder, tokenizer, base, trigger: Trigger | None, precision: str):
    folder.mkdir(parents=True, exist_ok=True)
    if decoder.full:
        decoder.settle()
        save_model(folder, decoder.model, with_trigger(tokenizer, trigger))
        return
    # False: of a resized embedding only the trained row is new, and that row is in the state.
    tensors = stored(
        get_peft_model_state_dict(decoder.root, save_embedding_layers=False), precision
    )
    write_whole(
        folder / "adapter_model.safetensors",
        lambda part: save_file(tensors, part, {"format": "pt"}),
    )
    config = decoder.root.peft_config["default"]
    config.base_model_name_or_path = base.name
    config.inference_mode = True
    values = {
        key: sorted(value) if isinstance(value, set) else value
        for key, value in config.to_dict().items()
    }
    write_json(folder / "adapter_config.json", values)
    added = {trigger.text: trigger.id} if trigger and trigger.is_new else {}
    write_json(folder / "added_tokens.json", added)


def with_trigger(tokenizer, trigger: Trigger | None):
    """The tokenizer with the new token as an ordinary one: no white space is stripped around it."""
    if trigger and trigger.is_new:
        tokenizer.add_tokens([AddedToken(trigger.text, normalized=False, special=False)])
    return tokenizer


def save_model(folder: Path, model, tokenizer) -> None:
    """A whole model, with its tokenizer, as a Hugging Face folder."""
    part = folder / ".model.part"
    shutil.rmtree(part, ignore_errors=True)
    try:
        model.save_pretrained(part)
        tokenizer.save_pretrained(part)
        for file in part.iterdir():
            os.replace(file, folder / file.name)
    except OSError as error:
        raise SaveError(f"{folder}: the model could not be written: {error}") from error
    finally:
        shutil.rmtree(part, ignore_errors=True)


def read_manifest(folder: Path) -> dict:
    path = folder / MANIFEST
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise SaveError(f"{path}: not readable as an adapter's manifest ({error})") from None


def machine() -> dict:
    names = [
        line.split(":", 1)[1].strip()
        for line in cpu_lines()
        if line.startswith(("model name", "Model name"))
    ]
    return {
        "processor": names[0] if names else platform.processor(),
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
    }


def cpu_lines() -> list[str]:
    try:
        return Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
