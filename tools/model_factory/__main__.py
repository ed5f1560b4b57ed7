#!/usr/bin/env python3
"""Makes a model directory (or a .gguf file in one) with seeded random weights, like one from a model hub.

    python3 tools/model_factory --family qwen3 --size tiny --format hf --out DIR [--seed N]
    python3 tools/model_factory --list

Formats
    hf, hf-f32, hf-f16   safetensors in bfloat16, float32 or float16
    mlx-Nbit             MLX affine quantisation, N in 2 3 4 5 6 8, --group 32, 64 or 128
    mlx-mixed            every width, two group sizes and one plain matrix, as config.json's quantization records say
    gguf-T               one model.gguf; T in f32 f16 bf16 q8_0 q4_0 q4_1 q5_0 q4_k q5_k q6_k. A matrix whose rows
                         are no multiple of the block takes the nearest simpler format.

Needs numpy only. Size "tiny" has the cut vocabularies of tests/fixtures/tokenizers; the real sizes have the published
vocabulary size in their matrices and the cut tokenizer.
"""

import argparse
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import families  # noqa: E402
import gguf_file  # noqa: E402
import moe_families  # noqa: E402
import safetensors_file  # noqa: E402
import side_files  # noqa: E402

PLAIN = {"hf": "BF16", "hf-f32": "F32", "hf-f16": "F16"}
MLX = {"mlx-mixed": None, **{f"mlx-{bits}bit": bits for bits in (2, 3, 4, 5, 6, 8)}}
# text model -> (architecture, model_type) of what also sees images
MULTIMODAL = {"gemma3_text": ("Gemma3ForConditionalGeneration", "gemma3"),
              "ministral3": ("Mistral3ForConditionalGeneration", "mistral3")}
GGUF = {f"gguf-{name.lower()}": name for name in gguf_file.FILE_TYPES}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--family", choices=sorted(families.FAMILIES))
    parser.add_argument("--size", default="tiny")
    parser.add_argument("--format", default="hf", choices=[*PLAIN, *MLX, *GGUF])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--group", type=int, default=64, choices=[32, 64, 128], help="inputs a scale, for mlx-Nbit")
    parser.add_argument("--config", type=json.loads, default={}, help="JSON object of config fields to replace")
    parser.add_argument("--multimodal", action="store_true",
                        help="gemma3_text, ministral3: as the text part of a checkpoint that also sees images")
    parser.add_argument("--chat-template", type=Path, help="use this Jinja file as the chat template")
    parser.add_argument("--list", action="store_true", help="list families and sizes")
    args = parser.parse_args()
    if not args.list and not (args.family and args.out):
        parser.error("--family and --out are required")
    if args.multimodal and (args.family not in MULTIMODAL or args.format in GGUF):
        parser.error(f"--multimodal is for {', '.join(MULTIMODAL)} in a directory format")
    if args.family and args.format in GGUF and not gguf_file.ARCHITECTURES.get(args.family):
        parser.error(f"{args.family} comes in directory formats only")
    if args.family and args.size not in families.FAMILIES[args.family][1]:
        parser.error(f"--size of {args.family}: {', '.join(families.FAMILIES[args.family][1])}")
    return args


def as_multimodal(config, stored, args):
    """The config around the text model's; names `stored` so and adds a tensor that only images need."""
    outer = {key: config.pop(key) for key in ("eos_token_id", "quantization", "quantization_config") if key in config}
    for tensor in stored:
        tensor.name = "language_model." + tensor.name
    for record in ("quantization", "quantization_config"):
        if record in outer:
            outer[record] = {("language_model." if "." in key else "") + key: v for key, v in outer[record].items()}
    projection = families.linear("multi_modal_projector.mm_input_projection", config["hidden_size"], 64)
    stored.append(safetensors_file.plain(projection, args.seed, "BF16"))
    architecture, kind = MULTIMODAL[args.family]
    return {"architectures": [architecture], "model_type": kind, "text_config": config, **outer}


def write_model(config, tokenizer, args):
    tensors = families.tensors(config)
    if args.format in GGUF:
        gguf_file.write(config, tensors, tokenizer, args.seed, GGUF[args.format], args.out / "model.gguf")
        return
    if args.format not in PLAIN and families.has_convolutions(config):
        tensors = families.as_mlx(tensors)
    if args.format in MLX:
        tensors = [t for t in tensors if not moe_families.is_predicting(config, t.name)]
        if args.family == "deepseek_v3":
            tensors = moe_families.take_latents_apart(config, tensors)
    if args.format not in PLAIN:
        tensors = moe_families.stack_experts(tensors)
    elif args.family == "qwen3_5_moe":
        tensors = moe_families.fuse_experts(tensors)
    if args.format == "hf" and args.family == "gpt_oss":
        stored = safetensors_file.gpt_oss(tensors, args.seed)
    elif args.format in PLAIN:
        stored = safetensors_file.stored(tensors, args.seed, PLAIN[args.format], fp8=args.format == "hf")
        if args.format != "hf":
            config.pop("quantization_config", None)
    else:
        stored, record = safetensors_file.quantized(tensors, args.seed, MLX[args.format], args.group)
        config["quantization"] = config["quantization_config"] = record
    if args.multimodal:
        config = as_multimodal(config, stored, args)
    safetensors_file.write(stored, args.out)
    side_files.write(config, tokenizer, args.out)


def main():
    args = parse_arguments()
    if args.list:
        for name, (_, sizes, tokenizer) in families.FAMILIES.items():
            print(f"{name:12} sizes: {', '.join(sizes):12} tokenizer: {tokenizer}")
        return
    make_config, _, tokenizer_name = families.FAMILIES[args.family]
    config = make_config(args.size)
    tokenizer = side_files.Tokenizer(tokenizer_name, args.chat_template)
    if args.size == "tiny":
        families.text_part(config)["vocab_size"] = tokenizer.padded_size
    side_files.add_token_ids(config, tokenizer)
    config.update(args.config)
    if "text_config" in config:
        config["text_config"]["tie_word_embeddings"] = config["tie_word_embeddings"]
    args.out.mkdir(parents=True, exist_ok=True)
    for old in (*args.out.glob("*.safetensors"), *args.out.glob("*.safetensors.index.json"), *args.out.glob("*.gguf")):
        old.unlink()
    write_model(config, tokenizer, args)


if __name__ == "__main__":
    main()
