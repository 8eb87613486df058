"""Base models: GGUF files against the gguf package, the goldens and the folders they were made from."""

import unittest

import base_model
import gguf
import sample_data
import torch
from base_model import ModelError
from safetensors.torch import load_file

GGUF = sample_data.MODELS / "gguf"


def load(path, dtype=torch.float32):
    return base_model.load(base_model.locate(str(path)), dtype)


class Weights(unittest.TestCase):
    def check_logits(self, path, golden) -> None:
        model, _ = load(path)
        wanted = load_file(golden)
        with torch.no_grad():
            found = model(wanted["input_ids"][None].long(), use_cache=False).logits[0]
        torch.testing.assert_close(found, wanted["logits"], atol=2e-4, rtol=2e-4, msg=str(path))

    def test_gguf_files_compute_what_their_goldens_say(self):
        for name in ("llama-f16", "llama-q8_0", "llama-q4_0"):
            self.check_logits(GGUF / f"{name}.gguf", GGUF / f"{name}.golden.safetensors")
        for name in ("llama", "llama-rope-linear", "llama-rope-llama3", "qwen2", "qwen3"):
            golden = sample_data.MODELS / name / "golden.safetensors"
            self.check_logits(GGUF / f"{name}-f32.gguf", golden)

    def test_folders_compute_what_their_goldens_say(self):
        for name in ("llama", "llama-tied", "mistral", "qwen2", "qwen3", "smollm3"):
            folder = sample_data.MODELS / name
            self.check_logits(folder, folder / "golden.safetensors")

    def test_dequantised_weights_are_those_of_the_gguf_package(self):
        path = GGUF / "llama-q4_0.gguf"
        model, _ = load(path)
        state = model.state_dict()
        names = {
            "token_embd.weight": "model.embed_tokens.weight",
            "blk.0.attn_v.weight": "model.layers.0.self_attn.v_proj.weight",
            "blk.1.ffn_down.weight": "model.layers.1.mlp.down_proj.weight",
            "output.weight": "lm_head.weight",
        }
        found = {tensor.name: tensor for tensor in gguf.GGUFReader(path).tensors}
        for name, ours in names.items():
            tensor = found[name]
            wanted = torch.from_numpy(gguf.quants.dequantize(tensor.data, tensor.tensor_type))
            torch.testing.assert_close(state[ours], wanted, atol=0, rtol=0, msg=name)


class Tokenizers(unittest.TestCase):
    TEXTS = (
        "def f(self):\n    return self.items[1234]\n",
        "x = 10\n\n\n\ty  =  'é 🦀'  \n",
        "\r\n  # don't   stop\n        pass",
        "",
    )

    def test_a_gguf_file_cuts_text_as_the_folder_it_was_made_from(self):
        for name in ("llama", "qwen2"):
            folder = base_model.load_tokenizer(base_model.locate(str(sample_data.MODELS / name)))
            file = base_model.load_tokenizer(base_model.locate(str(GGUF / f"{name}-f32.gguf")))
            self.assertEqual(file.eos_token_id, folder.eos_token_id)
            for text in self.TEXTS:
                ids = file(text).input_ids
                self.assertEqual(ids, folder(text).input_ids, repr(text))
                self.assertEqual(file.decode(ids), text)


class Refusals(unittest.TestCase):
    def test_what_is_not_a_model_is_named(self):
        for name, part in (("nothing-of-that-name", "neither"), (__file__, "not a GGUF file")):
            with self.assertRaisesRegex(ModelError, part):
                base_model.load(base_model.locate(name), torch.float32)

    def test_a_model_that_was_not_fetched_says_how_to_fetch_it(self):
        import os
        from unittest import mock

        with (
            mock.patch.dict(os.environ, {"TETHER_HOME": "/nonexistent"}),
            self.assertRaisesRegex(ModelError, "tether pull smollm2"),
        ):
            base_model.locate("smollm2")


if __name__ == "__main__":
    unittest.main()
