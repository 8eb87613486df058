"""The forward pass of training against plain calls of transformers and peft."""

import unittest

import base_model
import dataset
import functions
import heldout
import sample_data
import settings as arguments
import torch
from decoder import Decoder, with_lora
from functions import Encoded
from peft import get_peft_model

TRIGGER = 288  # one past the vocabulary of the tiny models


def settings(*words: str):
    return arguments.parse(["--data", "d", "--model", "m", "--out", "o", "--workers", "1", *words])


def decoder_for(name: str, *words: str, trigger: bool = True, **options) -> Decoder:
    """A tiny model with adapters that do something: both factors random."""
    torch.manual_seed(3)
    args = settings("--r", "4", *words)
    model, tokenizer = base_model.load(
        base_model.locate(str(sample_data.MODELS / name)), torch.float32
    )
    if trigger:
        dataset.add_row(model, tokenizer)
    trigger_id = TRIGGER if trigger else None
    first = args.layers_trained(model.config.num_hidden_layers)[0]
    root = with_lora(model, trigger_id, args)
    for key, value in root.named_parameters():
        if "lora_B" in key or "trainable_tokens" in key:
            value.data += 0.05 * torch.randn_like(value)
    return Decoder(root, trigger_id, n_frozen=first, **options)


def some_functions(count: int = 7) -> list[Encoded]:
    generator = torch.Generator().manual_seed(5)
    out = []
    for number in range(count):
        ids = torch.randint(0, TRIGGER, (5 + 3 * number,), generator=generator).tolist()
        ids[3 + number] = TRIGGER
        out.append(Encoded(ids, 2 + number % 2))
    return out


def plain_losses(decoder: Decoder, function: Encoded) -> torch.Tensor:
    """The same by peft's and transformers' own code: one function alone, all its logits."""
    name = decoder.model.config._name_or_path
    model, tokenizer = base_model.load(base_model.locate(name), torch.float32)
    dataset.add_row(model, tokenizer)
    config = decoder.root.peft_config["default"]
    peft = get_peft_model(model, config)
    peft.load_state_dict(decoder.root.state_dict(), strict=True)
    ids = torch.tensor([function.ids])
    logits = peft.eval()(ids, use_cache=False).logits[0, function.n_prompt - 1 : -1]
    targets = ids[0, function.n_prompt :]
    return torch.nn.functional.cross_entropy(logits.float(), targets, reduction="none")


class Forward(unittest.TestCase):
    MODELS = ("llama", "llama-tied", "llama-bias", "qwen2", "qwen3", "smollm3")

    def test_packed_losses_are_those_of_each_function_alone_by_peft(self):
        for name in self.MODELS:
            decoder = decoder_for(name)
            rows = functions.pack(some_functions(), 40, seed=1)
            self.assertGreater(max(len(row.functions) for row in rows), 1)
            decoder.settle()
            _, found, _ = decoder.losses(functions.batch_of(rows, 40, False))
            alone = [plain_losses(decoder, f) for row in rows for f in row.functions]
            torch.testing.assert_close(
                found, torch.cat(alone), atol=2e-5, rtol=2e-5, msg=lambda m, n=name: f"{n}: {m}"
            )

    def test_rslora_and_few_targets_are_as_peft_has_them(self):
        decoder = decoder_for(
            "llama", "--rslora", "--target-modules", "q_proj,down_proj", "--layers", "upper", "1"
        )
        function = some_functions()[4]
        decoder.settle()
        batch = functions.batch_of([functions.Row((function,))], 40, False)
        torch.testing.assert_close(
            decoder.losses(batch)[1], plain_losses(decoder, function), atol=2e-5, rtol=2e-5
        )

    def test_what_follows_in_a_row_changes_nothing_before_it_or_in_other_functions(self):
        decoder = decoder_for("llama")
        decoder.settle()
        one, two = some_functions()[3:5]
        changed = Encoded([*two.ids[:-3], 7, 8, 9], two.n_prompt)
        first = decoder.losses(functions.batch_of([functions.Row((one, two))], 60, False))[1]
        second = decoder.losses(functions.batch_of([functions.Row((one, changed))], 60, False))[1]
        n_one = len(one.ids) - one.n_prompt
        torch.testing.assert_close(first[:n_one], second[:n_one], atol=0, rtol=0)
        self.assertFalse(torch.equal(first[n_one:], second[n_one:]))


class Gradients(unittest.TestCase):
    def gradients(self, decoder: Decoder) -> dict[str, torch.Tensor]:
        decoder.settle()
        rows = functions.pack(some_functions(), 40, seed=1)
        decoder.losses(functions.batch_of(rows, 40, False))[0].backward()
        return {
            name: value.grad.clone()
            for name, value in decoder.parameters().items()
            if value.grad is not None
        }

    def by_peft(self, decoder: Decoder) -> dict[str, torch.Tensor]:
        name = decoder.model.config._name_or_path
        model, tokenizer = base_model.load(base_model.locate(name), torch.float32)
        dataset.add_row(model, tokenizer)
        peft = get_peft_model(model, decoder.root.peft_config["default"])
        peft.load_state_dict(decoder.root.state_dict(), strict=True)
        for function in some_functions():
            ids = torch.tensor([function.ids])
            logits = peft(ids, use_cache=False).logits[0, function.n_prompt - 1 : -1]
            torch.nn.functional.cross_entropy(
                logits, ids[0, function.n_prompt :], reduction="sum"
            ).backward()
        return {n: v.grad for n, v in peft.named_parameters() if v.grad is not None}

    def test_gradients_are_those_of_peft(self):
        for name in ("llama", "llama-tied"):
            decoder = decoder_for(name, through_all=True)
            found, wanted = self.gradients(decoder), self.by_peft(decoder)
            self.assertEqual(found.keys(), wanted.keys())
            for key, value in found.items():
                torch.testing.assert_close(
                    value, wanted[key], atol=1e-4, rtol=1e-4, msg=lambda m, k=key: f"{k}: {m}"
                )

    def test_gradient_checkpointing_changes_nothing(self):
        plain = self.gradients(decoder_for("llama"))
        kept = self.gradients(decoder_for("llama", checkpointing=True))
        for name, value in plain.items():
            torch.testing.assert_close(value, kept[name], atol=1e-6, rtol=1e-6)

    def test_with_frozen_layers_the_row_learns_at_the_head_alone(self):
        for name in ("llama", "llama-tied"):
            decoder = decoder_for(name, "--layers", "upper", "1")
            found = self.gradients(decoder)
            self.assertFalse(any("layers.0" in key for key in found))
            self.assertTrue(decoder.head_row.grad.abs().sum() > 0)

    def test_a_step_changes_the_triggers_row_and_no_other(self):
        for name in ("llama", "llama-tied"):
            decoder = decoder_for(name)
            decoder.settle()
            tables = decoder.embedding, decoder.head
            before = [table.clone() for table in tables]
            self.gradients(decoder)
            torch.optim.SGD(decoder.parameters().values(), lr=0.1).step()
            decoder.settle()
            for table, old in zip(tables, before, strict=True):
                self.assertTrue(torch.equal(table[:TRIGGER], old[:TRIGGER]), name)
                self.assertTrue(torch.equal(table[TRIGGER + 1 :], old[TRIGGER + 1 :]), name)
            self.assertFalse(torch.equal(decoder.head[TRIGGER], before[1][TRIGGER]), name)


class HeldOut(unittest.TestCase):
    def test_the_loss_is_the_mean_over_tokens_whatever_the_rows(self):
        decoder = decoder_for("llama")
        several = heldout.loss_of(decoder, some_functions(), 40)
        single = heldout.loss_of(decoder, some_functions(), 60)
        self.assertAlmostEqual(several["nats_per_token"], single["nats_per_token"], places=4)
        losses = torch.cat([plain_losses(decoder, f) for f in some_functions()])
        self.assertAlmostEqual(several["nats_per_token"], float(losses.mean()), places=4)
        self.assertEqual(several["tokens"], len(losses))
        self.assertEqual(several["triggers"], 7)


if __name__ == "__main__":
    unittest.main()
