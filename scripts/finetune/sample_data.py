"""Small data and models for the tests: functions of our own in the form `tether augment` writes."""

import json
from pathlib import Path

import torch

MODELS = Path(__file__).resolve().parents[2] / "tests" / "data" / "models"
torch.set_num_threads(1)  # models this small gain nothing from a second one, and sums stay in order
NAMES = ("sold", "shelf", "price", "label", "crate", "owner", "weight", "origin")


def records(count: int) -> list[dict]:
    out = []
    for number in range(count):
        name, other = NAMES[number % 8], NAMES[(number // 8 + 3) % 8]
        prefix = f"def {name}_{number}(self):\n    '''The {name} and <COMP> {other}.'''\n"
        body = f"    if self.{name} > {number}:\n        return self.{other}()\n    return {number}"
        out.append(
            {
                "repo": f"owner/repo{number % 3}",
                "file_path": "stock.py",
                "function_name": f"{name}_{number}",
                "prefix": prefix,
                "body": body,
                "augmented_prefix": prefix,
                "augmented_body": body.replace("self.", "self.<COMP>"),
            }
        )
    return out


def write(folder: Path, n_train: int = 24, n_valid: int = 6) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    everything = records(n_train + n_valid)
    parts = {"train": everything[:n_train], "valid": everything[n_train:]}
    for name, part in parts.items():
        lines = "".join(json.dumps(record) + "\n" for record in part)
        (folder / f"{name}.jsonl").write_text(lines, encoding="utf-8")
    (folder / "statistics.json").write_text('{"settings": {"trigger": "<COMP>"}}', encoding="utf-8")
    return folder
