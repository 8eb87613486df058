"""The tokenizer inside a GGUF file.

Byte-level vocabularies are built here, with the same named splitters as the program's own
(`src/tokenizer/splitter.rs`), because what a general reader makes of them is GPT-2's for all. A splitter
that is not listed is refused: a wrong one gives other tokens and no error.
"""

from pathlib import Path

import gguf
from tokenizers import AddedToken, Regex, Tokenizer, decoders, pre_tokenizers, processors
from tokenizers.models import BPE
from transformers import AutoTokenizer, PreTrainedTokenizerFast

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
WORDS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+"
REST = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
DIGIT = r"\p{N}"
SPLITTERS = {
    "gpt-2": (GPT2,),
    "smollm": (DIGIT, GPT2),
    "starcoder": (DIGIT, GPT2),
    "refact": (DIGIT, GPT2),
    "llama-bpe": (WORDS + r"|\p{N}{1,3}" + REST,),
    "qwen2": (WORDS + r"|\p{N}" + REST,),
}
CONTROL, USER_DEFINED = 3, 4  # token types


class TokenizerError(Exception):
    """The file's tokenizer cannot be used; the message says why."""


def load(path: Path) -> PreTrainedTokenizerFast:
    try:
        fields = gguf.GGUFReader(path).fields
    except (ValueError, OSError) as error:
        raise TokenizerError(f"{path}: not a GGUF file ({error})") from None

    def value(name: str, otherwise=None):
        field = fields.get(f"tokenizer.ggml.{name}")
        return otherwise if field is None else field.contents()

    kind, splitter = value("model"), value("pre", "gpt-2")
    if kind == "llama":  # SentencePiece, which has no splitters to get wrong
        return AutoTokenizer.from_pretrained(
            path.parent, gguf_file=path.name, local_files_only=True
        )
    if kind != "gpt2":
        raise TokenizerError(f"{path}: tokenizers of kind {kind!r} are not supported")
    if splitter not in SPLITTERS:
        raise TokenizerError(
            f"{path}: the text splitter {splitter!r} is not supported; take the model as a folder"
        )
    tokens, types = value("tokens"), value("token_type", [])
    tokenizer = byte_pairs(tokens, value("merges"), splitter)
    for id, kind in enumerate(types):
        if kind in (CONTROL, USER_DEFINED):
            added = AddedToken(tokens[id], normalized=False, special=kind == CONTROL)
            (tokenizer.add_special_tokens if kind == CONTROL else tokenizer.add_tokens)([added])
    named = {
        f"{name}_token": tokens[value(f"{name}_token_id")]
        for name in ("bos", "eos")
        if value(f"{name}_token_id") is not None
    }
    if value("add_bos_token", splitter == "llama-bpe") and "bos_token" in named:
        bos = named["bos_token"]
        tokenizer.post_processor = processors.TemplateProcessing(
            single=f"{bos} $A", special_tokens=[(bos, value("bos_token_id"))]
        )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, clean_up_tokenization_spaces=False, **named
    )


def byte_pairs(tokens: list[str], merges: list[str], splitter: str) -> Tokenizer:
    tokenizer = Tokenizer(
        BPE(
            {token: id for id, token in enumerate(tokens)},
            [tuple(merge.split(" ", 1)) for merge in merges],
            ignore_merges=splitter == "llama-bpe",
        )
    )
    steps = [
        pre_tokenizers.Split(Regex(pattern), behavior="isolated") for pattern in SPLITTERS[splitter]
    ]
    steps.append(pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(steps)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer
