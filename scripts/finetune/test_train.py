"""Whole runs on a tiny model: what is written, going on from a checkpoint, refusals."""

import hashlib
import io
import json
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from contextlib import redirect_stderr
from pathlib import Path
from unittest import mock

import adapter_files
import base_model
import dataset
import merging
import sample_data
import torch
import train
from adapter_files import SaveError
from peft import PeftModel
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer

STEADY = ("--minutes", "50", "--decay", "constant", "--warmup", "0", "--rate", "3e-3")


class Runs(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = Path(temporary.name)
        self.data = sample_data.write(self.folder / "data")

    def words(self, out: str, *words: str, model: str = "llama-tied") -> list[str]:
        model_path = model if "/" in model else str(sample_data.MODELS / model)
        return [
            "--data", str(self.data), "--model", model_path, "--out", str(self.folder / out),
            "--row-tokens", "128", "--workers", "1", *STEADY, *words,
        ]  # fmt: skip

    def run_train(self, out: str, *words: str, model: str = "llama-tied", code: int = 0) -> str:
        said = io.StringIO()
        with redirect_stderr(said):
            found = train.main(self.words(out, *words, model=model))
        self.assertEqual(found, code, said.getvalue())
        return said.getvalue()

    def manifest(self, out: str) -> dict:
        return json.loads((self.folder / out / "tether.json").read_text())

    def weights(self, out: str) -> dict[str, torch.Tensor]:
        return load_file(self.folder / out / "adapter_model.safetensors")

    def assert_same_weights(self, one: str, two: str, **tolerance) -> None:
        found, wanted = self.weights(one), self.weights(two)
        self.assertEqual(found.keys(), wanted.keys())
        for name, value in wanted.items():
            torch.testing.assert_close(found[name], value, msg=name, **tolerance)


class Files(Runs):
    def test_the_manifest_names_base_data_trigger_and_results(self):
        self.run_train("a", "--max-steps", "6", "--name", "mine", model="llama")
        found = self.manifest("a")
        self.assertEqual(found["format"], 1)
        self.assertEqual(found["name"], "mine")
        weights = sample_data.MODELS / "llama" / "model.safetensors"
        wanted = hashlib.sha256(weights.read_bytes()).hexdigest()
        self.assertEqual(found["base"], {"name": "llama", "file": weights.name, "sha256": wanted})
        for name in ("train.jsonl", "valid.jsonl"):
            wanted = hashlib.sha256((self.data / name).read_bytes()).hexdigest()
            self.assertEqual(found["data"]["files"][name], wanted)
        self.assertEqual(found["data"]["functions"], 24)
        self.assertEqual(found["trigger"], {"text": "<COMP>", "id": 288, "is_new": True})
        self.assertEqual((found["prompt_style"], found["vanilla"]), ("toolgen", False))
        results = found["results"]
        self.assertEqual(results["steps"], 6)
        self.assertLess(results["valid_adapter"]["nats_per_token"], 5.8)
        self.assertIn("torch", found["settings"]["versions"])
        self.assertNotIn(str(self.folder), json.dumps(found))
        added = json.loads((self.folder / "a" / "added_tokens.json").read_text())
        self.assertEqual(added, {"<COMP>": 288})
        self.assertFalse((self.folder / "a" / "checkpoint.pt").exists())

    def test_peft_reads_the_adapter_and_gets_the_same_loss(self):
        for model in ("llama", "llama-tied"):
            out = f"a-{model}"
            self.run_train(out, "--max-steps", "8", "--precision", "float32", model=model)
            base = base_model.locate(str(sample_data.MODELS / model))
            peft, tokenizer, trigger = merging.load_with_adapter(
                base, self.folder / out, torch.float32
            )
            self.assertIsInstance(peft, PeftModel)
            pairs = dataset.held_out(
                self.data / "valid.jsonl", False, tokenizer, trigger, row_tokens=128
            )
            nats, count = 0.0, 0
            for pair in pairs:
                ids = torch.tensor([pair.encoded.ids])
                start = pair.encoded.n_prompt
                with torch.no_grad():
                    logits = peft(ids, use_cache=False).logits[0, start - 1 : -1].float()
                nats += float(
                    torch.nn.functional.cross_entropy(logits, ids[0, start:], reduction="sum")
                )
                count += len(ids[0]) - start
            wanted = self.manifest(out)["results"]["valid_adapter"]["nats_per_token"]
            self.assertAlmostEqual(nats / count, wanted, places=3)

    def test_an_adapter_is_stored_in_16_bits_where_asked_or_large(self):
        self.run_train("a", "--max-steps", "1", "--save-precision", "float16")
        self.assertEqual({v.dtype for v in self.weights("a").values()}, {torch.float16})
        big = {"a": torch.zeros(adapter_files.SMALL_BYTES // 4 + 1)}
        self.assertEqual(adapter_files.stored(big, "auto")["a"].dtype, torch.float16)
        small = {"a": torch.zeros(4)}
        self.assertEqual(adapter_files.stored(small, "auto")["a"].dtype, torch.float32)
        with self.assertRaisesRegex(SaveError, "too large for float16"):
            adapter_files.stored({"a": torch.full((2,), 1e6)}, "float16")

    def test_only_the_layers_and_modules_asked_for_are_in_the_file(self):
        self.run_train(
            "a", "--max-steps", "1", "--layers", "upper", "1", "--target-modules", "q_proj,up_proj"
        )
        names = [name for name in self.weights("a") if "lora" in name]
        self.assertEqual(len(names), 4)
        self.assertTrue(all(".layers.1." in name for name in names))

    def test_vanilla_has_no_trigger(self):
        self.run_train("a", "--max-steps", "1", "--vanilla")
        self.assertIsNone(self.manifest("a")["trigger"])
        self.assertFalse(any("token_adapter" in name for name in self.weights("a")))

    def test_an_existing_token_can_be_the_trigger_and_its_row_is_trained(self):
        self.run_train("a", "--max-steps", "4", "--trigger-token", "<|end|>")
        self.assertEqual(
            self.manifest("a")["trigger"], {"text": "<|end|>", "id": 2, "is_new": False}
        )
        row = next(v for n, v in self.weights("a").items() if "token_adapter" in n)
        table = base_model.load(
            base_model.locate(str(sample_data.MODELS / "llama-tied")), torch.float32
        )[0].get_input_embeddings()
        self.assertEqual(row.shape, (1, 48))
        self.assertGreater(float((row[0] - table.weight[2]).abs().max()), 1e-3)

    def test_merged_and_whole_models_are_folders_that_transformers_reads(self):
        self.run_train("a", "--max-steps", "6", "--merge-out", str(self.folder / "merged"))
        self.run_train("full", "--max-steps", "6", "--full", "--rate", "1e-3")
        for out in ("merged", "full"):
            tokenizer = AutoTokenizer.from_pretrained(self.folder / out)
            model = AutoModelForCausalLM.from_pretrained(self.folder / out, dtype=torch.float32)
            self.assertEqual(tokenizer("self.<COMP>x").input_ids.count(288), 1)
            self.assertEqual(model.get_input_embeddings().weight.shape[0], 289)
            self.assertFalse(torch.equal(model.lm_head.weight[288], model.lm_head.weight[287]))
        found = self.manifest("full")["results"]
        self.assertLess(found["valid_adapter"]["nats_per_token"], 5.8)


class GoingOn(Runs):
    def test_a_continued_run_ends_where_an_uninterrupted_one_does(self):
        for words in ((), ("--dropout", "0.2")):
            name = "-".join(words) or "plain"
            self.run_train(f"whole-{name}", "--max-steps", "9", *words)
            self.stop_after(f"parts-{name}", 4, *words)
            said = self.run_train(f"parts-{name}", "--max-steps", "9", "--resume", *words)
            self.assertIn("going on from step 4", said)
            self.assert_same_weights(f"parts-{name}", f"whole-{name}", atol=0, rtol=0)

    def stop_after(self, out: str, steps: int, *words: str) -> None:
        """As a signal would, after a number of steps."""
        import trainer

        plain = trainer.Trainer.between_steps

        def between(self, loss, learning_rate):
            plain(self, loss, learning_rate)
            self.stopping = self.progress.step >= steps

        with mock.patch.object(trainer.Trainer, "between_steps", between):
            said = self.run_train(out, "--max-steps", "9", *words, code=130)
        self.assertIn("--resume", said)

    def test_a_killed_run_loses_at_most_one_interval(self):
        words = self.words("a", "--minutes", "9", "--checkpoint-minutes", "0.005")
        command = [sys.executable, "-W", "ignore", train.__file__, *words]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        for line in process.stderr:
            if "checkpoint" in line:
                break
        time.sleep(1)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        spent = adapter_files.load_checkpoint(self.folder / "a")["progress"]["spent_s"]
        self.assertGreater(spent, 0.0)
        # No time left: it ends at once, with what the checkpoint had.
        said = self.run_train("a", "--minutes", "0.0001", "--resume")
        self.assertIn("going on from step", said)
        self.assertEqual(self.manifest("a")["results"]["minutes"], round(spent / 60, 2))

    def test_another_run_cannot_go_on_from_a_checkpoint(self):
        self.stop_after("a", 2)
        said = self.run_train("a", "--resume", "--rslora", code=2)
        self.assertIn("--rslora was False, is True", said)
        sample_data.write(self.data, n_train=20)
        self.assertIn("data's files changed", self.run_train("a", "--resume", code=2))

    def test_two_processes_learn_what_one_learns(self):
        words = ("--max-steps", "4", "--precision", "float32")
        self.run_train("one", *words)
        self.run_train("two", *words, "--workers", "2")
        # Adam magnifies differences of rounding where a gradient is nearly zero.
        self.assert_same_weights("two", "one", atol=2e-3, rtol=1e-2)


class Refusals(Runs):
    def test_a_trigger_that_is_in_no_body_is_an_error(self):
        said = self.run_train("a", "--trigger", "<lsp>", code=2)
        self.assertIn("'<lsp>' is in no body", said)

    def test_functions_that_fit_no_row_are_dropped_and_counted(self):
        lines = (self.data / "train.jsonl").read_text().splitlines()
        record = json.loads(lines[0])
        record["augmented_body"] += "\n    x = 1" * 100
        lines[0] = json.dumps(record)
        (self.data / "train.jsonl").write_text("\n".join(lines))
        said = self.run_train("a", "--max-steps", "1")
        self.assertIn("1 functions too long", said)
        self.assertEqual(self.manifest("a")["data"]["too_long"], 1)
        said = self.run_train("b", "--row-tokens", "16", code=2)
        self.assertIn("every function has more than 16 tokens", said)

    def test_a_full_disk_leaves_what_was_there_and_says_so(self):
        path = self.folder / "tether.json"
        path.write_text("old")

        def fill(part: Path) -> None:
            part.write_text("half")
            raise OSError(28, "No space left on device")

        with self.assertRaisesRegex(SaveError, "tether.json could not be written.*No space left"):
            adapter_files.write_whole(path, fill)
        self.assertEqual(path.read_text(), "old")
        self.assertEqual(list(self.folder.glob(".*")), [])

    def test_wrong_choices_are_named(self):
        self.assertIn("no such token", self.run_train("a", "--trigger-token", "<no>", code=2))
        self.assertIn("2 layers", self.run_train("a", "--layers", "upper", "7", code=2))
        self.assertIn("Target modules", self.run_train("a", "--target-modules", "x_proj", code=2))


if __name__ == "__main__":
    unittest.main()
