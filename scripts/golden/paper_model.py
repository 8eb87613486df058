"""Write tests/data/models/llama/paper.json: ToolGen's rule with the logits of a tiny model.

The rule is that of paper_policy.py, which shares nothing with the program; the logits are those that
transformers computes, each step a whole pass. The trigger is an ordinary token of the tiny vocabulary, picked
so that the model writes it often. Cases with close numbers are dropped.
"""

import json
import pathlib
import random

import paper_policy
import torch
import transformers
from tokenizers import Tokenizer

FOLDER = pathlib.Path(__file__).parents[2] / "tests" / "data" / "models" / "llama"
PROMPTS = [
    "def f(x):\n    return ",
    "for item in self.items:\n",
    "class A:\n    x = 1\n",
    "a",
    "(0, 1)",
    "if x",
]
STEPS = 24
CASES = 24


@torch.no_grad()
def main():
    transformers.utils.logging.disable_progress_bar()
    torch.set_num_threads(1)
    tokenizer = Tokenizer.from_file(str(FOLDER / "tokenizer.json"))
    model = transformers.AutoModelForCausalLM.from_pretrained(
        FOLDER, dtype=torch.float32, attn_implementation="eager"
    ).eval()
    n_vocab = tokenizer.get_vocab_size()
    # White space does not count behind a trigger, nor do special tokens, which are no text.
    blank = {i for i in range(n_vocab) if i < 3 or set(tokenizer.id_to_token(i)) <= set("ĠĊĉčČ")}
    rng = random.Random(7)
    cases = []
    tried = 0
    while len(cases) < CASES:
        tried += 1
        prompt = tokenizer.encode(rng.choice(PROMPTS)).ids
        free = list(prompt)
        for _ in range(STEPS):
            free.append(int(model(torch.tensor([free])).logits[0, -1].argmax()))
        # A token that is written freely, so that a trigger comes.
        trigger = rng.choice(free[len(prompt) :])
        if trigger in blank:
            continue
        names = [
            [rng.randrange(3, n_vocab) for _ in range(rng.randrange(1, 4))]
            for _ in range(rng.randrange(1, 7))
        ]
        # Paths that the model likes, so that some are followed to their end.
        at = rng.randrange(len(prompt), len(free) - 3)
        names.append(free[at : at + rng.randrange(1, 4)])
        names = [name for name in names if trigger not in name]
        confidence = rng.choice([0.0, 0.02, 0.5])
        try:
            ids, asked = follow(model, prompt, trigger, names, confidence, blank)
        except paper_policy.Close:
            continue
        if asked:
            cases.append(
                {
                    "prompt": prompt,
                    "trigger": trigger,
                    "names": names,
                    "confidence": confidence,
                    "ids": ids,
                    "asked_at": asked,
                }
            )
    lines = ",\n".join(json.dumps(c, separators=(",", ":")) for c in cases)
    (FOLDER / "paper.json").write_text(f'{{"cases": [\n{lines}\n]}}\n', encoding="utf-8")
    print(f"{tried} tried, {sum(len(c['asked_at']) for c in cases)} questions")


def follow(model, prompt, trigger, names, confidence, blank):
    """As paper_policy.decode, with names that are token paths already."""
    context, ids, asked = list(prompt), [], []
    rule, last = paper_policy.Rule(more, best_of), 0.0
    for step in range(STEPS):
        text = [i for i in ids if i not in blank]
        after_trigger = bool(text) and text[-1] == trigger
        if after_trigger:
            if confidence and abs(last - confidence) < paper_policy.MARGIN:
                raise paper_policy.Close
            if last >= confidence:
                asked.append(step)
                rule.follow(names or None)
        probs = torch.softmax(model(torch.tensor([context])).logits[0, -1].double(), -1).tolist()
        if after_trigger:
            probs[trigger] = 0.0
        choice = rule.choose(probs)
        last = probs[choice]
        ids.append(choice)
        context.append(choice)
        if choice == model.config.eos_token_id:
            break
    return ids, asked


def more(a, b):
    """Probabilities can be tiny here, so what counts is how far apart they are in proportion."""
    if abs(a - b) < 0.02 * max(a, b):
        raise paper_policy.Close
    return a > b


def best_of(pairs):
    ranked = sorted(pairs, key=lambda p: -p[1])
    if len(ranked) > 1:
        more(ranked[0][1], ranked[1][1])
    return ranked[0]


if __name__ == "__main__":
    main()
