#!/usr/bin/env python3
"""gguf_to_hf.py MODEL.gguf OUT - a Llama GGUF file as a Hugging Face directory, for tests.

The directory holds the same weights as float16 safetensors, a tokenizer.json, a chat template and configs, so that a
test can edit or damage single files of a real model. Reads F32, F16, Q8_0, Q4_0 and Q4_1 (layouts: ggml-common.h) of
architecture "llama" with a byte-level BPE vocabulary ("smollm" pre-tokenizer). Needs numpy.
"""

import json
import pathlib
import re
import struct
import sys

import numpy as np

SCALAR = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def scalar(self, form):
        (value,) = struct.unpack_from(form, self.data, self.at)
        self.at += struct.calcsize(form)
        return value

    def string(self):
        size = self.scalar("<Q")
        self.at += size
        return self.data[self.at - size:self.at].decode("utf-8", "surrogateescape")

    def value(self, kind):
        if kind == 8:
            return self.string()
        if kind == 9:
            inner, count = self.scalar("<I"), self.scalar("<Q")
            return [self.value(inner) for _ in range(count)]
        return self.scalar(SCALAR[kind])


def read_gguf(path):
    """(metadata, {name: (type, shape outermost first, byte offset)}, data)"""
    data = np.memmap(path, np.uint8, "r")
    r = Reader(bytes(data[:64 << 20]))  # header, vocabulary and tensor list are at the front
    magic, version = r.scalar("<4s"), r.scalar("<I")
    assert magic == b"GGUF" and version in (2, 3), "not a GGUF file"
    n_tensors, n_values = r.scalar("<Q"), r.scalar("<Q")
    meta = {}
    for _ in range(n_values):
        key = r.string()
        meta[key] = r.value(r.scalar("<I"))
    infos = {}
    for _ in range(n_tensors):
        name = r.string()
        dims = [r.scalar("<Q") for _ in range(r.scalar("<I"))]
        infos[name] = (r.scalar("<I"), dims[::-1], r.scalar("<Q"))
    align = meta.get("general.alignment", 32)
    base = -(-r.at // align) * align
    return meta, {k: (t, s, base + o) for k, (t, s, o) in infos.items()}, data


def decode(kind, shape, raw):
    """Values of a tensor as float32."""
    n = int(np.prod(shape))
    if kind == 0:
        return raw[:4 * n].view(np.float32).reshape(shape)
    if kind == 1:
        return raw[:2 * n].view(np.float16).astype(np.float32).reshape(shape)
    blocks = n // 32
    if kind == 8:  # Q8_0: f16 d, 32 x int8
        b = raw[:34 * blocks].reshape(blocks, 34)
        return (b[:, :2].copy().view(np.float16).astype(np.float32) * b[:, 2:].view(np.int8)).reshape(shape)
    size, head = (18, 2) if kind == 2 else (20, 4) if kind == 3 else sys.exit(f"tensor type {kind} is not supported")
    b = raw[:size * blocks].reshape(blocks, size)
    scale = b[:, :2].copy().view(np.float16).astype(np.float32)
    codes = np.concatenate([b[:, head:] & 15, b[:, head:] >> 4], axis=1).astype(np.float32)
    if kind == 2:  # Q4_0: f16 d, 16 bytes of nibbles; d * (q - 8)
        return (scale * (codes - 8)).reshape(shape)
    minimum = b[:, 2:4].copy().view(np.float16).astype(np.float32)  # Q4_1: d * q + m
    return (scale * codes + minimum).reshape(shape)


LAYER = {"attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
         "attn_output": "self_attn.o_proj", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj",
         "ffn_down": "mlp.down_proj", "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm"}
TOP = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}


def hf_name(name):
    stem = name.removesuffix(".weight")
    if match := re.fullmatch(r"blk\.(\d+)\.(\w+)", stem):
        return f"model.layers.{match[1]}.{LAYER[match[2]]}.weight"
    return f"{TOP[stem]}.weight"


def unpermute(w, heads):
    """Undoes the row order of llama.cpp's converter: half-split RoPE pairs again."""
    rows, cols = w.shape
    return w.reshape(heads, rows // heads // 2, 2, cols).swapaxes(1, 2).reshape(rows, cols)


def write_weights(infos, data, heads, kv_heads, path):
    header, offset, order = {"__metadata__": {"format": "pt"}}, 0, []
    for name, (_, shape, _) in infos.items():
        size = 2 * int(np.prod(shape))
        header[hf_name(name)] = {"dtype": "F16", "shape": shape, "data_offsets": [offset, offset + size]}
        offset += size
        order.append(name)
    blob = json.dumps(header).encode()
    blob += b" " * (-len(blob) % 8)
    with open(path, "wb") as out:
        out.write(struct.pack("<Q", len(blob)) + blob)
        for name in order:
            kind, shape, at = infos[name]
            values = decode(kind, shape, np.asarray(data[at:at + 4 * int(np.prod(shape))]))
            if ".attn_q." in name or ".attn_k." in name:
                values = unpermute(values, heads if ".attn_q." in name else kv_heads)
            out.write(np.ascontiguousarray(values, np.float16).tobytes())


def write_tokenizer(meta, out):
    tokens, kinds = meta["tokenizer.ggml.tokens"], meta["tokenizer.ggml.token_type"]
    assert meta["tokenizer.ggml.model"] == "gpt2" and meta["tokenizer.ggml.pre"] == "smollm"
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    added = [{"id": i, "content": t, **flags, "special": kinds[i] == 3} for i, t in enumerate(tokens)
             if kinds[i] in (3, 4)]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    dump(out / "tokenizer.json", {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": None,
        "pre_tokenizer": {"type": "Sequence",
                          "pretokenizers": [{"type": "Digits", "individual_digits": True}, byte_level]},
        "post_processor": None, "decoder": byte_level,
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                  "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                  "vocab": {t: i for i, t in enumerate(tokens)},
                  "merges": [m.split(" ") for m in meta["tokenizer.ggml.merges"]]}})
    special = {k: tokens[meta[f"tokenizer.ggml.{k}_token_id"]] for k in ("bos", "eos")}
    dump(out / "tokenizer_config.json", {"bos_token": special["bos"], "eos_token": special["eos"],
                                         "chat_template": meta["tokenizer.chat_template"]})


def dump(path, value):
    path.write_text(json.dumps(value, ensure_ascii=False), encoding="utf-8")


def main():
    source, out = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    out.mkdir(parents=True, exist_ok=True)
    meta, infos, data = read_gguf(source)
    heads, kv_heads = meta["llama.attention.head_count"], meta["llama.attention.head_count_kv"]
    write_tokenizer(meta, out)
    dump(out / "generation_config.json", {"eos_token_id": meta["tokenizer.ggml.eos_token_id"]})
    dump(out / "config.json", {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "torch_dtype": "float16",
        "hidden_size": meta["llama.embedding_length"], "intermediate_size": meta["llama.feed_forward_length"],
        "num_hidden_layers": meta["llama.block_count"], "num_attention_heads": heads,
        "num_key_value_heads": kv_heads, "max_position_embeddings": meta["llama.context_length"],
        "rms_norm_eps": meta["llama.attention.layer_norm_rms_epsilon"], "rope_theta": meta["llama.rope.freq_base"],
        "vocab_size": len(meta["tokenizer.ggml.tokens"]), "tie_word_embeddings": "output.weight" not in infos,
        "hidden_act": "silu", "eos_token_id": meta["tokenizer.ggml.eos_token_id"],
        "bos_token_id": meta["tokenizer.ggml.bos_token_id"]})
    write_weights(infos, data, heads, kv_heads, out / "model.safetensors")


if __name__ == "__main__":
    main()
