"""The model that is fine-tuned and its tokenizer: from a Hugging Face folder, or from a GGUF file by
dequantising it."""

import os
import re
import sys
import warnings
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import gguf
import gguf_tokenizer
import torch
import transformers
from functions import sha256_of
from gguf_tokenizer import TokenizerError
from tqdm import tqdm
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoTokenizer,
    modeling_gguf_pytorch_utils,
)

MANIFESTS = Path(__file__).resolve().parents[2] / "models"
# Decoders whose layers this trainer calls itself, one by one.
FAMILIES = ("llama", "mistral", "qwen2", "qwen3", "smollm3")


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
        shards = sorted(path.glob("model*.safetensors"))
        if not shards or not (path / "config.json").is_file():
            raise ModelError(f"{path}: expected config.json and model.safetensors in it")
        return Base(path.resolve().name, path, shards[0].name, sha256_of(*shards))
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


def source_of(base: Base) -> tuple[Path, dict]:
    """What transformers is told to read."""
    if base.path.is_dir():
        return base.path, {"local_files_only": True}
    return base.path.parent, {"local_files_only": True, "gguf_file": base.path.name}


def load_tokenizer(base: Base):
    if base.path.is_dir():
        tokenizer = AutoTokenizer.from_pretrained(base.path, local_files_only=True)
    else:
        try:
            tokenizer = gguf_tokenizer.load(base.path)
        except TokenizerError as error:
            raise ModelError(str(error)) from None
    if tokenizer.eos_token_id is None:
        raise ModelError(f"{base.path}: its tokenizer names no end-of-text token")
    return tokenizer


def load(base: Base, dtype: torch.dtype) -> tuple[torch.nn.Module, object]:
    """The model without gradients, and its tokenizer."""
    tokenizer = load_tokenizer(base)
    source, options = source_of(base)
    config = AutoConfig.from_pretrained(source, **options)
    if config.model_type not in FAMILIES:
        raise ModelError(
            f"{base.path}: models of type {config.model_type!r} are not supported; "
            f"{', '.join(FAMILIES)} are"
        )
    if not base.path.is_dir():
        config.head_dim = head_dim(base.path, config)
    model = AutoModelForCausalLM.from_pretrained(
        source, config=config, dtype=torch.float32, **options
    )
    if not base.path.is_dir():  # it is an ordinary model from here on
        model.config.__dict__.pop("quantization_config", None)
        model.hf_quantizer = None
        scale_rotation(model, base.path)
    for parameter in model.parameters():
        parameter.requires_grad_(False)
        # One by one: `model.to` would round the rotary frequencies as well.
        parameter.data = parameter.data.to(dtype)
    return model.eval(), tokenizer


def head_dim(path: Path, config) -> int:
    """transformers takes the family's usual width for the file's own."""
    for name, field in gguf.GGUFReader(path).fields.items():
        if name.endswith(".attention.key_length"):
            return field.contents()
    return config.hidden_size // config.num_attention_heads


@torch.no_grad()
def scale_rotation(model: torch.nn.Module, path: Path) -> None:
    """Longer contexts by slower rotation: transformers reads GGUF files without it."""
    reader = gguf.GGUFReader(path)
    scaling = {
        name.rsplit(".", 1)[1]: field.contents()
        for name, field in reader.fields.items()
        if ".rope.scaling." in name
    }
    inv_freq = model.model.rotary_emb.inv_freq
    kind = scaling.get("type", "none")
    if kind == "linear":
        inv_freq /= scaling["factor"]
    elif kind != "none":
        raise ModelError(f"{path}: rope scaling of type {kind!r} is not supported")
    for tensor in reader.tensors:
        if tensor.name == "rope_freqs.weight":
            inv_freq /= torch.from_numpy(tensor.data.copy())


def be_quiet() -> None:
    """The libraries' progress bars and advice, which say nothing about this run."""
    transformers.utils.logging.disable_progress_bar()
    transformers.utils.logging.set_verbosity_error()
    warnings.filterwarnings("ignore", category=FutureWarning)
    warnings.filterwarnings("ignore", category=UserWarning, module="peft")
    modeling_gguf_pytorch_utils.tqdm = partial(tqdm, disable=True)


def log(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
