"""The comparison of augmentations names the right cause, and the reference repeats its golden."""

import copy
import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SCRIPTS = Path(__file__).resolve().parents[1]
DATA = SCRIPTS.parent / "tests/data/augment"
GOLDEN = DATA / "compat.jsonl"
ANSWERS = DATA / "compat.answers.jsonl"


def write(folder, name, records):
    path = Path(folder, name)
    path.write_text("".join(json.dumps(r) + "\n" for r in records), encoding="utf-8")
    return path


def read(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


class Comparison(unittest.TestCase):
    def check(self, change, expected, change_answers=None, more=()):
        """What a change of one function of the golden is taken for."""
        records, answers = read(GOLDEN), read(ANSWERS)
        at = next(i for i, r in enumerate(records) if r["function_name"] == "joined_lines")
        changed = copy.deepcopy(records)
        change(changed[at], changed)
        if change_answers:
            change_answers(answers[at + 1])
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder, "out.json")
            command = [sys.executable, str(SCRIPTS / "eval/augment_compat.py"), str(GOLDEN)]
            command += [str(write(folder, "other.jsonl", changed)), "--out", str(out)]
            command += ["--answers", str(ANSWERS), *more]
            if "--same-answers" not in more:
                command += ["--other-answers", str(write(folder, "answers.jsonl", answers))]
            run = subprocess.run(command, capture_output=True, text=True, check=False)
            self.assertEqual(run.returncode, 0 if "--least" not in more else 1, run.stderr)
            result = json.loads(out.read_text(encoding="utf-8"))
        counts = {kind: n for kind, n in result["classes"].items() if n and kind != "identical"}
        self.assertEqual(counts, expected)
        return result

    def test_equal_files_are_identical(self):
        result = self.check(lambda record, records: None, {})
        self.assertEqual(result["identical_share"], 1.0)
        totals = result["totals"]
        self.assertEqual(
            totals["of these, with the same names"], totals["markers of the reference"]
        )

    def test_a_missing_function_is_extraction(self):
        self.check(lambda record, records: records.remove(record), {"extraction": 1})

    def test_a_function_elsewhere_is_extraction_on_both_sides(self):
        def move(record, records):
            record["line"] += 1

        self.check(move, {"extraction": 1})
        self.check(move, {"extraction": 2}, more=["--all-functions"])

    def test_other_code_is_cleaning_and_says_where(self):
        def spoil(record, records):
            record["code"] = record["code"].replace("+        extra", "+ extra")

        [difference] = self.check(spoil, {"cleaning": 1})["differences"]
        self.assertEqual(difference["field"], "code")
        self.assertTrue(difference["reference"].endswith("+        extra\n    return total"))

    def test_a_marker_less_is_the_tool_where_both_asked_the_same(self):
        [difference] = self.check(lose_marker, {"tool": 1})["differences"]
        self.assertEqual([m["item"] for m in difference["markers"]], ["extra"])

    def test_a_marker_less_is_the_position_where_the_cursor_was_another(self):
        def drift(answers):
            for question in answers["questions"]:
                question["column"] += 1

        self.check(lose_marker, {"position": 1}, drift)
        self.check(lose_marker, {"position": 1}, more=["--same-answers"])

    def test_another_example_is_the_builder(self):
        def reject(record, records):
            record.pop("prefix")
            record["rejected"] = "signature"

        self.check(reject, {"builder": 1}, more=["--least", "1"])

    def test_other_names_behind_a_marker_are_counted_beside_it(self):
        def add(record, records):
            record["lsp_dict"]["<LSP-POINT-1>"].append("more")

        totals = self.check(add, {})["totals"]
        missing = totals["markers on both sides"] - totals["of these, with the same names"]
        self.assertEqual(missing, 1)

    def test_the_folder_of_a_run_is_read_whole_and_its_rules_are_those_of_the_reference(self):
        records = read(GOLDEN)
        for record in records:
            if record.get("rejected") == "code_single_line":
                record["rejected"] = "single_line"
        self.assertIn("single_line", [record.get("rejected") for record in records])
        with tempfile.TemporaryDirectory() as folder:
            write(folder, "train.jsonl", records[::3])
            write(folder, "valid.jsonl", records[1::3])
            write(folder, "test.jsonl", [r for r in records[2::3] if "rejected" not in r])
            write(folder, "rejected.jsonl", [r for r in records[2::3] if "rejected" in r])
            command = [sys.executable, str(SCRIPTS / "eval/augment_compat.py"), str(GOLDEN)]
            command += [folder, "--out", str(Path(folder, "out.json")), "--least", "1"]
            subprocess.run(command, capture_output=True, check=True)


def lose_marker(record, records):
    name = next(m for m in record["lsp_dict"] if f"{m}extra" in record["augmented_code"])
    record["augmented_code"] = record["augmented_code"].replace(name, "")
    del record["lsp_dict"][name]


@unittest.skipUnless(sys.version_info[:2] == (3, 11), "the golden's items are those of Python 3.11")
class Reference(unittest.TestCase):
    def test_replayed_answers_give_the_golden(self):
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder, "out.jsonl")
            command = [sys.executable, str(SCRIPTS / "golden/toolgen_augment.py")]
            command += [str(DATA / "library"), "--replay", str(ANSWERS), "--out", str(out)]
            subprocess.run(command, capture_output=True, check=True)
            self.assertEqual(out.read_bytes(), GOLDEN.read_bytes())


if __name__ == "__main__":
    unittest.main()
