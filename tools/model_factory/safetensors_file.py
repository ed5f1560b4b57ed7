"""Hugging Face checkpoints: plain safetensors, and MLX's affine quantisation inside them."""

import json
import math
import struct

import numpy as np

from moe_families import gpt_oss_stacks
from numeric import round_bf16, to_bf16, to_fp8, to_mxfp4
from tensors import Fp4Tensor, Fp8Tensor, HeadsOf, Stacked

SHARD_BYTES = 2 << 30  # a shard is closed after this many bytes
BYTES = {"BF16": 2, "F16": 2, "F32": 4, "U32": 4, "U8": 1, "F8_E4M3": 1}


def encode(x, dtype):
    if dtype == "BF16":
        return to_bf16(x)
    return x.astype({"F16": np.float16, "F32": np.float32, "U32": np.uint32}[dtype])


class Stored:
    """One tensor of the file: write(file) emits its bytes."""

    def __init__(self, name, dtype, shape, write):
        self.name, self.dtype, self.shape, self.write = name, dtype, tuple(shape), write

    @property
    def nbytes(self):
        return BYTES[self.dtype] * math.prod(self.shape)


def plain(tensor, seed, dtype):
    def write(file):
        for x in tensor.rows(seed):
            file.write(np.ascontiguousarray(encode(x, dtype)).data)

    return Stored(tensor.name, dtype, tensor.shape, write)


def fp8_parts(tensor, seed):
    """A matrix of E4M3 and its scales."""
    def write(file):
        for x in super(Fp8Tensor, tensor).rows(seed):
            file.write(np.ascontiguousarray(to_fp8(x)[0]).data)

    def write_scales(file):
        for x in super(Fp8Tensor, tensor).rows(seed):
            file.write(to_fp8(x)[1].tobytes())

    rows, cols = tensor.shape
    return [Stored(tensor.name, "F8_E4M3", tensor.shape, write),
            Stored(tensor.name + "_scale_inv", "F32", (-(-rows // 128), -(-cols // 128)), write_scales)]


def mxfp4(name, matrices, seed, blocks):
    """Codes and exponents of matrices behind each other: as gpt-oss's blocks, or as MLX's words."""
    rows, cols = matrices[0].shape

    def write(file):
        for m in matrices:
            codes = to_mxfp4(m.array(seed), m.exponent)
            file.write(np.ascontiguousarray(codes[:, 0::2] | (codes[:, 1::2] << 4)).data)

    def write_scales(file):
        for m in matrices:
            file.write(bytes([127 + m.exponent]) * (rows * cols // 32))

    n = len(matrices)
    if blocks:
        return [Stored(name + "_blocks", "U8", (n, rows, cols // 32, 16), write),
                Stored(name + "_scales", "U8", (n, rows, cols // 32), write_scales)]
    return [Stored(name + ".weight", "U32", (n, rows, cols // 8), write),
            Stored(name + ".scales", "U8", (n, rows, cols // 32), write_scales)]


class InTurns(Fp4Tensor):
    """The rows of two matrices in turns."""

    def __init__(self, parts):
        super().__init__("", (2 * parts[0].shape[0], *parts[0].shape[1:]), parts[0].std)
        self.parts = parts

    def array(self, seed):
        return np.stack([p.array(seed) for p in self.parts], 1).reshape(self.shape)


def gpt_oss(tensors, seed):
    """As published: experts in MXFP4, gate and up in turns, all else in bfloat16."""
    out = []
    for name, parts in gpt_oss_stacks(tensors):
        if not isinstance(parts, dict):
            out.append(plain(parts, seed, "BF16"))
            continue
        matrices = [InTurns(p) if len(p) > 1 else p[0] for p in parts.values()]
        if not name.endswith("_bias"):
            out += mxfp4(name, matrices, seed, blocks=True)
            continue
        def write(file, matrices=matrices):
            for m in matrices:
                file.write(to_bf16(m.array(seed)).data)
        out.append(Stored(name, "BF16", (len(matrices), *matrices[0].shape), write))
    return out


def quantize_affine(x, bits, group):
    """(codes, scales, biases) with value = scale * code + bias; scales and biases rounded to bfloat16."""
    grouped = x.reshape(x.shape[0], -1, group)
    low, high = grouped.min(-1), grouped.max(-1)
    scales = round_bf16((high - low) / (2**bits - 1))
    biases = round_bf16(low)
    step = np.where(scales == 0, np.float32(1), scales)[..., None]
    codes = np.clip(np.rint((grouped - biases[..., None]) / step), 0, 2**bits - 1).astype(np.uint8)
    return codes.reshape(x.shape), scales, biases


def pack(codes, bits):
    """Codes of one row after the other as a stream of bits, little end first, in 32-bit words."""
    planes = (codes[..., None] >> np.arange(bits, dtype=np.uint8)) & 1
    stream = np.packbits(planes.reshape(codes.shape[0], -1), axis=1, bitorder="little")
    return stream.view(np.uint32)


def affine(tensor, seed, bits, group):
    """The three tensors of a quantised matrix."""
    *rows, cols = tensor.shape
    stem = tensor.name.removesuffix("weight")

    def blocks():
        for x in tensor.rows(seed):
            yield quantize_affine(x, bits, group)

    def write_words(file):
        for codes, _, _ in blocks():
            file.write(np.ascontiguousarray(pack(codes, bits)).data)

    def write_scales(file):
        for _, scales, _ in blocks():
            file.write(to_bf16(scales).data)

    def write_biases(file):
        for _, _, biases in blocks():
            file.write(to_bf16(biases).data)

    return [Stored(tensor.name, "U32", (*rows, cols * bits // 32), write_words),
            Stored(stem + "scales", "BF16", (*rows, cols // group), write_scales),
            Stored(stem + "biases", "BF16", (*rows, cols // group), write_biases)]


def mixed_record(name):
    """What the mixed recipe does with a matrix: every width, two group sizes, one matrix left alone."""
    if "embed_tokens" in name or "lm_head" in name:
        return {"bits": 8, "group_size": 64}
    if "layers.0." in name and "o_proj" in name:
        return False
    for ending, record in (("switch_mlp.down_proj", (6, 64)), ("mlp.gate", (8, 64)), ("mlp.router", (8, 64)), ("moe.gate", (8, 32)),
                           ("shared_experts.down_proj", (5, 64)), ("q_a_proj", (4, 64)),
                           ("q_b_proj", (5, 32)), ("kv_a_proj_with_mqa", (6, 64)), ("embed_q", (8, 32)),
                           ("unembed_out", (8, 64)),
                           ("shared_expert_gate", (8, 64)), ("shared_expert.down_proj", (4, 64)),
                           ("in_proj_qkvz", (4, 64)), ("in_proj_ba", (5, 32)), ("q_proj", (4, 64)), ("k_proj", (5, 32)), ("v_proj", (6, 32)), ("o_proj", (3, 128)),
                           ("gate_proj", (4, 32)), ("up_proj", (2, 32)), ("down_proj", (6, 128)),
                           ("in_proj_qkv", (4, 64)), ("in_proj_z", (5, 32)), ("in_proj_b", (8, 64)),
                           ("in_proj_a", (6, 32)), ("out_proj", (3, 128)), ("in_proj", (5, 64)), ("w1", (4, 32)),
                           ("qkv_proj", (4, 64)), ("gate_up_proj", (3, 32)), ("w3", (6, 32)), ("w2", (4, 128))):
        if name.endswith(ending):
            return {"bits": record[0], "group_size": record[1]}
    raise ValueError(name)


def stored(tensors, seed, dtype, fp8=False):
    """As they are, in `dtype`; matrices of E4M3 as such where asked for, else as the float32 that they are."""
    out = []
    for t in tensors:
        if not isinstance(t, Fp8Tensor):
            out.append(plain(t, seed, dtype))
        elif fp8:
            out += fp8_parts(t, seed)
        else:
            out.append(plain(t, seed, "F32"))
    return out


def quantized(tensors, seed, bits, group):
    """(stored tensors, quantization record of config.json); bits None: the mixed recipe."""
    record = {"group_size": group, "bits": bits or 4, "mode": "affine"}
    out = []
    names = {t.name for t in tensors}
    for t in tensors:
        module = t.name.removesuffix(".weight")
        # mlx-lm's routers with a correction beside them cannot be quantised
        if t.name.endswith(".bias") or module + ".e_score_correction_bias" in names:
            out.append(plain(t, seed, "BF16"))
            continue
        if isinstance(t, Stacked) and isinstance(t.parts[0], Fp4Tensor):
            record[module] = {"group_size": 32, "bits": 4, "mode": "mxfp4"}
            out += mxfp4(module, t.parts, seed, blocks=False)
            continue
        matrix = len(t.shape) == 2 or isinstance(t, (Stacked, HeadsOf))
        own = mixed_record(module) if bits is None and matrix else {"bits": bits, "group_size": group}
        if bits is None and matrix:
            record[module] = own
        if not matrix or own is False:
            out.append(plain(t, seed, "BF16"))
        else:
            out += affine(t, seed, own["bits"], own["group_size"])
    return out, record


def write(stored, out):
    """Writes shards and, for more than one, the index."""
    shards, size = [[]], 0
    for t in stored:
        if shards[-1] and size + t.nbytes > SHARD_BYTES:
            shards.append([])
            size = 0
        shards[-1].append(t)
        size += t.nbytes
    index = {}
    for i, shard in enumerate(shards):
        name = "model.safetensors" if len(shards) == 1 else f"model-{i + 1:05d}-of-{len(shards):05d}.safetensors"
        header, offset = {"__metadata__": {"format": "pt"}}, 0
        for t in shard:
            header[t.name] = {"dtype": t.dtype, "shape": list(t.shape), "data_offsets": [offset, offset + t.nbytes]}
            index[t.name] = name
            offset += t.nbytes
        blob = json.dumps(header, separators=(",", ":")).encode()
        blob += b" " * (-len(blob) % 8)
        with open(out / name, "wb") as file:
            file.write(struct.pack("<Q", len(blob)) + blob)
            for t in shard:
                t.write(file)
            assert file.tell() == 8 + len(blob) + offset, f"{name}: size mismatch"
    if len(shards) > 1:
        total = sum(t.nbytes for t in stored)
        (out / "model.safetensors.index.json").write_text(json.dumps(
            {"metadata": {"total_size": total}, "weight_map": dict(sorted(index.items()))}, indent=2) + "\n")
