"""transformers as the judge of make_golden.py, for families that mlx-lm does not have or computes otherwise.

Beside mlx-lm in that venv: transformers, and torch (the CPU suffices). The weights come as float32 values by their
Hugging Face names, so every file format is judged by the same code.
"""

import json

import mlx.core as mx
import numpy as np
import torch
import transformers


def stored_values(folder, config):
    """name -> float32 array of a Hugging Face or MLX directory, quantised matrices dequantised."""
    stored = mx.load(str(folder / "model.safetensors"))
    records = config.get("quantization", {})
    out = {}
    for name, x in stored.items():
        stem = name.removesuffix(".weight")
        if name.endswith((".scales", ".biases")):
            continue
        if stem + ".scales" in stored:
            record = {**{k: records[k] for k in ("bits", "group_size", "mode") if k in records},
                      **(records.get(stem) or {})}
            biases = stored.get(stem + ".biases")
            x = mx.dequantize(x, stored[stem + ".scales"].astype(mx.float32) if biases is not None
                              else stored[stem + ".scales"],
                              biases.astype(mx.float32) if biases is not None else None,
                              group_size=record["group_size"], bits=record["bits"], mode=record.get("mode", "affine"))
        out[name] = np.array(x.astype(mx.float32))
    return out


def load(folder, values):
    """The model of folder/config.json with `values`, in float32."""
    config = json.loads((folder / "config.json").read_text())
    for key in ("quantization", "quantization_config"):
        config.pop(key, None)
    kind = config.pop("model_type")
    config["pad_token_id"] = None  # the families' defaults lie outside the cut vocabularies
    parsed = transformers.AutoConfig.for_model(kind, **config)
    model = transformers.AutoModelForCausalLM.from_config(parsed, attn_implementation="eager").float().eval()
    weights = {name: torch.from_numpy(np.array(x)) for name, x in values.items()}
    missing, surplus = model.load_state_dict(weights, strict=False)
    missing = [m for m in missing if not (parsed.tie_word_embeddings and m == "lm_head.weight")]
    assert not missing and not surplus, (missing, surplus)
    model.tie_weights()
    return model


# Families with experts are read from a checkpoint as transformers itself does it, in a format that it loads without other
# packages: it stores experts in another way than the files do.
MOE_FORMATS = {"qwen3_moe": "hf", "qwen3_next": "hf", "qwen3_5_moe": "hf", "glm4_moe": "hf", "gpt_oss": "hf",
               "minimax_m2": "hf-f32", "deepseek_v3": "hf"}


def load_checkpoint(folder):
    """The model of a directory in one of MOE_FORMATS, in float32."""
    config = json.loads((folder / "config.json").read_text())
    options = {"dtype": torch.float32, "attn_implementation": "eager"}
    if config["model_type"] == "gpt_oss":
        options["quantization_config"] = transformers.Mxfp4Config(dequantize=True)
    model, info = transformers.AutoModelForCausalLM.from_pretrained(folder, output_loading_info=True, **options)
    missing = [k for k in info["missing_keys"] if "inv_freq" not in k]
    assert not missing, missing
    return model.float().eval()


class Rows:
    """Calls like make_golden's: token ids of one sequence in, logits of each position out."""

    def __init__(self, model):
        self.model = model
        self.cache = None

    def start(self):
        self.cache = transformers.DynamicCache(config=self.model.config)

    def __call__(self, tokens):
        with torch.no_grad():
            out = self.model(torch.tensor([tokens]), past_key_values=self.cache, use_cache=self.cache is not None)
        return out.logits[0].numpy()


def round_to_int8(x, stretch):
    groups = x.reshape(*x.shape[:-1], -1, 32)
    step = groups.abs().amax(-1, keepdim=True) / 127 * stretch
    return (torch.round(groups / torch.where(step == 0, 1, step)) * step).reshape(x.shape)


def int8_rms(model, prompt, last, grids=8):
    """As make_golden's int8_rms."""
    squares = []
    for grid in range(grids):
        hooks = [module.register_forward_pre_hook(lambda _, args, g=grid: (round_to_int8(args[0], 1 + 1e-4 * g),))
                 for module in model.modules() if isinstance(module, torch.nn.Linear)]
        rows = Rows(model)(prompt)
        squares += [(rows[p["position"]][i] - v) ** 2 for p in last for i, v in p["top"]]
        for hook in hooks:
            hook.remove()
    return round(float(np.sqrt(np.mean(squares))), 4)
