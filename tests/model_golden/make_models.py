#!/usr/bin/env python3
"""Makes the models of cases.json below a folder (of the build tree): DIR/<name>.

    python3 tests/model_golden/make_models.py DIR

A model that is there already and was made by the same recipe and factory is kept. Needs numpy only.
"""

import hashlib
import json
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
FACTORY = HERE.parents[1] / "tools" / "model_factory"


def read_cases():
    return json.loads((HERE / "cases.json").read_text())["cases"]


def make(case, out):
    command = [sys.executable, str(FACTORY), "--family", case["family"], "--format", case["format"], "--out", str(out)]
    for option in ("seed", "group"):
        if option in case:
            command += [f"--{option}", str(case[option])]
    if "config" in case:
        command += ["--config", json.dumps(case["config"])]
    if case.get("multimodal"):
        command.append("--multimodal")
    subprocess.run(command, check=True)


def recipe_digest(case):
    digest = hashlib.sha256(json.dumps(case).encode())
    for source in sorted(FACTORY.glob("*.py")):
        digest.update(source.read_bytes())
    return digest.hexdigest()


def main():
    root = Path(sys.argv[1])
    for case in read_cases():
        out, stamp = root / case["name"], root / case["name"] / "made_by"
        digest = recipe_digest(case)
        if stamp.exists() and stamp.read_text() == digest:
            continue
        shutil.rmtree(out, ignore_errors=True)
        make(case, out)
        stamp.write_text(digest)


if __name__ == "__main__":
    main()
