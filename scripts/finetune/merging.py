"""An adapter and its base model as one model, in a Hugging Face folder."""

from pathlib import Path

import adapter_files
import base_model
import dataset
import torch
from base_model import Base, ModelError
from dataset import Trigger
from peft import PeftModel


def load_with_adapter(base: Base, adapter: Path, dtype: torch.dtype, in_data: str | None = None):
    """The base with the adapter beside it, its tokenizer, and the trigger of the manifest.

    `in_data` is how the data writes the trigger, where that is not the token's own text.
    """
    manifest = adapter_files.read_manifest(adapter)
    if manifest["base"]["sha256"] != base.sha256:
        raise ModelError(
            f"{adapter} was trained on {manifest['base']['file']} (sha256 {manifest['base']['sha256']}), "
            f"not on {base.path} ({base.sha256})"
        )
    found = manifest["trigger"]
    trigger = found and Trigger(
        found["text"], found["id"], found["is_new"], in_data or found["text"]
    )
    model, tokenizer = base_model.load(base, dtype)
    if trigger and trigger.is_new:
        dataset.add_row(model, tokenizer)
    return PeftModel.from_pretrained(model, adapter), tokenizer, trigger


def write(out: Path, base: Base, adapter: Path) -> None:
    """Merged from the exact weights, then stored in float16."""
    model, tokenizer, trigger = load_with_adapter(base, adapter, torch.float32)
    merged = model.merge_and_unload().to(torch.float16)
    adapter_files.save_model(out, merged, adapter_files.with_trigger(tokenizer, trigger))
