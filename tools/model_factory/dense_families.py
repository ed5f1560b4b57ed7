"""The dense decoders beside llama, qwen3 and gemma3: configs, tensors, and how GGUF stores them.

Imported at the end of families.py, whose building blocks it uses.
"""

import math

from families import EMBED_RMS, LOGIT_STD, QK_GAIN, bias, common, head_dim, linear, norm
from tensors import Tensor

TINY = dict(hidden_size=128, intermediate_size=384, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2)


def sized(size, tiny=None, **others):
    """Dimensions of a size; "tiny" has those above, and what is given here."""
    return {"tiny": {**TINY, **(tiny or {})}, **others}[size]


def dims(hidden, inter, layers, heads, kv_heads, **more):
    return dict(hidden_size=hidden, intermediate_size=inter, num_hidden_layers=layers, num_attention_heads=heads,
                num_key_value_heads=kv_heads, **more)


def qwen2(size):
    own = sized(size, dict(tie_word_embeddings=False),
                **{"0.5b": dims(896, 4864, 24, 14, 2, tie_word_embeddings=True)})
    return common("Qwen2ForCausalLM", "qwen2", attention_dropout=0.0, hidden_act="silu", max_position_embeddings=32768,
                  max_window_layers=2, rms_norm_eps=1e-06, rope_theta=1000000.0, sliding_window=32,
                  use_sliding_window=False, vocab_size=151936, **own)


def mistral(size):
    own = sized(size, dict(head_dim=64, sliding_window=32),
                **{"7b-4l": dims(4096, 14336, 4, 32, 8, sliding_window=4096)})
    return common("MistralForCausalLM", "mistral", attention_dropout=0.0, hidden_act="silu",
                  max_position_embeddings=32768, rms_norm_eps=1e-05, rope_theta=10000.0, tie_word_embeddings=False,
                  vocab_size=32000, **own)


def ministral(size):
    """Layers with and without windows."""
    own = sized(size, dict(head_dim=32), **{"8b-4l": dims(4096, 12288, 4, 32, 8, head_dim=128)})
    kinds = ["full_attention", "sliding_attention", "sliding_attention", "sliding_attention"]
    return common("MinistralForCausalLM", "ministral", attention_dropout=0.0, hidden_act="silu",
                  layer_types=kinds * (own["num_hidden_layers"] // 4), max_position_embeddings=32768,
                  rms_norm_eps=1e-05, rope_theta=100000000.0, sliding_window=32 if size == "tiny" else 32768,
                  tie_word_embeddings=False, vocab_size=131072, **own)


def ministral3(size):
    """The tiny one was first trained for 64 tokens: q is scaled beyond."""
    own = sized(size, dict(head_dim=32), **{"3b-4l": dims(3072, 9216, 4, 32, 8, head_dim=128)})
    original = 64 if size == "tiny" else 16384
    return common("Ministral3ForCausalLM", "ministral3", attention_dropout=0.0, hidden_act="silu",
                  max_position_embeddings=16 * original, rms_norm_eps=1e-05,
                  rope_parameters={"beta_fast": 32.0, "beta_slow": 1.0, "factor": 16.0, "llama_4_scaling_beta": 0.1,
                                   "mscale": 1.0, "mscale_all_dim": 1.0, "original_max_position_embeddings": original,
                                   "rope_theta": 1000000.0, "rope_type": "yarn", "type": "yarn"},
                  sliding_window=None, tie_word_embeddings=False, vocab_size=131072, **own)


def phi3(size):
    """As Phi-4 mini. The tiny one was first trained for 64 tokens: transformers takes the long factors beyond."""
    own = sized(size, dict(original_max_position_embeddings=64, max_position_embeddings=2048),
                **{"4-mini-4l": dims(3072, 8192, 4, 24, 8, original_max_position_embeddings=4096,
                                     max_position_embeddings=131072)})
    pairs = int(own["hidden_size"] // own["num_attention_heads"] * 0.75) // 2
    scaling = {"long_factor": [round(1 + 20 * i / pairs, 4) for i in range(pairs)],
               "short_factor": [1.0] * pairs, "type": "longrope"}
    return common("Phi3ForCausalLM", "phi3", attention_bias=False, attention_dropout=0.0, embd_pdrop=0.0,
                  full_attn_mod=1, hidden_act="silu", interpolate_factor=1, lm_head_bias=False, mlp_bias=False,
                  partial_rotary_factor=0.75, resid_pdrop=0.0, rms_norm_eps=1e-05, rope_scaling=scaling,
                  rope_theta=10000.0, sliding_window=262144, tie_word_embeddings=True, vocab_size=200064, **own)


def smollm3(size):
    own = sized(size, **{"3b-4l": dims(2048, 11008, 4, 16, 4)})
    layers = own["num_hidden_layers"]
    return common("SmolLM3ForCausalLM", "smollm3", attention_bias=False, attention_dropout=0.0, hidden_act="silu",
                  layer_types=["full_attention"] * layers, max_position_embeddings=65536, max_window_layers=28,
                  mlp_bias=False, no_rope_layer_interval=4, no_rope_layers=[int((i + 1) % 4 != 0) for i in range(layers)],
                  pretraining_tp=2, rms_norm_eps=1e-06, rope_scaling=None, rope_theta=5000000.0, sliding_window=None,
                  tie_word_embeddings=True, use_sliding_window=False, vocab_size=128256, **own)


def olmo2(size):
    own = sized(size, **{"1b": dims(2048, 8192, 16, 16, 16)})
    return common("Olmo2ForCausalLM", "olmo2", attention_bias=False, attention_dropout=0.0, hidden_act="silu",
                  max_position_embeddings=4096, rms_norm_eps=1e-06, rope_scaling=None, rope_theta=500000,
                  tie_word_embeddings=False, vocab_size=100352, **own)


def olmo3(size):
    own = sized(size, dict(sliding_window=32), **{"7b-4l": dims(4096, 11008, 4, 32, 32, sliding_window=4096)})
    original = 512 if size == "tiny" else 8192
    return common("Olmo3ForCausalLM", "olmo3", attention_bias=False, attention_dropout=0.0, hidden_act="silu",
                  layer_types=["full_attention" if (i + 1) % 4 == 0 else "sliding_attention"
                               for i in range(own["num_hidden_layers"])],
                  max_position_embeddings=8 * original, rms_norm_eps=1e-06,
                  rope_scaling={"attention_factor": 1.2079441541679836, "beta_fast": 32.0, "beta_slow": 1.0,
                                "factor": 8.0, "original_max_position_embeddings": original, "rope_type": "yarn"},
                  rope_theta=500000, tie_word_embeddings=False, vocab_size=100278, **own)


def granite(size):
    own = sized(size, dict(attention_multiplier=0.125, residual_multiplier=0.22, embedding_multiplier=12.0,
                           logits_scaling=8.0),
                **{"2b-4l": dims(2048, 8192, 4, 32, 8, attention_multiplier=0.015625, residual_multiplier=0.22,
                                 embedding_multiplier=12.0, logits_scaling=8.0)})
    return common("GraniteForCausalLM", "granite", attention_bias=False, attention_dropout=0.0, hidden_act="silu",
                  max_position_embeddings=131072, mlp_bias=False, rms_norm_eps=1e-05, rope_scaling=None,
                  rope_theta=10000000.0, tie_word_embeddings=True, vocab_size=49155, **own)


def seed_oss(size):
    # heads * head_dim != hidden, as published
    own = sized(size, dict(head_dim=64), **{"36b-2l": dims(5120, 27648, 2, 80, 8, head_dim=128)})
    return common("SeedOssForCausalLM", "seed_oss", attention_bias=True, attention_dropout=0.1,
                  attention_out_bias=False, hidden_act="silu", max_position_embeddings=524288, mlp_bias=False,
                  pretraining_tp=1, residual_dropout=0.1, rms_norm_eps=1e-06,
                  rope_scaling={"rope_type": "default"}, rope_theta=10000000.0, tie_word_embeddings=False,
                  vocab_size=155136, **own)


def glm4(size):
    own = sized(size, dict(head_dim=32), **{"9b-4l": dims(4096, 13696, 4, 32, 2, head_dim=128)})
    return common("Glm4ForCausalLM", "glm4", attention_bias=True, attention_dropout=0.0, hidden_act="silu",
                  max_position_embeddings=32768, partial_rotary_factor=0.5, rms_norm_eps=1e-05, rope_theta=10000.0,
                  tie_word_embeddings=False, vocab_size=151552, **own)


def glm(size):
    return {**glm4(size), "architectures": ["GlmForCausalLM"], "model_type": "glm", "rms_norm_eps": 1.5625e-07}


# family -> (config, sizes, tokenizer in tests/fixtures/tokenizers)
FAMILIES = {
    "qwen2": (qwen2, ["tiny", "0.5b"], "qwen3"),
    "mistral": (mistral, ["tiny", "7b-4l"], "llama"),
    "ministral": (ministral, ["tiny", "8b-4l"], "llama"),
    "ministral3": (ministral3, ["tiny", "3b-4l"], "llama"),
    "phi3": (phi3, ["tiny", "4-mini-4l"], "llama"),
    "smollm3": (smollm3, ["tiny", "3b-4l"], "llama"),
    "olmo2": (olmo2, ["tiny", "1b"], "llama"),
    "olmo3": (olmo3, ["tiny", "7b-4l"], "llama"),
    "granite": (granite, ["tiny", "2b-4l"], "llama"),
    "seed_oss": (seed_oss, ["tiny", "36b-2l"], "llama"),
    "glm4": (glm4, ["tiny", "9b-4l"], "qwen3"),
    "glm": (glm, ["tiny", "9b-4l"], "qwen3"),
}

BIASED = ("qwen2", "seed_oss", "glm4", "glm")  # q, k and v
FUSED_MLP = ("phi3", "glm4", "glm")
PLAIN_NORMS = ("input_layernorm", "post_attention_layernorm")
NORMS = {"olmo2": ("post_attention_layernorm", "post_feedforward_layernorm"),
         "glm4": ("input_layernorm", "post_self_attn_layernorm", "post_attention_layernorm", "post_mlp_layernorm")}
NORMS["olmo3"] = NORMS["olmo2"]


def attention(config, prefix):
    h, d, kind = config["hidden_size"], head_dim(config), config["model_type"]
    nq, nk = config["num_attention_heads"] * d, config["num_key_value_heads"] * d
    gain = 0.7 / config.get("residual_multiplier", 1.0)
    if kind == "phi3":
        return [linear(prefix + "qkv_proj", nq + 2 * nk, h, QK_GAIN), linear(prefix + "o_proj", h, nq, gain)]
    normed = kind in ("olmo2", "olmo3")
    sharp = 1.0 if normed else QK_GAIN
    out = [linear(prefix + "q_proj", nq, h, sharp), linear(prefix + "k_proj", nk, h, sharp),
           linear(prefix + "v_proj", nk, h), linear(prefix + "o_proj", h, nq, gain)]
    if kind in BIASED:
        out += [bias(prefix + x, n) for x, n in (("q_proj", nq), ("k_proj", nk), ("v_proj", nk))]
    if normed:
        out += [norm(prefix + "q_norm", nq, QK_GAIN), norm(prefix + "k_norm", nk, QK_GAIN)]
    return out


def mlp(config, prefix):
    h, inter = config["hidden_size"], config["intermediate_size"]
    down = linear(prefix + "down_proj", h, inter, 1.6 / config.get("residual_multiplier", 1.0))
    if config["model_type"] in FUSED_MLP:
        return [linear(prefix + "gate_up_proj", 2 * inter, h), down]
    return [linear(prefix + "gate_proj", inter, h), linear(prefix + "up_proj", inter, h), down]


def tensors(config):
    h, vocab, tied = config["hidden_size"], config["vocab_size"], config["tie_word_embeddings"]
    std = EMBED_RMS / config.get("embedding_multiplier", 1.0)
    out = [Tensor("model.embed_tokens.weight", (vocab, h), std)]
    for i in range(config["num_hidden_layers"]):
        layer = f"model.layers.{i}."
        out += attention(config, layer + "self_attn.") + mlp(config, layer + "mlp.")
        out += [norm(layer + n, h) for n in NORMS.get(config["model_type"], PLAIN_NORMS)]
    head_std = std if tied else 1 / math.sqrt(h)
    logit_std = LOGIT_STD * config.get("logits_scaling", 1.0)
    out.append(norm("model.norm", h, logit_std / (head_std * math.sqrt(h))))
    return out if tied else [*out, Tensor("lm_head.weight", (vocab, h), head_std)]


# GGUF: architecture where it is not the model type (none: llama.cpp has no such architecture)
GGUF_ARCHITECTURES = {"mistral": "llama", "ministral": None, "ministral3": None, "olmo3": "olmo2", "glm": None}
# families whose converter permutes the rows of q and k
GGUF_PERMUTED = ("mistral", "smollm3", "granite")
# names in a layer that differ from llama's
GGUF_NAMES = {
    "phi3": {"self_attn.qkv_proj": "attn_qkv", "mlp.gate_up_proj": "ffn_up"},
    "olmo2": {"post_attention_layernorm": "post_attention_norm", "post_feedforward_layernorm": "post_ffw_norm"},
    "seed_oss": {"post_attention_layernorm": "post_attention_norm"},
    "glm4": {"post_self_attn_layernorm": "post_attention_norm", "post_mlp_layernorm": "post_ffw_norm",
             "mlp.gate_up_proj": "ffn_up"},
}
GGUF_NAMES["olmo3"] = GGUF_NAMES["olmo2"]


def add_gguf_metadata(meta, arch, config):
    """What the converter writes for these families beyond the common keys."""
    kind = config["model_type"]
    if kind == "phi3":
        meta.add("phi3.attention.sliding_window", "u32", config["sliding_window"] or 0)
        original, longest = config["original_max_position_embeddings"], config["max_position_embeddings"]
        meta.add("phi3.rope.scaling.original_context_length", "u32", original)
        if config["rope_scaling"]:
            meta.add("phi3.rope.scaling.attn_factor", "f32",
                     math.sqrt(1 + math.log(longest / original) / math.log(original)))
    if kind == "olmo3":
        meta.add("olmo2.attention.sliding_window", "u32", config["sliding_window"])
        meta.add("olmo2.attention.sliding_window_pattern", "bool",
                 [kind == "sliding_attention" for kind in config["layer_types"]])
        meta.add("olmo2.rope.scaling.attn_factor", "f32", config["rope_scaling"]["attention_factor"])
    if kind == "granite":
        for key, field in (("attention.scale", "attention_multiplier"), ("embedding_scale", "embedding_multiplier"),
                           ("residual_scale", "residual_multiplier"), ("logit_scale", "logits_scaling")):
            meta.add(f"{arch}.{key}", "f32", config[field])


def gguf_rope_factors(config):
    """name -> list of LongRoPE's tensors."""
    if config["model_type"] != "phi3" or not config["rope_scaling"]:
        return {}
    return {f"rope_factors_{x}.weight": config["rope_scaling"][f"{x}_factor"] for x in ("long", "short")}
