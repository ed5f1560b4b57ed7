"""Quantisers of GGUF's block formats, simple rather than best: the layouts are ggml's (ggml-common.h), the scales
plain extremes. Each takes float32 rows whose length is a multiple of the block and returns bytes, row by row."""

import numpy as np

from numeric import FP4, nearest, round_f16, to_bf16

SUPER = 256  # elements of a K-quant block


def f16_bytes(x):
    """[n] -> [n, 2] bytes."""
    return np.ascontiguousarray(x.astype(np.float16)).view(np.uint8).reshape(-1, 2)


def inverse(d):
    return np.where(d == 0, np.float32(0), np.float32(1) / np.where(d == 0, np.float32(1), d))


def nibbles(q):
    """[n, 32] codes -> [n, 16] bytes, the first half in the low nibbles."""
    return q[:, :16] | (q[:, 16:] << 4)


def largest(b):
    """The element of largest magnitude of each row, with its sign."""
    return np.take_along_axis(b, np.abs(b).argmax(-1)[:, None], -1)[:, 0]


def q8_0(x):
    b = x.reshape(-1, 32)
    d = round_f16(np.abs(b).max(-1) / 127)
    q = np.clip(np.rint(b * inverse(d)[:, None]), -127, 127).astype(np.int8)
    return np.concatenate([f16_bytes(d), q.view(np.uint8)], axis=1)


def q4_0(x):
    b = x.reshape(-1, 32)
    d = round_f16(largest(b) / -8)
    q = np.clip(np.rint(b * inverse(d)[:, None]) + 8, 0, 15).astype(np.uint8)
    return np.concatenate([f16_bytes(d), nibbles(q)], axis=1)


def q4_1(x):
    b = x.reshape(-1, 32)
    low = round_f16(b.min(-1))
    d = round_f16((b.max(-1) - low) / 15)
    q = np.clip(np.rint((b - low[:, None]) * inverse(d)[:, None]), 0, 15).astype(np.uint8)
    return np.concatenate([f16_bytes(d), f16_bytes(low), nibbles(q)], axis=1)


def q5_0(x):
    b = x.reshape(-1, 32)
    d = round_f16(largest(b) / -16)
    q = np.clip(np.rint(b * inverse(d)[:, None]) + 16, 0, 31).astype(np.uint8)
    high = np.packbits(q >> 4, axis=1, bitorder="little")
    return np.concatenate([f16_bytes(d), high, nibbles(q & 15)], axis=1)


def k_scales(b, levels):
    """Sub-blocks [n, 8, 32] with 6-bit scales and minima: d, dmin [n], sc, m [n, 8], codes [n, 8, 32]."""
    low = np.minimum(b.min(-1), 0)
    scale = (b.max(-1) - low) / levels
    d, dmin = round_f16(scale.max(-1) / 63), round_f16((-low).max(-1) / 63)
    sc = np.clip(np.rint(scale * inverse(d)[:, None]), 0, 63).astype(np.uint8)
    m = np.clip(np.rint(-low * inverse(dmin)[:, None]), 0, 63).astype(np.uint8)
    step, shift = d[:, None] * sc, dmin[:, None] * m
    codes = np.rint((b + shift[..., None]) * inverse(step)[..., None])
    return d, dmin, sc, m, np.clip(codes, 0, levels).astype(np.uint8)


def pack_k_scales(sc, m):
    """Eight 6-bit scales and minima in 12 bytes: four of each plain, the others split into low nibbles and high bits."""
    first = sc[:, :4] | ((sc[:, 4:] >> 4) << 6)
    second = m[:, :4] | ((m[:, 4:] >> 4) << 6)
    third = (sc[:, 4:] & 15) | ((m[:, 4:] & 15) << 4)
    return np.concatenate([first, second, third], axis=1)


def pack_k_nibbles(q):
    """[n, 8, 32] codes of 4 bits: sub-blocks 2 j and 2 j + 1 share 32 bytes."""
    return (q[:, 0::2] | (q[:, 1::2] << 4)).reshape(-1, 128)


def q4_k(x):
    d, dmin, sc, m, q = k_scales(x.reshape(-1, 8, 32), 15)
    return np.concatenate([f16_bytes(d), f16_bytes(dmin), pack_k_scales(sc, m), pack_k_nibbles(q)], axis=1)


def q5_k(x):
    d, dmin, sc, m, q = k_scales(x.reshape(-1, 8, 32), 31)
    shift = np.arange(8, dtype=np.uint8)[None, :, None]
    high = np.bitwise_or.reduce((q >> 4) << shift, axis=1)  # bit s of byte i: fifth bit of element i of sub-block s
    return np.concatenate([f16_bytes(d), f16_bytes(dmin), pack_k_scales(sc, m), high, pack_k_nibbles(q & 15)], axis=1)


def q6_k(x):
    b = x.reshape(-1, 16, 16)
    n = b.shape[0]
    scale = largest(b.reshape(-1, 16)).reshape(n, 16) / -32  # the largest element of each 16 becomes -32
    d = round_f16(largest(scale) / -128)
    sc = np.clip(np.rint(scale * inverse(d)[:, None]), -128, 127).astype(np.int8)
    step = sc.astype(np.float32) * d[:, None]
    q = (np.clip(np.rint(b * inverse(step)[..., None]), -32, 31) + 32).astype(np.uint8)
    q = q.reshape(n, 2, 4, 32)  # halves of 128 elements, four runs of 32
    low = (q[:, :, [0, 1]] & 15) | ((q[:, :, [2, 3]] & 15) << 4)
    high = (q[:, :, 0] >> 4) | ((q[:, :, 1] >> 4) << 2) | ((q[:, :, 2] >> 4) << 4) | ((q[:, :, 3] >> 4) << 6)
    return np.concatenate([low.reshape(n, 128), high.reshape(n, 64), sc.view(np.uint8), f16_bytes(d)], axis=1)


def mxfp4(x):
    """E2M1 with the power of 2 that takes the largest magnitude to 4 or above, ggml's quantize_row_mxfp4."""
    b = x.reshape(-1, 32)
    largest_magnitude = np.abs(b).max(-1)
    exponent = np.where(largest_magnitude > 0, np.floor(np.log2(np.maximum(largest_magnitude, 1e-30))) - 2, -127)
    codes = nearest(b / np.exp2(exponent)[:, None].astype(np.float32), FP4) | (np.signbit(b).astype(np.uint8) << 3)
    return np.concatenate([(exponent + 127).astype(np.uint8)[:, None], nibbles(codes)], axis=1)


# name -> (ggml type id, elements a block, bytes a block, quantiser)
FORMATS = {
    "F32": (0, 1, 4, lambda x: x.astype(np.float32)),
    "F16": (1, 1, 2, lambda x: x.astype(np.float16)),
    "Q4_0": (2, 32, 18, q4_0),
    "Q4_1": (3, 32, 20, q4_1),
    "Q5_0": (6, 32, 22, q5_0),
    "Q8_0": (8, 32, 34, q8_0),
    "Q4_K": (12, SUPER, 144, q4_k),
    "Q5_K": (13, SUPER, 176, q5_k),
    "Q6_K": (14, SUPER, 210, q6_k),
    "BF16": (30, 1, 2, to_bf16),
    "MXFP4": (39, 32, 17, mxfp4),
}
# What a row takes whose length is no multiple of the block: llama-quantize's choices, but for Q5_K's Q5_1.
FALLBACK = {"Q4_K": "Q5_0", "Q5_K": "Q8_0", "Q6_K": "Q8_0"}


def format_for(name, row_length):
    while row_length % FORMATS[name][1]:
        name = FALLBACK.get(name, "BF16")
    return name
