"""Write tests/data/paper_policy.json: what ToolGen's decoding rule does on made-up logits.

An implementation of the rule of its own, in plain Python, that shares nothing with the program: strings
and lists where the program has bytes and tries. Needs no packages. Cases in which two compared numbers are
closer than MARGIN are dropped, so that rounding cannot change an outcome.
"""

import json
import math
import pathlib
import random

TRIGGER = "<C>"
PIECES = ["<end>", TRIGGER, "a", "b", "e", "l", "f", "s", " ", ".", "ab", "el", "se", "\n"]
END, TRIGGER_ID = 0, 1
SKIPPED = {"self", "abs", "all"}  # the words of the list that these letters can spell
NAMES = [
    "self",
    "abs",
    "all",
    "ab",
    "abe",
    "fab",
    "sel",
    "label",
    "a",
    "ba",
    " bell ",
    "",
    "feel",
    "safe",
]
STEPS = 16
MARGIN = 1e-4


def encode(text):
    ids = []
    while text:
        best = max((p for p in PIECES[1:] if text.startswith(p)), key=len)
        ids.append(PIECES.index(best))
        text = text[len(best) :]
    return ids


def softmax(row):
    top = max(row)
    exps = [math.exp(x - top) for x in row]
    return [e / sum(exps) for e in exps]


class Close(Exception):
    """Two compared numbers are too close."""


def more(a, b):
    if abs(a - b) < MARGIN:
        raise Close
    return a > b


def best_of(pairs):
    """The pair with the highest number; it must win clearly."""
    ranked = sorted(pairs, key=lambda p: -p[1])
    if len(ranked) > 1:
        more(ranked[0][1], ranked[1][1])
    return ranked[0]


class Rule:
    """Which token follows, while candidates are followed and while not."""

    def __init__(self, more=more, best_of=best_of):
        self.more, self.best_of = more, best_of
        self.follow(None)

    def follow(self, paths):
        """From here on these candidates, as lists of ids; None: none."""
        self.paths, self.done, self.total = paths, [], 0.0

    def choose(self, probs):
        here = [p for p in self.paths or [] if p[: len(self.done)] == self.done]
        children = {p[len(self.done)] for p in here if len(p) > len(self.done)}
        if children:
            child, prob = self.best_of([(c, probs[c]) for c in children])
            n, total = len(self.done), self.total
            is_end = n > 0 and self.done in here
            if not (is_end and self.more(total / n, (total + prob) / (n + 1))):
                self.done = self.done + [child]
                self.total += prob
                return child
        self.follow(None)
        return self.best_of(list(enumerate(probs)))[0]


def decode(logits, answers, confidence, cache):
    text, ids, asked = "", [], []
    rule, last = Rule(), 0.0
    for step in range(STEPS):
        after_trigger = text.strip().endswith(TRIGGER)
        if after_trigger:
            if abs(last - confidence) < MARGIN:
                raise Close
            if last >= confidence:
                names = [n.strip() for n in answers[len(asked) % len(answers)] if n.strip()]
                asked.append(step)
                if any(n not in SKIPPED for n in names):
                    for name in names:
                        if name not in cache:
                            cache[name] = encode(text + name)[len(encode(text)) :]
                    rule.follow([cache[name] for name in names])
        probs = softmax(logits[step])
        if after_trigger:
            probs[TRIGGER_ID] = 0.0
        choice = rule.choose(probs)
        last = probs[choice]
        ids.append(choice)
        if choice == END:
            break
        text += PIECES[choice]
    return ids, asked


def main():
    rng = random.Random(42)
    cases = []
    while len(cases) < 120:
        logits = []
        for _ in range(STEPS):
            row = [rng.gauss(0, 1.5) for _ in PIECES]
            row[END] -= 4
            row[rng.choice([TRIGGER_ID, TRIGGER_ID, rng.randrange(2, len(PIECES))])] += 3.5
            logits.append([round(x * 64) for x in row])
        answers = [rng.sample(NAMES, rng.randrange(0, 7)) for _ in range(3)]
        confidence = rng.choice([0.5, 0.5, 0.8])
        try:
            rows = [[x / 64 for x in row] for row in logits]
            ids, asked = decode(rows, answers, confidence, {})
        except Close:
            continue
        if not asked and rng.random() < 0.8:
            continue  # enough cases in which nothing happens
        cases.append(
            {
                "logits_times_64": logits,
                "answers": answers,
                "confidence": confidence,
                "ids": ids,
                "asked_at": asked,
            }
        )
    out = pathlib.Path(__file__).parents[2] / "tests" / "data" / "paper_policy.json"
    lines = ",\n".join(json.dumps(c, separators=(",", ":")) for c in cases)
    head = json.dumps({"pieces": PIECES, "trigger": TRIGGER})[:-1]
    out.write_text(f'{head}, "cases": [\n{lines}\n]}}\n', encoding="utf-8")


if __name__ == "__main__":
    main()
