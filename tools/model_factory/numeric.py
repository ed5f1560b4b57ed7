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


FP4 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], np.float32)  # E2M1
FP8 = np.array([(m / 8 * 2.0**-6 if e == 0 else (1 + m / 8) * 2.0 ** (e - 7)) for e in range(16) for m in range(8)][:-1],
               np.float32)  # E4M3, 0 to 448


def nearest(x, table):
    """Number of the nearest entry of an ascending table of numbers from 0 on, for |x|."""
    return np.searchsorted((table[1:] + table[:-1]) / 2, np.abs(x)).astype(np.uint8)


def to_mxfp4(x, exponent):
    """E2M1 codes of x / 2^exponent."""
    return nearest(x / np.float32(2.0**exponent), FP4) | (np.signbit(x).astype(np.uint8) << 3)


def from_mxfp4(codes, exponent):
    return FP4[codes & 7] * np.where(codes & 8, np.float32(-1), np.float32(1)) * np.float32(2.0**exponent)


def to_fp8(x):
    """E4M3 bytes of [rows, cols], a multiple of 128 rows or all of them, and a float32 scale per 128 x 128."""
    rows, cols = x.shape
    padded = np.zeros((-(-rows // 128) * 128, -(-cols // 128) * 128), np.float32)
    padded[:rows, :cols] = x
    blocks = padded.reshape(padded.shape[0] // 128, 128, padded.shape[1] // 128, 128)
    scales = (np.abs(blocks).max(axis=(1, 3)) / np.float32(448)).astype(np.float32)
    q = (blocks / scales[:, None, :, None]).reshape(padded.shape)[:rows, :cols]
    return nearest(q, FP8) | (np.signbit(q).astype(np.uint8) << 7), scales


def from_fp8(codes, scales):
    values = FP8[codes & 127] * np.where(codes & 128, np.float32(-1), np.float32(1))
    spread = np.repeat(np.repeat(scales, 128, 0), 128, 1)[: codes.shape[0], : codes.shape[1]]
    return (values * spread).astype(np.float32)


def round_f16(x):
    return x.astype(np.float16).astype(np.float32)
