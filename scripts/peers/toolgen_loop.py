"""ToolGen's decoding loop written plainly over transformers and Jedi, timed on the functions of a guided bench.

    .venv-guided/bin/python scripts/peers/toolgen_loop.py --run .cache/eval/guided \\
        --projects .cache/eval/projects --threads 2 --functions 30

The same prompts, the same model (dequantised to float32, or to bfloat16 with --bf16) and the same limit of
tokens as `tether bench guided --out RUN` used, which left them in its folder; the outcome goes there as
peer.jsonl. Every dot on a value stands for a trigger, since the model was not trained to emit one; the rest
follows the published rule: candidates of the tool, each tokenised behind the text, a trie over their tokens,
the likeliest child at each node, and the mean-probability rule at the end of a candidate.
"""

import argparse
import json
import statistics
import time
from pathlib import Path

import jedi
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer


class Loop:
    def __init__(self, model_file: Path, bf16: bool):
        folder, name = str(model_file.parent), model_file.name
        self.tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file=name)
        dtype = torch.bfloat16 if bf16 else torch.float32
        self.model = AutoModelForCausalLM.from_pretrained(
            folder, gguf_file=name, dtype=dtype
        ).eval()
        self.ends = {
            self.tokenizer.eos_token_id,
            self.tokenizer.convert_tokens_to_ids("<|im_end|>"),
        }

    def names(
        self, before: str, written: str, after: str, path: Path, project: jedi.Project
    ) -> list[str]:
        text = before + written
        line, column = text.count("\n") + 1, len(text) - (text.rfind("\n") + 1)
        script = jedi.Script(text + after, path=path, project=project)
        return [c.name for c in script.complete(line, column)]

    def trie(self, names: list[str]) -> dict:
        root: dict = {}
        for name in names:
            node = root
            for token in self.tokenizer.encode(name, add_special_tokens=False):
                node = node.setdefault(token, {})
            node["end"] = True
        return root

    @torch.inference_mode()
    def write(
        self, prompt: dict, text: str, path: Path, project: jedi.Project
    ) -> tuple[str, int, int]:
        before, after = text[: prompt["body_start"]], text[prompt["body_end"] :]
        ids = torch.tensor([prompt["ids"]])
        cache, written, node = None, "", None
        n_tokens = n_asked = 0
        total = 0.0
        depth = 0
        tokens: list[int] = []
        while n_tokens < prompt["max_tokens"]:
            out = self.model(ids, past_key_values=cache, use_cache=True)
            cache = out.past_key_values
            probs = torch.softmax(out.logits[0, -1].float(), dim=-1)
            token = None
            if node is not None:
                children = [t for t in node if t != "end"]
                if children:
                    best = max(children, key=lambda t: probs[t].item())
                    p = probs[best].item()
                    ends = "end" in node and depth > 0 and total / depth > (total + p) / (depth + 1)
                    if not ends:
                        token, node, total, depth = best, node[best], total + p, depth + 1
            if token is None:
                node = None
                token = int(probs.argmax())
            if token in self.ends:
                break
            tokens.append(token)
            n_tokens += 1
            written = self.tokenizer.decode(tokens)
            if self.is_over(written, prompt["indent"]):
                break
            ids = torch.tensor([[token]])
            if node is None and written.endswith(".") and self.is_value(written[:-1]):
                n_asked += 1
                names = self.names(before, written, after, path, project)
                if names:
                    node, total, depth = self.trie(names), 0.0, 0
        return written, n_tokens, n_asked

    @staticmethod
    def is_value(text: str) -> bool:
        return bool(text) and (text[-1].isidentifier() or text[-1] in ")]")

    @staticmethod
    def is_over(written: str, indent: str) -> bool:
        """A line that is indented less than the body ends it."""
        lines = written.split("\n")[1:]
        return any(line.strip() and not line.startswith(indent) for line in lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--run", type=Path, required=True)
    parser.add_argument("--projects", type=Path, required=True)
    parser.add_argument("--functions", type=int, default=30)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--bf16", action="store_true")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    loop = Loop(Path(json.loads((args.run / "guided.json").read_text())["model_path"]), args.bf16)
    prompts = [json.loads(line) for line in (args.run / "prompts.jsonl").read_text().splitlines()]
    stride = max(1, len(prompts) // args.functions)
    ratios, rows = [], []
    projects: dict[str, jedi.Project] = {}
    for prompt in prompts[::stride][: args.functions]:
        path = args.projects / prompt["file"]
        raw = path.read_bytes()
        # Offsets are bytes.
        text = raw.decode()
        for key in ("body_start", "body_end"):
            prompt[key] = len(raw[: prompt[key]].decode())
        project = projects.setdefault(
            prompt["package"], jedi.Project(args.projects / prompt["package"])
        )
        started = time.perf_counter()
        _, n_tokens, n_asked = loop.write(prompt, text, path, project)
        ms = (time.perf_counter() - started) * 1e3
        ratios.append(ms / prompt["our_ms"])
        rows.append(
            {
                "function": prompt["function"],
                "ms": ms,
                "tokens": n_tokens,
                "asked": n_asked,
                "our_ms": prompt["our_ms"],
                "ratio": ms / prompt["our_ms"],
            }
        )
    (args.run / "peer.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    print(
        f"{len(rows)} functions: {statistics.median(r['ms'] for r in rows):.0f} ms a function, "
        f"{statistics.median(ratios):.1f} times ours (medians)"
    )


if __name__ == "__main__":
    main()
