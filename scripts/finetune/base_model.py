"""The model that is fine-tuned and its tokenizer: from a Hugging Face folder, or from a GGUF file by
dequantising it."""

import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path

import gguf
import torch
from functions import sha256_of
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

MANIFESTS = Path(__file__).resolve().parents[2] / "models"
# Decoders whose layers this trainer calls itself, one by one.
FAMILIES = ("llama", "mistral", "qwen2", "qwen3", "smollm3")
# Splitters of byte-level vocabularies under their name in `tokenizer.ggml.pre`; another name is refused,
# because a wrong split gives other tokens without an error.
SPLITTERS = ("gpt-2", "smollm", "starcoder", "refact", "llama-bpe", "qwen2")


class ModelError(Exception):
    """The base model cannot be used; the message says which, why, and what to do."""


@dataclass(frozen=True)
class Base:
    name: str
    path: Path
    file: str
    sha256: str


def locate(name: str) -> Base:
    """A path, or a name with a manifest whose file `tether pull` has fetched."""
    path = Path(name)
    if path.is_dir():
        weights = sorted(path.glob("*.safetensors"))
        if not weights or not (path / "config.json").is_file():
            raise ModelError(f"{path}: expected config.json and safetensors in it")
        return Base(path.resolve().name, path, weights[0].name, sha256_of(weights[0]))
    if path.is_file():
        sha256 = sha256_of(path)
        known = [m.stem for m in sorted(MANIFESTS.glob("*.toml")) if sha256 in m.read_text("utf-8")]
        return Base((known or [path.stem])[0], path, path.name, sha256)
    manifest = MANIFESTS / f"{name}.toml"
    if not manifest.is_file():
        raise ModelError(f"{name}: neither a file, nor a folder, nor a manifest in models/")
    text = manifest.read_text(encoding="utf-8")
    found = {key: value for key, value in re.findall(r'^(\w+) = "([^"]*)"', text, re.MULTILINE)}
    file = Path(found.get("member", found.get("file", ""))).name
    home = os.environ.get("TETHER_HOME")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    path = (Path(home) if home else cache / "tether") / "models" / name / file
    if not path.is_file():
        raise ModelError(f"{name}: {path} is not there; `tether pull {name}` fetches it")
    sha256 = sha256_of(path)
    if found.get("sha256") not in (None, sha256):
        raise ModelError(f"{path}: not the file that {manifest} names (sha256 {sha256})")
    return Base(name, path, file, sha256)


def load(base: Base, dtype: torch.dtype) -> tuple[torch.nn.Module, object]:
    """The model without gradients, and its tokenizer."""
    if base.path.is_dir():
        source, options = base.path, {}
    else:
        check_gguf(base.path)
        source, options = base.path.parent, {"gguf_file": base.path.name}
    config = AutoConfig.from_pretrained(source, local_files_only=True, **options)
    if config.model_type not in FAMILIES:
        raise ModelError(
            f"{base.path}: models of type {config.model_type!r} are not supported; {', '.join(FAMILIES)} are"
        )
    tokenizer = AutoTokenizer.from_pretrained(source, local_files_only=True, **options)
    if tokenizer.eos_token_id is None:
        raise ModelError(f"{base.path}: its tokenizer names no end-of-text token")
    model = AutoModelForCausalLM.from_pretrained(
        source, local_files_only=True, dtype=torch.float32, attn_implementation="sdpa", **options
    )
    if options:  # it is an ordinary model from here on
        model.config.__dict__.pop("quantization_config", None)
        model.hf_quantizer = None
    for parameter in model.parameters():
        parameter.requires_grad_(False)
        # One by one: `model.to` would round the rotary frequencies as well.
        parameter.data = parameter.data.to(dtype)
    return model.eval(), tokenizer


def check_gguf(path: Path) -> None:
    try:
        fields = gguf.GGUFReader(path).fields
    except (ValueError, OSError) as error:
        raise ModelError(f"{path}: not a GGUF file ({error})") from None
    kind = text_of(fields, "tokenizer.ggml.model")
    splitter = text_of(fields, "tokenizer.ggml.pre")
    if kind == "gpt2" and splitter not in SPLITTERS:
        raise ModelError(
            f"{path}: the text splitter {splitter!r} is not supported; take the model as a folder"
        )


def text_of(fields: dict, key: str) -> str | None:
    return fields[key].contents() if key in fields else None


def log(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
