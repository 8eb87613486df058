"""Reading, tokens, packing."""

import json
import tempfile
import unittest
from pathlib import Path

import base_model
import functions
import sample_data
from functions import DataError, Encoded, Encoder, Function


def tokenizer_of(name: str = "llama"):
    return base_model.load_tokenizer(base_model.locate(str(sample_data.MODELS / name)))


class Reading(unittest.TestCase):
    def check(self, text: str, part_of_message: str) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "train.jsonl"
            path.write_text(text, encoding="utf-8")
            with self.assertRaises(DataError) as caught:
                functions.read(path, vanilla=False)
            self.assertIn(part_of_message, str(caught.exception))

    def test_what_is_wrong_with_the_data_is_named_with_its_line(self):
        good = json.dumps(sample_data.records(1)[0]) + "\n"
        self.check("", "no functions")
        self.check(good + "{", "line 2: not JSON")
        self.check(good + "[]\n", "line 2: expected an object, found list")
        self.check(
            '{"augmented_prefix": "a"}\n', "'augmented_body' should be a text, found nothing"
        )
        self.check('{"augmented_prefix": 3, "augmented_body": ""}\n', "found int")
        self.check('{"augmented_prefix": "a", "augmented_body": " \\n"}\n', "is empty")

    def test_a_missing_file_names_what_writes_it(self):
        with self.assertRaisesRegex(DataError, "tether augment"):
            functions.read(Path("nowhere/train.jsonl"), vanilla=False)

    def test_vanilla_reads_the_same_functions_without_triggers(self):
        with tempfile.TemporaryDirectory() as folder:
            data = sample_data.write(Path(folder))
            plain = functions.read(data / "train.jsonl", vanilla=True)
            augmented = functions.read(data / "train.jsonl", vanilla=False)
            self.assertEqual([f.name for f in plain], [f.name for f in augmented])
            self.assertFalse(any("<COMP>" in f.body for f in plain))
            self.assertEqual(
                [f.body.replace("<COMP>", "") for f in augmented], [f.body for f in plain]
            )


class Tokens(unittest.TestCase):
    def test_the_trigger_is_one_id_and_the_rest_reads_back(self):
        tokenizer = tokenizer_of()
        encoder = Encoder(tokenizer, "<COMP>", 288)
        function = Function(
            "",
            "f",
            "def f(self):\n    '''A <COMP> é 🦀.'''\n",
            "    return self.<COMP>a + \t<COMP>b",
        )
        encoded = encoder.encode(function)
        prompt, body = encoded.ids[: encoded.n_prompt], encoded.ids[encoded.n_prompt :]
        self.assertNotIn(288, prompt)
        self.assertEqual(tokenizer.decode(prompt), function.prompt)
        self.assertEqual(body.count(288), 2)
        self.assertEqual(body[-1], tokenizer.eos_token_id)
        text = "".join("<COMP>" if id == 288 else tokenizer.decode([id]) for id in body[:-1])
        self.assertEqual(text, function.body)

    def test_a_body_is_cut_into_tokens_as_if_alone(self):
        tokenizer = tokenizer_of()
        encoded = Encoder(tokenizer, None, None).encode(Function("", "f", "def f():\n", "    x"))
        alone = tokenizer("    x", add_special_tokens=False).input_ids
        self.assertEqual(encoded.ids[encoded.n_prompt : -1], alone)

    def test_the_text_of_a_special_token_in_source_stays_text(self):
        tokenizer = tokenizer_of()
        special = tokenizer.eos_token
        encoded = Encoder(tokenizer, None, None).encode(Function("", "f", "d", f"x = '{special}'"))
        self.assertEqual(encoded.ids.count(tokenizer.eos_token_id), 1)


class Packing(unittest.TestCase):
    def functions(self) -> list[Encoded]:
        return [Encoded([number] * (1 + number * 7 % 50), 1) for number in range(300)]

    def test_every_function_is_in_exactly_one_row_that_holds_it(self):
        rows = functions.pack(self.functions(), 64, seed=1)
        packed = [f.ids[0] for row in rows for f in row.functions]
        self.assertEqual(sorted(packed), list(range(300)))
        self.assertLessEqual(max(sum(len(f.ids) for f in row.functions) for row in rows), 64)

    def test_rows_are_nearly_full(self):
        rows = functions.pack(self.functions(), 64, seed=1)
        tokens = sum(len(f.ids) for f in self.functions())
        self.assertGreater(tokens / (64 * len(rows)), 0.95)

    def test_the_order_follows_the_seed(self):
        one, same, other = (functions.pack(self.functions(), 64, seed) for seed in (1, 1, 2))
        self.assertEqual(one, same)
        self.assertNotEqual(one, other)

    def test_a_batch_has_loss_on_bodies_and_positions_from_zero(self):
        rows = [functions.Row((Encoded([5, 6, 7], 2), Encoded([8, 9], 1)))]
        batch = functions.batch_of(rows, 8, loss_on_all=False)
        none = functions.IGNORED
        self.assertEqual(batch.ids.tolist(), [[5, 6, 7, 8, 9, 0, 0, 0]])
        self.assertEqual(batch.positions.tolist(), [[0, 1, 2, 0, 1, 0, 1, 2]])
        self.assertEqual(batch.targets.tolist(), [[none, 7, none, 9, none, none, none, none]])
        self.assertEqual((batch.spans, batch.n_tokens), ([3, 2, 3], 5))
        whole = functions.batch_of(rows, 8, loss_on_all=True)
        self.assertEqual(whole.targets.tolist()[0][:5], [6, 7, none, 9, none])


if __name__ == "__main__":
    unittest.main()
