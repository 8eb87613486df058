"""Write the tiny models and what transformers computes from them to tests/data/models/.

python scripts/golden/make.py [--only NAME] [--out FOLDER]
"""

import argparse
import json
import shutil
from pathlib import Path

import gguf_file
import numpy as np
import tiny_tokenizer
import torch
import transformers
from gguf import GGMLQuantizationType as QType
from safetensors.torch import save_file
from tiny_model import MODELS, TinyModel

N_GREEDY = 16
MARGIN_MIN = 2e-2  # between the best and the second logit of every greedy step
PROMPT = 'def sold(self):\n    """é 🦀"""\n    return [item.name for item in self.items][1234]\n'
GGUF_FILES = [
    ("llama", QType.F32),
    ("llama", QType.F16),
    ("llama", QType.Q8_0),
    ("llama", QType.Q4_0),
    ("llama-rope-linear", QType.F32),
    ("llama-rope-llama3", QType.F32),
    ("qwen2", QType.F32),
    ("qwen3", QType.F32),
]


@torch.no_grad()
def logits_of(model: torch.nn.Module, ids: list[int]) -> torch.Tensor:
    return model(torch.tensor([ids]), use_cache=False).logits[0].float()


def greedy(model: torch.nn.Module, ids: list[int]) -> tuple[list[int], float]:
    """The next ids, each from a full pass without a cache, and the smallest margin met."""
    out, margin = [], float("inf")
    for _ in range(N_GREEDY):
        best, second = logits_of(model, ids + out)[-1].topk(2).values.tolist()
        out.append(int(logits_of(model, ids + out)[-1].argmax()))
        margin = min(margin, best - second)
    return out, margin


def save_weights(spec: TinyModel, model: torch.nn.Module, folder: Path) -> None:
    state = {
        name: value.to(spec.dtype).contiguous()
        for name, value in model.state_dict().items()
        if not (name == "lm_head.weight" and spec.config()["tie_word_embeddings"])
    }
    metadata = {"format": "pt"}
    if spec.n_shards == 1:
        save_file(state, folder / "model.safetensors", metadata)
        return
    names = sorted(state)
    weight_map = {}
    for shard in range(spec.n_shards):
        file = f"model-{shard + 1:05}-of-{spec.n_shards:05}.safetensors"
        part = names[shard :: spec.n_shards]
        save_file({name: state[name] for name in part}, folder / file, metadata)
        weight_map |= dict.fromkeys(part, file)
    total = sum(value.nbytes for value in state.values())
    index = {"metadata": {"total_size": total}, "weight_map": dict(sorted(weight_map.items()))}
    tiny_tokenizer.write_json(folder / "model.safetensors.index.json", index)


def save_golden(path: Path, model: torch.nn.Module, tokenizer) -> dict:
    ids = tokenizer.encode(PROMPT).ids
    logits = logits_of(model, ids)
    continuation, margin = greedy(model, ids)
    assert margin > MARGIN_MIN, (
        f"{path}: a greedy step is nearly a tie ({margin:.1e}); change the seed"
    )
    assert not {1, 2} & set(continuation), f"{path}: the text ends early; change the seed"
    save_file(
        {
            "input_ids": torch.tensor(ids, dtype=torch.int32),
            "logits": logits,
            "greedy_ids": torch.tensor(continuation, dtype=torch.int32),
            "rope_inv_freq": model.model.rotary_emb.inv_freq.clone().float(),
        },
        path,
        {"made_by": f"transformers {transformers.__version__}"},
    )
    text = tokenizer.decode(continuation, skip_special_tokens=True)
    summary = {"prompt": PROMPT, "greedy_text": text, "greedy_margin": float(f"{margin:.4g}")}
    tiny_tokenizer.write_json(path.with_suffix(".json"), summary)
    return summary


def make_folder(spec: TinyModel, tokenizer, out: Path) -> None:
    folder = out / spec.name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    model = spec.build()
    tiny_tokenizer.write_json(folder / "config.json", spec.config())
    tiny_tokenizer.save(tokenizer, folder)
    save_weights(spec, model, folder)
    # What a reader of the folder gets must be what the goldens were computed with.
    loaded = transformers.AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager"
    ).eval()
    ids = tokenizer.encode(PROMPT).ids
    np.testing.assert_array_equal(logits_of(model, ids), logits_of(loaded, ids))
    summary = save_golden(folder / "golden.safetensors", model, tokenizer)
    size = sum(file.stat().st_size for file in folder.glob("model*.safetensors"))
    print(f"{spec.name}: {size / 1024:.0f} KiB, {len(ids)} ids, margin {summary['greedy_margin']}")


def make_gguf(spec: TinyModel, qtype: QType, tokenizer, out: Path) -> None:
    folder = out / "gguf"
    folder.mkdir(parents=True, exist_ok=True)
    stem = f"{spec.name}-{qtype.name.lower()}"
    model = spec.build()
    gguf_file.write(folder / f"{stem}.gguf", spec, model, tokenizer, qtype)
    if qtype == QType.F32:
        # The same weights as the folder: its goldens hold.
        (folder / f"{stem}.golden.safetensors").unlink(missing_ok=True)
    else:
        model.load_state_dict(gguf_file.rounded_state(model, qtype))
        save_golden(folder / f"{stem}.golden.safetensors", model, tokenizer)
    print(f"{stem}.gguf: {(folder / f'{stem}.gguf').stat().st_size / 1024:.0f} KiB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    default_out = Path(__file__).resolve().parents[2] / "tests" / "data" / "models"
    parser.add_argument("--out", type=Path, default=default_out)
    parser.add_argument("--only", help="name of one model")
    args = parser.parse_args()
    transformers.utils.logging.disable_progress_bar()
    torch.set_num_threads(1)  # sums in one order
    tokenizer = tiny_tokenizer.train()
    by_name = {spec.name: spec for spec in MODELS}
    for spec in MODELS:
        if args.only in (None, spec.name):
            make_folder(spec, tokenizer, args.out)
    for name, qtype in GGUF_FILES:
        if args.only in (None, name):
            make_gguf(by_name[name], qtype, tokenizer, args.out)
    listing = {spec.name: spec.tests for spec in MODELS}
    (args.out / "MODELS.json").write_text(json.dumps(listing, indent=2) + "\n")


if __name__ == "__main__":
    main()
