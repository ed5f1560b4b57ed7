#!/usr/bin/env python3
"""Writes gguf_rows.txt: blocks of random bytes in each GGUF format and what the `gguf` package makes of them.

Run in an environment with gguf and numpy:  python3 make_gguf_rows.py > gguf_rows.txt
A line: format, number of values, the blocks in hex, the float32 values in hex (little endian).
"""
import gguf
import numpy as np

SCALES_AT = {"Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q8_0": [0], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208],
             "Q5_1": [0, 2], "Q2_K": [80, 82], "Q3_K": [108], "IQ4_NL": [0], "IQ4_XS": [0], "MXFP4": []}

rng = np.random.default_rng(7)
for name, offsets in SCALES_AT.items():
    kind = gguf.GGMLQuantizationType[name]
    inputs, size = gguf.GGML_QUANT_SIZES[kind]
    n_blocks = 512 // inputs
    blocks = rng.integers(0, 256, (n_blocks, size), dtype=np.uint8)
    for at in offsets:
        scales = rng.normal(0, 0.05, n_blocks).astype(np.float16)
        blocks[:, at : at + 2] = scales.view(np.uint8).reshape(n_blocks, 2)
    if name == "MXFP4":
        blocks[:, 0] = rng.integers(100, 150, n_blocks, dtype=np.uint8)
    values = gguf.quants.dequantize(blocks.reshape(1, -1), kind).astype("<f4")
    print(name, values.size, blocks.tobytes().hex(), values.tobytes().hex())
