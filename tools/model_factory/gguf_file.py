"""GGUF files (version 3) of the families that llama.cpp knows, named and laid out as llama.cpp's converter does."""

import math
import re
import struct

import numpy as np

import dense_families
import ggml_quants
from families import head_dim, is_gemma
from moe_families import stack_experts
from tensors import Fp4Tensor, Stacked

ALIGNMENT = 32
ARCHITECTURES = {"llama": "llama", "qwen3": "qwen3", "gemma3_text": "gemma3",
                 "qwen3_moe": "qwen3moe", "gpt_oss": "gpt-oss", "glm4_moe": "glm4moe", "minimax_m2": "minimax-m2",
                 **{name: dense_families.GGUF_ARCHITECTURES.get(name, name) for name in dense_families.FAMILIES}}
PRE_TOKENIZERS = {"llama": "llama-bpe", "qwen3": "qwen2"}
# general.file_type of llama.cpp
FILE_TYPES = {"F32": 0, "F16": 1, "Q4_0": 2, "Q4_1": 3, "Q8_0": 7, "Q5_0": 8, "Q4_K": 15, "Q5_K": 17, "Q6_K": 18,
              "BF16": 32}
SCALARS = {"u32": (4, "<I"), "i32": (5, "<i"), "f32": (6, "<f"), "bool": (7, "<?")}


def text(value):
    raw = value.encode()
    return struct.pack("<Q", len(raw)) + raw


class Metadata:
    """The key-value part of a file."""

    def __init__(self):
        self.blobs = []

    def add(self, key, kind, value):
        if value is None:
            return
        if isinstance(value, list):
            body = b"".join(self.value(kind, v) for v in value)
            blob = struct.pack("<IIQ", 9, self.type_id(kind), len(value)) + body
        else:
            blob = struct.pack("<I", self.type_id(kind)) + self.value(kind, value)
        self.blobs.append(text(key) + blob)

    @staticmethod
    def type_id(kind):
        return 8 if kind == "string" else SCALARS[kind][0]

    @staticmethod
    def value(kind, value):
        return text(value) if kind == "string" else struct.pack(SCALARS[kind][1], value)


def add_rope(meta, arch, config):
    meta.add(f"{arch}.rope.freq_base", "f32", float(config["rope_theta"]))
    rotated = config.get("rotary_dim", int(head_dim(config) * config.get("partial_rotary_factor", 1)))
    meta.add(f"{arch}.rope.dimension_count", "u32", rotated)
    scaling = config.get("rope_scaling") or {}
    kind = scaling.get("rope_type", scaling.get("type"))
    if kind in ("linear", "yarn"):
        meta.add(f"{arch}.rope.scaling.type", "string", kind)
        meta.add(f"{arch}.rope.scaling.factor", "f32", float(scaling["factor"]))
        meta.add(f"{arch}.rope.scaling.original_context_length", "u32",
                 scaling.get("original_max_position_embeddings"))


def add_experts(meta, arch, config):
    experts = next((config[key] for key in ("num_experts", "num_local_experts", "n_routed_experts") if key in config),
                   None)
    if experts is None:
        return
    for key, value in (("expert_count", experts), ("expert_used_count", config["num_experts_per_tok"]),
                       ("expert_feed_forward_length",
                        config.get("moe_intermediate_size", config["intermediate_size"])),
                       ("expert_shared_count", config.get("n_shared_experts")),
                       ("leading_dense_block_count", config.get("first_k_dense_replace")),
                       ("expert_group_count", config.get("n_group")),
                       ("expert_group_used_count", config.get("topk_group")),
                       ("expert_gating_func", 1 if "num_experts" in config else
                        None if config["model_type"] == "gpt_oss" else 2),
                       ("nextn_predict_layers", config.get("num_nextn_predict_layers"))):
        meta.add(f"{arch}.{key}", "u32", value)
    meta.add(f"{arch}.expert_weights_scale", "f32", config.get("routed_scaling_factor"))
    if config["model_type"] == "gpt_oss":
        meta.add(f"{arch}.attention.sliding_window", "u32", config["sliding_window"])


def add_model(meta, config, weights):
    arch = ARCHITECTURES[config["model_type"]]
    meta.add("general.architecture", "string", arch)
    meta.add("general.type", "string", "model")
    meta.add("general.name", "string", f"random {config['model_type']}")
    meta.add("general.quantization_version", "u32", 2)
    meta.add("general.file_type", "u32", FILE_TYPES[weights])
    for key, value in (("context_length", config["max_position_embeddings"]),
                       ("embedding_length", config["hidden_size"]), ("block_count", config["num_hidden_layers"] + config.get("num_nextn_predict_layers", 0)),
                       ("feed_forward_length", config["intermediate_size"]),
                       ("attention.head_count", config["num_attention_heads"]),
                       ("attention.head_count_kv", config["num_key_value_heads"]),
                       ("attention.key_length", head_dim(config)), ("attention.value_length", head_dim(config)),
                       ("vocab_size", config["vocab_size"])):
        meta.add(f"{arch}.{key}", "u32", value)
    meta.add(f"{arch}.attention.layer_norm_rms_epsilon", "f32", config["rms_norm_eps"])
    add_rope(meta, arch, config)
    add_experts(meta, arch, config)
    if is_gemma(config):
        meta.add("gemma3.attention.sliding_window", "u32", config["sliding_window"])
    dense_families.add_gguf_metadata(meta, arch, config)


def add_tokenizer(meta, config, tokenizer):
    tokens, types = zip(*tokenizer.types(config["vocab_size"]))
    gemma = tokenizer.name == "gemma3"
    meta.add("tokenizer.ggml.model", "string", "llama" if gemma else "gpt2")
    meta.add("tokenizer.ggml.pre", "string", PRE_TOKENIZERS.get(tokenizer.name, "default"))
    meta.add("tokenizer.ggml.tokens", "string", list(tokens))
    if gemma:
        rank = {}
        for i, (a, b) in enumerate(tokenizer.merges()):
            rank.setdefault(a + b, i)
        scores = [-float(rank[t]) if t in rank else 0.0 if t in tokenizer.added else -1e6 for t in tokens]
        meta.add("tokenizer.ggml.scores", "f32", scores)
        meta.add("tokenizer.ggml.add_space_prefix", "bool", False)
        meta.add("tokenizer.ggml.unknown_token_id", "u32", tokenizer.ids["<unk>"])
    else:
        meta.add("tokenizer.ggml.merges", "string", [" ".join(m) for m in tokenizer.merges()])
    meta.add("tokenizer.ggml.token_type", "i32", list(types))
    meta.add("tokenizer.ggml.add_bos_token", "bool", tokenizer.name != "qwen3")
    for role, key in (("bos_token", "bos"), ("eos_token", "eos"), ("pad_token", "padding")):
        meta.add(f"tokenizer.ggml.{key}_token_id", "u32", tokenizer.ids.get(tokenizer.config.get(role)))
    eot = {"llama": "<|eot_id|>", "gemma3": "<end_of_turn>", "qwen3": "<|im_end|>"}[tokenizer.name]
    meta.add("tokenizer.ggml.eot_token_id", "u32", tokenizer.ids.get(eot))
    meta.add("tokenizer.chat_template", "string", tokenizer.template)


def gguf_name(name, kind):
    """model.layers.0.self_attn.q_proj.weight -> blk.0.attn_q.weight, in a model of type `kind`"""
    post_norm = "post_attention_norm" if kind in ("gemma3_text", "gpt_oss", "glm4_moe") else "ffn_norm"
    if name.endswith("sinks"):
        name += ".weight"
    name = name.replace("e_score_correction_bias", "e_score_correction.bias").replace("block_sparse_moe.", "mlp.")
    stem, _, ending = name.rpartition(".")
    top = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}
    if stem in top:
        return f"{top[stem]}.{ending}"
    layer, part = re.fullmatch(r"model\.layers\.(\d+)\.(.*)", stem).groups()
    parts = {"self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
             "self_attn.o_proj": "attn_output", "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm",
             "self_attn.sinks": "attn_sinks", "mlp.router": "ffn_gate_inp",
             "mlp.experts.gate_proj": "ffn_gate_exps", "mlp.experts.up_proj": "ffn_up_exps",
             "mlp.experts.down_proj": "ffn_down_exps", "mlp.gate.e_score_correction": "exp_probs_b", "mlp.e_score_correction": "exp_probs_b",
             "mlp.shared_experts.gate_proj": "ffn_gate_shexp", "mlp.shared_experts.up_proj": "ffn_up_shexp",
             "mlp.shared_experts.down_proj": "ffn_down_shexp", "eh_proj": "nextn.eh_proj", "enorm": "nextn.enorm",
             "hnorm": "nextn.hnorm", "shared_head.norm": "nextn.shared_head_norm",
             "mlp.gate": "ffn_gate_inp", "mlp.switch_mlp.gate_proj": "ffn_gate_exps",
             "mlp.switch_mlp.up_proj": "ffn_up_exps", "mlp.switch_mlp.down_proj": "ffn_down_exps",
             "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
             "input_layernorm": "attn_norm",
             "post_attention_layernorm": post_norm,
             "pre_feedforward_layernorm": "ffn_norm", "post_feedforward_layernorm": "post_ffw_norm",
             **dense_families.GGUF_NAMES.get(kind, {})}
    return f"blk.{layer}.{parts[part]}.{ending}"


def rope_factors(config):
    """llama.cpp's rope_freqs.weight for rope_type llama3: what each frequency is divided by."""
    scaling = config["rope_scaling"]
    old, factor = scaling["original_max_position_embeddings"], scaling["factor"]
    low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
    out = []
    for i in range(0, head_dim(config), 2):
        wave = 2 * math.pi * config["rope_theta"] ** (i / head_dim(config))
        if wave < old / high:
            out.append(1.0)
        elif wave > old / low:
            out.append(factor)
        else:
            smooth = (old / wave - low) / (high - low)
            out.append(1 / ((1 - smooth) / factor + smooth))
    return np.array(out, np.float32)


class Entry:
    """One tensor of the file: shape as numpy has it, format name, and its blocks of rows."""

    def __init__(self, name, shape, kind, rows):
        self.name, self.shape, self.kind, self.rows = name, shape, kind, rows

    @property
    def nbytes(self):
        _, block, block_bytes, _ = ggml_quants.FORMATS[self.kind]
        return math.prod(self.shape) // block * block_bytes

    def write(self, file):
        quantize = ggml_quants.FORMATS[self.kind][3]
        for x in self.rows():
            file.write(np.ascontiguousarray(quantize(x)).tobytes())


def is_permuted(config):
    return config["model_type"] in ("llama", *dense_families.GGUF_PERMUTED)


def permute_rows(x, heads):
    """What the converter does to llama's q and k, for interleaved RoPE: (half, i) -> (i, half) in each head."""
    return x.reshape(heads, 2, x.shape[0] // heads // 2, *x.shape[1:]).swapaxes(1, 2).reshape(x.shape)


def entries(config, tensors, seed, weights):
    gemma = is_gemma(config)
    heads = {"q_proj": config["num_attention_heads"], "k_proj": config["num_key_value_heads"]}
    out = []
    for t in stack_experts(tensors):
        projection = t.name.split(".")[-2]
        if is_permuted(config) and projection in heads:
            def rows(t=t, n=heads[projection]):
                yield permute_rows(t.array(seed), n)
        elif gemma and len(t.shape) == 1:
            def rows(t=t):
                yield t.array(seed) + np.float32(1)
        elif len(t.shape) == 1:
            def rows(t=t):
                yield t.array(seed)
        else:
            def rows(t=t):
                return t.rows(seed)
        plain = len(t.shape) == 1 or t.name.endswith(".bias") or projection in ("gate", "router")
        kind = "F32" if plain else ggml_quants.format_for(weights, t.shape[-1])
        if isinstance(t, Stacked) and isinstance(t.parts[0], Fp4Tensor) and weights != "F32":
            kind = "MXFP4"
        out.append(Entry(gguf_name(t.name, config["model_type"]), t.shape, kind, rows))
    scaling = config.get("rope_scaling") or {}
    if config["model_type"] == "llama" and scaling.get("rope_type") == "llama3":
        factors = rope_factors(config)
        out.append(Entry("rope_freqs.weight", factors.shape, "F32", lambda: [factors]))
    for name, factors in dense_families.gguf_rope_factors(config).items():
        out.append(Entry(name, (len(factors),), "F32", lambda f=factors: [np.array(f, np.float32)]))
    return out


def write(config, tensors, tokenizer, seed, weights, path):
    """`weights`: a key of ggml_quants.FORMATS, the format of the matrices."""
    meta = Metadata()
    add_model(meta, config, weights)
    add_tokenizer(meta, config, tokenizer)
    table = entries(config, tensors, seed, weights)
    with open(path, "wb") as file:
        file.write(b"GGUF" + struct.pack("<IQQ", 3, len(table), len(meta.blobs)) + b"".join(meta.blobs))
        offset = 0
        for e in table:
            dims = e.shape[::-1]
            file.write(text(e.name) + struct.pack("<I", len(dims)) + struct.pack(f"<{len(dims)}Q", *dims)
                       + struct.pack("<IQ", ggml_quants.FORMATS[e.kind][0], offset))
            offset += -(-e.nbytes // ALIGNMENT) * ALIGNMENT
        for e in table:
            file.write(b"\0" * (-file.tell() % ALIGNMENT))
            e.write(file)
        file.write(b"\0" * (-file.tell() % ALIGNMENT))
