"""Families with experts; see families.py, which holds what they share with the others."""

import math
import re

import families
from tensors import Fp4Tensor, Fp8Tensor, HeadsOf, Joined, Stacked, Tensor


def linear(*args):
    return families.linear(*args)


def bias(*args):
    return families.bias(*args)


def norm(*args):
    return families.norm(*args)


def mlp(*args):
    return families.mlp(*args)


def attention(*args, **named):
    return families.attention(*args, **named)


def qwen3_moe(size):
    dims = {
        "tiny": dict(hidden_size=128, intermediate_size=384, moe_intermediate_size=64, num_hidden_layers=4,
                     num_attention_heads=4, num_key_value_heads=2, head_dim=64, num_experts=8,
                     num_experts_per_tok=2),
        # Qwen3-30B-A3B's shapes with 4 of its 48 layers
        "30b-a3b-4l": dict(hidden_size=2048, intermediate_size=6144, moe_intermediate_size=768,
                           num_hidden_layers=4, num_attention_heads=32, num_key_value_heads=4, head_dim=128,
                           num_experts=128, num_experts_per_tok=8),
    }[size]
    return families.common("Qwen3MoeForCausalLM", "qwen3_moe", attention_bias=False, attention_dropout=0.0,
                  decoder_sparse_step=1, hidden_act="silu", max_position_embeddings=40960,
                  max_window_layers=dims["num_hidden_layers"], mlp_only_layers=[], norm_topk_prob=True,
                  output_router_logits=False, rms_norm_eps=1e-06, rope_scaling=None, rope_theta=1000000,
                  router_aux_loss_coef=0.001, sliding_window=None, use_sliding_window=False, vocab_size=151936,
                  tie_word_embeddings=False, **dims)


def qwen3_next(size):
    dims = {
        "tiny": dict(hidden_size=128, intermediate_size=384, moe_intermediate_size=64,
                     shared_expert_intermediate_size=64, num_hidden_layers=4, num_attention_heads=4,
                     num_key_value_heads=2, head_dim=64, num_experts=8, num_experts_per_tok=2,
                     linear_key_head_dim=32, linear_num_key_heads=2, linear_num_value_heads=4,
                     linear_value_head_dim=32),
        # Qwen3-Next-80B-A3B's shapes with 4 of its 48 layers (three linear, one full)
        "80b-a3b-4l": dict(hidden_size=2048, intermediate_size=5120, moe_intermediate_size=512,
                           shared_expert_intermediate_size=512, num_hidden_layers=4, num_attention_heads=16,
                           num_key_value_heads=2, head_dim=256, num_experts=512, num_experts_per_tok=10,
                           linear_key_head_dim=128, linear_num_key_heads=16, linear_num_value_heads=32,
                           linear_value_head_dim=128),
    }[size]
    return families.common("Qwen3NextForCausalLM", "qwen3_next", attention_bias=False, attention_dropout=0.0,
                  decoder_sparse_step=1, full_attention_interval=4, hidden_act="silu", linear_conv_kernel_dim=4,
                  max_position_embeddings=262144, mlp_only_layers=[], norm_topk_prob=True,
                  output_router_logits=False, partial_rotary_factor=0.25, rms_norm_eps=1e-06, rope_scaling=None,
                  rope_theta=10000000, router_aux_loss_coef=0.001, tie_word_embeddings=False,
                  use_sliding_window=False, vocab_size=151936, **dims)


def qwen3_5_moe(size):
    """qwen3_5 with experts in place of its feed-forward layers."""
    config = families.qwen3_5(size)
    config.update(architectures=["Qwen3_5MoeForConditionalGeneration"], model_type="qwen3_5_moe")
    text = config["text_config"]
    del text["intermediate_size"], text["mlp_only_layers"]
    text.update(model_type="qwen3_5_moe_text", moe_intermediate_size=64, shared_expert_intermediate_size=64,
                num_experts=8, num_experts_per_tok=2, output_router_logits=False, router_aux_loss_coef=0.001,
                num_hidden_layers=4, layer_types=text["layer_types"][:4])
    return config


def gpt_oss(size):
    dims = {
        "tiny": dict(hidden_size=128, intermediate_size=64, num_hidden_layers=4, num_attention_heads=4,
                     num_key_value_heads=2, head_dim=32, num_local_experts=8, num_experts_per_tok=2,
                     experts_per_token=2, sliding_window=32),
        # gpt-oss-20b's shapes with 4 of its 24 layers
        "20b-4l": dict(hidden_size=2880, intermediate_size=2880, num_hidden_layers=4, num_attention_heads=64,
                       num_key_value_heads=8, head_dim=64, num_local_experts=32, num_experts_per_tok=4,
                       experts_per_token=4, sliding_window=128),
    }[size]
    return families.common("GptOssForCausalLM", "gpt_oss", attention_bias=True, attention_dropout=0.0, hidden_act="silu",
                  initial_context_length=4096,
                  layer_types=["full_attention" if i % 2 else "sliding_attention"
                               for i in range(dims["num_hidden_layers"])],
                  max_position_embeddings=131072, output_router_logits=False,
                  quantization_config={"modules_to_not_convert": ["model.layers.*.self_attn",
                                                                  "model.layers.*.mlp.router",
                                                                  "model.embed_tokens", "lm_head"],
                                       "quant_method": "mxfp4"},
                  rms_norm_eps=1e-05,
                  rope_scaling={"beta_fast": 32.0, "beta_slow": 1.0, "factor": 32.0,
                                "original_max_position_embeddings": 4096, "rope_type": "yarn", "truncate": False},
                  rope_theta=150000, router_aux_loss_coef=0.9, swiglu_limit=7.0, tie_word_embeddings=False,
                  vocab_size=201088, **dims)


def glm4_moe(size):
    dims = {
        "tiny": dict(hidden_size=128, intermediate_size=384, moe_intermediate_size=64, num_hidden_layers=4,
                     num_attention_heads=4, num_key_value_heads=2, head_dim=32, n_routed_experts=8,
                     num_experts_per_tok=2, use_qk_norm=True, routed_scaling_factor=2.5),
        # GLM-4.5-Air's shapes with 3 of its 46 layers
        "air-3l": dict(hidden_size=4096, intermediate_size=10944, moe_intermediate_size=1408, num_hidden_layers=3,
                       num_attention_heads=96, num_key_value_heads=8, head_dim=128, n_routed_experts=128,
                       num_experts_per_tok=8, use_qk_norm=False, routed_scaling_factor=1.0),
    }[size]
    return families.common("Glm4MoeForCausalLM", "glm4_moe", attention_bias=True, attention_dropout=0.0,
                  first_k_dense_replace=1, hidden_act="silu", max_position_embeddings=131072, n_group=1,
                  n_shared_experts=1, norm_topk_prob=True, num_nextn_predict_layers=1, partial_rotary_factor=0.5,
                  rms_norm_eps=1e-05, rope_scaling=None, rope_theta=1000000, tie_word_embeddings=False,
                  topk_group=1, vocab_size=151552, **dims)


def minimax_m2(size):
    dims = {
        "tiny": dict(hidden_size=192, intermediate_size=64, mlp_intermediate_size=256, num_hidden_layers=4,
                     num_attention_heads=4, num_key_value_heads=2, head_dim=32, rotary_dim=16,
                     num_local_experts=8, num_experts_per_tok=2),
        # MiniMax-M2's shapes with 2 of its 62 layers and 64 of its 256 experts
        "m2-2l": dict(hidden_size=3072, intermediate_size=1536, mlp_intermediate_size=8192, num_hidden_layers=2,
                      num_attention_heads=48, num_key_value_heads=8, head_dim=128, rotary_dim=64,
                      num_local_experts=64, num_experts_per_tok=8),
    }[size]
    return families.common("MiniMaxM2ForCausalLM", "minimax_m2", attention_dropout=0.0,
                  attn_type_list=[1] * dims["num_hidden_layers"], hidden_act="silu",
                  max_position_embeddings=196608, mtp_transformer_layers=1, num_mtp_modules=3,
                  output_router_logits=False, qk_norm_type="per_layer", rms_norm_eps=1e-06, rope_theta=5000000,
                  router_aux_loss_coef=0.001, router_jitter_noise=0.0, scoring_func="sigmoid",
                  shared_intermediate_size=0, shared_moe_mode="sigmoid", sliding_window=None,
                  tie_word_embeddings=False, use_mtp=True, use_qk_norm=True, use_routing_bias=True, vocab_size=200064,
                  quantization_config={"activation_scheme": "dynamic", "fmt": "float8_e4m3fn",
                                       "quant_method": "fp8", "weight_block_size": [128, 128],
                                       "modules_to_not_convert": ["gate", "e_score_correction_bias", "lm_head"]},
                  **dims)


def deepseek_v3(size):
    dims = {
        "tiny": dict(hidden_size=128, intermediate_size=384, moe_intermediate_size=64, num_hidden_layers=4,
                     num_attention_heads=4, num_key_value_heads=4, n_routed_experts=8, num_experts_per_tok=2,
                     n_group=4, topk_group=2, q_lora_rank=64, kv_lora_rank=64, qk_nope_head_dim=32,
                     qk_rope_head_dim=32, v_head_dim=32),
    }[size]
    return families.common("DeepseekV3ForCausalLM", "deepseek_v3", attention_bias=False, attention_dropout=0.0,
                           ep_size=1, first_k_dense_replace=1, hidden_act="silu", max_position_embeddings=163840,
                           moe_layer_freq=1, n_shared_experts=1, norm_topk_prob=True, num_nextn_predict_layers=1,
                           rms_norm_eps=1e-06,
                           rope_scaling={"beta_fast": 32, "beta_slow": 1, "factor": 40, "mscale": 1.0,
                                         "mscale_all_dim": 1.0, "original_max_position_embeddings": 4096,
                                         "type": "yarn"},
                           rope_theta=10000, routed_scaling_factor=2.5, scoring_func="sigmoid",
                           tie_word_embeddings=False, topk_method="noaux_tc", vocab_size=129280, **dims)


# as families.FAMILIES
FAMILIES = {
    "qwen3_moe": (qwen3_moe, ["tiny", "30b-a3b-4l"], "qwen3"),
    "qwen3_next": (qwen3_next, ["tiny", "80b-a3b-4l"], "qwen3"),
    "qwen3_5_moe": (qwen3_5_moe, ["tiny"], "qwen3"),
    "gpt_oss": (gpt_oss, ["tiny", "20b-4l"], "qwen3"),
    "glm4_moe": (glm4_moe, ["tiny", "air-3l"], "qwen3"),
    "minimax_m2": (minimax_m2, ["tiny", "m2-2l"], "qwen3"),
    "deepseek_v3": (deepseek_v3, ["tiny"], "qwen3"),
}

ROUTER_GAIN = 4.0  # of a router: choices seldom so close that rounding turns them


def experts(prefix, n, hidden, inter, top_k, names=("gate_proj", "up_proj", "down_proj")):
    """Separate experts; the gain makes up for averaging top_k of them."""
    gain = 1.6 * math.sqrt(top_k)
    return [t for e in range(n) for t in (linear(f"{prefix}experts.{e}.{names[0]}", inter, hidden),
                                          linear(f"{prefix}experts.{e}.{names[1]}", inter, hidden),
                                          linear(f"{prefix}experts.{e}.{names[2]}", hidden, inter, gain))]


def is_sparse(config, layer):
    """Whether a layer of a Qwen model has experts."""
    step = config.get("decoder_sparse_step", 1)
    return "num_experts" in config and (layer + 1) % step == 0 and layer not in config.get("mlp_only_layers", [])


def qwen_moe(config, prefix):
    h, n, inter = config["hidden_size"], config["num_experts"], config["moe_intermediate_size"]
    out = [linear(prefix + "gate", n, h, ROUTER_GAIN)] + experts(prefix, n, h, inter, config["num_experts_per_tok"])
    if "shared_expert_intermediate_size" in config:
        shared = {**config, "intermediate_size": config["shared_expert_intermediate_size"]}
        out += mlp(shared, prefix + "shared_expert.") + [linear(prefix + "shared_expert_gate", 1, h)]
    return out


def feed_forward(config, prefix, layer):
    return qwen_moe(config, prefix) if is_sparse(config, layer) else mlp(config, prefix)


def gpt_oss_layer(config, layer, _):
    h, inter, n = config["hidden_size"], config["intermediate_size"], config["num_local_experts"]
    out = attention(config, layer + "self_attn.", norms=None)
    out.append(Tensor(layer + "self_attn.sinks", (config["num_attention_heads"],), 1.0, 1.0))
    out += [linear(layer + "mlp.router", n, h, ROUTER_GAIN), bias(layer + "mlp.router", n)]
    for e in range(n):
        own = f"{layer}mlp.experts.{e}."
        gain = 1.6 * math.sqrt(config["num_experts_per_tok"])
        for name, rows, cols, gain in (("gate_proj", inter, h, 1.0), ("up_proj", inter, h, 1.0),
                                       ("down_proj", h, inter, gain)):
            out.append(Fp4Tensor(own + name + ".weight", (rows, cols), gain / math.sqrt(cols)))
            out.append(bias(own + name, rows))
    return out


def mla(config, prefix):
    h, n = config["hidden_size"], config["num_attention_heads"]
    nope, rope, v = config["qk_nope_head_dim"], config["qk_rope_head_dim"], config["v_head_dim"]
    q_rank, kv_rank = config["q_lora_rank"], config["kv_lora_rank"]
    gain = families.QK_GAIN
    return [linear(prefix + "q_a_proj", q_rank, h), norm(prefix + "q_a_layernorm", q_rank),
            linear(prefix + "q_b_proj", n * (nope + rope), q_rank, gain),
            linear(prefix + "kv_a_proj_with_mqa", kv_rank + rope, h, gain), norm(prefix + "kv_a_layernorm", kv_rank),
            linear(prefix + "kv_b_proj", n * (nope + v), kv_rank), linear(prefix + "o_proj", h, n * v, 0.7)]


def sigmoid_moe_layer(config, layer, index):
    """The feed-forward part of glm4_moe and deepseek_v3, and what the layer has that predicts several tokens."""
    h, n, inter = config["hidden_size"], config["n_routed_experts"], config["moe_intermediate_size"]
    if index < config["first_k_dense_replace"]:
        return mlp(config, layer + "mlp.")
    out = [linear(layer + "mlp.gate", n, h, ROUTER_GAIN),
           Tensor(layer + "mlp.gate.e_score_correction_bias", (n,), 0.1)]
    out += experts(layer + "mlp.", n, h, inter, config["num_experts_per_tok"])
    shared = {**config, "intermediate_size": inter * config["n_shared_experts"]}
    out += mlp(shared, layer + "mlp.shared_experts.")
    if index >= config["num_hidden_layers"]:
        out += [linear(layer + "eh_proj", h, 2 * h)]
        out += [norm(layer + x, h) for x in ("enorm", "hnorm", "shared_head.norm")]
    return out


def glm4_moe_layer(config, layer, index):
    out = attention(config, layer + "self_attn.", norms="head" if config["use_qk_norm"] else None)
    return [t for t in out if not t.name.endswith("o_proj.bias")] + sigmoid_moe_layer(config, layer, index)


def deepseek_v3_layer(config, layer, index):
    return mla(config, layer + "self_attn.") + sigmoid_moe_layer(config, layer, index)


def minimax_m2_layer(config, layer, _):
    h, n, moe = config["hidden_size"], config["num_local_experts"], layer + "block_sparse_moe."
    out = attention(config, layer + "self_attn.", norms="layer")
    routed = experts(moe, n, h, config["intermediate_size"], config["num_experts_per_tok"], ("w1", "w3", "w2"))
    out = [Fp8Tensor(t.name, t.shape, t.std) if len(t.shape) == 2 else t for t in out + routed]
    return out + [linear(moe + "gate", n, h, ROUTER_GAIN), Tensor(moe + "e_score_correction_bias", (n,), 0.1)]


PRE_NORM = {"gpt_oss": gpt_oss_layer, "glm4_moe": glm4_moe_layer, "minimax_m2": minimax_m2_layer,
            "deepseek_v3": deepseek_v3_layer}


def pre_norm_tensors(config):
    h, vocab = config["hidden_size"], config["vocab_size"]
    out = [Tensor("model.embed_tokens.weight", (vocab, h), families.EMBED_RMS)]
    for i in range(config["num_hidden_layers"] + config.get("num_nextn_predict_layers", 0)):
        layer = f"model.layers.{i}."
        out += PRE_NORM[config["model_type"]](config, layer, i)
        out += [norm(layer + x, h) for x in ("input_layernorm", "post_attention_layernorm")]
    head_std = 1 / math.sqrt(h)
    return [*out, norm("model.norm", h, families.LOGIT_STD / (head_std * math.sqrt(h))),
            Tensor("lm_head.weight", (vocab, h), head_std)]


EXPERT = re.compile(r"(.*)experts\.(\d+)\.(\w+)\.(weight|bias)")


def is_predicting(config, name):
    """Whether a tensor is of the layer after the last, which mlx-lm leaves out."""
    return "num_nextn_predict_layers" in config and name.startswith(f"model.layers.{config['num_hidden_layers']}.")


def stack_experts(tensors):
    """The tensors with the experts of each layer in three stacks, as mlx-lm and llama.cpp have them."""
    names = {"w1": "gate_proj", "w2": "down_proj", "w3": "up_proj"}
    is_gpt_oss = any(isinstance(t, Fp4Tensor) for t in tensors)
    out, stacks = [], {}
    for t in tensors:
        found = EXPERT.fullmatch(t.name)
        if not found:
            out.append(t)
            continue
        stack = "experts" if found[1].endswith("mlp.") and is_gpt_oss else "switch_mlp"
        name = f"{found[1]}{stack}.{names.get(found[3], found[3])}.{found[4]}"
        if name not in stacks:
            out.append(name)
        stacks.setdefault(name, []).append(t)
    return [Stacked(t, stacks[t]) if isinstance(t, str) else t for t in out]


def fuse_experts(tensors):
    """gate_up_proj and down_proj of all experts in one tensor each, as qwen3_5_moe is published."""
    out, fused = [], {}
    for t in tensors:
        found = EXPERT.fullmatch(t.name)
        if not found:
            out.append(t)
            continue
        name = f"{found[1]}experts.{'down_proj' if found[3] == 'down_proj' else 'gate_up_proj'}"
        if name not in fused:
            out.append(name)
        fused.setdefault(name, {}).setdefault(int(found[2]), []).append(t)
    return [t if not isinstance(t, str) else
            Stacked(t, [Joined("", parts) if len(parts) > 1 else parts[0] for parts in fused[t].values()])
            for t in out]


def take_latents_apart(config, tensors):
    """deepseek_v3's kv_b_proj as mlx-lm has it: for each head a matrix to the latent and one from it."""
    n, nope = config["num_attention_heads"], config["qk_nope_head_dim"]
    out = []
    for t in tensors:
        if not t.name.endswith("kv_b_proj.weight"):
            out.append(t)
            continue
        prefix = t.name.removesuffix("kv_b_proj.weight")
        out += [HeadsOf(prefix + "embed_q.weight", t, n, slice(0, nope), turned=True),
                HeadsOf(prefix + "unembed_out.weight", t, n, slice(nope, None), turned=False)]
    return out


def gpt_oss_stacks(tensors):
    """(name, parts) of gate_up_proj (rows of gate and up in turns) and down_proj with their biases, as published."""
    out, stacks = [], {}
    for t in tensors:
        found = EXPERT.fullmatch(t.name)
        if not found:
            out.append((t.name, t))
            continue
        matrix = "down_proj" if found[3] == "down_proj" else "gate_up_proj"
        name = f"{found[1]}experts.{matrix}" + ("_bias" if found[4] == "bias" else "")
        if name not in stacks:
            stacks[name] = {}
            out.append((name, stacks[name]))
        stacks[name].setdefault(int(found[2]), []).append(t)
    return out
