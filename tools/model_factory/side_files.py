"""Everything of a model directory but the weights: config, tokenizer, template, generation defaults."""

import json
import re
from pathlib import Path

FIXTURES = Path(__file__).resolve().parents[2] / "tests" / "fixtures" / "tokenizers"

# Per tokenizer: end tokens (the config's own first), begin token, sampling defaults as published.
ROLES = {
    "llama": (["<|end_of_text|>", "<|eom_id|>", "<|eot_id|>"], "<|begin_of_text|>", dict(temperature=0.6, top_p=0.9)),
    "qwen3": (["<|im_end|>", "<|endoftext|>"], "<|endoftext|>", dict(temperature=0.6, top_k=20, top_p=0.95)),
    "gemma3": (["<eos>", "<end_of_turn>"], "<bos>", dict(top_k=64, top_p=0.95)),
}


class Tokenizer:
    """The files of one tokenizer fixture."""

    def __init__(self, name, template=None):
        folder = FIXTURES / name
        self.name = name
        self.json_text = (folder / "tokenizer.json").read_text(encoding="utf-8")
        self.json = json.loads(self.json_text)
        self.config_text = (folder / "tokenizer_config.json").read_text(encoding="utf-8")
        self.config = json.loads(self.config_text)
        path = template or folder / "chat_template.jinja"
        self.template = path.read_text(encoding="utf-8") if path.exists() else None
        self.added = {a["content"]: a for a in self.json["added_tokens"]}
        self.ids = {**self.json["model"]["vocab"], **{t: a["id"] for t, a in self.added.items()}}

    @property
    def padded_size(self):
        """Rows of an embedding for it: a few of padding, as published models have."""
        return -(-(max(self.ids.values()) + 1) // 64) * 64

    def eos_ids(self):
        return [self.ids[t] for t in ROLES[self.name][0] if t in self.ids]

    def bos_id(self):
        return self.ids.get(ROLES[self.name][1])

    def pad_id(self):
        pad = self.config.get("pad_token")
        return self.ids.get(pad) if pad else None

    def merges(self):
        return [m if isinstance(m, list) else m.split(" ") for m in self.json["model"]["merges"]]

    def types(self, size):
        """GGUF's tokens and token types for ids 0 .. size - 1."""
        by_id = {i: t for t, i in self.ids.items()}
        out = []
        for i in range(size):
            token = by_id.get(i)
            if token is None:
                out.append((f"[PAD{i}]", 5))
            elif token in self.added:
                out.append((token, 3 if self.added[token]["special"] else 4))
            elif re.fullmatch(r"<0x[0-9A-F]{2}>", token):
                out.append((token, 6))
            else:
                out.append((token, 1))
        return out


def add_token_ids(config, tokenizer):
    config["bos_token_id"] = tokenizer.bos_id()
    eos = tokenizer.eos_ids()
    config["eos_token_id"] = eos[0] if tokenizer.name == "qwen3" else eos
    if tokenizer.name == "gemma3":
        config["pad_token_id"] = tokenizer.pad_id()


def dump(path, value):
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def write(config, tokenizer, out):
    dump(out / "config.json", {k: config[k] for k in sorted(config)})
    (out / "tokenizer.json").write_text(tokenizer.json_text, encoding="utf-8")
    (out / "tokenizer_config.json").write_text(tokenizer.config_text, encoding="utf-8")
    if tokenizer.template:
        (out / "chat_template.jinja").write_text(tokenizer.template, encoding="utf-8")
    generation = {"bos_token_id": tokenizer.bos_id(), "do_sample": True, "eos_token_id": tokenizer.eos_ids(),
                  "transformers_version": "4.57.1", **ROLES[tokenizer.name][2]}
    if tokenizer.pad_id() is not None:
        generation["pad_token_id"] = tokenizer.pad_id()
    dump(out / "generation_config.json", generation)
