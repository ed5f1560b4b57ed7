"""The second judge of make_golden.py: transformers in float32 on the CPU, for families with experts.

Needs torch and transformers; README.md says which. Where it differs from mlx-lm it is right: it follows the published
configs. Each family is asked on a format that it loads without other packages.
"""

import json
import sys

FORMATS = {"qwen3_moe": "hf", "qwen3_next": "hf", "qwen3_5_moe": "hf", "glm4_moe": "hf", "gpt_oss": "hf",
           "minimax_m2": "hf-f32", "deepseek_v3": "hf"}


def load(directory):
    import torch
    import transformers

    transformers.logging.set_verbosity_error()
    torch.set_grad_enabled(False)
    config = json.loads((directory / "config.json").read_text())
    options = {"dtype": torch.float32, "attn_implementation": "eager"}
    if config["model_type"] == "gpt_oss":
        options["quantization_config"] = transformers.Mxfp4Config(dequantize=True)
    model, info = transformers.AutoModelForCausalLM.from_pretrained(directory, output_loading_info=True, **options)
    lost = [k for k in info["missing_keys"] if "inv_freq" not in k]
    if lost:
        sys.exit(f"transformers misses {lost[:8]}")
    return model.float().eval(), transformers.__version__


def run(directory, prompt, last_positions, pick, steps):
    """What make_golden.run writes, of another engine."""
    import torch

    model, version = load(directory)
    out = model(torch.tensor([prompt]), use_cache=True)
    full = out.logits[0].float().numpy()
    cache, step, greedy, margins = out.past_key_values, full[-1], [], []
    for _ in range(steps):
        token, margin = pick(step)
        greedy.append(token)
        margins.append(margin)
        out = model(torch.tensor([[token]]), past_key_values=cache, use_cache=True)
        cache, step = out.past_key_values, out.logits[0, -1].float().numpy()
    return {"version": version, "last": last_positions(full), "greedy": greedy, "greedy_margin": margins,
            "logit_std": round(float(full[-1].std()), 4)}


def largest_difference(a, b):
    """Of the logits that both results hold."""
    pairs = [(dict(map(tuple, p["top"])), dict(map(tuple, q["top"]))) for p, q in zip(a["last"], b["last"])]
    return max(abs(p[i] - q[i]) for p, q in pairs for i in p.keys() & q.keys())
