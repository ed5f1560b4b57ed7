"""Demanded tool calls through the official clients: even the smallest models answer with valid ones.

EMBERBANK_CALL_RUNS sets how often the run of many is made (20 where it is not set)."""

import concurrent.futures
import json
import os
import unittest

import anthropic
import openai
from support import GEMMA3, SMOLLM2, ServerCase

WEATHER = ("get_weather", "Get the weather of a city.",
           {"type": "object",
            "properties": {"city": {"type": "string", "maxLength": 40},
                           "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]}},
            "required": ["city"]})
SEARCH = ("web_search", "Search the web.",
          {"type": "object",
           "properties": {"query": {"type": "string", "maxLength": 80},
                          "max_results": {"type": "integer", "minimum": 1, "maximum": 10}},
           "required": ["query"]})
PYTHON = ("run_python", "Run Python code and return what it prints.",
          {"type": "object", "properties": {"code": {"type": "string", "maxLength": 120}}, "required": ["code"]})

CHECKS = [("What is the weather in Paris?", [WEATHER]),
          ("Search the web for the news about solar power.", [SEARCH]),
          ("Compute 17 * 23 with Python.", [PYTHON]),
          ("What is the weather in Oslo?", [WEATHER, SEARCH, PYTHON])]


class Checks:
    """The checks, of any model."""

    def setUp(self):
        self.openai = openai.OpenAI(base_url=self.url + "/v1", api_key="none", max_retries=0)
        self.anthropic = anthropic.Anthropic(base_url=self.url, api_key="none", max_retries=0)

    def assert_valid(self, name, arguments, tools):
        schema = {tool[0]: tool[2] for tool in tools}[name]
        self.assertIsInstance(arguments, dict)
        for required in schema["required"]:
            self.assertIn(required, arguments)
        for key, value in arguments.items():
            kind = schema["properties"][key]
            self.assertIsInstance(value, {"string": str, "integer": int}[kind["type"]])
            if "enum" in kind:
                self.assertIn(value, kind["enum"])
            if "maxLength" in kind:
                self.assertLessEqual(len(value), kind["maxLength"])
            if "minimum" in kind:
                self.assertTrue(kind["minimum"] <= value <= kind["maximum"])

    def ask_openai(self, prompt, tools, choice="required", **options):
        answer = self.openai.chat.completions.create(
            model=self.NAME, max_tokens=600, messages=[{"role": "user", "content": prompt}], tool_choice=choice,
            tools=[{"type": "function", "function": {"name": name, "description": text, "parameters": schema}}
                   for name, text, schema in tools], **options).choices[0]
        self.assertEqual(answer.finish_reason, "tool_calls", answer)
        self.assertFalse((answer.message.content or "").strip(), answer)
        calls = [(call.function.name, json.loads(call.function.arguments)) for call in answer.message.tool_calls]
        for name, arguments in calls:
            self.assert_valid(name, arguments, tools)
        return calls

    def test_the_four_checks_pass_through_openai(self):
        for prompt, tools in CHECKS:
            with self.subTest(prompt):
                calls = self.ask_openai(prompt, tools, temperature=0)
                self.assertGreaterEqual(len(calls), 1)

    def test_the_four_checks_pass_through_anthropic(self):
        for prompt, tools in CHECKS:
            with self.subTest(prompt):
                answer = self.anthropic.messages.create(
                    model=self.NAME, max_tokens=600, messages=[{"role": "user", "content": prompt}],
                    tool_choice={"type": "any"}, extra_body={"temperature": 0},
                    tools=[{"name": name, "description": text, "input_schema": schema} for name, text, schema in tools])
                self.assertEqual(answer.stop_reason, "tool_use", answer)
                calls = [block for block in answer.content if block.type == "tool_use"]
                self.assertEqual(calls, answer.content)
                for call in calls:
                    self.assert_valid(call.name, call.input, tools)

    def test_a_streamed_call_is_the_same(self):
        prompt, tools = CHECKS[3]
        whole = self.ask_openai(prompt, tools, temperature=0)
        names, arguments = [], []
        for chunk in self.openai.chat.completions.create(
                model=self.NAME, max_tokens=600, temperature=0, stream=True, tool_choice="required",
                messages=[{"role": "user", "content": prompt}],
                tools=[{"type": "function", "function": {"name": name, "description": text, "parameters": schema}}
                       for name, text, schema in tools]):
            for call in chunk.choices[0].delta.tool_calls or []:
                if call.function.name:
                    names.append(call.function.name)
                    arguments.append("")
                arguments[call.index] += call.function.arguments or ""
        self.assertEqual(whole, list(zip(names, map(json.loads, arguments), strict=True)))

    def test_a_named_function_is_the_one_that_is_called(self):
        for name in ("web_search", "run_python"):
            choice = {"type": "function", "function": {"name": name}}
            calls = self.ask_openai("What is the weather in Oslo?", [WEATHER, SEARCH, PYTHON], choice, temperature=0)
            self.assertEqual({called for called, _ in calls}, {name})

    def test_one_call_at_a_time(self):
        for seed in range(3):
            calls = self.ask_openai(*CHECKS[3], parallel_tool_calls=False, temperature=1, seed=seed)
            self.assertEqual(len(calls), 1)


class SmolLm2(Checks, ServerCase):
    MODEL = SMOLLM2
    RUNS = int(os.environ.get("EMBERBANK_CALL_RUNS", "20"))

    def test_every_sampled_answer_is_a_valid_call(self):
        # each with a seed of its own
        def run(seed):
            return self.ask_openai(*CHECKS[seed % len(CHECKS)], temperature=1, seed=seed)

        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            answers = list(pool.map(run, range(self.RUNS)))
        self.assertEqual(len(answers), self.RUNS)


class Gemma3(Checks, ServerCase):
    MODEL = GEMMA3


if __name__ == "__main__":
    unittest.main()
