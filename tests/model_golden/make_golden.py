#!/usr/bin/env python3
"""Writes golden/<name>.json for the cases of cases.json whose golden file is missing (or for those named).

    python3 -m venv golden-venv && golden-venv/bin/pip install mlx mlx-lm gguf numpy
    golden-venv/bin/python tests/model_golden/make_golden.py [NAME...]

The reference is mlx-lm on the CPU, in float32 on the values that the file stores (quantised weights dequantised), so
that a difference shows a mistake and not rounding. Two places where mlx-lm rounds to bfloat16 are kept in float32, as
transformers has them: the weights themselves, and Gemma's embedding factor. A case with "judges" asks those engines
("transformers" needs torch_judge.py's packages); where two agree the file holds both.

A golden file holds the prompt; the top 20 (id, logit) of its last four positions; the greedy continuation of 32 tokens
(no stop at an end token) and the lead of each over the runner-up; the standard deviation of the last logits. For
quantised weights also "int8_rms": how far the same logits move, root mean square, when the reference itself rounds what
goes into each matrix product to int8 in groups of 32, as our kernels do. In these random models a difference of one
unit in the last place sends such an error another way, so it is taken over several grids that differ by 1e-4 of a step.
Where a router nearly ties, rounding chooses other experts and the logits tell nothing; a case with experts names a
"prompt_seed" whose prompt has no such tie in its last positions (--seeds finds it).
"""

import json
import math
import random
import re
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "tools" / "model_factory"))

import mlx.core as mx  # noqa: E402
import mlx.nn as nn  # noqa: E402
import mlx_lm  # noqa: E402
import numpy as np  # noqa: E402
from mlx_lm import utils  # noqa: E402
from mlx_lm.models.cache import make_prompt_cache  # noqa: E402
from mlx_lm.models.mla import QuantizedMultiLinear  # noqa: E402
from mlx_lm.models.switch_layers import QuantizedSwitchLinear, SwitchLinear  # noqa: E402

import families  # noqa: E402
import gguf_file  # noqa: E402
import make_models  # noqa: E402
import moe_families  # noqa: E402
from tensors import Fp4Tensor, Stacked  # noqa: E402

STEPS, TOP, LAST = 32, 20, 4


def load(directory):
    def classes(config):
        model, args = utils._get_classes(config)

        class InFloat32(model):
            def sanitize(self, weights):
                for k in [k for k in weights if k.endswith("_scale_inv")]:  # which sanitize would round too
                    scale, name = weights.pop(k), k.removesuffix("_scale_inv")
                    rows, cols = weights[name].shape
                    scale = mx.repeat(mx.repeat(scale, 128, 0), 128, 1)[:rows, :cols]
                    weights[name] = mx.from_fp8(weights[name], dtype=mx.float32) * scale
                # mlx-lm leaves out DeepSeek's layer after the last by its number in the published model only
                weights = {k: v for k, v in weights.items() if not moe_families.is_predicting(config, k)}
                weights = {k: v.astype(mx.float32) if v.dtype in (mx.bfloat16, mx.float16) else v
                           for k, v in weights.items()}
                return super().sanitize(weights) if hasattr(super(), "sanitize") else weights

        return InFloat32, args

    model, config = utils.load_model(directory, get_model_classes=classes)
    model.set_dtype(mx.float32)
    if config["model_type"] == "gpt_oss":
        keep_correction_range(model, config)
    if config["model_type"] == "gemma3_text":
        keep_embedding_factor(model, config["hidden_size"])
    return model


def keep_embedding_factor(model, hidden_size):
    """mlx-lm multiplies by sqrt(hidden) rounded to bfloat16; make the product exact."""
    exact = hidden_size**0.5
    rounded = mx.array(exact, mx.bfloat16).astype(mx.float32).item()
    embed, head = type(model.model.embed_tokens).__call__, model.model.embed_tokens

    class Exact(type(head)):
        def __call__(self, x):
            return embed(self, x) * (exact / rounded)

    head.__class__ = Exact


def keep_correction_range(model, config):
    """mlx-lm rounds YaRN's correction range and ignores "truncate": false; the published config asks for the range."""
    scaling, dims, base = config["rope_scaling"], config["head_dim"], config["rope_theta"]

    def dimension(rotations):
        return dims * math.log(scaling["original_max_position_embeddings"] / (rotations * 2 * math.pi)) / (
            2 * math.log(base))

    low, high = max(dimension(scaling["beta_fast"]), 0), min(dimension(scaling["beta_slow"]), dims - 1)
    ramp = mx.clip((mx.arange(dims // 2, dtype=mx.float32) - low) / (high - low), 0, 1)
    slow = base ** (mx.arange(0, dims, 2, dtype=mx.float32) / dims)
    fast = scaling["factor"] * slow
    for layer in model.layers:
        layer.self_attn.rope._freqs = fast * slow / (fast * (1 - ramp) + slow * ramp)


def unpermute(x, heads):
    return x.reshape(heads, x.shape[0] // heads // 2, 2, *x.shape[1:]).swapaxes(1, 2).reshape(x.shape)


def gguf_weights(path, config):
    """Hugging Face names and float32 values out of a GGUF file, decoded by the gguf package."""
    import gguf

    stored = {}
    for t in gguf.GGUFReader(str(path)).tensors:
        shape = tuple(int(n) for n in reversed(t.shape))
        stored[t.name] = gguf.quants.dequantize(t.data, t.tensor_type).reshape(shape).astype(np.float32)
    gemma = families.is_gemma(config)
    heads = {"q_proj": config["num_attention_heads"], "k_proj": config["num_key_value_heads"]}
    out = {}
    for t in moe_families.stack_experts(families.tensors(config)):
        if isinstance(t, Stacked) and isinstance(t.parts[0], Fp4Tensor):
            continue  # MXFP4 in both files
        if moe_families.is_predicting(config, t.name):
            continue
        x = stored[gguf_file.gguf_name(t.name, config["model_type"])]
        projection = t.name.split(".")[-2]
        if gguf_file.is_permuted(config) and projection in heads:
            x = unpermute(x, heads[projection])
        if gemma and len(t.shape) == 1:
            x = x - 1
        out[t.name] = x
    return out


def make_case(case, folder):
    """The directory whose config.json describes the model, and its values where they lie in a GGUF file."""
    make_models.make(case, folder / "model")
    if not case["format"].startswith("gguf"):
        return folder / "model", None
    twin = "hf" if case["family"] == "gpt_oss" else "hf-f32"
    make_models.make({**case, "format": twin}, folder / "config")
    config = json.loads((folder / "config" / "config.json").read_text())
    return folder / "config", gguf_weights(folder / "model" / "model.gguf", config)


def load_mlx(folder, values):
    model = load(folder)
    if values:
        model.load_weights([(name, mx.array(x)) for name, x in values.items()], strict=False)
    return model


def judge_mlx(case, folder, values, prompt):
    model = load_mlx(folder, values)
    cache = make_prompt_cache(model)
    result = run(lambda tokens: np.array(model(mx.array([tokens]), cache=cache))[0], prompt, mlx_lm.__version__)
    if not is_quantized(case):
        return result, None
    experts_only = not case["format"].startswith(("mlx", "gguf-q"))
    return result, int8_rms(model, prompt, result["last"], experts_only=experts_only)


def judge_transformers(case, folder, values, prompt):
    import torch_judge

    if case["family"] in torch_judge.MOE_FORMATS:
        readable = folder.parent / "readable"
        make_models.make({**case, "format": torch_judge.MOE_FORMATS[case["family"]]}, readable)
        model = torch_judge.load_checkpoint(readable)
    else:
        config = json.loads((folder / "config.json").read_text())
        model = torch_judge.load(folder, values or torch_judge.stored_values(folder, config))
    rows = torch_judge.Rows(model)
    rows.start()
    result = run(rows, prompt, torch_judge.transformers.__version__)
    rounded = is_quantized(case) and "mlx_lm" not in case.get("judges", [])
    return result, torch_judge.int8_rms(model, prompt, result["last"]) if rounded else None


JUDGES = {"mlx_lm": judge_mlx, "transformers": judge_transformers}


def pick(row):
    """Greedy choice (lowest id on a tie) and its lead over the runner-up."""
    two = np.partition(row, -2)[-2:]
    return int(np.argmax(row)), round(float(two[1] - two[0]), 4)


def last_positions(full):
    """The best tokens and their logits of the last positions of a prompt's logits."""
    last = []
    for position in range(len(full) - LAST, len(full)):
        row = full[position]
        ids = np.argsort(-row, kind="stable")[:TOP]
        last.append({"position": position, "top": [[int(i), round(float(row[i]), 5)] for i in ids]})
    return last


def run(rows, prompt, version):
    """`rows` gives the logits after each of the tokens that it is given, which follow those before."""
    full = rows(prompt)
    assert np.isfinite(full).all(), "logits are not finite"
    step, greedy, margins = full[-1], [], []
    for _ in range(STEPS):
        token, margin = pick(step)
        greedy.append(token)
        margins.append(margin)
        step = rows([token])[-1]
    return {"version": version, "last": last_positions(full), "greedy": greedy, "greedy_margin": margins,
            "logit_std": round(float(np.std(full[-1])), 4)}


def round_to_int8(x, stretch):
    groups = x.reshape(*x.shape[:-1], -1, 32)
    step = mx.max(mx.abs(groups), -1, keepdims=True) / 127 * stretch
    return (mx.round(groups / mx.where(step == 0, 1, step)) * step).reshape(x.shape)


def int8_rms(model, prompt, last, grids=8, experts_only=False):
    """Root mean square change of the top logits of `last` when the inputs of all products with quantised weights are
    rounded; experts_only: those are the experts'."""
    products = ((nn.Linear, "__call__"), (nn.QuantizedLinear, "__call__"), (nn.Embedding, "as_linear"),
                (nn.QuantizedEmbedding, "as_linear"), (QuantizedMultiLinear, "__call__"), (SwitchLinear, "__call__"),
                (QuantizedSwitchLinear, "__call__"))
    products = products[-2:] if experts_only else products
    plain = [getattr(owner, name) for owner, name in products]
    # Our kernels round nothing that chooses experts.
    exact = {id(m) for name, m in model.named_modules() if name.endswith((".gate", ".router", "_expert_gate"))}

    def rounded(product, stretch):
        def call(self, x, *more, **named):
            return product(self, x if id(self) in exact else round_to_int8(x, stretch), *more, **named)
        return call

    squares = []
    for grid in range(grids):
        for (owner, name), product in zip(products, plain):
            setattr(owner, name, rounded(product, 1 + 1e-4 * grid))
        rows = np.array(model(mx.array([prompt])))[0]
        squares += [(rows[p["position"]][i] - v) ** 2 for p in last for i, v in p["top"]]
    for (owner, name), product in zip(products, plain):
        setattr(owner, name, product)
    return round(float(np.sqrt(np.mean(squares))), 4)


def is_quantized(case):
    return case["format"].startswith(("mlx", "gguf-q")) or case["family"] == "gpt_oss"  # whose experts are MXFP4


def prompt_tokens(case, vocab_size):
    rng = random.Random(case.get("prompt_seed", 1234))
    return [rng.randrange(300, min(vocab_size, 3000)) for _ in range(case.get("prompt_tokens", 80))]


def find_seeds(name, count=40):
    """Prints how far rounding moves the logits of `count` prompts, the calmest last."""
    case = next(c for c in make_models.read_cases() if c["name"] == name)
    with tempfile.TemporaryDirectory() as folder:
        model = load_mlx(*make_case(case, Path(folder)))
    found = []
    for seed in range(count):
        prompt = prompt_tokens({**case, "prompt_seed": seed}, 3000)
        rows = np.array(model(mx.array([prompt])))[0]
        found.append((int8_rms(model, prompt, last_positions(rows), grids=4), seed))
    print(*sorted(found, reverse=True), sep="\n")


def main():
    mx.set_default_device(mx.cpu)
    if sys.argv[1:2] == ["--seeds"]:
        return find_seeds(sys.argv[2])
    cases = make_models.read_cases()
    for case in cases:
        path = HERE / "golden" / f"{case['golden']}.json"
        if sys.argv[1:] and case["golden"] not in sys.argv[1:] or not sys.argv[1:] and path.exists():
            continue
        if case["name"] != case["golden"]:
            continue  # another case's values, in another format
        result = {"model": case["name"], "prompt": prompt_tokens(case, 3000)}
        with tempfile.TemporaryDirectory() as folder:
            described, values = make_case(case, Path(folder))
            for judge in case.get("judges", ["mlx_lm"]):
                result[judge], rms = JUDGES[judge](case, described, values, result["prompt"])
                if rms is not None:
                    result["int8_rms"] = rms
        path.write_text(re.sub(r"\s+", " ", json.dumps(result)) + "\n")
        report(case, result)


def report(case, result):
    for judge in case.get("judges", ["mlx_lm"]):
        print(case["name"], judge, "distinct greedy", len(set(result[judge]["greedy"])), "std",
              result[judge]["logit_std"], "int8", result.get("int8_rms"), flush=True)
    if {"mlx_lm", "transformers"} <= result.keys():
        logits = [{(p["position"], i): v for p in result[j]["last"] for i, v in p["top"]}
                  for j in ("mlx_lm", "transformers")]
        off = max(abs(v - logits[1].get(k, 1e9)) for k, v in logits[0].items())
        same = result["mlx_lm"]["greedy"] == result["transformers"]["greedy"]
        print("    engines differ by at most", off, "greedy", "equal" if same else "DIFFERS", flush=True)


if __name__ == "__main__":
    main()
