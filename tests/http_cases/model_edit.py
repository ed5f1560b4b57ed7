"""Copies a model directory and edits or damages the copy, as a case's copy_model step says."""

import json
import os
import pathlib
import shutil


def document_end_token(folder):
    """Id of the token that ends a document, which is not the one that ends a turn."""
    tokens = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))["added_tokens"]
    ids = {t["content"]: t["id"] for t in tokens}
    return ids["<|endoftext|>"]


def copy_model(source, target, step):
    """Links the files of `source` into `target` (a new folder), then applies step["edit"] or step["damage"]."""
    source, target = pathlib.Path(source), pathlib.Path(target)
    target.mkdir()
    for file in source.iterdir():
        os.symlink(file.resolve(), target / file.name)
    if "edit" in step:
        if step["edit"] != "generation_config.json: eos_token_id = only the document end token":
            raise ValueError(f"unknown edit {step['edit']!r}")
        (target / "generation_config.json").unlink(missing_ok=True)
        (target / "generation_config.json").write_text(json.dumps({"eos_token_id": document_end_token(source)}))
    if "damage" in step:
        file = sorted(target.glob("*.safetensors"))[0]
        original = file.resolve()
        file.unlink()
        shutil.copyfile(original, file)
        os.truncate(file, original.stat().st_size * 3 // 4)
