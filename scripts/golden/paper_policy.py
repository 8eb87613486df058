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


def decode(logits, answers, confidence, cache):
    text, ids, asked = "", [], []
    paths = None  # candidates as id lists, while one is being followed
    done = []  # ids of the path so far
    total = 0.0
    last = 0.0
    for step in range(STEPS):
        after_trigger = text.strip().endswith(TRIGGER)
        if after_trigger:
            if abs(last - confidence) < MARGIN:
                raise Close
            if last >= confidence:
                names = [n.strip() for n in answers[len(asked) % len(answers)] if n.strip()]
                asked.append(step)
                if any(n not in SKIPPED for n in names):
                    paths = []
                    for name in names:
                        if name not in cache:
                            cache[name] = encode(text + name)[len(encode(text)) :]
                        paths.append(cache[name])
                    done, total = [], 0.0
        probs = softmax(logits[step])
        if after_trigger:
            probs[TRIGGER_ID] = 0.0
        choice = None
        if paths is not None:
            here = [p for p in paths if p[: len(done)] == done]
            children = {p[len(done)] for p in here if len(p) > len(done)}
            if children:
                child, prob = best_of([(c, probs[c]) for c in children])
                is_end = bool(done) and done in here
                if is_end and more(total / len(done), (total + prob) / (len(done) + 1)):
                    pass
                else:
                    choice = child
                    done = done + [child]
                    total += prob
        if choice is None:
            choice, _ = best_of(list(enumerate(probs)))
            paths, done, total = None, [], 0.0
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
