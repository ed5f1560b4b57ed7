"""Conversions between float32 and the 16-bit formats."""

import numpy as np


def to_bf16(x):
    """float32 -> uint16 bfloat16 bits, round to nearest even."""
    u = np.ascontiguousarray(x, np.float32).view(np.uint32)
    return ((u + (((u >> 16) & 1) + np.uint32(0x7FFF))) >> 16).astype(np.uint16)


def from_bf16(u):
    return (u.astype(np.uint32) << 16).view(np.float32)


def round_bf16(x):
    return from_bf16(to_bf16(x))


def round_f16(x):
    return x.astype(np.float16).astype(np.float32)
