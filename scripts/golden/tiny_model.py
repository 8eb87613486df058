"""Tiny random models of every family that the decoder knows, one for each thing a decoder gets wrong."""

from dataclasses import dataclass, field

import torch
from tiny_tokenizer import VOCAB_SIZE
from transformers import AutoConfig, AutoModelForCausalLM

BASE = {
    "vocab_size": VOCAB_SIZE,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "hidden_act": "silu",
    "max_position_embeddings": 128,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "tie_word_embeddings": False,
    "bos_token_id": 0,
    "eos_token_id": 1,
    "pad_token_id": None,
}


@dataclass(frozen=True)
class TinyModel:
    name: str
    architecture: str  # as `config.json` names it
    model_type: str
    seed: int
    tests: str  # what only this model shows
    settings: dict = field(default_factory=dict)
    dtype: torch.dtype = torch.float32
    n_shards: int = 1
    config_style: str = (
        "classic"  # or "v5": `rope_parameters` instead of `rope_theta`, `rope_scaling`
    )

    def config(self) -> dict:
        """`config.json` in the style of the files that models of this family come with."""
        config = {"architectures": [self.architecture], "model_type": self.model_type}
        config |= BASE | self.settings
        config["torch_dtype"] = str(self.dtype).removeprefix("torch.")
        if self.config_style == "v5":
            theta = config.pop("rope_theta")
            scaling = config.pop("rope_scaling", None) or {"rope_type": "default"}
            config["rope_parameters"] = {"rope_theta": theta} | scaling
            config["dtype"] = config.pop("torch_dtype")
        return config

    def build(self) -> torch.nn.Module:
        config = AutoConfig.for_model(**self.config())
        model = AutoModelForCausalLM.from_config(
            config, dtype=torch.float32, attn_implementation="eager"
        )
        randomise(model, self.seed)
        # Rounded one by one: `model.to(dtype)` would round the rotary frequencies as well.
        with torch.no_grad():
            for value in model.parameters():
                value.copy_(value.to(self.dtype).to(torch.float32))
        return model.eval()


def randomise(model: torch.nn.Module, seed: int) -> None:
    """Weights large enough that every part of the network moves the logits.

    The usual 0.02 leaves the logits near zero and attention near uniform: a wrong rotation would hide
    below any sensible tolerance.
    """
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, value in sorted(model.named_parameters()):
            noise = torch.randn(value.shape, generator=generator)
            if "norm" in name:
                value.copy_(1.0 + 0.2 * noise)
            elif name.endswith("bias"):
                value.copy_(0.5 * noise)
            elif "embed_tokens" in name:
                # With a tied head a large embedding only repeats the last token.
                value.copy_(noise * (0.25 if model.config.tie_word_embeddings else 1.0))
            elif "q_proj" in name or "k_proj" in name:
                value.copy_(1.5 * noise / value.shape[1] ** 0.5)
            else:
                value.copy_(noise / value.shape[1] ** 0.5)


LLAMA = ("LlamaForCausalLM", "llama")
LLAMA3_SCALING = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    # Short, so that of the four frequencies of a head one stays, one is blended and two are divided.
    "original_max_position_embeddings": 48,
}

MODELS = [
    TinyModel("llama", *LLAMA, 4, "the plain decoder, grouped queries, untied head"),
    TinyModel(
        "llama-rope-linear",
        *LLAMA,
        1,
        "every rotation divided by the factor, as in DeepSeek-Coder",
        {"rope_theta": 100000.0, "rope_scaling": {"type": "linear", "factor": 4.0}},
    ),
    TinyModel(
        "llama-rope-llama3",
        *LLAMA,
        1,
        "the three bands of Llama 3.1's rope scaling",
        {"rope_theta": 500.0, "rope_scaling": LLAMA3_SCALING},
    ),
    TinyModel(
        "llama-tied",
        *LLAMA,
        3,
        "no head in the file, three query heads to one of keys, bfloat16 in two shards",
        {
            "tie_word_embeddings": True,
            "num_attention_heads": 3,
            "num_key_value_heads": 1,
            "head_dim": 16,
            "hidden_size": 48,
        },
        dtype=torch.bfloat16,
        n_shards=2,
    ),
    TinyModel(
        "llama-bias",
        *LLAMA,
        8,
        "biases on all four attention projections, float16",
        {"attention_bias": True, "num_key_value_heads": 4},
        dtype=torch.float16,
    ),
    TinyModel(
        "mistral",
        "MistralForCausalLM",
        "mistral",
        5,
        "a sliding window shorter than the text; heads wider than hidden / heads",
        {
            "sliding_window": 12,
            "head_dim": 16,
            "num_key_value_heads": 1,
            "intermediate_size": 40,
            "rms_norm_eps": 1e-6,
        },
    ),
    TinyModel(
        "qwen2",
        "Qwen2ForCausalLM",
        "qwen2",
        2,
        "biases on query, key and value, tied head",
        {
            "tie_word_embeddings": True,
            "rope_theta": 1000000.0,
            "use_sliding_window": False,
            "sliding_window": 8,
            "max_window_layers": 2,
        },
    ),
    TinyModel(
        "qwen3",
        "Qwen3ForCausalLM",
        "qwen3",
        28,
        "norms on query and key heads, a configuration file as transformers 5 writes it",
        {
            "tie_word_embeddings": True,
            "head_dim": 16,
            "attention_bias": False,
            "rope_theta": 1000000.0,
            "rms_norm_eps": 1e-6,
        },
        config_style="v5",
    ),
    TinyModel(
        "smollm3",
        "SmolLM3ForCausalLM",
        "smollm3",
        3,
        "a layer without rotation",
        {
            "tie_word_embeddings": True,
            "num_hidden_layers": 3,
            "no_rope_layers": [1, 0, 1],
            "no_rope_layer_interval": 2,
            "rope_theta": 50000.0,
        },
    ),
]
