#!/usr/bin/env python3
"""Fails when a source file is not ASCII, or any file is over 500 KB, has trailing blanks or holds a private key."""
import pathlib
import re
import subprocess
import sys

LIMIT_BYTES = 500_000
# What models write in other languages, to be read by who knows them.
OTHER_LANGUAGES = {"src/parsers/minimax_tagless.cpp"}
SOURCES = {".cpp", ".h", ".rs", ".py", ".cmake", ".sh", ".toml"}

root = pathlib.Path(__file__).resolve().parent.parent
files = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=root,
                       capture_output=True, text=True, check=True).stdout.split("\n")
problems = []
for name in filter(None, files):
    path = root / name
    if not path.is_file():
        continue
    data = path.read_bytes()
    if len(data) > LIMIT_BYTES:
        problems.append(f"{name}: {len(data)} bytes, the limit is {LIMIT_BYTES}")
    if re.search(rb"-----BEGIN [A-Z ]*PRIVATE KEY-----", data):
        problems.append(f"{name}: holds a private key")
    if path.suffix in SOURCES:
        for number, line in enumerate(data.split(b"\n"), 1):
            if not line.isascii() and name not in OTHER_LANGUAGES:
                problems.append(f"{name}:{number}: not ASCII")
            if line != line.rstrip():
                problems.append(f"{name}:{number}: blanks at the end of the line")
print("\n".join(problems) or "text ok")
sys.exit(bool(problems))
