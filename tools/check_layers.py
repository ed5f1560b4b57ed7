#!/usr/bin/env python3
"""Fail when a file in src/ includes a folder that tools/layers.txt does not allow."""
import pathlib, re, sys

root = pathlib.Path(__file__).resolve().parent.parent
allowed = {}
for line in (root / "tools/layers.txt").read_text().splitlines():
    if line.strip() and not line.startswith("#"):
        folder, _, rest = line.partition(":")
        allowed[folder.strip()] = set(rest.split())

errors = []
for path in sorted((root / "src").rglob("*.[ch]pp")) + sorted((root / "src").rglob("*.h")):
    parts = path.relative_to(root / "src").parts
    if len(parts) < 2:
        continue  # main.cpp
    folder, ok = parts[0], allowed.get(parts[0])
    if ok is None:
        errors.append(f"{path}: folder '{folder}' is not in tools/layers.txt")
        continue
    for number, line in enumerate(path.read_text().splitlines(), 1):
        hit = re.match(r'\s*#include\s*["<]([a-z_]+)/([^">]+)', line)
        if not hit or hit[1] == folder:
            continue
        name, full = hit[1], f"{hit[1]}/{hit[2]}"
        if (name in allowed or name == "mlx") and not {name, full} & ok:
            errors.append(f"{path}:{number}: {folder}/ may not include {full}")
print("\n".join(errors) or "layers ok")
sys.exit(bool(errors))
