"""llama.cpp through the low-level interface of llama-cpp-python: tokens in, logits out, nothing else.

The high-level class samples and copies logits in Python; neither belongs into a measurement of the peer.
"""

import ctypes
import os
import sys
from contextlib import contextmanager

import llama_cpp as lib
import numpy as np


@contextmanager
def quiet():
    """llama.cpp writes to the file descriptor, so Python's own redirection does not reach it."""
    saved = os.dup(2)
    sink = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(sink, 2)
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)
        os.close(sink)


class PeerModel:
    def __init__(self, path: str, n_threads: int, n_ctx: int = 1024, n_batch: int = 512):
        with quiet():
            lib.llama_backend_init()
            model_params = lib.llama_model_default_params()
            model_params.n_gpu_layers = 0
            self.model = lib.llama_model_load_from_file(path.encode(), model_params)
            if not self.model:
                sys.exit(f"llama.cpp cannot load {path}")
            params = lib.llama_context_default_params()
            params.n_ctx = n_ctx
            params.n_batch = params.n_ubatch = n_batch
            params.n_threads = params.n_threads_batch = n_threads
            params.no_perf = True
            self.context = lib.llama_init_from_model(self.model, params)
        self.vocab = lib.llama_model_get_vocab(self.model)
        self.n_vocab = lib.llama_vocab_n_tokens(self.vocab)
        self.batch = lib.llama_batch_init(n_batch, 0, 1)
        self.n_batch = n_batch

    def clear(self) -> None:
        lib.llama_memory_clear(lib.llama_get_memory(self.context), True)

    def decode(self, ids: list[int], first_position: int, all_logits: bool = False) -> None:
        """One pass over `ids`; logits for the last one, or for all."""
        assert len(ids) <= self.n_batch
        for i, token in enumerate(ids):
            self.batch.token[i] = token
            self.batch.pos[i] = first_position + i
            self.batch.n_seq_id[i] = 1
            self.batch.seq_id[i][0] = 0
            self.batch.logits[i] = all_logits or i + 1 == len(ids)
        self.batch.n_tokens = len(ids)
        status = lib.llama_decode(self.context, self.batch)
        if status != 0:
            sys.exit(f"llama_decode failed with {status}")

    def logits(self, n_rows: int) -> np.ndarray:
        """The rows of the last pass that asked for logits, `[n_rows, V]`."""
        pointer = lib.llama_get_logits(self.context)
        address = ctypes.cast(pointer, ctypes.POINTER(ctypes.c_float))
        return np.ctypeslib.as_array(address, shape=(n_rows, self.n_vocab))

    def tokenize(self, text: str) -> list[int]:
        data = text.encode()
        out = (lib.llama_token * (len(data) + 8))()
        n = lib.llama_tokenize(self.vocab, data, len(data), out, len(out), False, False)
        if n < 0:
            sys.exit(f"llama_tokenize failed with {n}")
        return list(out[:n])

    def piece(self, token: int) -> bytes:
        out = ctypes.create_string_buffer(256)
        n = lib.llama_token_to_piece(self.vocab, token, out, len(out), 0, False)
        return out.raw[: max(n, 0)]

    def is_end(self, token: int) -> bool:
        return bool(lib.llama_vocab_is_eog(self.vocab, token))
