"""Families with Mamba-2 layers; see families.py, which holds what they share with the others."""

import math

import families
import moe_families
from tensors import Joined, Stacked, Tensor


def granitemoehybrid(size):
    """As Granite 4 small: experts beside a part that every token visits, no rotary positions."""
    dims = {
        "tiny": dict(hidden_size=128, intermediate_size=64, shared_intermediate_size=256, num_hidden_layers=6,
                     num_attention_heads=4, num_key_value_heads=2, num_local_experts=8, num_experts_per_tok=2,
                     mamba_n_heads=8, mamba_d_head=32, mamba_d_state=32, mamba_n_groups=1),
        # Granite 4 small's shapes with 4 of its 40 layers and 24 of its 72 experts
        "h-small-4l": dict(hidden_size=4096, intermediate_size=768, shared_intermediate_size=1536,
                           num_hidden_layers=4, num_attention_heads=32, num_key_value_heads=8, num_local_experts=24,
                           num_experts_per_tok=10, mamba_n_heads=128, mamba_d_head=64, mamba_d_state=128,
                           mamba_n_groups=1),
    }[size]
    layers = dims["num_hidden_layers"]
    return families.common("GraniteMoeHybridForCausalLM", "granitemoehybrid", attention_bias=False,
                           attention_dropout=0.0, attention_multiplier=0.125, embedding_multiplier=12.0,
                           hidden_act="silu", layer_types=["attention" if i % 3 == 2 else "mamba" for i in range(layers)],
                           logits_scaling=8.0, mamba_chunk_size=256, mamba_conv_bias=True, mamba_d_conv=4, mamba_expand=2,
                           mamba_proj_bias=False, max_position_embeddings=131072, output_router_logits=False,
                           position_embedding_type="nope", residual_multiplier=0.22, rms_norm_eps=1e-05,
                           rope_scaling=None, rope_theta=10000, router_aux_loss_coef=0.0, tie_word_embeddings=True,
                           vocab_size=100352, **dims)


# as families.FAMILIES
FAMILIES = {"granitemoehybrid": (granitemoehybrid, ["tiny", "h-small-4l"], "llama")}


def mamba2(config, prefix, gain):
    h, heads = config["hidden_size"], config["mamba_n_heads"]
    inner = heads * config["mamba_d_head"]
    channels = inner + 2 * config["mamba_n_groups"] * config["mamba_d_state"]
    kernel = config["mamba_d_conv"]
    # exp(-exp(A_log) softplus(dt + dt_bias)) a token: long and short memories
    return [families.linear(prefix + "in_proj", inner + channels + heads, h),
            Tensor(prefix + "conv1d.weight", (channels, 1, kernel), 1 / math.sqrt(kernel)),
            Tensor(prefix + "conv1d.bias", (channels,), 0.2), Tensor(prefix + "A_log", (heads,), 0.6),
            Tensor(prefix + "dt_bias", (heads,), 0.8, -2.0), Tensor(prefix + "D", (heads,), 0.3, 1.0),
            families.norm(prefix + "norm", inner), families.linear(prefix + "out_proj", h, inner, gain)]


def feed_forward(config, layer):
    """The part that every token visits, as two matrices of gate and up, and experts beside it."""
    h, shared, n = config["hidden_size"], config["shared_intermediate_size"], config["num_local_experts"]
    gain = 1.6 / config["residual_multiplier"]
    out = [families.linear(layer + "shared_mlp.gate_proj", shared, h), families.linear(layer + "shared_mlp.up_proj", shared, h),
           families.linear(layer + "shared_mlp.down_proj", h, shared, gain)]
    if not n:
        return out
    experts = moe_families.experts(layer + "block_sparse_moe.", n, h, config["intermediate_size"],
                                   config["num_experts_per_tok"])
    for t in experts:
        t.std *= gain / 1.6 if t.name.endswith("down_proj.weight") else 1
    return [*out, families.linear(layer + "block_sparse_moe.router.layer", n, h, moe_families.ROUTER_GAIN), *experts]


def tensors(config):
    h, vocab, std = config["hidden_size"], config["vocab_size"], families.EMBED_RMS / config["embedding_multiplier"]
    gain = 1 / config["residual_multiplier"]
    out = [Tensor("model.embed_tokens.weight", (vocab, h), std)]
    for i, kind in enumerate(config["layer_types"]):
        layer = f"model.layers.{i}."
        if kind == "attention":
            attention = families.attention(config, layer + "self_attn.", norms=None)
            attention[-1].std *= gain
            out += attention
        else:
            out += mamba2(config, layer + "mamba.", 1.5 * gain)
        out += feed_forward(config, layer)
        out += [families.norm(layer + x, h) for x in ("input_layernorm", "post_attention_layernorm")]
    return [*out, families.norm("model.norm", h, families.LOGIT_STD * config["logits_scaling"] / (std * math.sqrt(h)))]


def fuse_matrices(config, tensors, mlx):
    """Gate and up in one matrix, as published: those of the experts too unless it is for MLX, whose dense models have
    neither."""
    out, experts = [], {}
    for t in tensors:
        found = moe_families.EXPERT.fullmatch(t.name)
        if "shared_mlp." in t.name and mlx and not config["num_local_experts"]:
            t.name = t.name.replace("shared_mlp.", "mlp.")
            out.append(t)
        elif t.name.endswith("shared_mlp.gate_proj.weight"):
            gate = t
        elif t.name.endswith("shared_mlp.up_proj.weight"):
            out.append(Joined(t.name.replace("up_proj", "input_linear"), [gate, t]))
        elif t.name.endswith("shared_mlp.down_proj.weight"):
            t.name = t.name.replace("down_proj", "output_linear")
            out.append(t)
        elif found and not mlx:
            name = f"{found[1]}{'output_linear' if found[3] == 'down_proj' else 'input_linear'}.weight"
            if name not in experts:
                out.append(name)
            experts.setdefault(name, {}).setdefault(int(found[2]), []).append(t)
        else:
            out.append(t)
    return [t if not isinstance(t, str) else
            Stacked(t, [Joined("", parts) if len(parts) > 1 else parts[0] for parts in experts[t].values()]) for t in out]
