"""Write tiny adapters, and what peft computes with them, to tests/data/adapters/.

python scripts/golden/adapters.py [--out FOLDER]

Each case is a folder as peft saves it, on one of the tiny models of tests/data/models/, with
`golden.safetensors`: `input_ids` I32 [T] and `logits` F32 [T, V]. `ADAPTERS.json` says which model it is for
and why it is there. Cases whose name ends in `-gguf` are one file, laid out as the converter of llama.cpp
does; their logits are those of the case they were made from.
"""

import argparse
import json
import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import gguf
import numpy as np
import torch
from gguf_file import gguf_name, permute
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

MODELS = Path("tests/data/models")
ALL = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
KEPT = {"README.md"}


@dataclass(frozen=True)
class Case:
    name: str
    model: str
    why: str
    config: dict = field(default_factory=dict)
    """Rows of the embedding after it was resized; None: as it is."""
    rows: int | None = None
    """Tokens put between those of the model's own golden."""
    tokens: tuple[int, ...] = ()


CASES = [
    Case("llama-all", "llama", "every module, alpha / r", {"target_modules": ALL}),
    Case(
        "llama-other",
        "llama",
        "a second one for the same batch",
        {"target_modules": ["q_proj", "down_proj"], "r": 3},
    ),
    Case(
        "qwen2-all",
        "qwen2",
        "every module of a model with biases",
        {"target_modules": "all-linear"},
    ),
    Case(
        "llama-rslora",
        "llama",
        "alpha / sqrt(r), a regular expression",
        {"target_modules": r".*self_attn\.(q|k)_proj", "use_rslora": True},
    ),
    Case(
        "llama-patterns",
        "llama",
        "ranks and alphas of their own, one layer only",
        {
            "target_modules": ["v_proj", "up_proj", "lm_head"],
            "rank_pattern": {"up_proj": 2, r"layers\.1\.self_attn\.v_proj": 7},
            "alpha_pattern": {"v_proj": 3, "lm_head": 5},
        },
    ),
    Case(
        "llama-layer",
        "llama",
        "one layer of two",
        {"target_modules": ["o_proj", "gate_proj"], "layers_to_transform": [1]},
    ),
    Case(
        "llama-saved",
        "llama",
        "embedding and head trained whole",
        {"target_modules": ["k_proj"], "modules_to_save": ["embed_tokens", "lm_head"]},
    ),
    Case(
        "llama-norms",
        "llama",
        "norms trained whole, which only merging can do",
        {"target_modules": ["k_proj"], "modules_to_save": ["norm", "input_layernorm"]},
    ),
    Case(
        "llama-rows",
        "llama",
        "two rows of the embedding and one of the head",
        {
            "target_modules": ["q_proj"],
            "trainable_token_indices": {"embed_tokens": [5, 70], "lm_head": [70]},
        },
        tokens=(70, 5),
    ),
    Case(
        "qwen2-rows",
        "qwen2",
        "rows of an embedding that is the head too",
        {"target_modules": ["q_proj"], "trainable_token_indices": [5, 70]},
        tokens=(70, 5),
    ),
    Case(
        "llama-resized",
        "llama",
        "a new token, both tables saved because of it",
        {"target_modules": ["v_proj"]},
        rows=289,
        tokens=(288,),
    ),
    Case(
        "qwen2-new-row",
        "qwen2",
        "a new token whose row is trained, tied head",
        {"target_modules": ["v_proj"], "trainable_token_indices": [289]},
        rows=290,
        tokens=(289,),
    ),
]
GGUF = ["llama-all", "qwen2-all"]


def made(case: Case) -> PeftModel:
    torch.manual_seed(7)
    model = AutoModelForCausalLM.from_pretrained(
        MODELS / case.model, dtype=torch.float32, attn_implementation="eager"
    )
    if case.rows:
        model.resize_token_embeddings(case.rows, mean_resizing=False)
    config = LoraConfig(**{"r": 4, "lora_alpha": 8, "task_type": "CAUSAL_LM", **case.config})
    adapted = get_peft_model(model, config)
    for name, value in adapted.named_parameters():
        # Large enough to be seen, small enough to stay a model.
        if value.requires_grad:
            value.data += torch.randn(value.shape) * (0.1 if "lora_" in name else 0.3)
    if case.rows:
        # The new rows are what the model would not have.
        for table in {
            adapted.get_input_embeddings().weight,
            adapted.get_output_embeddings().weight,
        }:
            table.data[288:] = torch.randn(table[288:].shape) * 0.5
    return adapted.eval()


def write(case: Case, out: Path) -> None:
    adapted = made(case)
    with tempfile.TemporaryDirectory() as scratch:
        adapted.save_pretrained(scratch)
        # What is tested is what the files say, so the logits come from a model that read them.
        model = AutoModelForCausalLM.from_pretrained(
            MODELS / case.model, dtype=torch.float32, attn_implementation="eager"
        )
        if case.rows:
            model.resize_token_embeddings(case.rows, mean_resizing=False)
        loaded = PeftModel.from_pretrained(model, scratch).eval()
        folder = out / case.name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for file in sorted(Path(scratch).iterdir()):
            if file.name not in KEPT:
                shutil.copy(file, folder / file.name)
    config = json.loads((folder / "adapter_config.json").read_text())
    config["base_model_name_or_path"] = f"tiny/{case.model}"
    if isinstance(config["target_modules"], list):
        config["target_modules"].sort()
    (folder / "adapter_config.json").write_text(json.dumps(config, indent=1, sort_keys=True) + "\n")
    ids = load_file(MODELS / case.model / "golden.safetensors")["input_ids"].tolist()[:24]
    for place, token in enumerate(case.tokens):
        ids.insert(5 + 7 * place, token)
    with torch.no_grad():
        logits = loaded(torch.tensor([ids])).logits[0]
        plain = AutoModelForCausalLM.from_pretrained(MODELS / case.model, dtype=torch.float32)
        if not case.rows:
            moved = (plain(torch.tensor([ids])).logits[0] - logits).abs().max().item()
            assert moved > 0.05, f"{case.name} changes nothing: {moved}"
    save_file(
        {"input_ids": torch.tensor(ids, dtype=torch.int32), "logits": logits.contiguous()},
        folder / "golden.safetensors",
    )


def write_gguf(name: str, out: Path) -> None:
    folder = out / name
    config = json.loads((folder / "adapter_config.json").read_text())
    case = next(c for c in CASES if c.name == name)
    base = json.loads((MODELS / case.model / "config.json").read_text())
    path = out / f"{name}.gguf"
    writer = gguf.GGUFWriter(path, base["model_type"])
    writer.add_type(gguf.GGUFType.ADAPTER)
    writer.add_string(gguf.Keys.Adapter.TYPE, "lora")
    writer.add_float32(gguf.Keys.Adapter.LORA_ALPHA, float(config["lora_alpha"]))
    for full, value in load_file(folder / "adapter_model.safetensors").items():
        name, half = full.removeprefix("base_model.model.").rsplit(".lora_", 1)
        rows = value.numpy().astype(np.float32)
        if base["model_type"] == "llama" and half.startswith("B"):
            if ".q_proj" in name:
                rows = permute(rows, base["num_attention_heads"])
            if ".k_proj" in name:
                rows = permute(rows, base["num_key_value_heads"])
        writer.add_tensor(f"{gguf_name(name + '.weight')}.lora_{half[0].lower()}", rows)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("tests/data/adapters"))
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    args.out.mkdir(parents=True, exist_ok=True)
    for case in CASES:
        write(case, args.out)
    for name in GGUF:
        write_gguf(name, args.out)
    about = {case.name: {"model": case.model, "why": case.why} for case in CASES}
    (args.out / "ADAPTERS.json").write_text(json.dumps(about, indent=2) + "\n")


if __name__ == "__main__":
    main()
