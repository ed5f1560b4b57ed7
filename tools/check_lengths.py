#!/usr/bin/env python3
"""Fails when a source file is longer than 800 lines; names those over 500, which should be split."""
import pathlib
import subprocess
import sys

SPLIT, FAIL = 500, 800
ENDINGS = {".cpp", ".h", ".rs", ".py", ".cmake", ".sh"}
# Tables may be long: they hold one idea.
TABLES = set()

root = pathlib.Path(__file__).resolve().parent.parent
files = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=root,
                       capture_output=True, text=True, check=True).stdout.split("\n")
failed = False
for name in files:
    path = root / name
    if path.suffix not in ENDINGS or name in TABLES or not path.is_file():
        continue
    lines = len(path.read_text(encoding="utf-8").splitlines())
    if lines > SPLIT:
        print(f"{name}: {lines} lines{', over the limit of ' + str(FAIL) if lines > FAIL else ', split by 500'}")
        failed |= lines > FAIL
print("lengths too long" if failed else "lengths ok")
sys.exit(failed)
