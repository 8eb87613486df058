"""Decode rate of transformers on this GPU, with the shapes of `tether synth` and random weights.

Exit code 3: torch, transformers or a GPU is not there. Rates are taken with the device waited for,
after a warm-up of the same shape that includes compilation.
"""

import json
import sys
import time

try:
    import torch
    import transformers
except ImportError as missing:
    print(f"{missing.name} is not installed", file=sys.stderr)
    sys.exit(3)
if not torch.cuda.is_available():
    print("torch sees no GPU", file=sys.stderr)
    sys.exit(3)

SHAPES = {
    "smollm2": dict(
        hidden_size=576,
        num_hidden_layers=30,
        num_attention_heads=9,
        num_key_value_heads=3,
        intermediate_size=1536,
        vocab_size=49_152,
        tie_word_embeddings=True,
    ),
    "llama-7b": dict(
        hidden_size=4096,
        num_hidden_layers=32,
        num_attention_heads=32,
        num_key_value_heads=32,
        intermediate_size=11_008,
        vocab_size=32_016,
    ),
}
PROMPT_TOKENS = 128
GEN_TOKENS = 64
REPS = 3


def measure(name):
    config = transformers.LlamaConfig(max_position_embeddings=8192, **SHAPES[name])
    torch.manual_seed(1)
    torch.set_default_dtype(torch.bfloat16)
    with torch.device("cuda"):
        model = transformers.LlamaForCausalLM(config).eval()
    ids = torch.randint(3, 500, (1, PROMPT_TOKENS), device="cuda")
    # A static cache is what lets generate compile its step into CUDA graphs.
    options = dict(
        do_sample=False,
        min_new_tokens=GEN_TOKENS,
        max_new_tokens=GEN_TOKENS,
        cache_implementation="static",
        pad_token_id=0,
        attention_mask=torch.ones_like(ids),
    )
    rates = []
    with torch.inference_mode():
        for rep in range(REPS + 2):
            torch.cuda.synchronize()
            started = time.perf_counter()
            model.generate(ids, **options)
            torch.cuda.synchronize()
            if rep >= 2:
                rates.append(GEN_TOKENS / (time.perf_counter() - started))
    return {
        "shape": name,
        "tokens_per_s_with_prefill": sorted(rates)[len(rates) // 2],
        "samples": rates,
    }


print(
    json.dumps(
        {
            "torch": torch.__version__,
            "transformers": transformers.__version__,
            "device": torch.cuda.get_device_name(),
            "rows": [measure(name) for name in SHAPES],
        }
    )
)
