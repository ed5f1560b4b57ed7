"""The official OpenAI client against a real model: the product's first promise."""

import concurrent.futures
import time
import unittest

import openai
from support import GEMMA3, ServerCase


class SmolLm2(ServerCase):
    def setUp(self):
        self.client = openai.OpenAI(base_url=self.url + "/v1", api_key="none", max_retries=0)

    def stream(self, **options):
        """(text, seconds to the first text, last chunk's usage) of a streamed chat."""
        begin, first, text, usage = time.monotonic(), None, "", None
        chunks = self.client.chat.completions.create(
            model=self.NAME, temperature=0, stream=True, stream_options={"include_usage": True}, **options)
        for chunk in chunks:
            usage = chunk.usage or usage
            if chunk.choices and chunk.choices[0].delta.content:
                first = first or time.monotonic() - begin
                text += chunk.choices[0].delta.content
        return text, first, usage

    def test_streams_three_colors(self):
        text, _, usage = self.stream(messages=[{"role": "user", "content": "Name three colors."}], max_tokens=40)
        for color in ("red", "blue", "green"):
            self.assertIn(color, text.lower())
        self.assertGreater(usage.completion_tokens, 0)
        self.assertEqual(usage.total_tokens, usage.prompt_tokens + usage.completion_tokens)

    def test_completes_the_capital_of_france(self):
        answer = self.client.completions.create(model=self.NAME, prompt="The capital of France is", max_tokens=4,
                                                temperature=0)
        self.assertIn("Paris", answer.choices[0].text)

    def test_streamed_and_whole_answers_are_the_same(self):
        options = {"messages": [{"role": "user", "content": "Tell me about the sea."}], "max_tokens": 40}
        streamed, _, _ = self.stream(**options)
        whole = self.client.chat.completions.create(model=self.NAME, temperature=0, **options)
        self.assertEqual(streamed, whole.choices[0].message.content)

    def test_a_long_prompt_is_computed_once(self):
        # about 3,500 tokens, unlike any other prompt of these tests
        story = "".join(f"Shelf {i} holds {i * 7 % 31} jars of seeds and a small brass key. " for i in range(195))
        first = [{"role": "system", "content": story}, {"role": "user", "content": "How many shelves are there?"}]
        text, cold, cold_usage = self.stream(messages=first, max_tokens=8)
        self.assertGreater(cold_usage.prompt_tokens, 3000)
        self.assertEqual(cold_usage.prompt_tokens_details.cached_tokens, 0)
        again = [*first, {"role": "assistant", "content": text}, {"role": "user", "content": "And keys?"}]
        _, warm, warm_usage = self.stream(messages=again, max_tokens=8)
        # the shared prefix ends somewhere in the last generated text, at or after the first prompt's last block
        self.assertGreaterEqual(warm_usage.prompt_tokens_details.cached_tokens, cold_usage.prompt_tokens - 64)
        self.assertLess(warm, cold / 10)

    def test_eight_streams_together_give_what_each_gives_alone(self):
        prompts = [f"Write one sentence about the {thing}." for thing in
                   ("sea", "moon", "rain", "wind", "forest", "river", "desert", "city")]

        def ask(prompt):
            return self.stream(messages=[{"role": "user", "content": prompt}], max_tokens=32)[0]

        alone = [ask(prompt) for prompt in prompts]
        with concurrent.futures.ThreadPoolExecutor(len(prompts)) as pool:
            together = list(pool.map(ask, prompts))
        self.assertEqual(alone, together)
        self.assertEqual(len(set(alone)), len(alone))

    def test_lists_the_model_with_its_context_length(self):
        (model,) = self.client.models.list().data
        self.assertEqual(model.id, self.NAME)
        self.assertEqual(self.client.models.retrieve(self.NAME).model_extra["max_model_len"], 8192)

    def test_a_wrong_model_is_a_not_found_error(self):
        with self.assertRaises(openai.NotFoundError) as caught:
            self.client.chat.completions.create(model="nope", messages=[{"role": "user", "content": "x"}])
        self.assertEqual(caught.exception.code, "model_not_found")

    def test_log_probabilities_are_typed(self):
        answer = self.client.chat.completions.create(
            model=self.NAME, temperature=0, max_tokens=4, logprobs=True, top_logprobs=2,
            messages=[{"role": "user", "content": "Name three colors."}])
        entries = answer.choices[0].logprobs.content
        self.assertEqual(len(entries), answer.usage.completion_tokens)
        for entry in entries:
            self.assertEqual(len(entry.top_logprobs), 2)
            self.assertEqual(entry.top_logprobs[0].token, entry.token)  # greedy takes the likeliest


class Gemma3(ServerCase):
    MODEL = GEMMA3

    def test_completes_text(self):
        client = openai.OpenAI(base_url=self.url + "/v1", api_key="none", max_retries=0)
        answer = client.completions.create(model=self.NAME, prompt="The three primary colors are", max_tokens=8,
                                           temperature=0)
        self.assertIn("red, blue, and yellow", answer.choices[0].text)

    def test_says_once_that_it_uses_a_fallback_template(self):
        said = [line for line in self.server.lines if "chat template" in line]
        self.assertEqual(len(said), 1, self.server.lines)


if __name__ == "__main__":
    unittest.main()
