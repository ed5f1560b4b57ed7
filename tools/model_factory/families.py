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


# family -> (config, sizes, tokenizer in tests/fixtures/tokenizers)
FAMILIES = {
    "llama": (llama, ["tiny", "135m"], "llama"),
    "qwen3": (qwen3, ["tiny", "0.6b"], "qwen3"),
    "gemma3_text": (gemma3_text, ["tiny", "270m"], "gemma3"),
}


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
    return Tensor(name + ".weight", (n,), 0.1 * gain, gain - 1 if plus_one else gain)


def attention(config, prefix):
    h, d = config["hidden_size"], head_dim(config)
    nq, nk = config["num_attention_heads"] * d, config["num_key_value_heads"] * d
    head_norms = config["model_type"] != "llama"
    sharp = 1.0 if head_norms else QK_GAIN
    out = [linear(prefix + "q_proj", nq, h, sharp), linear(prefix + "k_proj", nk, h, sharp),
           linear(prefix + "v_proj", nk, h), linear(prefix + "o_proj", h, nq, 0.7)]
    if config.get("attention_bias"):
        out += [bias(prefix + x, n) for x, n in (("q_proj", nq), ("k_proj", nk), ("v_proj", nk), ("o_proj", h))]
    if head_norms:
        out += [norm(prefix + x, d, QK_GAIN, is_gemma(config)) for x in ("q_norm", "k_norm")]
    return out


def mlp(config, prefix):
    h, inter = config["hidden_size"], config["intermediate_size"]
    out = [linear(prefix + "gate_proj", inter, h), linear(prefix + "up_proj", inter, h),
           linear(prefix + "down_proj", h, inter, 1.6)]
    if config.get("mlp_bias"):
        out += [bias(prefix + x, n) for x, n in (("gate_proj", inter), ("up_proj", inter), ("down_proj", h))]
    return out


def tensors(config):
    """All tensors of a checkpoint; reads only the config, as a loader would."""
    h, vocab, gemma, tied = config["hidden_size"], config["vocab_size"], is_gemma(config), is_tied(config)
    std = EMBED_RMS / math.sqrt(h) if gemma else EMBED_RMS  # gemma multiplies embeddings by sqrt(h)
    out = [Tensor("model.embed_tokens.weight", (vocab, h), std)]
    norms = ["input_layernorm", "post_attention_layernorm"]
    if gemma:
        norms += ["pre_feedforward_layernorm", "post_feedforward_layernorm"]
    for i in range(config["num_hidden_layers"]):
        prefix = f"model.layers.{i}."
        out += attention(config, prefix + "self_attn.") + mlp(config, prefix + "mlp.")
        out += [norm(prefix + n, h, 1.0, gemma) for n in norms]
    head_std = std if tied else 1 / math.sqrt(h)
    out.append(norm("model.norm", h, LOGIT_STD / (head_std * math.sqrt(h)), gemma))
    if not tied:
        out.append(Tensor("lm_head.weight", (vocab, h), head_std))
    return out
