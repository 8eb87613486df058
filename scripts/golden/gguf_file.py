"""The same tiny models as GGUF files, laid out as the converters of llama.cpp lay out real ones.

Facts used: names and metadata keys of the GGUF specification; for the `llama` architecture the rows of
query and key are permuted so that rotated pairs lie side by side; norms and biases stay F32; Llama 3's
rope scaling is stored as one divisor for each frequency in `rope_freqs.weight`.
"""

from pathlib import Path

import gguf
import numpy as np
import torch
from gguf import GGMLQuantizationType as QType
from tiny_model import TinyModel
from tiny_tokenizer import CHAT_TEMPLATE

LAYER_TENSORS = {
    "input_layernorm.weight": "attn_norm.weight",
    "post_attention_layernorm.weight": "ffn_norm.weight",
    "self_attn.q_proj.weight": "attn_q.weight",
    "self_attn.k_proj.weight": "attn_k.weight",
    "self_attn.v_proj.weight": "attn_v.weight",
    "self_attn.o_proj.weight": "attn_output.weight",
    "self_attn.q_proj.bias": "attn_q.bias",
    "self_attn.k_proj.bias": "attn_k.bias",
    "self_attn.v_proj.bias": "attn_v.bias",
    "self_attn.q_norm.weight": "attn_q_norm.weight",
    "self_attn.k_norm.weight": "attn_k_norm.weight",
    "mlp.gate_proj.weight": "ffn_gate.weight",
    "mlp.up_proj.weight": "ffn_up.weight",
    "mlp.down_proj.weight": "ffn_down.weight",
}
OTHER_TENSORS = {
    "model.embed_tokens.weight": "token_embd.weight",
    "model.norm.weight": "output_norm.weight",
    "lm_head.weight": "output.weight",
}


def gguf_name(name: str) -> str:
    if name in OTHER_TENSORS:
        return OTHER_TENSORS[name]
    _, _, layer, rest = name.split(".", 3)
    return f"blk.{layer}.{LAYER_TENSORS[rest]}"


def permute(rows: np.ndarray, n_heads: int) -> np.ndarray:
    """From halves (0, D/2), (1, D/2+1), … to neighbours (0, 1), (2, 3), …"""
    half = rows.shape[0] // n_heads // 2
    return rows.reshape(n_heads, 2, half, *rows.shape[1:]).swapaxes(1, 2).reshape(rows.shape)


def quantise(values: np.ndarray, qtype: QType) -> np.ndarray:
    if qtype == QType.F32 or values.ndim == 1:
        return values.astype(np.float32)
    if qtype == QType.F16:
        return values.astype(np.float16)
    return gguf.quants.quantize(values.astype(np.float32), qtype)


def rounded(values: np.ndarray, qtype: QType) -> np.ndarray:
    """What a reader of the quantised file gets back."""
    if values.ndim == 1 or qtype in (QType.F32, QType.F16):
        return quantise(values, qtype).astype(np.float32)
    return gguf.quants.dequantize(quantise(values, qtype), qtype)


def rounded_state(model: torch.nn.Module, qtype: QType) -> dict[str, torch.Tensor]:
    return {
        name: torch.from_numpy(rounded(value.numpy(), qtype))
        for name, value in model.state_dict().items()
    }


def write(path: Path, spec: TinyModel, model: torch.nn.Module, tokenizer, qtype: QType) -> None:
    config = spec.config()
    writer = gguf.GGUFWriter(path, spec.model_type)
    writer.add_name(f"tiny random {spec.name}")
    writer.add_vocab_size(config["vocab_size"])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_key_length(config["head_dim"])
    writer.add_value_length(config["head_dim"])
    writer.add_rope_dimension_count(config["head_dim"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    rope = config.get("rope_parameters") or {
        "rope_theta": config["rope_theta"],
        **(config.get("rope_scaling") or {}),
    }
    writer.add_rope_freq_base(rope["rope_theta"])
    if rope.get("type", rope.get("rope_type")) == "linear":
        writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(rope["factor"])
    if rope.get("rope_type") == "llama3":
        plain = rope["rope_theta"] ** -(np.arange(0, config["head_dim"], 2) / config["head_dim"])
        scaled = model.model.rotary_emb.inv_freq.numpy()
        writer.add_tensor("rope_freqs.weight", (plain / scaled).astype(np.float32))
    writer.add_file_type(
        {
            QType.F32: gguf.LlamaFileType.ALL_F32,
            QType.F16: gguf.LlamaFileType.MOSTLY_F16,
            QType.Q8_0: gguf.LlamaFileType.MOSTLY_Q8_0,
            QType.Q4_0: gguf.LlamaFileType.MOSTLY_Q4_0,
        }[qtype]
    )
    add_tokenizer(writer, tokenizer)
    for name, value in model.state_dict().items():
        if name == "lm_head.weight" and config["tie_word_embeddings"]:
            continue
        rows = value.numpy()
        if spec.model_type == "llama" and ".q_proj." in name:
            rows = permute(rows, config["num_attention_heads"])
        if spec.model_type == "llama" and ".k_proj." in name:
            rows = permute(rows, config["num_key_value_heads"])
        stored = QType.F32 if rows.ndim == 1 else qtype
        writer.add_tensor(gguf_name(name), quantise(rows, stored), raw_dtype=stored)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def add_tokenizer(writer: gguf.GGUFWriter, tokenizer) -> None:
    import json

    state = json.loads(tokenizer.to_str())
    special = {entry["id"] for entry in state["added_tokens"]}
    tokens = [tokenizer.id_to_token(id) for id in range(tokenizer.get_vocab_size())]
    types = [
        gguf.TokenType.CONTROL if id in special else gguf.TokenType.NORMAL
        for id in range(len(tokens))
    ]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("llama-bpe")
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    writer.add_token_merges([" ".join(pair) for pair in state["model"]["merges"]])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(1)
    writer.add_eot_token_id(2)
    writer.add_add_bos_token(False)
    writer.add_chat_template(CHAT_TEMPLATE)
