#!/usr/bin/env python3
"""The factory's own tests: run this file with a python3 that has numpy."""

import hashlib
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import numpy as np  # noqa: E402

import families  # noqa: E402
import ggml_quants  # noqa: E402
import numeric  # noqa: E402
import safetensors_file  # noqa: E402


def f16(raw):
    return float(np.frombuffer(bytes(raw), np.float16)[0])


def k_scale(packed, i):
    """Scale and minimum of sub-block i of a K-quant block, out of its 12 bytes (ggml-common.h)."""
    if i < 4:
        return packed[i] & 63, packed[i + 4] & 63
    return (packed[i + 4] & 15) | (packed[i - 4] >> 6) << 4, packed[i + 4] >> 4 | (packed[i] >> 6) << 4


# One decoder a format, element by element from the layout in ggml-common.h: slow, and judge of the quantisers.
def decode_q8_0(b):
    return [f16(b[:2]) * np.int8(v) for v in b[2:34].view(np.int8)]


def decode_q4_0(b):
    return [f16(b[:2]) * ((int(b[2 + i % 16]) >> 4 * (i // 16) & 15) - 8) for i in range(32)]


def decode_q4_1(b):
    return [f16(b[:2]) * (int(b[4 + i % 16]) >> 4 * (i // 16) & 15) + f16(b[2:4]) for i in range(32)]


def decode_q5_0(b):
    high = int.from_bytes(bytes(b[2:6]), "little")
    return [f16(b[:2]) * ((int(b[6 + i % 16]) >> 4 * (i // 16) & 15 | (high >> i & 1) << 4) - 16) for i in range(32)]


def decode_k(b, quants_at, high_at):
    packed = [int(v) for v in b[4:16]]
    out = []
    for i in range(256):
        sub, inside = divmod(i, 32)
        code = int(b[quants_at + sub // 2 * 32 + inside]) >> 4 * (sub % 2) & 15
        if high_at is not None:
            code |= (int(b[high_at + inside]) >> sub & 1) << 4
        scale, minimum = k_scale(packed, sub)
        out.append(f16(b[:2]) * scale * code - f16(b[2:4]) * minimum)
    return out


def decode_q4_k(b):
    return decode_k(b, 16, None)


def decode_q5_k(b):
    return decode_k(b, 48, 16)


def decode_q6_k(b):
    out = []
    for i in range(256):
        half, run, inside = i // 128, i % 128 // 32, i % 32
        low = int(b[half * 64 + run % 2 * 32 + inside]) >> 4 * (run // 2) & 15
        high = int(b[128 + half * 32 + inside]) >> 2 * run & 3
        out.append(f16(b[208:210]) * int(b[192 + i // 16].view(np.int8)) * ((low | high << 4) - 32))
    return out


def decode_mxfp4(b):
    values = [0, 0.5, 1, 1.5, 2, 3, 4, 6]
    codes = [int(b[1 + i % 16]) >> 4 * (i // 16) & 15 for i in range(32)]
    return [2.0 ** (int(b[0]) - 127) * values[c & 7] * (-1 if c & 8 else 1) for c in codes]


DECODERS = {"MXFP4": decode_mxfp4,
            "Q8_0": decode_q8_0, "Q4_0": decode_q4_0, "Q4_1": decode_q4_1, "Q5_0": decode_q5_0, "Q4_K": decode_q4_k,
            "Q5_K": decode_q5_k, "Q6_K": decode_q6_k}
# Largest error of a value, in parts of the largest magnitude: half a step of the codes and what scales lose.
WORST = {"MXFP4": 0.27, "Q8_0": 0.005, "Q4_0": 0.13, "Q4_1": 0.07, "Q5_0": 0.065, "Q4_K": 0.08, "Q5_K": 0.045, "Q6_K": 0.03}


def unpack(words, bits, count):
    """Codes of one row, bit by bit."""
    stream = int.from_bytes(words.tobytes(), "little")
    return [stream >> bits * i & (1 << bits) - 1 for i in range(count)]


class ModelFactory(unittest.TestCase):
    def test_every_gguf_format_decodes_to_what_went_in(self):
        x = np.random.default_rng(1).standard_normal((4, 512), dtype=np.float32)
        x[0, :256] = 0
        for name, decode in DECODERS.items():
            kind, block, block_bytes, quantize = ggml_quants.FORMATS[name]
            raw = np.ascontiguousarray(quantize(x)).reshape(-1, block_bytes)
            self.assertEqual(raw.shape[0], x.size // block, name)
            values = np.array([decode(b) for b in raw]).reshape(x.shape)
            self.assertTrue((values[0, :256] == 0).all(), name)
            self.assertLess(np.abs(values - x).max() / np.abs(x).max(), WORST[name], name)

    def test_every_affine_width_decodes_to_what_went_in(self):
        x = np.random.default_rng(2).standard_normal((3, 256), dtype=np.float32)
        for bits in (2, 3, 4, 5, 6, 8):
            for group in (32, 64, 128):
                codes, scales, biases = safetensors_file.quantize_affine(x, bits, group)
                words = safetensors_file.pack(codes, bits)
                self.assertEqual(words.shape, (3, 256 * bits // 32))
                for row in range(3):
                    read = np.array(unpack(words[row], bits, 256)).reshape(-1, group)
                    values = (read * scales[row][:, None] + biases[row][:, None]).reshape(-1)
                    worst = np.abs(values - x[row]).max()
                    # half a step, and what bfloat16 takes from bias and scale
                    self.assertLess(worst, scales[row].max() * 0.5 + 0.03 * np.abs(x).max(), (bits, group))

    def test_eight_bit_floats_decode_to_what_went_in(self):
        x = np.random.default_rng(3).standard_normal((200, 150), dtype=np.float32)
        codes, scales = numeric.to_fp8(x)
        self.assertEqual((codes.shape, scales.shape), ((200, 150), (2, 2)))
        self.assertLess(np.abs(numeric.from_fp8(codes, scales) / x - 1)[np.abs(x) > 0.1].max(), 0.07)

    def test_weights_depend_on_seed_name_and_shape_only(self):
        """Golden files were made with these bits: another numpy must draw them too."""
        for family, (make_config, _, _) in families.FAMILIES.items():
            digest = hashlib.sha256()
            config = make_config("tiny")
            families.text_part(config)["vocab_size"] = 512
            for tensor in families.tensors(config):
                digest.update(tensor.array(0).tobytes())
            self.assertEqual(digest.hexdigest()[:16], EXPECTED_DIGESTS[family], family)

    def test_a_matrix_with_short_rows_takes_a_simpler_format(self):
        self.assertEqual(ggml_quants.format_for("Q4_K", 512), "Q4_K")
        self.assertEqual(ggml_quants.format_for("Q4_K", 384), "Q5_0")
        self.assertEqual(ggml_quants.format_for("Q6_K", 100), "BF16")


EXPECTED_DIGESTS = {
    "llama": "152e37e879f4186d",
    "qwen3": "5e1b890a4b237d06",
    "gemma3_text": "11698a0213d9a805",
    "qwen3_5": "decf7e912efefe87",
    "lfm2": "1f01ed80ba3b162d",
    "qwen2": "699d981d4312c832",
    "mistral": "8e51082cf3db802f",
    "ministral": "152e37e879f4186d",
    "ministral3": "152e37e879f4186d",
    "phi3": "3aa03f5980094abd",
    "smollm3": "f3d81d9b97f4c050",
    "olmo2": "ca9c912796b956ba",
    "olmo3": "ca9c912796b956ba",
    "granite": "04cd0ff3b8086ec8",
    "seed_oss": "9f59dab4999881e1",
    "glm4": "ecba03be29fbb708",
    "glm": "4632d58ff34ec2b9",
    "qwen3_next": "2f3bee7fa8753b3a",
    "qwen3_5_moe": "5ca27d5d06058e8c",
    "gpt_oss": "f4a619abd2e1147d",
    "glm4_moe": "68b4886af240aa2c",
    "minimax_m2": "efe1924500e8cefb",
    "deepseek_v3": "4073892409dc5fa2",
    "qwen3_moe": "da06e3924836dffd",
}

if __name__ == "__main__":
    unittest.main()
