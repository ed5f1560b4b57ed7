"""Configs and tensor lists of the families, with the field names and constants of the published models.

Scales are chosen so that a forward pass is healthy: unit-size block outputs, attention that is neither uniform nor
one-hot, logits with a standard deviation of about 3, embeddings small enough that a tied model does not just repeat
its input. Norm weights and biases are all non-trivial, so that a loader that forgets one gets other logits.
"""

import math

from tensors import Tensor

QK_GAIN = 1.5  # gain of q/k norms (or of q and k themselves): attention logits ~ N(0, 2)
EMBED_RMS = 0.25  # of an embedded token at the first layer's input
LOGIT_STD = 3.0


def common(arch, kind, **fields):
    return {"architectures": [arch], "model_type": kind, "torch_dtype": "bfloat16",
            "transformers_version": "4.57.1", "use_cache": True, "initializer_range": 0.02, **fields}


def llama(size):
    dims = {
        "tiny": dict(hidden_size=128, intermediate_size=384, num_hidden_layers=4, num_attention_heads=4,
                     num_key_value_heads=2, head_dim=32, tie_word_embeddings=False),
        # SmolLM2-135M's shapes
        "135m": dict(hidden_size=576, intermediate_size=1536, num_hidden_layers=30, num_attention_heads=9,
                     num_key_value_heads=3, head_dim=64, tie_word_embeddings=True),
    }[size]
    return common("LlamaForCausalLM", "llama", attention_bias=False, attention_dropout=0.0, hidden_act="silu",
                  max_position_embeddings=131072, mlp_bias=False, pretraining_tp=1, rms_norm_eps=1e-05,
                  rope_scaling={"factor": 32.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0,
                                "original_max_position_embeddings": 8192, "rope_type": "llama3"},
                  rope_theta=500000.0, vocab_size=128256, **dims)


def qwen3(size):
    dims = {
        # heads * head_dim != hidden, as in 0.6b
        "tiny": dict(hidden_size=128, intermediate_size=384, num_hidden_layers=4, num_attention_heads=4,
                     num_key_value_heads=2, head_dim=64),
        "0.6b": dict(hidden_size=1024, intermediate_size=3072, num_hidden_layers=28, num_attention_heads=16,
                     num_key_value_heads=8, head_dim=128),
    }[size]
    return common("Qwen3ForCausalLM", "qwen3", attention_bias=False, attention_dropout=0.0, hidden_act="silu",
                  max_position_embeddings=40960, rms_norm_eps=1e-06, rope_scaling=None, rope_theta=1000000,
                  sliding_window=None, use_sliding_window=False, vocab_size=151936, tie_word_embeddings=True,
                  max_window_layers=dims["num_hidden_layers"], **dims)


def gemma3_text(size):
    dims = {
        "tiny": dict(hidden_size=128, intermediate_size=256, num_hidden_layers=8, num_attention_heads=4,
                     num_key_value_heads=1, head_dim=64, query_pre_attn_scalar=64, sliding_window=32),
        "270m": dict(hidden_size=640, intermediate_size=2048, num_hidden_layers=18, num_attention_heads=4,
                     num_key_value_heads=1, head_dim=256, query_pre_attn_scalar=256, sliding_window=512),
    }[size]
    return common("Gemma3ForCausalLM", "gemma3_text", attention_bias=False, attention_dropout=0.0,
                  attn_logit_softcapping=None, final_logit_softcapping=None, _sliding_window_pattern=6,
                  hidden_activation="gelu_pytorch_tanh",
                  layer_types=["full_attention" if (i + 1) % 6 == 0 else "sliding_attention"
                               for i in range(dims["num_hidden_layers"])],
                  max_position_embeddings=32768, rms_norm_eps=1e-06, rope_local_base_freq=10000.0,
                  rope_scaling=None, rope_theta=1000000.0, use_bidirectional_attention=False,
                  vocab_size=262144, **dims)


def qwen3_5(size):
    dims = {
        "tiny": dict(hidden_size=128, intermediate_size=384, num_hidden_layers=8, num_attention_heads=4,
                     num_key_value_heads=2, head_dim=64, linear_key_head_dim=32, linear_num_key_heads=2,
                     linear_num_value_heads=4, linear_value_head_dim=32),
        # 0.8B parameters, states of 18 MiB
        "0.8b": dict(hidden_size=1024, intermediate_size=3584, num_hidden_layers=24, num_attention_heads=8,
                     num_key_value_heads=2, head_dim=256, linear_key_head_dim=128, linear_num_key_heads=16,
                     linear_num_value_heads=16, linear_value_head_dim=128),
        # Qwen3.5-27B's shapes with 4 of its 64 layers
        "27b-4l": dict(hidden_size=5120, intermediate_size=17408, num_hidden_layers=4, num_attention_heads=24,
                       num_key_value_heads=4, head_dim=256, linear_key_head_dim=128, linear_num_key_heads=16,
                       linear_num_value_heads=48, linear_value_head_dim=128),
    }[size]
    half = dims["head_dim"] // 8
    third = half // 3 + 1
    text = {"attention_bias": False, "attention_dropout": 0.0, "attn_output_gate": True, "dtype": "bfloat16",
            "full_attention_interval": 4, "hidden_act": "silu", "initializer_range": 0.02,
            "layer_types": ["full_attention" if (i + 1) % 4 == 0 else "linear_attention"
                            for i in range(dims["num_hidden_layers"])],
            "linear_conv_kernel_dim": 4, "mamba_ssm_dtype": "float32", "max_position_embeddings": 262144,
            "mlp_only_layers": [], "model_type": "qwen3_5_text", "mtp_num_hidden_layers": 1,
            "mtp_use_dedicated_embeddings": False, "rms_norm_eps": 1e-06, "use_cache": True, "vocab_size": 151936,
            "rope_parameters": {"mrope_interleaved": True, "mrope_section": [third, third, half - 2 * third],
                                "rope_type": "default", "rope_theta": 10000000, "partial_rotary_factor": 0.25},
            **dims}
    return {"architectures": ["Qwen3_5ForConditionalGeneration"], "model_type": "qwen3_5", "text_config": text,
            "tie_word_embeddings": False, "transformers_version": "4.57.1"}


def lfm2(size):
    dims = {
        "tiny": dict(hidden_size=128, block_dim=128, conv_dim=128, conv_dim_out=128, block_ff_dim=384,
                     block_multiple_of=64, num_hidden_layers=8, num_attention_heads=4, num_heads=4,
                     num_key_value_heads=2, full_attn_idxs=[2, 4, 7]),
        "350m": dict(hidden_size=1024, block_dim=1024, conv_dim=1024, conv_dim_out=1024, block_ff_dim=6656,
                     block_multiple_of=256, num_hidden_layers=16, num_attention_heads=16, num_heads=16,
                     num_key_value_heads=8, full_attn_idxs=[2, 5, 8, 10, 12, 14]),
    }[size]
    return common("Lfm2ForCausalLM", "lfm2", block_auto_adjust_ff_dim=True, block_ffn_dim_multiplier=1.0,
                  block_norm_eps=1e-05, block_use_swiglu=True, conv_L_cache=3, conv_bias=False,
                  max_position_embeddings=128000, norm_eps=1e-05, rope_theta=1000000.0, use_pos_enc=True,
                  vocab_size=65536, tie_word_embeddings=True, **dims)


# family -> (config, sizes, tokenizer in tests/fixtures/tokenizers)
FAMILIES = {
    "llama": (llama, ["tiny", "135m"], "llama"),
    "qwen3": (qwen3, ["tiny", "0.6b"], "qwen3"),
    "gemma3_text": (gemma3_text, ["tiny", "270m"], "gemma3"),
    "qwen3_5": (qwen3_5, ["tiny", "0.8b", "27b-4l"], "qwen3"),
    "lfm2": (lfm2, ["tiny", "350m"], "qwen3"),
}


def text_part(config):
    """The fields of the text model, which multi-modal configs keep in a record of their own."""
    return config.get("text_config", config)


def is_hybrid(config):
    return "linear_num_key_heads" in text_part(config)


def has_convolutions(config):
    return is_hybrid(config) or config["model_type"] == "lfm2"


def head_dim(config):
    return config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]


def is_gemma(config):
    return config["model_type"] == "gemma3_text"


def is_tied(config):
    return config.get("tie_word_embeddings", is_gemma(config))


def linear(name, n_out, n_in, gain=1.0):
    return Tensor(name + ".weight", (n_out, n_in), gain / math.sqrt(n_in))


def bias(name, n):
    return Tensor(name + ".bias", (n,), 0.1)


def norm(name, n, gain=1.0, plus_one=False):
    """RMS norm weight around gain; plus_one: the model multiplies by 1 + w."""
    return Tensor(name + ".weight", (n,), 0.1 * gain, gain - 1 if plus_one else gain, plus_one)


def attention(config, prefix, norms="by family"):
    """norms: of q and k, None, "head", or "layer" for the whole width."""
    h, d = config["hidden_size"], head_dim(config)
    nq, nk = config["num_attention_heads"] * d, config["num_key_value_heads"] * d
    if norms == "by family":
        norms = None if config["model_type"] == "llama" else "head"
    sharp = 1.0 if norms else QK_GAIN
    out = [linear(prefix + "q_proj", nq, h, sharp), linear(prefix + "k_proj", nk, h, sharp),
           linear(prefix + "v_proj", nk, h), linear(prefix + "o_proj", h, nq, 0.7)]
    if config.get("attention_bias"):
        out += [bias(prefix + x, n) for x, n in (("q_proj", nq), ("k_proj", nk), ("v_proj", nk), ("o_proj", h))]
    if norms == "head":
        out += [norm(prefix + x, d, QK_GAIN, is_gemma(config)) for x in ("q_norm", "k_norm")]
    elif norms == "layer":
        out += [norm(prefix + "q_norm", nq, QK_GAIN), norm(prefix + "k_norm", nk, QK_GAIN)]
    return out


def mlp(config, prefix):
    h, inter = config["hidden_size"], config["intermediate_size"]
    out = [linear(prefix + "gate_proj", inter, h), linear(prefix + "up_proj", inter, h),
           linear(prefix + "down_proj", h, inter, 1.6)]
    if config.get("mlp_bias"):
        out += [bias(prefix + x, n) for x, n in (("gate_proj", inter), ("up_proj", inter), ("down_proj", h))]
    return out


def gated_attention(config, prefix):
    """q_proj holds for each head its q and the gate of its output."""
    d = head_dim(config)
    out = attention(config, prefix)
    nq = config["num_attention_heads"] * d
    out[0] = linear(prefix + "q_proj", 2 * nq, config["hidden_size"])
    return out[:-2] + [norm(prefix + x, d, QK_GAIN, True) for x in ("q_norm", "k_norm")]


def delta_net(config, prefix):
    h, kernel = config["hidden_size"], config["linear_conv_kernel_dim"]
    nv = config["linear_num_value_heads"]
    key = config["linear_num_key_heads"] * config["linear_key_head_dim"]
    value = nv * config["linear_value_head_dim"]
    if config["model_type"] == "qwen3_next":
        out = [linear(prefix + "in_proj_qkvz", 2 * key + 2 * value, h), linear(prefix + "in_proj_ba", 2 * nv, h)]
    else:
        out = [linear(prefix + "in_proj_qkv", 2 * key + value, h), linear(prefix + "in_proj_z", value, h),
               linear(prefix + "in_proj_b", nv, h), linear(prefix + "in_proj_a", nv, h)]
    # exp(-exp(A_log) softplus(a + dt_bias)) a token: long and short memories
    return out + [Tensor(prefix + "conv1d.weight", (2 * key + value, 1, kernel), 1 / math.sqrt(kernel)),
                  Tensor(prefix + "A_log", (nv,), 0.6), Tensor(prefix + "dt_bias", (nv,), 1.2, -3.0),
                  norm(prefix + "norm", config["linear_value_head_dim"]), linear(prefix + "out_proj", h, value, 1.5)]


def hybrid_tensors(outer):
    """Three layers of a gated delta net to one with full attention, and a block that predicts several tokens."""
    config = text_part(outer)
    prefix = "model." if config is outer else "model.language_model."
    h, vocab = config["hidden_size"], config["vocab_size"]

    def norms(names, gain=1.0):
        return [norm(name, h, gain, True) for name in names]

    out = [Tensor(prefix + "embed_tokens.weight", (vocab, h), EMBED_RMS)]
    for i in range(config["num_hidden_layers"]):
        layer = f"{prefix}layers.{i}."
        full = (i + 1) % config["full_attention_interval"] == 0
        out += gated_attention(config, layer + "self_attn.") if full else delta_net(config, layer + "linear_attn.")
        out += moe_families.feed_forward(config, layer + "mlp.", i)
        out += norms([layer + "input_layernorm", layer + "post_attention_layernorm"])
    out += [linear("mtp.fc", h, 2 * h)] + gated_attention(config, "mtp.layers.0.self_attn.")
    out += moe_families.feed_forward(config, "mtp.layers.0.mlp.", config["num_hidden_layers"] - 1) + norms(["mtp.layers.0.input_layernorm", "mtp.norm"])
    tied = outer["tie_word_embeddings"]
    head_std = EMBED_RMS if tied else 1 / math.sqrt(h)
    out += norms([prefix + "norm"], LOGIT_STD / (head_std * math.sqrt(h)))
    return out if tied else [*out, Tensor("lm_head.weight", (vocab, h), head_std)]


def lfm2_tensors(config):
    h, d = config["hidden_size"], config["hidden_size"] // config["num_attention_heads"]
    multiple = config["block_multiple_of"]
    inter = -(-int(2 * config["block_ff_dim"] / 3) // multiple) * multiple
    out = [Tensor("model.embed_tokens.weight", (config["vocab_size"], h), EMBED_RMS)]
    for i in range(config["num_hidden_layers"]):
        layer = f"model.layers.{i}."
        if i in config["full_attn_idxs"]:
            names = {"o_proj": "out_proj", "q_norm": "q_layernorm", "k_norm": "k_layernorm"}
            for t in attention({**config, "head_dim": d}, layer + "self_attn."):
                for old, new in names.items():
                    t.name = t.name.replace(old, new)
                out.append(t)
        else:
            kernel = config["conv_L_cache"]
            out += [linear(layer + "conv.in_proj", 3 * h, h),
                    Tensor(layer + "conv.conv.weight", (h, 1, kernel), 1 / math.sqrt(kernel)),
                    linear(layer + "conv.out_proj", h, h)]
        ffn = layer + "feed_forward."
        out += [linear(ffn + "w1", inter, h), linear(ffn + "w3", inter, h), linear(ffn + "w2", h, inter, 1.6)]
        out += [norm(layer + x, h) for x in ("operator_norm", "ffn_norm")]
    return [*out, norm("model.embedding_norm", h, LOGIT_STD / (EMBED_RMS * math.sqrt(h)))]


def as_mlx(hybrid):
    """The tensors of a model with convolutions as mlx-lm writes them: these turned round, for qwen3_5 also norms with
    their 1 and other names."""
    out = []
    nested = any(t.name.startswith("model.language_model.") for t in hybrid)
    for t in hybrid:
        if t.name.startswith("mtp."):
            continue
        if t.zero_centred:
            t.offset += 1
        if t.name.endswith(("conv1d.weight", "conv.conv.weight")):
            t.shape = (t.shape[0], t.shape[2], 1)
        if t.name.startswith("model.language_model."):
            t.name = "language_model.model." + t.name.removeprefix("model.language_model.")
        elif nested and not t.name.startswith("model."):
            t.name = "language_model." + t.name
        out.append(t)
    return out


def tensors(config):
    """All tensors of a checkpoint; reads only the config, as a loader would."""
    if config["model_type"] in dense_families.FAMILIES:
        return dense_families.tensors(config)
    if is_hybrid(config):
        return hybrid_tensors(config)
    if config["model_type"] == "lfm2":
        return lfm2_tensors(config)
    if config["model_type"] in moe_families.PRE_NORM:
        return moe_families.pre_norm_tensors(config)
    h, vocab, gemma, tied = config["hidden_size"], config["vocab_size"], is_gemma(config), is_tied(config)
    std = EMBED_RMS / math.sqrt(h) if gemma else EMBED_RMS  # gemma multiplies embeddings by sqrt(h)
    out = [Tensor("model.embed_tokens.weight", (vocab, h), std)]
    norms = ["input_layernorm", "post_attention_layernorm"]
    if gemma:
        norms += ["pre_feedforward_layernorm", "post_feedforward_layernorm"]
    for i in range(config["num_hidden_layers"]):
        prefix = f"model.layers.{i}."
        out += attention(config, prefix + "self_attn.")
        out += moe_families.feed_forward(config, prefix + "mlp.", i)
        out += [norm(prefix + n, h, 1.0, gemma) for n in norms]
    head_std = std if tied else 1 / math.sqrt(h)
    out.append(norm("model.norm", h, LOGIT_STD / (head_std * math.sqrt(h)), gemma))
    if not tied:
        out.append(Tensor("lm_head.weight", (vocab, h), head_std))
    return out


import dense_families  # noqa: E402  their families are made of the parts above
import moe_families  # noqa: E402

FAMILIES.update(dense_families.FAMILIES)
FAMILIES.update(moe_families.FAMILIES)
