"""A byte-level BPE vocabulary of 288 entries, trained on a few lines of Python written for it.

It splits text as Llama 3 does, so that entries such as `.items` exist: a dot and the start of a name
in one token, which is the hard case for anything that watches text for dots.
"""

import json
from pathlib import Path

from tokenizers import Regex, Tokenizer, decoders, pre_tokenizers
from tokenizers.models import BPE
from tokenizers.trainers import BpeTrainer

VOCAB_SIZE = 288
BOS, EOS, END_OF_TURN = "<s>", "</s>", "<|end|>"

# The pattern that GGUF files name `llama-bpe`.
LLAMA3_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)

LINES = [
    "class Shelf:",
    "    def __init__(self, name, items=None):",
    "        self.name = name",
    "        self.items = items or []",
    "    def add(self, item):",
    "        self.items.append(item)",
    "        return self.items",
    "    def names(self):",
    "        return [item.name for item in self.items]",
    "def total(items):",
    "    return sum(item.price for item in items)",
]

CHAT_TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}[{{ message['role'] }}] "
    "{{ message['content'] }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}[assistant] {% endif %}"
)


def train() -> Tokenizer:
    tokenizer = Tokenizer(BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(LLAMA3_SPLIT), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = BpeTrainer(
        vocab_size=VOCAB_SIZE,
        special_tokens=[BOS, EOS, END_OF_TURN],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator("\n".join(LINES).splitlines(keepends=True), trainer)
    assert tokenizer.get_vocab_size() == VOCAB_SIZE, tokenizer.get_vocab_size()
    assert ".items" in tokenizer.get_vocab(), sorted(tokenizer.get_vocab())
    return tokenizer


def save(tokenizer: Tokenizer, folder: Path) -> None:
    """The files that a Hugging Face folder has for its tokenizer."""
    tokenizer.save(str(folder / "tokenizer.json"), pretty=False)
    config = {
        "add_bos_token": False,
        "bos_token": BOS,
        "chat_template": CHAT_TEMPLATE,
        "clean_up_tokenization_spaces": False,
        "eos_token": EOS,
        "model_max_length": 128,
        "tokenizer_class": "PreTrainedTokenizerFast",
    }
    write_json(folder / "tokenizer_config.json", config)
    # A list on purpose: a loader that takes only the one id of `config.json` never ends a turn.
    generation = {"bos_token_id": 0, "eos_token_id": [1, 2], "do_sample": False}
    write_json(folder / "generation_config.json", generation)


def write_json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False) + "\n")
